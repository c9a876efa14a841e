"""Time to count rows of files, PostgreSQL and Spark into cells, beside the same GROUP BY written by hand."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np

from benchmarks.timing import in_turns
from dpcube.core.domain import Category, Domain, Float, Integer
from dpcube.core.sources import open_rows

ROWS, ENGINE_ROWS = 10_000_000, 2_000_000
MAX_OVER_ENGINE = 1.2
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
FIVES = replace(HOURS, width=5)
DOSE = Float(name="dose", min=0.0, max=1.0, width=0.01)
WARD = Category(name="ward", values=tuple(f"ward {i}" for i in range(8)))
KEPT = tuple(replace(attribute, null="cell", outside="clip") for attribute in (AGE, FIVES))
AGED = "age BETWEEN 17 AND 90"
IN_ENGINES = {  # the same for databases
    "whole numbers": (Domain((AGE, FIVES)), "age - 17, {div}", f"{AGED} AND hours BETWEEN 0 AND 99"),
    "null and outside kept": (
        Domain(KEPT),
        "CASE WHEN age IS NULL THEN 74 WHEN age < 17 THEN 0 WHEN age > 90 THEN 73 ELSE age - 17 END, "
        "CASE WHEN hours IS NULL THEN 20 WHEN hours < 0 THEN 0 WHEN hours > 99 THEN 19 ELSE {div} END",
        "true",
    ),
    "a real number": (
        Domain((AGE, DOSE)),
        "age - 17, least(floor(dose / 0.01), 99)",
        f"{AGED} AND dose BETWEEN 0 AND 1",
    ),
    "text": (
        Domain((AGE, WARD)),
        "age - 17, CASE ward " + " ".join(f"WHEN 'ward {i}' THEN {i}" for i in range(8)) + " END",
        f"{AGED} AND ward IN ({', '.join(map(repr, WARD.values))})",
    ),
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
    even that isnan() is false; so statistics are turned off for real numbers.
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


def run() -> Iterator[str]:
    """Measure files, and databases if their drivers are installed."""
    yield from files()
    if all(map(find_spec, ("ibis", "psycopg", "pgserver", "pyspark"))):
        yield from engines()


def files() -> list[str]:
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
                    f"{ours * 1e3:6.0f} ms = {ours / alone:.2f}x (target: at most {MAX_OVER_ENGINE})"
                )
    return lines


def engine_lines(engine: str, source: Any, ask: Callable[[str], object], div: str) -> Iterator[str]:
    """Time each domain by hand and by dpcube."""
    for what, (domain, columns, where) in IN_ENGINES.items():
        hand = f"SELECT {columns.format(div=div)}, count(*) FROM visits WHERE {where} GROUP BY 1, 2"
        rows = open_rows(source)
        assert rows.count_cells(domain).sum() == ENGINE_ROWS
        alone, ours = in_turns(partial(ask, hand), partial(rows.count_cells, domain))
        yield (
            f"{engine + ', ' + what:34} by hand {alone * 1e3:6.0f} ms, into {' x '.join(map(str, domain.shape))} cells "
            f"{ours * 1e3:6.0f} ms = {ours / alone:.2f}x (target: at most {MAX_OVER_ENGINE})"
        )


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    import psycopg
    from pgserver.postgres_server import get_server

    server = get_server(folder / "pg", cleanup_mode="delete")
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE visits AS SELECT (17 + floor(random() * 74))::int AS age, "
            "floor(random() * 100)::int AS hours, random() AS dose, 'ward ' || floor(random() * 8)::int AS ward "
            f"FROM generate_series(1, {ENGINE_ROWS})"
        )
        connection.execute("VACUUM ANALYZE visits")
    yield server.get_uri()
    server.cleanup()


def ask_postgres(address: str, sql: str) -> object:
    """Run a statement in a connection of its own, as ours is."""
    import psycopg

    with psycopg.connect(address) as connection:
        return connection.execute(sql).fetchall()


def engines() -> list[str]:
    """Measure PostgreSQL and Spark."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql import SparkSession

    warnings.simplefilter("ignore")
    out = [f"{ENGINE_ROWS:,} rows"]
    rng = np.random.default_rng(1)
    with TemporaryDirectory() as name:
        folder = Path(name)
        with postgres(folder) as address:
            out += engine_lines("PostgreSQL", f"{address}#visits", partial(ask_postgres, address), "hours / 5")
        wards = pa.array([f"ward {i}" for i in range(8)]).take(pa.array(rng.integers(0, 8, ENGINE_ROWS)))
        columns = {
            "age": rng.integers(17, 91, ENGINE_ROWS),
            "hours": rng.integers(0, 100, ENGINE_ROWS),
            "dose": rng.random(ENGINE_ROWS),
        }
        pq.write_table(pa.table({**columns, "ward": wards}), folder / "visits.parquet")
        local: dict[str, Any] = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
        local |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.log.level": "OFF"}
        local |= {"spark.sql.shuffle.partitions": "2"}
        session = SparkSession.builder.master("local[2]").config(map=local).getOrCreate()
        frame = session.read.parquet(str(folder / "visits.parquet"))
        frame.createOrReplaceTempView("visits")
        out += engine_lines("Spark", frame, lambda sql: session.sql(sql).toArrow(), "hours DIV 5")
        session.stop()
    return out


if __name__ == "__main__":
    for line in run():
        print(line, flush=True)
