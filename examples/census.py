"""The bundled census table: counts, SQL, groups, synthetic rows and a classifier, beside the truth.

    python examples/census.py

The table is public, so this example may show exact counts. With a private table nobody sees them.
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import dpcube
from dpcube import Domain, datasets
from dpcube.curator import publish


def public_rows(rows: int | None, seed: int = 1) -> pd.DataFrame:
    """Return the table, or a random part of it."""
    table = pd.read_parquet(datasets.adult_table())
    return table if rows is None else table.sample(rows, random_state=seed)


def main(rows: int | None = None, folder: Path | None = None) -> dpcube.Release:
    """Release the table and use the release in five ways."""
    folder = folder or Path(tempfile.mkdtemp(prefix="census-"))
    table = public_rows(rows)
    domain = Domain.load(datasets.adult_domain())
    publish(table, domain, epsilon=1, ledger=folder / "adult.ledger", save_to=folder / "adult.dpcube")
    release = dpcube.open(folder / "adult.dpcube")

    print("1. A count and its truth")
    answer = release.count("age between 30 and 39 and sex = 'Female'")
    truth = int(((table["age"] // 10 == 3) & (table["sex"] == "Female")).sum())
    print(f"   {answer.value:,.0f}, likely between {answer.low:,.0f} and {answer.high:,.0f}; in truth {truth:,}")

    print("2. SQL with errors")
    sql = "SELECT sex, count_if(income = '>50K') / count(*) AS share FROM cube GROUP BY sex"
    print(release.sql(sql, error=True).to_pandas().round(3).to_string(index=False))

    print("3. A cross table")
    print(release.pivot("marital-status", "sex", measures=("value",)).to_pandas().round(0).to_string(index=False))

    print("4. Synthetic rows")
    print(release.synthesize(3, seed=1).to_pandas().to_string(index=False))

    print("5. A classifier, from the release alone")
    model = release.classifier("income")
    right = np.mean(model.predict(table) == table["income"].to_numpy())
    largest = (table["income"] == "<=50K").mean()
    print(f"   {right:.1%} of the rows are classified rightly; {largest:.1%} are in the largest class")
    print(f"Files are in {folder}")
    return release


if __name__ == "__main__":
    main()
