"""How fast rows are counted into cells, beside the same GROUP BY written by hand for the engine, file and threads."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import numpy as np

from benchmarks.timing import in_turns
from dpcube.core.domain import Category, Domain, Float, Integer
from dpcube.core.sources import open_rows

ROWS = 10_000_000
MOST_OVER_ENGINE = 1.2
AGE, HOURS = Integer(name="age", min=17, max=90), Integer(name="hours", min=0, max=99)
WARDS = tuple(f"ward {i}" for i in range(50))
TEXT = Domain((Category(name="sex", values=("f", "m")), Category(name="ward", values=WARDS)))
INSIDE = "age BETWEEN 17 AND 90 AND hours BETWEEN 0 AND 99"
BY_HAND = {  # the cell of each attribute and the rows that are kept, by the domain's rules, as an expert would write it
    "whole numbers": (Domain((AGE, HOURS)), "age - 17", "hours", INSIDE),
    "null and outside kept": (
        Domain(tuple(replace(attribute, null="cell", outside="clip") for attribute in (AGE, HOURS))),
        "CASE WHEN age IS NULL THEN 74 WHEN age < 17 THEN 0 WHEN age > 90 THEN 73 ELSE age - 17 END",
        "CASE WHEN hours IS NULL THEN 100 WHEN hours < 0 THEN 0 WHEN hours > 99 THEN 99 ELSE hours END",
        "true",
    ),
    "a real number": (
        Domain((AGE, Float(name="dose", min=0.0, max=1.0, width=0.01))),
        "age - 17",
        "least(floor(dose / 0.01), 99)",
        "age BETWEEN 17 AND 90 AND dose BETWEEN 0 AND 1",
    ),
    "text": (TEXT, "sex", "ward", f"sex IN ('f', 'm') AND ward IN ({', '.join(map(repr, WARDS))})"),
}
CSV = {  # all text: a number is what can be cast
    "whole numbers": (Domain((AGE, HOURS)), "TRY_CAST(age AS INTEGER) - 17", "TRY_CAST(hours AS INTEGER)", "true"),
    "text": BY_HAND["text"],
}


def write(folder: Path) -> dict[str, Path]:
    """Write rows as Parquet, and as CSV."""
    columns = """
        (17 + floor(random() * 74))::INTEGER AS age, floor(random() * 100)::INTEGER AS hours, random() AS dose,
        CASE WHEN random() < 0.5 THEN 'f' ELSE 'm' END AS sex, 'ward ' || floor(random() * 50)::INTEGER AS ward
    """
    paths = {"Parquet": folder / "rows.parquet", "CSV": folder / "rows.csv"}
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT {columns} FROM range({ROWS})) TO '{paths['Parquet']}'")
        connection.execute(f"COPY (SELECT age, hours, sex, ward FROM '{paths['Parquet']}') TO '{paths['CSV']}'")
    return paths


def by_hand(source: str, first: str, second: str, where: str) -> dict[str, np.ndarray]:
    """Count in a connection of its own, as ours is.

    From a Parquet file's statistics, which leave NaN out, the engine may conclude that NaN lies between bounds, and
    even that isnan() is false: who wants a real number's NaN counted right must tell it not to.
    """
    setting = "SET disabled_optimizers = 'statistics_propagation'; " if "dose" in second else ""
    sql = f"{setting}SELECT {first} AS i, {second} AS j, count(*) AS n FROM {source} WHERE {where} GROUP BY 1, 2"
    with duckdb.connect() as connection:
        return connection.execute(sql).fetchnumpy()


def count(path: Path, domain: Domain) -> np.ndarray:
    return open_rows(path).count_cells(domain)


def check(answer: dict[str, np.ndarray], counts: np.ndarray, domain: Domain) -> None:
    """Check that both count the same; division alone may put a real number in the bin beside its own."""
    other = np.zeros(counts.shape, np.int64)
    places = [
        np.array([attribute.values.index(value) for value in answer[key]])
        if isinstance(attribute, Category)
        else answer[key].astype(int)
        for key, attribute in zip("ij", domain.attributes, strict=True)
    ]
    other[tuple(places)] = answer["n"]
    assert other.sum() == counts.sum() == ROWS
    assert np.abs(other - counts).sum() <= ROWS / 10**6


def run() -> list[str]:
    """Measure Parquet and CSV."""
    lines = [f"{ROWS:,} rows; opening the file and a connection included"]
    with TemporaryDirectory() as folder:
        paths = write(Path(folder))
        declared = "columns = {'age': 'VARCHAR', 'hours': 'VARCHAR', 'sex': 'VARCHAR', 'ward': 'VARCHAR'}"
        read = {"Parquet": f"read_parquet('{paths['Parquet']}')"}
        read["CSV"] = f"read_csv('{paths['CSV']}', {declared}, header = true, auto_detect = false)"
        for form, cases in (("Parquet", BY_HAND), ("CSV", CSV)):
            for what, (domain, *hand) in cases.items():
                check(by_hand(read[form], *hand), count(paths[form], domain), domain)
                alone, ours = in_turns(partial(by_hand, read[form], *hand), partial(count, paths[form], domain))
                cells = " x ".join(map(str, domain.shape))
                lines.append(
                    f"{form + ', ' + what:32} by hand {alone * 1e3:6.0f} ms, into {cells:9} cells "
                    f"{ours * 1e3:6.0f} ms = {ours / alone:.2f}x (target: at most {MOST_OVER_ENGINE})"
                )
    return lines


if __name__ == "__main__":
    print("\n".join(run()))
