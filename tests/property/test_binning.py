"""The engine puts every value in the cell that NumPy puts it in, bit for bit."""

import math
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dpcube.core.domain import Attribute, Category, Date, Domain, Float, Integer
from dpcube.core.domain.written import TypedValues, typed
from dpcube.core.errors import DomainError, SourceError
from dpcube.core.sources import open_rows

FEW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
EPOCH = date(1970, 1, 1).toordinal()

here = st.sampled_from(["drop", "cell"])
beyond = st.sampled_from(["drop", "clip", "cell"])
destinations = {"null": here, "nan": here, "infinite": beyond, "unknown": here, "outside": beyond}


def cells_by_engine(attribute: Attribute, column: pa.Array) -> list[int | None]:
    """Return each row's cell, told apart by a second attribute that numbers the rows."""
    number = Integer(name="row number", min=0, max=len(column) - 1)
    table = pa.table({attribute.name: column, "row number": np.arange(len(column))})
    counts = open_rows(table).count_cells(Domain((number, attribute)))
    assert counts.shape == (len(column), attribute.size)
    assert set(counts.sum(axis=1)) <= {0, 1}
    return [int(row.argmax()) if row.any() else None for row in counts]


def cell_by_numpy(attribute: Attribute, value: float | int | str | None, edges: np.ndarray) -> int | None:
    """Return a value's cell by the rules of the domain, with `searchsorted` on the declared edges."""

    def own(kind: str) -> int | None:
        destination = getattr(attribute, kind)
        if destination == "cell":
            return attribute.bins + attribute.own_cells.index(kind)
        return (0 if value < edges[0] else attribute.bins - 1) if destination == "clip" else None

    if value is None:
        return own("null")
    if isinstance(value, str):
        return own("unknown")
    if math.isnan(value):
        return own("nan")
    if math.isinf(value):
        return own("infinite")
    if abs(value) > 2**53:  # NumPy would round an integer
        return own("outside")
    if isinstance(attribute, Float) and value == edges[-1]:
        return attribute.bins - 1
    if not edges[0] <= value < edges[-1]:
        return own("outside")
    return int(np.searchsorted(edges, value, side="right")) - 1


@st.composite
def numbers(draw: st.DrawFn) -> Attribute:
    kinds: Any = {key: draw(strategy) for key, strategy in destinations.items()}
    low: float
    high: float
    width: float
    edges: list[float]
    limit = draw(st.sampled_from([10, 1000, 2**40, 2**53 - 1]))
    shapes = ["integer", "integer edges", "float", "float of whole bins", "float of decimals", "float edges"]
    shape = draw(st.sampled_from(shapes))
    try:
        match shape:
            case "integer":
                low, step = draw(st.integers(-limit, limit)), draw(st.integers(1, 1 + limit // 50))
                high = min(low + step * draw(st.integers(1, 60)) - draw(st.integers(0, step - 1)), 2**53 - 1)
                return Integer(name="v", min=low, max=high, width=step, **kinds)
            case "integer edges":
                edges = draw(st.lists(st.integers(-limit, limit), min_size=2, max_size=40, unique=True))
                return Integer(name="v", edges=tuple(sorted(edges)), **kinds)
            case "float":
                low = draw(st.floats(-limit, limit))
                width = draw(st.sampled_from([0.1, 1 / 3, 0.7, 1.0, 2.5]) | st.floats(1e-3, 1e3)) * limit / 100
                high = low + width * draw(st.floats(0.3, 60))
                return Float(name="v", min=low, max=high, width=width, **kinds)
            case "float of whole bins":
                low, width = draw(st.integers(-limit, limit)), draw(st.integers(1, 1 + limit // 50))
                high = low + width * draw(st.integers(1, 60) | st.floats(0.3, 60))
                return Float(name="v", min=low, max=high, width=width, **kinds)
            case "float of decimals":
                places = draw(st.integers(1, 12))
                low, width = (draw(st.integers(*ends)) / 10**places for ends in ((-limit, limit), (1, 1 + limit // 50)))
                return Float(name="v", min=low, max=low + width * draw(st.floats(0.3, 60)), width=width, **kinds)
            case _:
                edges = draw(st.lists(st.floats(-limit, limit), min_size=2, max_size=40, unique=True))
                return Float(name="v", edges=tuple(sorted(edges)), **kinds)
    except DomainError:
        assume(False)
        raise


def around(edges: np.ndarray) -> list[float]:
    """Return each edge with the doubles just below and above it."""
    return [*edges, *np.nextafter(edges, -np.inf), *np.nextafter(edges, np.inf)]


@FEW
@given(attribute=numbers(), more=st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=10), data=st.data())
def test_real_numbers_fall_where_numpy_puts_them(attribute: Attribute, more: list[float], data: st.DataObject) -> None:
    edges = attribute.bin_edges()
    inside = data.draw(st.lists(st.floats(float(edges[0]), float(edges[-1])), max_size=20))
    values: list[float | None] = [None, math.nan, math.inf, -math.inf, -0.0, *around(edges), *more, *inside]
    expected = [cell_by_numpy(attribute, value, edges) for value in values]
    assert cells_by_engine(attribute, pa.array(values, pa.float64())) == expected


@FEW
@given(attribute=numbers(), data=st.data())
def test_text_falls_where_its_number_does(attribute: Attribute, data: st.DataObject) -> None:
    edges = attribute.bin_edges()
    inside = data.draw(st.lists(st.floats(float(edges[0]), float(edges[-1])), max_size=20))
    values = [None, math.nan, math.inf, -math.inf, *around(edges), *inside]
    texts = [None if value is None else f" {float(value)!r} " for value in values]
    expected = [cell_by_numpy(attribute, value, edges) for value in [*values, "one", "one"]]
    assert cells_by_engine(attribute, pa.array([*texts, "1 or 2", ""], pa.string())) == expected


@FEW
@given(attribute=numbers(), type_=st.sampled_from([pa.int64(), pa.uint64(), pa.int32(), pa.uint16(), pa.int8()]))
def test_whole_numbers_fall_where_numpy_puts_them(attribute: Attribute, type_: pa.DataType) -> None:
    edges = attribute.bin_edges()
    signed = not pa.types.is_unsigned_integer(type_)
    top = 2 ** (type_.bit_width - signed) - 1
    bottom = -top - 1 if signed else 0
    near = [math.floor(edge) + shift for edge in edges for shift in (-1, 0, 1, 2)]
    values = [None, bottom, bottom + 1, top - 1, top, *(value for value in near if bottom <= value <= top)]
    expected = [cell_by_numpy(attribute, value, edges) for value in values]
    assert cells_by_engine(attribute, pa.array(values, type_)) == expected


@FEW
@given(
    start=st.dates(date(1800, 1, 1), date(2100, 1, 1)),
    days=st.integers(0, 3000),
    every=st.sampled_from(["day", "week", "month", "year"]),
    kinds=st.fixed_dictionaries({key: destinations[key] for key in ("null", "unknown", "outside")}),
    as_text=st.booleans(),
)
def test_dates_fall_where_numpy_puts_them(
    start: date, days: int, every: str, kinds: dict[str, str], *, as_text: bool
) -> None:
    attribute = Date(name="v", start=start, end=start + timedelta(days), every=every, **kinds)  # type: ignore[arg-type]
    edges = attribute.bin_edges()
    chosen = edges[:: max(1, len(edges) // 100)].astype(int)
    ordinals = [*chosen, *(chosen - 1), *(chosen + 1), int(edges[-1]), int(edges[-1]) - 1]
    values: list[date | None] = [None, date.min, date.max, *(date.fromordinal(ordinal) for ordinal in ordinals)]
    expected = [cell_by_numpy(attribute, None if day is None else day.toordinal(), edges) for day in values]
    column = pa.array(values, pa.date32())
    if as_text:
        column = pa.array([day and f" {day.isoformat()}" for day in values] + ["2026-02-30"])
        expected.append(cell_by_numpy(attribute, "no date", edges))
    assert cells_by_engine(attribute, column) == expected


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@pytest.mark.slow
@FEW
@given(
    values=st.lists(texts, min_size=1, max_size=50, unique=True),
    others=st.lists(texts, max_size=10),
    null=here,
    unknown=here,
)
def test_categories_fall_where_they_are_listed(values: list[str], others: list[str], null: str, unknown: str) -> None:
    attribute = Category(name="v", values=tuple(values), null=null, unknown=unknown)  # type: ignore[arg-type]
    own = {kind: attribute.bins + i for i, kind in enumerate(attribute.own_cells)}
    rows = [None, *values, *others, *(value + " " for value in values)]
    place = {value: i for i, value in enumerate(values)}
    typed_place = TypedValues.from_attribute(attribute).positions

    def expected_cell(row: str | None) -> int | None:
        if row is None:
            return own.get("null")
        value = typed(row)
        by_value = None if value is None else typed_place.get(value)
        return place.get(row, own.get("unknown") if by_value is None else by_value)

    expected = list(map(expected_cell, rows))
    if TypedValues.from_attribute(attribute).same is not None:
        with pytest.raises(SourceError, match="denote one value"):
            cells_by_engine(attribute, pa.array(rows, pa.string()))
        return
    for column in (pa.array(rows, pa.string()), pa.array(rows, pa.string()).dictionary_encode()):
        assert cells_by_engine(attribute, column) == expected


@pytest.mark.parametrize(
    "attribute",
    [
        Float(name="v", min=2.0**49, max=2.0**49 + 40, width=1.1),
        Float(name="v", min=-(2.0**50) + 1, max=2.0**50 - 1, width=2.0**44 / 3),
        Integer(name="v", min=2**53 - 40, max=2**53 - 1),
        Integer(name="v", min=-(2**53) + 1, max=2**53 - 1, width=2**47 + 1),
    ],
)
def test_bins_at_the_limits_of_doubles_follow_the_declared_edges(attribute: Attribute) -> None:
    edges = attribute.bin_edges()
    values = [*around(edges), 2.0**53, -(2.0**53), 2.0**54]
    assert cells_by_engine(attribute, pa.array(values)) == [cell_by_numpy(attribute, v, edges) for v in values]
    whole = [int(edge) + shift for edge in edges for shift in (-1, 0, 1)] + [2**53, 2**53 + 1, -(2**63), 2**63 - 1]
    assert cells_by_engine(attribute, pa.array(whole)) == [cell_by_numpy(attribute, v, edges) for v in whole]


@pytest.mark.slow
@pytest.mark.parametrize("edges", [3000])
def test_thousands_of_edges_are_searched(edges: int) -> None:
    rng = np.random.default_rng(7)
    cuts = np.unique(rng.normal(size=edges).cumsum().round(6))
    attribute = Float(name="v", edges=tuple(map(float, cuts)))
    values = np.concatenate([rng.choice(cuts, 500), rng.uniform(cuts[0] - 1, cuts[-1] + 1, 1500)])
    expected = [cell_by_numpy(attribute, float(value), attribute.bin_edges()) for value in values]
    assert cells_by_engine(attribute, pa.array(values)) == expected
