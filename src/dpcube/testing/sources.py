"""Conformance suite for sources of rows: every engine and format must count the same cells of the same table.

A source passes if it gives, cell for cell, the counts that DuckDB gives of the Arrow table, whatever the column types,
reading options, privacy unit or period, and if no value of a row decides whether or how a run fails.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import date, datetime

import numpy as np
import pyarrow as pa

from dpcube.core.domain import Attribute, Category, Date, Domain, Float, Integer
from dpcube.core.errors import DpcubeError
from dpcube.core.request import Range
from dpcube.core.sources import Rows, open_rows

Load = Callable[[pa.Table], object]
"""Puts an Arrow table where a source reads it, and returns what `publish` reads: a path, an address, a frame."""

_HIDDEN = "sentinel-3141592653"
"""A value that no message may show."""
_WHOLE = [0, 1, 5, 9, -1, 10, None, 7, 2**40, 5]
_REAL = [0.0, 0.5, 9.999, -0.5, 10.0, None, float("nan"), float("inf"), float("-inf"), 5.0]
_WORDS = ["a", "b", "c", "", " a", None, "A", _HIDDEN, "a", "b"]
_NUMBERS = ["0", "5", "9.5", " 7 ", "x", None, "1e1", "", "-3", "5.0"]
_DAYS = [date(2024, 1, 1), date(2024, 2, 29), date(2023, 12, 31), None, date(2024, 12, 31)] * 2
_ISO_DAYS = [
    "2024-01-01",
    "2024-02-29",
    "2023-12-31",
    None,
    "2024-02-30",
    "not a day",
    "",
    "2024-12-31",
    " ",
    "2024-06-15",
]
_TIMES = [
    datetime(2024, 1, 1, 23, 59),
    datetime(2024, 7, 1),
    None,
    datetime(2024, 12, 31, 12),
    datetime(2025, 1, 1),
] * 2
_FLAGS = [True, False, None, True, True, False, True, None, False, True]
_UNITS = ["p1", "p1", "p1", "p2", "p2", "p3", None, None, "p4", "P1"]


@dataclass(frozen=True)
class SourceCase:
    """A table, and a domain over its columns."""

    name: str
    table: pa.Table
    domain: Domain


def check_source(load: Load, *, types: Iterable[pa.DataType] | None = None, has_nulls: bool = True) -> None:
    """Check that a source counts rows as every other source does.

    Parameters
    ----------
    load
        Writes an Arrow table to the source and returns what `dpcube.curator.publish` reads: a path, an address, a
        frame or any other object that `open_rows` accepts. It is called about thirty times, each time with another
        table, whose name it may choose.
    types
        The column types that the source can store; all unless given. Text is always used.
    has_nulls
        Whether the source distinguishes null from NaN and from empty text. CSV files and pandas columns of floats do
        not; rows with any of the three are then left out.

    Raises
    ------
    AssertionError
        If the source counts other cells than DuckDB does of the Arrow table, shows a value of a row in a message, or
        fails where another table of the same schema is counted.

    Examples
    --------
    >>> check_source(lambda table: table)

    """
    usable = None if types is None else {str(type_) for type_ in types} | {"string"}
    for case in cases():
        if usable is None or {str(field.type) for field in case.table.schema} <= usable:
            _check_counts(load, case if has_nulls else replace(case, table=_without_nulls(case.table)))
    _check_units(load)
    _check_period(load)
    _check_missing_column(load)


def cases() -> list[SourceCase]:
    """Return one case for each column type and destination of odd values."""
    found = []
    for kind in (pa.int16(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(30, 4), pa.string()):
        values: list[object] = list(_NUMBERS) if pa.types.is_string(kind) else _fitting(kind)
        for attribute in _number_attributes():
            found.append(_case(f"{attribute.name} of {kind}", pa.array(values, kind), attribute))
    found += [
        _case("words", pa.array(_WORDS), Category("v", ["a", "b", "c"], unknown="cell", null="cell")),
        _case("words trimmed", pa.array(_WORDS), Category("v", ["a", "b"], unknown="drop", trim=True, case="ignore")),
        _case("numbers as words", pa.array(_WHOLE, pa.int64()), Category("v", ["0", "1", "5"], unknown="cell")),
        _case("flags", pa.array(_FLAGS), Category("v", ["true", "false"], null="cell")),
        _case("days", pa.array(_DAYS), _days()),
        _case("days as text", pa.array(_ISO_DAYS), _days()),
        _case("times", pa.array(_TIMES, pa.timestamp("us")), _days()),
        SourceCase(
            "two attributes",
            pa.table({"unused": _WORDS, "w": _WORDS, "v": pa.array(_WHOLE, pa.int64())}),
            Domain(Integer("v", 0, 9, width=2), Category("w", ["a", "b", "c"], unknown="cell")),
        ),
    ]
    return found


def _fitting(kind: pa.DataType) -> list[object]:
    if pa.types.is_floating(kind):
        return list(_REAL)
    top = 2**15 if kind == pa.int16() else 2**62
    return [None if value is None else min(value, top - 1) for value in _WHOLE]


def _number_attributes() -> list[Attribute]:
    return [
        Integer("v", 0, 9, width=3, outside="clip", null="cell"),
        Float("v", 0.0, 10.0, width=2.5, outside="cell", nan="cell", infinite="clip", unknown="cell"),
    ]


def _days() -> Date:
    return Date("v", "2024-01-01", "2024-12-31", every="month", outside="cell", null="cell")


def _case(name: str, column: pa.Array, attribute: Attribute) -> SourceCase:
    return SourceCase(name, pa.table({"v": column}), Domain(attribute))


def _without_nulls(table: pa.Table) -> pa.Table:
    odd = {None, "", " "}
    kept = [all(value not in odd and value == value for value in row.values()) for row in table.to_pylist()]
    return table.filter(pa.array(kept, pa.bool_()))


def _check_counts(load: Load, case: SourceCase) -> None:
    """Compare the counts of cells, those of distinct rows in another order, and those of a table without rows."""
    expected = open_rows(case.table).count_cells(case.domain)
    found = _rows(load, case.table, case.name).count_cells(case.domain)
    assert found.dtype == np.int64, f"{case.name}: counts are {found.dtype}, and must be 64-bit integers"
    assert np.array_equal(found, expected), f"{case.name}: counts differ from those of the Arrow table"
    reversed_rows = case.table.take(np.arange(case.table.num_rows)[::-1])
    cells, counts = _rows(load, reversed_rows, case.name).count_alike(case.domain)
    placed = np.zeros(case.domain.shape, np.int64)
    np.add.at(placed, tuple(np.asarray(one, np.int64) for one in cells), counts)
    assert np.array_equal(placed, expected), f"{case.name}: distinct rows differ from those of the Arrow table"
    empty = _rows(load, case.table.slice(0, 0), case.name).count_cells(case.domain)
    assert not empty.any(), f"{case.name}: a table without rows has counts above zero"


def _rows(load: Load, table: pa.Table, name: str) -> Rows:
    try:
        return open_rows(load(table))
    except DpcubeError as error:
        msg = f"{name}: the table is refused: {error}"
        raise AssertionError(msg) from error


def _check_units(load: Load) -> None:
    """Check that a unit has at most `max_rows` rows, that values that differ are two units, and where nulls go."""
    table = pa.table({"v": pa.array([3] * len(_UNITS), pa.int64()), "u": _UNITS})
    domain = Domain(Integer("v", 0, 9))
    for null, expected in (("drop", 7), ("each", 9)):
        rows = _rows(load, table, "a privacy unit").limit("u", max_rows=2, null=null)  # type: ignore[arg-type]
        found = int(rows.count_cells(domain).sum())
        assert found == expected, f"a unit of at most 2 rows, null {null!r}: the source keeps another number of rows"


def _check_period(load: Load) -> None:
    """Check that a period selects the same rows of every source."""
    table = pa.table({"d": pa.array(_DAYS), "v": pa.array(range(len(_DAYS)), pa.int64())})
    domain = Domain(Integer("v", 0, 9))
    chosen = Range.from_request(("d", "2024-01-01", "2024-03-31"), domain, None)
    assert chosen is not None
    expected = chosen.select(open_rows(table)).count_cells(domain)
    found = chosen.select(_rows(load, table, "a period")).count_cells(domain)
    assert np.array_equal(found, expected), "a period selects other rows than of the Arrow table"


def _check_missing_column(load: Load) -> None:
    """Check that a column that is not there is named before any row is read, and that no value is shown."""
    rows, said = _rows(load, pa.table({"w": _WORDS}), "a table of words"), ""
    try:
        rows.count_cells(Domain(Integer("not there", 0, 9)))
    except DpcubeError as error:
        said = str(error)
    assert "not there" in said, "a column that is not there is not named"
    assert _HIDDEN not in said, "a message shows a value of a row"
