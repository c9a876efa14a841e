"""A survey of twenty questions: more cells than any machine could hold.

    python examples/wide_survey.py

Such a table is released as marginals, which are chosen privately, with one model behind all answers. An answer that
no marginal measured says that it is modelled.
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import dpcube
from dpcube import Category, Domain, Integer
from dpcube.curator import publish

SCALE = ["never", "rarely", "sometimes", "often", "always"]
HABITS = [f"habit_{number}" for number in range(1, 19)]
DOMAIN = Domain(
    Integer("age", 18, 97, width=10),
    Category("region", ["north", "east", "south", "west"]),
    *(Category(habit, SCALE, ordered=True) for habit in HABITS),
)


def simulated_survey(rows: int, seed: int = 1) -> pd.DataFrame:
    """Return answers that depend on age, on the region, and on the answer before."""
    random = np.random.default_rng(seed)
    age = random.integers(18, 98, rows)
    region = random.integers(0, 4, rows)
    columns: dict[str, object] = {"age": age, "region": np.array(["north", "east", "south", "west"])[region]}
    before = (age - 18) / 80
    for habit in HABITS:
        before = np.clip(0.7 * before + 0.3 * random.random(rows) + 0.05 * (region == 1), 0, 0.999)
        columns[habit] = np.array(SCALE)[(before * 5).astype(int)]
    return pd.DataFrame(columns)


def main(rows: int = 50_000, folder: Path | None = None) -> dpcube.Release:
    """Release the survey, and ask questions that were measured and others that are modelled."""
    folder = folder or Path(tempfile.mkdtemp(prefix="survey-"))
    survey = simulated_survey(rows)
    publish(survey, DOMAIN, epsilon=1, ledger=folder / "survey.ledger", save_to=folder / "survey.dpcube")

    release = dpcube.open(folder / "survey.dpcube")
    print(f"{len(DOMAIN.names)} attributes, {float(DOMAIN.size):.1e} cells")
    for question in ("region = 'east'", "habit_1 = 'often' and habit_2 = 'often'", "age >= 58 and habit_18 = 'never'"):
        answer = release.count(question)
        print(f"{question}: {answer}{' (modelled)' if answer.modelled else ''}")
    sql = "SELECT habit_3, count(*) AS n FROM cube WHERE region = 'east' GROUP BY habit_3"
    print(release.sql(sql, error=True).to_pandas().round(0).to_string(index=False))
    print(f"Files are in {folder}")
    return release


if __name__ == "__main__":
    main()
