"""Rows of the analyst's own get the cells that a private table's would: each row of every type, in its order."""

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcube.core.domain import Attribute, Category, Date, Domain, Float, Integer
from dpcube.curator.publishing import count
from dpcube.learn.rows import NO_CELL, cells_of

ANYTHING: dict[str, Any] = {"null": "cell", "unknown": "cell"}
NUMBERS: dict[str, Any] = {**ANYTHING, "nan": "cell", "infinite": "cell", "outside": "cell"}
ATTRIBUTES: tuple[Attribute, ...] = (
    Integer("v", 0, 59, width=7, **NUMBERS),
    Integer("v", 0, 59, width=20, outside="clip", infinite="clip"),
    Integer("v", edges=(-5, 0, 18, 65)),
    Float("v", 0, 2, width=0.3, **NUMBERS),
    Float("v", 0, 2, width=0.5, outside="clip"),
    Float("v", 0, 2000, width=100, decimal=",", thousands="'", prefix="$", suffix="%", trim=True, **NUMBERS),
    Category("v", ["a", "B", "12", "true"], **ANYTHING),
    Category("v", ["a", "B", "true"], case="ignore", trim=True, null_text=["?", "none"], true=["yes"], **ANYTHING),
    Date("v", "2026-01-15", "2026-04-02", every="month", **ANYTHING, outside="cell"),
    Date("v", "2026-01-15", "2026-04-02", every="week", format=["%d.%m.%Y", "iso"], outside="clip", **ANYTHING),
    Date("v", "2026-01-15", "2026-04-02", zone="Asia/Tokyo", format="iso", **ANYTHING, outside="cell"),
)
TEXTS = [
    *("a", "A", " b ", "B", "?", "NONE", "yes", "12", "true", "", " ", "nan", "-inf", "Infinity", "1e3", "0x10", None),
    *("1.5", "1,5", "1'500,25", "15.00", "$ 12", "-$3", "$-3", "-$-3", "12 %", "+7", "٣", "1_0", ".5", "5.", "1e99999"),
    *("2026-02-01", "2026-02-30", "1.2.2026", "01.02.2026", "2026-03-01T23:30:00Z", "2026-3-1", "20260301", "2026-W09"),
    *("2026-03-01 23:30", "2026-03-01T08:30:00+09:00", " 2026-02-01 ", "02026-02-01", "2026-02-01x", "2026-03-01T23"),
    *("1.50", "1.5000", "1'500'00", "12$", "$", "%", "- 3", "--3", "1" * 1200, "2026-03-01T23:30:00.5", "1.500e1"),
    *map(str, range(-5, 70, 3)),
]


def assert_alike(attribute: Attribute, column: pa.Array) -> None:
    """Compare the cell of every row by both readers; its number is an axis of its own where rows are counted."""
    numbered = Domain(Integer("row", 0, max(len(column) - 1, 1)), attribute)
    counted = count(pa.table({"row": np.arange(len(column)), "v": column}), numbered)[: len(column)]
    theirs = np.where(counted.any(axis=1), counted.argmax(axis=1), NO_CELL)
    mine = cells_of(attribute, pa.chunked_array([column]))
    wrong = np.flatnonzero(mine != theirs)
    assert [(column[k].as_py(), mine[k], theirs[k]) for k in wrong] == []


def named(attribute: Attribute) -> str:
    return f"{attribute.kind} {len(attribute.declaration())}"


@pytest.mark.parametrize("attribute", ATTRIBUTES, ids=named)
def test_texts(attribute: Attribute) -> None:
    assert_alike(attribute, pa.array(TEXTS, pa.string()))


@pytest.mark.slow
@pytest.mark.parametrize("attribute", ATTRIBUTES[:5], ids=named)
@given(values=st.lists(st.floats(-3, 70) | st.floats(), min_size=90, max_size=90))
@settings(max_examples=5, deadline=None)
def test_numbers(attribute: Attribute, values: list[float]) -> None:
    edges = attribute.bin_edges().tolist()
    nearby = [float(np.nextafter(edge, end)) for edge in edges for end in (-np.inf, edge, np.inf)]
    assert_alike(attribute, pa.array([*values, *nearby, None, np.nan, np.inf, -np.inf], pa.float64()))


@pytest.mark.parametrize("attribute", ATTRIBUTES[:8], ids=named)
def test_whole_numbers_booleans_and_dictionaries(attribute: Attribute) -> None:
    assert_alike(attribute, pa.array([0, 1, 12, 59, 60, -1, None, 2**62], pa.int64()))
    assert_alike(attribute, pa.array([True, False, None]))
    assert_alike(attribute, pa.array(["a", "12", None, "a"]).dictionary_encode())


def test_values_without_a_scalar_form_are_unknown() -> None:
    assert_alike(ATTRIBUTES[0], pa.array([[1], None]))


@pytest.mark.parametrize("attribute", ATTRIBUTES[8:], ids=named)
def test_days_and_times(attribute: Attribute) -> None:
    days = [date(2026, 1, 14), date(2026, 1, 15), date(2026, 4, 2), date(2026, 4, 3), None]
    assert_alike(attribute, pa.array(days, pa.date32()))
    times = [datetime(2026, 2, 1, 23, 30, tzinfo=UTC), datetime(2026, 4, 2, 16, tzinfo=UTC), None]
    assert_alike(attribute, pa.array(times, pa.timestamp("us", "UTC")))
    assert_alike(attribute, pa.array([t and t.replace(tzinfo=None) for t in times], pa.timestamp("us")))
