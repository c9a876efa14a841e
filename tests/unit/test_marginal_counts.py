"""The gate's tables over some axes: what they hold, what they refuse before a charge, and their place in a file."""

import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcube import Release
from dpcube.core.arrays import Ints
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter, every_cell
from dpcube.core.errors import BudgetError, InputError, ReleaseFileError
from dpcube.core.gate import Gate
from dpcube.measurements import Marginal, Provenance, Transcript
from dpcube.strategies.simulated import simulated_gate
from dpcube.testing import SeededNoise, SilentNoise
from forge import DOMAIN, Change, file_of, forged, halves, make_release_of

# Not square, no two counts alike, and no two tables over it alike.
CUBE: Ints = np.arange(24).reshape(2, 3, 4) ** 3
ALL_AXES = [axes for many in (1, 2, 3) for axes in itertools.combinations(range(3), many)]


def silent(exact: Ints) -> NoisyCounter:
    return Gate(exact, Fraction(1), noise=SilentNoise())


def simulated(exact: Ints) -> NoisyCounter:
    """With so little noise that it is none but once in exp(99) times."""
    return simulated_gate(exact, Fraction(100), seed=1)


COUNTERS = pytest.mark.parametrize("make", [silent, simulated])


@COUNTERS
@pytest.mark.parametrize("axes", ALL_AXES, ids=str)
def test_a_table_holds_the_count_of_all_cells_with_its_indices(make: Any, axes: tuple[int, ...]) -> None:
    table = make(CUBE).marginal(axes, BUDGET_UNITS)
    expected = np.zeros([CUBE.shape[axis] for axis in axes], np.int64)
    for cell in np.ndindex(CUBE.shape):
        expected[tuple(cell[axis] for axis in axes)] += CUBE[cell]
    assert (table.dtype, table.shape) == (np.int64, expected.shape)
    assert table.flags.c_contiguous
    np.testing.assert_array_equal(table, expected)


def test_a_simulated_table_has_the_noise_of_as_many_cells() -> None:
    cube = np.arange(600).reshape(20, 15, 2)
    one, other = (simulated_gate(exact, Fraction(1, 9), seed=7) for exact in (cube, cube.sum(axis=2)))
    noisy = one.marginal((0, 1), BUDGET_UNITS // 2)
    np.testing.assert_array_equal(noisy, every_cell(other, BUDGET_UNITS // 2))
    assert (noisy != cube.sum(axis=2)).mean() > 0.9


def test_a_table_is_not_the_array_that_the_gate_holds() -> None:
    exact = CUBE.copy()
    gate = silent(exact)
    for axes in ALL_AXES:
        gate.marginal(axes, 1)[...] = -1
    np.testing.assert_array_equal(exact, CUBE)


def test_no_sum_wraps_around() -> None:
    """All that the sources let through: counts that add up to 2^63 - 1."""
    most = np.full((2, 4), (2**63 - 1) // 8)
    assert silent(most).marginal((0,), 1).tolist() == [4 * ((2**63 - 1) // 8)] * 2
    one = np.array([[2**63 - 1, 0], [0, 0]])
    assert silent(one).marginal((1,), 1).tolist() == [2**63 - 1, 0]


class Lying(int):
    """A whole number that is not what it says."""


NO_AXES: list[Any] = [
    (),
    (3,),
    (-1,),
    (0, 3),
    (1, 0),
    (0, 0),
    (0, 1, 2, 2),
    [0],
    {0},
    0,
    None,
    "0",
    np.array([0]),
    range(1),
    (0.0,),
    (True,),
    (Lying(0),),
    (np.int64(0),),
    (None,),
    ("0",),
    ((0,),),
    (float("nan"),),
    (10**30,),
]


@COUNTERS
@pytest.mark.parametrize("axes", NO_AXES, ids=repr)
def test_what_is_no_axes_is_refused_before_a_charge(make: Any, axes: Any) -> None:
    counter = make(CUBE)
    with pytest.raises(InputError, match=r"one or more of the axes 0 to 2 of the cube, ascending and each once"):
        counter.marginal(axes, BUDGET_UNITS)
    counter.marginal((0,), BUDGET_UNITS)  # nothing was charged


NO_UNITS: list[Any] = [0, -1, BUDGET_UNITS + 1, 2**200, float("nan"), float("inf"), 0.5, 1.0, None, "1"]
NO_UNITS += [Fraction(1, 2), np.float64("nan"), np.array([1]), np.array([1, 1])]


@COUNTERS
@pytest.mark.parametrize("units", NO_UNITS, ids=repr)
def test_what_is_no_number_of_units_is_refused_and_charges_nothing(make: Any, units: Any) -> None:
    """NaN was charged once: what is left was NaN then, and every later call was granted."""
    counter = make(CUBE)
    with pytest.raises(BudgetError):
        counter.marginal((0, 2), units)
    with pytest.raises(BudgetError):
        every_cell(counter, units)
    counter.marginal((1,), BUDGET_UNITS)
    with pytest.raises(BudgetError, match="nothing was drawn"):
        counter.marginal((1,), 1)


# In a file.

QUARTER = BUDGET_UNITS // 4
ASKED: list[tuple[tuple[int, ...], int]] = [((0,), QUARTER), ((0, 1), QUARTER), ((1,), 2 * QUARTER)]


def counted(epsilon: Fraction, *, max_rows: int) -> Release:
    """A release of tables that a gate counted, with all of the budget."""
    gate = Gate(np.arange(20).reshape(DOMAIN.shape), epsilon, max_rows=max_rows, noise=SeededNoise(4))
    measured = tuple(Marginal(axes, gate.marginal(axes, units), units) for axes, units in ASKED)
    made_by = Provenance("tables", epsilon, "dpcube test", {}, private=False, unit="who", max_rows=max_rows)
    return Release(DOMAIN, Transcript(gate.shape, gate.epsilon_per_unit, measured), made_by)


@pytest.mark.parametrize("max_rows", [1, 3])
def test_what_the_gate_counts_goes_into_a_file_and_comes_back(tmp_path: Path, max_rows: int) -> None:
    release = counted(Fraction(1, 2), max_rows=max_rows)
    release.save(tmp_path / "a.dpcube")
    back = Release.open(tmp_path / "a.dpcube")
    assert back.digest == release.digest
    assert back.transcript.most_charged() == BUDGET_UNITS
    pairs = zip(back.transcript.measurements, release.transcript.measurements, strict=True)
    for (one, other), (axes, units) in zip(pairs, ASKED, strict=True):
        assert isinstance(one, Marginal)
        assert isinstance(other, Marginal)
        assert (one.axes, one.units) == (axes, units)
        np.testing.assert_array_equal(one.counts, other.counts)


def refused(place: Path, content: bytes) -> str:
    (place / "bad.dpcube").write_bytes(content)
    with pytest.raises(ReleaseFileError) as caught:
        Release.open(place / "bad.dpcube")
    return str(caught.value)


def update(number: int, **facts: object) -> Change:
    return lambda manifest: manifest["measurements"][number].update(facts)


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("max_rows", [1, 3])
def test_a_unit_more_than_the_budget_in_any_table_is_refused(tmp_path: Path, max_rows: int, number: int) -> None:
    """The units of all tables add up in every cell."""
    whole = file_of(counted(Fraction(1, 2), max_rows=max_rows))
    line = refused(tmp_path, forged(whole, update(number, units=ASKED[number][1] + 1)))
    assert "what it measured costs more than the epsilon 1/2 it claims" in line


def test_the_units_of_tables_are_added_to_those_of_the_dearest_box(tmp_path: Path) -> None:
    boxes, table = halves(0, 2, units=(QUARTER, 2 * QUARTER)), Marginal((0,), np.arange(5), QUARTER)
    whole = file_of(make_release_of(table, boxes, table))
    (tmp_path / "good.dpcube").write_bytes(whole)
    assert Release.open(tmp_path / "good.dpcube").transcript.most_charged() == BUDGET_UNITS
    for number in (0, 2):
        assert "costs more than" in refused(tmp_path, forged(whole, update(number, units=QUARTER + 1)))


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"units": 0}, "measured with 1 to"),
        ({"units": -1}, "measured with 1 to"),
        ({"units": BUDGET_UNITS + 1}, "measured with 1 to"),
        ({"axes": [2]}, "among the 2 axes"),
        ({"axes": [-1]}, "among the 2 axes"),
        ({"axes": [1]}, "the shape it should"),
        ({"axes": []}, "the shape it should"),
    ],
    ids=str,
)
def test_a_table_that_says_what_cannot_be_is_refused(tmp_path: Path, facts: dict[str, object], reason: str) -> None:
    assert reason in refused(tmp_path, forged(file_of(counted(Fraction(1), max_rows=1)), update(0, **facts)))


@pytest.mark.parametrize("many", [1, 4, 6])
def test_a_table_of_more_or_fewer_counts_than_its_axes_have_is_refused(tmp_path: Path, many: int) -> None:
    whole = file_of(counted(Fraction(1), max_rows=1))
    assert "the shape it should" in refused(tmp_path, forged(whole, **{"1.counts": np.arange(many)}))
