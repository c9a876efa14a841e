"""A unit's rows are limited to just as many as declared, chosen among those that can be counted."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcube import Category, Domain, Integer
from dpcube.core.request import PrivacyUnit, Range
from dpcube.curator.publishing import count

DOMAIN = Domain((Integer(name="age", min=0, max=9), Category(name="ward", values=("a", "b"))))
ROWS = st.lists(st.tuples(st.sampled_from([1, 2, 3]), st.integers(-3, 12), st.sampled_from("abc"), st.integers(1, 9)))


def table(rows: Sequence[tuple[int, int, str, int]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * 4
    types = (pa.int64(), pa.int64(), pa.string(), pa.int64())
    return pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], ["id", "age", "ward", "day"])


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(rows=ROWS, most=st.integers(1, 7), days=st.none() | st.tuples(st.integers(1, 9), st.integers(1, 9)))
def test_each_unit_has_its_rows_up_to_the_limit(
    rows: list[tuple[int, int, str, int]], most: int, days: tuple[int, int] | None
) -> None:
    """Rows that the domain or the period leaves out take nobody's place; the others keep the limit exactly."""
    period = None if days is None else Range("day", min(days), max(days))
    kept: dict[int, int] = {}
    for unit, age, ward, day in rows:
        if 0 <= age <= 9 and ward in "ab" and (days is None or min(days) <= day <= max(days)):
            kept[unit] = kept.get(unit, 0) + 1
    counts = count(table(rows), DOMAIN, unit=PrivacyUnit("id", most), rows_of=period)
    assert int(np.sum(counts)) == sum(min(number, most) for number in kept.values())


@pytest.mark.parametrize("most", range(1, 9))
def test_the_limit_is_exact_for_every_number(most: int) -> None:
    rows = table([(1, 5, "a", 1)] * 8 + [(2, 5, "a", 1)] * 3 + [(2, 50, "a", 1)] * 20)
    assert int(np.sum(count(rows, DOMAIN, unit=PrivacyUnit("id", most)))) == most + min(most, 3)
