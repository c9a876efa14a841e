"""Random domains, selections and queries against what they mean by brute force."""

import copy
import datetime
import pickle
from collections.abc import Callable, Hashable
from dataclasses import fields, replace
from datetime import date, timedelta
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from typing import Literal, TypedDict

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dpcube.core.domain import Attribute, Category, Date, Destination, Domain, Float, Integer, ValueSet
from dpcube.queries import Condition, Workload, query
from dpcube.queries.counting import select
from dpcube.release import Release
from dpcube.research import experiment
from dpcube.testing import SeededNoise

Every = Literal["day", "week", "month", "quarter", "year"]

here: st.SearchStrategy[Destination] = st.sampled_from(["drop", "cell"])
beyond: st.SearchStrategy[Destination] = st.sampled_from(["drop", "clip", "cell"])
periods: st.SearchStrategy[Every] = st.sampled_from(["day", "week", "month", "quarter", "year"])
names = st.text(min_size=1, max_size=12).filter(lambda name: bool(name.strip()))


class Irregular(TypedDict):
    null: Destination
    nan: Destination
    infinite: Destination
    unknown: Destination
    outside: Destination


def of_numbers(draw: st.DrawFn) -> Irregular:
    return {
        "null": draw(here),
        "nan": draw(here),
        "infinite": draw(beyond),
        "unknown": draw(here),
        "outside": draw(beyond),
    }


@st.composite
def integers(draw: st.DrawFn, name: st.SearchStrategy[str] = names) -> Integer:
    low = draw(st.integers(-(10**6), 10**6))
    irregular = of_numbers(draw)
    if draw(st.booleans()):
        steps = draw(st.lists(st.integers(1, 50), min_size=1, max_size=8))
        edges = tuple(int(edge) for edge in low + np.cumsum([0, *steps]))
        return Integer(name=draw(name), edges=edges, **irregular)
    high = low + draw(st.integers(0, 60))
    return Integer(name=draw(name), min=low, max=high, width=draw(st.integers(1, 20)), **irregular)


@st.composite
def floats(draw: st.DrawFn, name: st.SearchStrategy[str] = names) -> Float:
    irregular = of_numbers(draw)
    finite = st.floats(-1e6, 1e6)
    if draw(st.booleans()):
        edges = sorted(draw(st.sets(finite, min_size=2, max_size=8)))
        return Float(name=draw(name), edges=tuple(edges), **irregular)
    low, width, bins = draw(finite), draw(st.floats(1e-6, 1e6)), draw(st.floats(0.01, 40))
    high = low + width * bins
    assume(high > low and high < 2**53)
    return Float(name=draw(name), min=low, max=high, width=width, **irregular)


@st.composite
def categories(draw: st.DrawFn, name: st.SearchStrategy[str] = names) -> Category:
    values = draw(st.lists(st.text(max_size=10), min_size=1, max_size=8, unique=True))
    assume(not {"(null)", "(unknown)"} & set(values))
    return Category(
        name=draw(name), values=tuple(values), ordered=draw(st.booleans()), null=draw(here), unknown=draw(here)
    )


@st.composite
def dates(draw: st.DrawFn, name: st.SearchStrategy[str] = names) -> Date:
    every = draw(periods)
    start = draw(st.dates())
    longest = min({"day": 40, "week": 300, "month": 900, "quarter": 2500, "year": 5000}[every], (date.max - start).days)
    end = start + timedelta(days=draw(st.integers(0, longest)))
    return Date(name=draw(name), start=start, end=end, every=every, null=draw(here), outside=draw(beyond))


attributes = st.one_of(integers(), floats(), categories(), dates())


@st.composite
def domains(draw: st.DrawFn, most: int = 4) -> Domain:
    chosen = draw(st.lists(attributes, min_size=1, max_size=most, unique_by=lambda attribute: attribute.name))
    drafted, signed = draw(st.booleans()), draw(st.none() | st.text(max_size=10))
    return Domain(tuple(chosen), drafted_from_data=drafted, signed_public_by=signed)


@st.composite
def selections(draw: st.DrawFn, attribute: Attribute) -> ValueSet:
    """What some question selects: values, ranges and own cells, joined by and, or, not."""
    edges = attribute.bin_edges()
    if isinstance(attribute, Float):
        point = st.floats(float(edges[0]), float(edges[-1]))
    else:
        point = st.integers(int(edges[0]), int(edges[-1])).map(float)
    interval = st.tuples(point, point).map(
        lambda ends: ValueSet(((min(ends), max(ends)),)) if ends[0] != ends[1] else ValueSet()
    )
    parts = draw(st.lists(interval | st.just(attribute.everything()), min_size=1, max_size=5))
    own = draw(st.sets(st.sampled_from(attribute.own_cells))) if attribute.own_cells else set()
    joined = ValueSet(own_cells=frozenset(own))
    for part in parts:
        match draw(st.sampled_from(["and", "or", "not"])):
            case "and":
                joined &= part
            case "or":
                joined |= part
            case _:
                joined = attribute.complement(joined)
    return joined


# --- the domain file ---------------------------------------------------------------------------------------------


@given(domains())
def test_text_reads_back_to_an_equal_domain(domain: Domain) -> None:
    text = domain.dumps()
    assert Domain.loads(text) == domain
    assert Domain.loads(text).dumps() == text


@given(attributes)
def test_cells_edges_and_labels_agree(attribute: Attribute) -> None:
    edges = attribute.bin_edges()
    assert (np.diff(edges) > 0).all()
    assert attribute.bins == len(edges) - 1
    assert attribute.size == len(attribute.labels()) == attribute.bins + len(attribute.own_cells)


@given(floats())
def test_inner_edges_of_real_numbers_are_min_plus_k_widths_as_people_write_them(attribute: Float) -> None:
    assume(attribute.edges is None)
    assert attribute.min is not None
    inner = attribute.bin_edges()[:-1].tolist()
    first, width = Fraction(repr(attribute.min)), Fraction(repr(attribute.width))
    written = [float(first + k * width) for k in range(len(inner))]
    short = all(len(repr(number)) <= 8 for number in (attribute.min, attribute.width))
    assert inner == written or (not short and inner == [attribute.min + k * attribute.width for k in range(len(inner))])
    np.testing.assert_allclose(inner, written, rtol=0, atol=3 * np.spacing(np.abs(attribute.bin_edges()).max()))
    assert attribute.bin_edges()[-1] == attribute.max


def test_values_at_written_edges_are_in_the_bin_that_begins_there() -> None:
    tenths = Float("x", 0, 1, width=0.1)
    assert tenths.bin_edges().tolist() == [k / 10 for k in range(11)]  # 3 * 0.1 is the double after 0.3
    assert Float("x", -0.7, 0.7, width=0.1).bin_edges().tolist() == [k / 10 for k in range(-7, 8)]
    assert Float("x", 1e-7, 9e-7, width=1e-7).bin_edges().tolist() == [float(f"{k}e-7") for k in range(1, 10)]
    assert Float("x", 0.0, 3.0, width=1.0).regular_bins() == (0, 1, 1)
    long = Float("x", 0, 1, width=1 / 3)  # too many decimals for whole numbers that doubles carry
    assert long.regular_bins() == (0, 1 / 3, 1)


# --- weights -----------------------------------------------------------------------------------------------------


@given(st.data(), attributes)
def test_weights_are_shares_of_cells(data: st.DataObject, attribute: Attribute) -> None:
    weights = attribute.weights(data.draw(selections(attribute)))
    assert weights.shape == (attribute.size,)
    assert (weights >= 0).all()
    assert (weights <= 1).all()


@given(st.data(), attributes)
def test_a_selection_and_its_complement_are_the_bins(data: st.DataObject, attribute: Attribute) -> None:
    selection = data.draw(selections(attribute))
    rest = attribute.complement(selection)
    total = attribute.weights(selection) + attribute.weights(rest)
    np.testing.assert_allclose(total[: attribute.bins], 1, rtol=0, atol=1e-12)
    assert not attribute.weights(rest)[attribute.bins :].any()
    assert attribute.weights(attribute.complement(rest))[: attribute.bins] == pytest.approx(
        attribute.weights(selection)[: attribute.bins], abs=1e-12
    )


@given(st.data(), integers())
def test_ranges_add_up(data: st.DataObject, attribute: Integer) -> None:
    edges = attribute.bin_edges()
    a, b, c = sorted(data.draw(st.tuples(*[st.integers(int(edges[0]), int(edges[-1]) - 1)] * 3)))
    assume(b < c)
    whole, left, right = (attribute.weights(attribute.range(*ends)) for ends in ((a, c), (a, b), (b + 1, c)))
    np.testing.assert_allclose(left + right, whole, rtol=0, atol=1e-12)


@given(st.data(), integers())
def test_a_share_is_the_number_of_values_over_the_length_of_the_bin(data: st.DataObject, attribute: Integer) -> None:
    edges = attribute.bin_edges().astype(int)
    values = range(edges[0], edges[-1])
    a, b = sorted(data.draw(st.tuples(st.sampled_from(values), st.sampled_from(values))))
    some = data.draw(st.lists(st.sampled_from(values), min_size=1, max_size=6))
    asked: list[tuple[Condition, set[int]]] = [((a, b), set(range(a, b + 1))), ([*some], set(some)), (a, {a})]
    for condition, meant in asked:
        shares = [len(meant & set(range(low, high))) / (high - low) for low, high in pairwise(edges)]
        expected = shares + [0.0] * len(attribute.own_cells)
        assert attribute.weights(select(attribute, condition)).tolist() == expected


@given(st.data(), dates())
def test_a_day_is_in_the_bin_of_its_calendar_period(data: st.DataObject, attribute: Date) -> None:
    day = data.draw(st.dates(attribute.start, attribute.end))
    weights = attribute.weights(attribute.equal(day))
    (cell,) = np.flatnonzero(weights)
    days = [date.fromordinal(ordinal) for ordinal in range(attribute.start.toordinal(), attribute.end.toordinal() + 1)]
    periods_of_days: dict[Every, Callable[[date], Hashable]] = {
        "day": lambda d: d,
        "week": lambda d: (d - attribute.start).days // 7,
        "month": lambda d: (d.year, d.month),
        "quarter": lambda d: (d.year, (d.month - 1) // 3),
        "year": lambda d: d.year,
    }
    period = periods_of_days[attribute.every]
    fellows = [d for d in days if period(d) == period(day)]
    assert weights[cell] == 1 / len(fellows)
    assert cell == len({period(d) for d in days if d < fellows[0]})


# --- the algebra of selections -----------------------------------------------------------------------------------

SIZE = 12
OWN = ("null", "outside")


@st.composite
def small(draw: st.DrawFn) -> tuple[ValueSet, set[int | str]]:
    """A selection of whole numbers below SIZE, and the same as a set."""
    members = draw(st.sets(st.integers(0, SIZE - 1)))
    own = draw(st.sets(st.sampled_from(OWN)))
    single = [ValueSet(((float(i), float(i + 1)),)) for i in draw(st.permutations(sorted(members)))]
    return reduce(ValueSet.__or__, single, ValueSet(own_cells=frozenset(own))), members | own


def as_set(selection: ValueSet) -> set[int | str]:
    return {i for i in range(SIZE) for low, high in selection.intervals if low <= i < high} | set(selection.own_cells)


def is_canonical(selection: ValueSet) -> bool:
    ends = [end for interval in selection.intervals for end in interval]
    return all(a < b for a, b in pairwise(ends))  # sorted, disjoint, and no two that touch


@given(small(), small())
def test_selections_are_sets(left: tuple[ValueSet, set[int | str]], right: tuple[ValueSet, set[int | str]]) -> None:
    for selection, meant in (
        (left[0] | right[0], left[1] | right[1]),
        (left[0] & right[0], left[1] & right[1]),
        (left[0].complement(0.0, float(SIZE)), set(range(SIZE)) - left[1]),
    ):
        assert as_set(selection) == meant
        assert is_canonical(selection)
    assert (left[0] == right[0]) == (left[1] == right[1])  # one form for one set


# --- queries -----------------------------------------------------------------------------------------------------


@st.composite
def questions(draw: st.DrawFn, domain: Domain) -> dict[str, Condition]:
    """Conditions on some attributes, of every form."""
    asked: dict[str, Condition] = {}
    for attribute in domain.attributes:
        edges = attribute.bin_edges()
        if draw(st.booleans()):
            continue
        if isinstance(attribute, Float):
            a, b = draw(st.tuples(*[st.floats(float(edges[0]), float(edges[-1]))] * 2))
            if min(a, b) < max(a, b):
                asked[attribute.name] = (min(a, b), max(a, b))
        elif isinstance(attribute, Category):
            asked[attribute.name] = [*draw(st.lists(st.sampled_from(attribute.values), min_size=1))]
        else:
            ends = sorted(draw(st.tuples(*[st.integers(int(edges[0]), int(edges[-1]) - 1)] * 2)))
            a, b = map(date.fromordinal, ends) if isinstance(attribute, Date) else ends
            asked[attribute.name] = draw(st.sampled_from([(a, b), (a, None), (None, b), a, [a, b]]))
    return asked


@st.composite
def releases(draw: st.DrawFn) -> Release:
    """A seeded release of random counts in a random domain, by either strategy."""
    domain = draw(domains(most=3))
    assume(domain.size <= 20_000)
    seed = draw(st.integers(0, 2**32 - 1))
    generator = np.random.default_rng(seed)
    counts = generator.geometric(0.3, domain.shape) * generator.integers(0, 30, domain.shape)
    strategy = draw(st.sampled_from(["cells", "dpcube"]))
    made = experiment(counts, epsilon="1/2", strategy=strategy, noise=SeededNoise(seed))
    return Release(domain, made.transcript, made.provenance)


@settings(deadline=None, max_examples=60)
@given(st.data(), releases())
def test_an_implicit_query_equals_its_dense_row(data: st.DataObject, release: Release) -> None:
    asked = data.draw(questions(release.domain))
    by_name = query(release.domain, None, **asked)
    dense = by_name.dense()
    assert dense.shape == release.domain.shape
    for name in release.estimates:
        cells = release.cells(name)
        scale = float(np.abs(cells).sum()) + 1
        value, exact = release.count(asked, estimate=name).value, float((cells * dense).sum())
        assert value == pytest.approx(exact, abs=1e-9 * scale)
        assert release.count(estimate=name).value == pytest.approx(float(cells.sum()), abs=1e-9 * scale)


@st.composite
def workloads(draw: st.DrawFn, shape: tuple[int, ...]) -> Workload:
    ends = [st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).map(sorted) for n in shape]
    rows = draw(st.lists(st.tuples(*ends), min_size=1, max_size=6))
    bounds = np.array(rows)
    return Workload.inclusive(shape, bounds[:, :, 0], bounds[:, :, 1])


@given(st.data(), st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple))
def test_the_matrix_of_a_workload_has_one_row_of_cells_a_query(data: st.DataObject, shape: tuple[int, ...]) -> None:
    workload = data.draw(workloads(shape))
    matrix = workload.matrix()
    assert matrix.shape == (len(workload), np.prod(shape))
    assert set(np.unique(matrix)) <= {0.0, 1.0}
    assert matrix.sum(axis=1).tolist() == workload.sizes.tolist()
    for row, low, high in zip(matrix, workload.lower, workload.upper, strict=True):
        box = row.reshape(shape)[tuple(map(slice, low, high))]
        assert box.size == box.sum() == row.sum()


@settings(deadline=None, max_examples=60)
@given(st.data(), releases())
def test_a_workload_is_answered_as_its_matrix_says(data: st.DataObject, release: Release) -> None:
    assume(release.domain.size <= 2_000)
    workload = data.draw(workloads(release.domain.shape))
    for name in release.estimates:
        cells = release.cells(name).reshape(-1)
        answers = release.answer(workload, estimate=name)
        assert len(answers) == len(workload)
        np.testing.assert_allclose(
            answers.values, workload.matrix() @ cells, rtol=0, atol=1e-9 * (float(np.abs(cells).sum()) + 1)
        )


# --- written in Python ---------------------------------------------------------------------------------------------

NAMES = {kind.__name__: kind for kind in (Integer, Float, Category, Date, Domain)}


@given(domains())
def test_repr_can_be_evaluated_and_copies_are_equal(domain: Domain) -> None:
    again = eval(repr(domain), {**NAMES, "datetime": datetime})
    assert again == domain
    assert hash(again) == hash(domain)
    assert pickle.loads(pickle.dumps(domain)) == copy.deepcopy(domain) == replace(domain) == domain


@given(attributes)
def test_an_attribute_is_what_its_fields_say(attribute: Attribute) -> None:
    declared = {field.name: getattr(attribute, field.name) for field in fields(attribute)}
    assert type(attribute)(**declared) == replace(attribute) == attribute
