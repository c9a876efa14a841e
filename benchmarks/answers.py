"""Time of range queries, SQL and synthetic rows of a release, beside NumPy and DuckDB on a table of every cell."""

from collections import deque
from collections.abc import Iterator
from datetime import date
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.release import counts_of
from benchmarks.timing import seconds
from dpcube import Category, Date, Domain, Integer, Release, datasets, evaluate
from dpcube.release.export import write_table
from dpcube.testing import SeededNoise

SHAPE = (1024, 1024)
QUERIES = 100_000
MAX_OVER_INDEXING = 20
MAX_OVER_VALUES = 5


def ranges() -> list[str]:
    """Measure answers and the indexing that they are made of."""
    return [line for strategy in ("adaptive", "dpcube", "cells") for line in _ranges_of(strategy)]


def _ranges_of(strategy: str) -> list[str]:
    release = evaluate.experiment(counts_of(SHAPE), epsilon=1, strategy=strategy, noise=SeededNoise(1))
    workload = evaluate.random_ranges(SHAPE, QUERIES, seed=2)
    estimate, boxes = release.estimate(), release.transcript.boxes
    parts = release.domain.size if boxes is None else len(boxes.tree.leaves)
    table = np.pad(release.cells().cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    (top, left), (bottom, right) = workload.lower.T, workload.upper.T

    def index() -> NDArray[np.float64]:
        values: NDArray[np.float64] = table[bottom, right] - table[top, right] - table[bottom, left] + table[top, left]
        return values

    assert np.allclose(index(), estimate.values(workload))
    indexing = seconds(index)
    values = seconds(lambda: estimate.values(workload))
    release.answer(workload)  # prepares its errors, once
    errors = seconds(lambda: release.answer(workload))
    return [
        f"{QUERIES:,} random ranges on a {SHAPE[0]} x {SHAPE[1]} cube of {parts:,} boxes, {strategy}",
        f"numpy fancy indexing of the corners   {indexing * 1e3:8.1f} ms",
        f"values                                {values * 1e3:8.1f} ms = {values / indexing:.1f}x "
        f"(target: at most {MAX_OVER_INDEXING})",
        f"values and errors                     {errors * 1e3:8.1f} ms = {errors / values:.1f}x the values "
        f"(target: at most {MAX_OVER_VALUES})",
    ]


MAX_SECONDS = 1.0
DOMAIN = Domain(
    (
        Category(name="flag", values=("A", "N", "R")),
        Category(name="status", values=("F", "O")),
        Date(name="shipped", start=date(1992, 1, 1), end=date(1998, 12, 31), every="month"),
        Integer(name="quantity", min=1, max=50),
        Integer(name="discount", min=0, max=10),
        Category(name="mode", values=("air", "mail", "rail", "ship")),
    )
)
STATEMENTS = {
    "summary by two flags (as TPC-H 1)": (
        "SELECT flag, status, sum(quantity), avg(quantity), avg(discount), count(*) FROM cube "
        "WHERE shipped < DATE '1998-12-01' - INTERVAL 3 MONTH GROUP BY flag, status ORDER BY flag, status",
        "SELECT flag, status, sum(w * quantity), sum(w * quantity) / sum(w), sum(w * discount) / sum(w), sum(w) "
        "FROM cells WHERE shipped < DATE '1998-09-01' GROUP BY flag, status ORDER BY flag, status",
    ),
    "one filtered sum (as TPC-H 6)": (
        "SELECT sum(quantity * discount) FROM cube WHERE shipped >= '1994-01-01' AND shipped < '1995-01-01' "
        "AND discount BETWEEN 5 AND 7 AND quantity < 24",
        "SELECT sum(w * quantity * discount) FROM cells WHERE shipped >= '1994-01-01' AND shipped < '1995-01-01' "
        "AND discount BETWEEN 5 AND 7 AND quantity < 24",
    ),
    "by year and mode, in two classes (as TPC-H 12)": (
        "SELECT year(shipped) AS y, mode, count(*) FILTER (WHERE discount > 5) AS high, count(*) AS n FROM cube "
        "GROUP BY y, mode ORDER BY y, mode",
        "SELECT year(shipped) AS y, mode, sum(w) FILTER (WHERE discount > 5), sum(w) FROM cells "
        "GROUP BY y, mode ORDER BY y, mode",
    ),
    "ROLLUP of all six attributes": (
        "SELECT flag, status, shipped, quantity, discount, mode, count(*) AS n FROM cube "
        "GROUP BY ROLLUP (flag, status, mode, shipped, quantity, discount) ORDER BY n DESC LIMIT 10",
        "SELECT flag, status, shipped, quantity, discount, mode, sum(w) AS n FROM cells "
        "GROUP BY ROLLUP (flag, status, mode, shipped, quantity, discount) ORDER BY n DESC LIMIT 10",
    ),
    "medians by year": ("SELECT year(shipped) AS y, median(quantity), max(discount) FROM cube GROUP BY y", None),
    "counts by month and flag, with errors": (
        "SELECT shipped, flag, count(*) AS n FROM cube GROUP BY shipped, flag",
        None,
    ),
    "averages in 4,200 groups, with errors": (
        "SELECT shipped, quantity, avg(discount) AS a FROM cube GROUP BY shipped, quantity",
        None,
    ),
}


def cells_table(release: Release) -> pa.Table:
    """Return every cell of the estimate as a row."""
    grid = np.indices(DOMAIN.shape).reshape(len(DOMAIN.shape), -1)
    columns = {"w": pa.array(release.cells().reshape(-1))}
    for attribute, place in zip(DOMAIN.attributes, grid, strict=True):
        labels = [f"{label}-01" for label in attribute.labels()] if attribute.name == "shipped" else attribute.labels()
        kind = {"date": pa.date32(), "integer": pa.int64()}.get(attribute.kind, pa.string())
        values = pa.array(labels).cast(kind)
        columns[attribute.name] = values.take(pa.array(place))
    return pa.table(columns)


def sql() -> list[str]:
    """Measure each SQL query."""
    made = evaluate.experiment(counts_of(DOMAIN.shape), epsilon=1, noise=SeededNoise(1))
    release = Release(DOMAIN, made.transcript, made.provenance)
    lines = [f"{DOMAIN.size:,} cells, {' x '.join(map(str, DOMAIN.shape))}; parsing, rewriting and rows included"]
    with duckdb.connect() as connection:
        connection.register("arrow", cells_table(release))
        connection.execute("CREATE TABLE cells AS FROM arrow")
        for name, (ours, by_hand) in STATEMENTS.items():
            error = "errors" in name
            took = seconds(partial(release.sql, ours, error=error), repeats=3)
            line = f"{name:48} {took * 1e3:7.0f} ms"
            if by_hand is not None:
                check(release.sql(ours), ask(connection, by_hand))
                alone = seconds(partial(ask, connection, by_hand), repeats=3)
                line += f", by hand on a table of every cell {alone * 1e3:6.0f} ms"
            lines.append(f"{line} (target: at most {MAX_SECONDS:g} s)")
    return lines


def ask(connection: duckdb.DuckDBPyConnection, text: str) -> pa.Table:
    return connection.sql(text).to_arrow_table()


def check(ours: pa.Table, by_hand: pa.Table) -> None:
    """Check that both found the same."""
    for left, right in zip(ours.columns, by_hand.columns, strict=True):
        if pa.types.is_floating(left.type):
            assert np.allclose(left.to_numpy(), right.to_numpy())


ROWS = 2_000_000
MAX_OVER_CHOICE = 3


def synthetic_rows() -> list[str]:
    """Measure rows of the bundled table's five attributes, and of a cube of a million cells."""
    domain = Domain.load(datasets.adult_domain())
    adult, square = _released(domain), _released(Domain.of_shape((1024, 1024)))
    lines = [f"{ROWS:,} synthetic rows; choice and multinomial draw the cells of rows only, not their values"]
    for name, release in {"16 x 20 x 7 x 2 x 2": adult, "1024 x 1024": square}.items():
        lines += _compared(name, release)
    return [*lines, _written(adult, "parquet"), _written(adult, "csv")]


def _released(domain: Domain) -> Release:
    made = evaluate.experiment(counts_of(domain.shape), epsilon=1, noise=SeededNoise(1))
    return Release(domain, made.transcript, made.provenance)


def _compared(name: str, release: Release) -> list[str]:
    shares = release.cells().reshape(-1) / release.cells().sum()
    generator = np.random.default_rng(1)

    def multinomial() -> None:
        drawn = np.repeat(np.arange(shares.size), generator.multinomial(ROWS, shares))
        generator.shuffle(drawn)

    choice = seconds(lambda: generator.choice(shares.size, ROWS, p=shares), repeats=3)
    shuffled = seconds(multinomial, repeats=3)
    rows = seconds(lambda: deque(release.synthesize_batches(ROWS, 1), maxlen=0), repeats=3)
    return [
        f"{name:20} {len(release.domain.names)} columns: {_rate(rows)}; choice {_rate(choice)}, multinomial and "
        f"shuffle {_rate(shuffled)}: {rows / choice:.1f}x the time of choice (target: at most {MAX_OVER_CHOICE})"
    ]


def _rate(taken: float) -> str:
    return f"{ROWS / taken / 1e6:.1f} million a second"


def _written(release: Release, ending: str) -> str:
    with TemporaryDirectory() as folder:
        paths = iter(Path(folder) / f"{number}.{ending}" for number in range(10))
        taken = seconds(lambda: write_table(release.synthesize_batches(ROWS, 1), next(paths)), repeats=3)
    return f"{'':20} written to {ending}: {_rate(taken)}"


def run() -> Iterator[str]:
    """Measure range queries, SQL and synthetic rows."""
    for part in (ranges, sql, synthetic_rows):
        yield from part()


if __name__ == "__main__":
    for line in run():
        print(line, flush=True)
