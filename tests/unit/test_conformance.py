"""Every registered strategy and source passes its conformance suite, and the suites can fail."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

from dpcube import Domain, Integer
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter, every_cell
from dpcube.measurements import Marginal, Transcript
from dpcube.strategies.registry import BY_NAME, OF_ROWS, RIVALS
from dpcube.testing import check_source, check_strategy
from dpcube.testing.strategies import TRIED_DOMAINS

WIDE = Domain(*[Integer(f"a{axis}", 0, 3) for axis in range(8)])
GRID = Domain(Integer("a", 0, 999), Integer("b", 0, 499))
DOMAINS_OF = {"cuboids": [WIDE], "fine_grid": [GRID]}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*BY_NAME, *OF_ROWS, *RIVALS])
def test_a_registered_strategy_conforms(name: str) -> None:
    check_strategy(name, domains=DOMAINS_OF.get(name, TRIED_DOMAINS))


@dataclass(frozen=True)
class Broken:
    """A strategy that counts cells, and breaks one rule."""

    fault: str
    name: str = "broken"

    def run(self, counter: NoisyCounter) -> Transcript:
        if self.fault == "fails on tables without rows" and every_cell(counter, BUDGET_UNITS // 2).sum() < 100:
            msg = "nothing here"
            raise ValueError(msg)
        noisy = every_cell(counter, BUDGET_UNITS // 2)
        shape, per = counter.shape, counter.epsilon_per_unit
        if self.fault == "clips what it was told":
            noisy = np.maximum(noisy, 0) + 1
        if self.fault == "looks behind the counter":
            noisy = noisy + int(hasattr(counter, "counter"))
        units = BUDGET_UNITS if self.fault == "states more budget than there is" else BUDGET_UNITS // 2
        made = Transcript(shape, per, (Marginal.from_cells(noisy, units),))
        if self.fault == "states more budget than there is":
            return replace(made, measurements=made.measurements * 2)
        return replace(made, epsilon_per_unit=per * 2) if self.fault == "states another epsilon" else made


FAULTS = (
    "fails on tables without rows",
    "clips what it was told",
    "looks behind the counter",
    "states more budget than there is",
    "states another epsilon",
)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_strategy_that_breaks_a_rule_is_caught(fault: str) -> None:
    check_strategy(Broken("none"), domains=TRIED_DOMAINS[1:2])
    with pytest.raises(AssertionError):
        check_strategy(Broken(fault), domains=TRIED_DOMAINS[1:2])


def files(tmp_path: Path) -> Callable[[str], Path]:
    number = itertools.count()
    return lambda ending: tmp_path / f"{next(number)}.{ending}"


def as_parquet(place: Callable[[str], Path]) -> Callable[[pa.Table], object]:
    def load(table: pa.Table) -> object:
        path = place("parquet")
        pq.write_table(table, path)
        return path

    return load


def as_csv(place: Callable[[str], Path]) -> Callable[[pa.Table], object]:
    def load(table: pa.Table) -> object:
        path = place("csv")
        pacsv.write_csv(table, path)
        return path

    return load


LOADS: dict[str, tuple[Callable[[Any], Callable[[pa.Table], object]], dict[str, Any]]] = {
    "arrow stream": (lambda _: lambda table: table.to_reader(), {}),
    "arrow dataset": (lambda _: pads.dataset, {}),
    "parquet": (as_parquet, {}),
    "csv": (as_csv, {"types": [], "has_nulls": False}),
    "pandas": (lambda _: lambda table: table.to_pandas(), {"has_nulls": False}),
    "pandas, Arrow types": (lambda _: lambda table: table.to_pandas(types_mapper=pd.ArrowDtype), {}),
    "polars": (lambda _: pl.from_arrow, {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LOADS)
def test_a_source_conforms(name: str, tmp_path: Path) -> None:
    make, more = LOADS[name]
    check_source(make(files(tmp_path)), **more)


def without_a_row(table: pa.Table) -> pa.Table:
    return table.slice(1)


def with_zero_for_null(table: pa.Table) -> pa.Table:
    zeros = [column.fill_null(0) if pa.types.is_integer(column.type) else column for column in table.columns]
    return pa.table(dict(zip(table.column_names, zeros, strict=True)))


def with_folded_units(table: pa.Table) -> pa.Table:
    if "u" not in table.column_names:
        return table
    folded = pa.array([None if one is None else one.lower() for one in table["u"].to_pylist()])
    return table.set_column(table.column_names.index("u"), "u", folded)


@pytest.mark.parametrize("fault", [without_a_row, with_zero_for_null, with_folded_units])
def test_a_source_that_reads_otherwise_is_caught(fault: Callable[[pa.Table], pa.Table]) -> None:
    with pytest.raises(AssertionError):
        check_source(fault)
