"""How fast rows are counted into cells, beside the engine's own GROUP BY on the same file and threads."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import numpy as np

from benchmarks.timing import seconds
from dpcube.curator.sources import open_rows
from dpcube.domain import Category, Domain, Float, Integer

ROWS = 10_000_000
MOST_OVER_ENGINE = 1.3
AGE, HOURS = Integer(name="age", min=17, max=90), Integer(name="hours", min=0, max=99)
PLAIN = Domain((AGE, HOURS))
KEPT = Domain(tuple(replace(attribute, null="cell", outside="clip") for attribute in (AGE, HOURS)))
REAL = Domain((AGE, Float(name="dose", min=0.0, max=1.0, width=0.01)))
TEXT = Domain(
    (Category(name="sex", values=("f", "m")), Category(name="ward", values=tuple(f"ward {i}" for i in range(50))))
)


def write(folder: Path) -> tuple[Path, Path]:
    """Write rows as Parquet, and two of their columns as CSV."""
    columns = """
        (17 + floor(random() * 74))::INTEGER AS age, floor(random() * 100)::INTEGER AS hours, random() AS dose,
        CASE WHEN random() < 0.5 THEN 'f' ELSE 'm' END AS sex, 'ward ' || floor(random() * 50)::INTEGER AS ward
    """
    parquet, csv = folder / "rows.parquet", folder / "rows.csv"
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT {columns} FROM range({ROWS})) TO '{parquet}'")
        connection.execute(f"COPY (SELECT age, hours FROM '{parquet}') TO '{csv}'")
    return parquet, csv


def bare(source: str, columns: str) -> dict[str, np.ndarray]:
    """Count as the engine does by itself, in a connection of its own as ours is."""
    with duckdb.connect() as connection:
        return connection.execute(f"SELECT {columns}, count(*) AS n FROM {source} GROUP BY {columns}").fetchnumpy()


def count(path: Path, domain: Domain) -> np.ndarray:
    return open_rows(path).count_cells(domain)


def check(path: Path, engine: str) -> None:
    """Check that both count the same."""
    answer = bare(engine, "age, hours")
    counts = np.zeros(PLAIN.shape, np.int64)
    counts[answer["age"] - AGE.min, answer["hours"]] = answer["n"]
    assert np.array_equal(counts, count(path, PLAIN))


def run() -> list[str]:
    """Measure Parquet and CSV."""
    with TemporaryDirectory() as folder:
        parquet, csv = write(Path(folder))
        declared = "columns = {'age': 'INTEGER', 'hours': 'INTEGER'}, header = true, auto_detect = false"
        read_parquet, read_csv = f"read_parquet('{parquet}')", f"read_csv('{csv}', {declared})"
        check(parquet, read_parquet)
        check(csv, read_csv)
        lines = [f"{ROWS:,} rows; opening the file and a connection included"]
        for what, engine, columns, path, domain, target in (
            ("Parquet, whole numbers", read_parquet, "age, hours", parquet, PLAIN, MOST_OVER_ENGINE),
            ("Parquet, null and outside kept", read_parquet, "age, hours", parquet, KEPT, None),
            ("Parquet, text", read_parquet, "sex, ward", parquet, TEXT, None),
            ("Parquet, a real number", read_parquet, "age, floor(dose * 100)", parquet, REAL, None),
            ("CSV, whole numbers", read_csv, "age, hours", csv, PLAIN, None),
        ):
            alone = seconds(partial(bare, engine, columns))
            ours = seconds(partial(count, path, domain))
            aim = f" (target: at most {target})" if target else ""
            cells = " x ".join(map(str, domain.shape))
            lines.append(
                f"{what:32} engine's GROUP BY {alone * 1e3:6.0f} ms, "
                f"into {cells} cells {ours * 1e3:6.0f} ms = {ours / alone:.2f}x{aim}"
            )
    return lines


if __name__ == "__main__":
    print("\n".join(run()))
