"""Marginals of a pilot that a model has not seen: they tell the errors of modelled answers."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from dpcube.core.arrays import Ints
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.exact import SparseRows
from dpcube.core.gate import Gate
from dpcube.measurements import Marginal, Transcript
from dpcube.models import available, estimate
from dpcube.models.cell_sums import range_sums, summed_area_table
from dpcube.models.cuboids import CuboidsEstimate
from dpcube.models.cuboids.departures import Departure, departure_from
from dpcube.models.cuboids.first_tables import counts_every_attribute
from dpcube.models.cuboids.fitting import CountedTable
from dpcube.models.cuboids.stored import stored_cuboids
from dpcube.queries.random_ranges import random_ranges
from dpcube.release.answer import Answers
from dpcube.strategies import Cuboids
from dpcube.testing import SeededNoise

SHAPE, ROWS = (12, 10, 8, 4), 30_000
PAIRS = list(combinations(range(4), 2))


def rows_of(depends: float) -> Ints:
    """Counts of rows: the second attribute follows the first, and others follow these with some probability."""
    random = np.random.default_rng(3)
    columns = [np.minimum(random.geometric(0.3, ROWS) - 1, 11)]
    for side, follows in ((10, 0.8), (8, depends), (4, depends)):
        columns.append(np.where(random.random(ROWS) < follows, columns[0] % side, random.integers(0, side, ROWS)))
    return np.bincount(np.ravel_multi_index(columns, SHAPE), minlength=int(np.prod(SHAPE))).reshape(SHAPE)


def released(counts: Ints, epsilon: Fraction, seed: int, *, cuboids: bool = True) -> Transcript:
    """A release by cuboids, and beside it a pilot of all pairs with a tenth of epsilon together."""
    rows = SparseRows(SHAPE, np.nonzero(counts), counts[np.nonzero(counts)])
    pilot, gate = (Gate(rows, epsilon, noise=SeededNoise(2 * seed + of)) for of in (0, 1))
    units = BUDGET_UNITS // 10 // len(PAIRS)
    pairs = [Marginal(pair, pilot.marginal(pair, units), units) for pair in PAIRS]
    strategy = Cuboids() if cuboids else replace(Cuboids(), named=((0, 1),))
    transcript = strategy.run(gate)
    return replace(transcript, measurements=(*transcript.measurements[:4], *pairs, *transcript.measurements[4:]))


def without_pilot(transcript: Transcript) -> Transcript:
    kept = [
        one
        for one in transcript.measurements
        if not (isinstance(one, Marginal) and one.groups is None and len(one.axes) == 2)
    ]
    return replace(transcript, measurements=tuple(kept))


def model(transcript: Transcript) -> CuboidsEstimate:
    found = estimate(transcript)
    assert isinstance(found, CuboidsEstimate)
    return found


def test_the_model_sees_nothing_of_the_pilot() -> None:
    transcript = released(rows_of(0.3), Fraction(1), 1)
    assert available(transcript) == ["cuboids"]
    found, apart = model(transcript), model(without_pilot(transcript))
    assert [table.axes for table in found.pilots] == PAIRS
    assert apart.pilots == ()
    asked = random_ranges(SHAPE, 50, seed=1)
    np.testing.assert_array_equal(found.values(asked), apart.values(asked))


def test_the_smaller_of_two_upper_estimates_is_stated() -> None:
    transcript = released(rows_of(0.3), Fraction(1, 10), 1)
    found, last = model(transcript), model(without_pilot(transcript)).departure
    counted = {table.axes for table in found.chosen}
    others = [(table, found.marginal(table.axes)) for table in found.pilots if table.axes not in counted]
    assert last is not None
    assert others
    assert found.departure == departure_from(others, found.beliefs.total).least_with(last)
    assert Departure(1.0, 5.0).least_with(Departure(2.0, 3.0)) == Departure(1.0, 3.0)


def test_a_pair_that_was_counted_is_not_held_out() -> None:
    """Its departure is small whatever is left of others: the model was fitted to it."""
    transcript = released(rows_of(0.3), Fraction(1), 1, cuboids=False)
    found = model(transcript)
    assert [table.axes for table in found.chosen] == [(0, 1)]
    others = [table for table in found.pilots if table.axes != (0, 1)]
    expected = departure_from([(table, found.marginal(table.axes)) for table in others], found.beliefs.total)
    assert found.departure == expected
    assert model(without_pilot(transcript)).departure is None  # of one that was named nothing is known of others


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "depends"), [("0.1", 0.3), ("1", 0.3), ("1", 0.0)])
def test_intervals_hold_where_one_pair_was_counted(epsilon: str, depends: float) -> None:
    counts, asked, held, narrower = rows_of(depends), random_ranges(SHAPE, 300, seed=2), [], []
    exact = range_sums(summed_area_table(counts.astype(np.float64)), asked.lower, asked.upper)
    for seed in range(6):
        transcript = released(counts, Fraction(epsilon), seed, cuboids=False)
        found, bounded = model(transcript), model(without_pilot(transcript))
        answers = Answers.from_parts(found.values(asked), found.errors(asked))
        low, high = answers.interval()
        held.append(np.mean((low <= exact) & (exact <= high)))
        of_bounds = Answers.from_parts(bounded.values(asked), bounded.errors(asked)).half_width()
        narrower.append(np.median(answers.half_width() / of_bounds))
    assert np.mean(held) >= 0.93
    assert np.mean(narrower) < 1.0


def test_what_is_stored_answers_alike() -> None:
    found = model(released(rows_of(0.3), Fraction(1), 4))
    again = stored_cuboids(found.to_arrays())
    asked = random_ranges(SHAPE, 50, seed=3)
    for one, other in zip(found.errors(asked)[:2], again.errors(asked)[:2], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


def test_one_way_marginals_may_be_counted_twice_beside_a_pilot() -> None:
    transcript = released(rows_of(0.3), Fraction(1), 1)
    once = transcript.measurements
    twice = replace(transcript, measurements=(*once, *once[:4]))
    assert counts_every_attribute(twice)
    assert model(twice).ones[0].variance == pytest.approx(model(transcript).ones[0].variance / 2)
    assert not counts_every_attribute(replace(transcript, measurements=once[1:]))


def test_noise_in_which_a_departure_would_not_show_is_no_proof_of_none() -> None:
    even = np.full((4, 4), 100.0)
    noise = np.random.default_rng(1).laplace(0, 2**-0.5, (5, 4, 4))
    little, much = (
        departure_from([(CountedTable((0, 1), even + size * one, size**2), even) for one in noise], 1600.0)
        for size in (1.0, 100.0)
    )
    assert 0.0 <= little.of_cells < 0.01
    assert much.of_cells > 10.0
    apart = even + 30 * (np.indices((4, 4)).sum(axis=0) % 2 * 2 - 1)
    shown = departure_from([(CountedTable((0, 1), apart, 1.0), even)] * 5, 1600.0)
    assert shown.of_cells == pytest.approx(900 / (100 * (1 - 100 / 1600)), rel=0.05)
    assert shown.of_halves < 0.1
