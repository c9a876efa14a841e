"""How fast databases count into cells, beside the same GROUP BY written by hand for each of them."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.timing import in_turns
from dpcube.core.domain import Category, Domain, Float, Integer
from dpcube.core.sources import open_rows

ROWS = 2_000_000
MOST_OVER_ENGINE = 1.2
AGE, HOURS = Integer(name="age", min=17, max=90), Integer(name="hours", min=0, max=99, width=5)
DOSE = Float(name="dose", min=0.0, max=1.0, width=0.01)
WARD = Category(name="ward", values=tuple(f"ward {i}" for i in range(8)))
KEPT = tuple(replace(attribute, null="cell", outside="clip") for attribute in (AGE, HOURS))
AGED = "age BETWEEN 17 AND 90"
BY_HAND = {  # the cells and the rows that are kept by the domain's rules, as an expert would write it
    "whole numbers": (Domain((AGE, HOURS)), "age - 17, {div}", f"{AGED} AND hours BETWEEN 0 AND 99"),
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


def lines(engine: str, source: Any, ask: Callable[[str], object], div: str) -> Iterator[str]:
    """Time each domain by hand and by dpcube."""
    for what, (domain, columns, where) in BY_HAND.items():
        hand = f"SELECT {columns.format(div=div)}, count(*) FROM visits WHERE {where} GROUP BY 1, 2"
        rows = open_rows(source)
        assert rows.count_cells(domain).sum() == ROWS
        alone, ours = in_turns(partial(ask, hand), partial(rows.count_cells, domain))
        yield (
            f"{engine + ', ' + what:34} by hand {alone * 1e3:6.0f} ms, into {' x '.join(map(str, domain.shape))} cells "
            f"{ours * 1e3:6.0f} ms = {ours / alone:.2f}x (target: at most {MOST_OVER_ENGINE})"
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
            f"FROM generate_series(1, {ROWS})"
        )
        connection.execute("VACUUM ANALYZE visits")
    yield server.get_uri()
    server.cleanup()


def ask_postgres(address: str, sql: str) -> object:
    """Ask by hand, in a connection of its own as ours is."""
    import psycopg

    with psycopg.connect(address) as connection:
        return connection.execute(sql).fetchall()


def run() -> list[str]:
    """Measure PostgreSQL and Spark."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql import SparkSession

    warnings.simplefilter("ignore")
    out = [f"{ROWS:,} rows"]
    rng = np.random.default_rng(1)
    with TemporaryDirectory() as name:
        folder = Path(name)
        with postgres(folder) as address:
            out += lines("PostgreSQL", f"{address}#visits", partial(ask_postgres, address), "hours / 5")
        wards = pa.array([f"ward {i}" for i in range(8)]).take(pa.array(rng.integers(0, 8, ROWS)))
        columns = {"age": rng.integers(17, 91, ROWS), "hours": rng.integers(0, 100, ROWS), "dose": rng.random(ROWS)}
        pq.write_table(pa.table({**columns, "ward": wards}), folder / "visits.parquet")
        local: dict[str, Any] = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
        local |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.log.level": "OFF"}
        local |= {"spark.sql.shuffle.partitions": "2"}
        session = SparkSession.builder.master("local[2]").config(map=local).getOrCreate()
        frame = session.read.parquet(str(folder / "visits.parquet"))
        frame.createOrReplaceTempView("visits")
        out += lines("Spark", frame, lambda sql: session.sql(sql).toArrow(), "hours DIV 5")
        session.stop()
    return out


if __name__ == "__main__":
    print("\n".join(run()))
