"""How much more sums over many attributes err than a posterior states: learnt from what probes and counts show."""

import numpy as np
import pytest

from dependent_rows import all_cells, dependent_counts
from dpcube.core.arrays import Floats
from dpcube.models import estimate
from dpcube.models.errors.axis_weights import cells_taken_of_first, number_asked
from dpcube.models.errors.biases import BIAS, MAX_NOISE, Biases, bias_squares, geometric_middle
from dpcube.models.marginals import BalancedEstimate
from dpcube.models.marginals.balanced import cells_of_table
from dpcube.models.posterior.calibration import CELLS, TABLES, learnt_biases, some_cells, tables_over
from dpcube.queries import CountingQueries, Workload

SHAPE = (3, 1, 4, 5, 2, 3, 2)
PROBES = 8


def test_errors_are_raised_by_how_many_attributes_are_asked_of() -> None:
    biases = Biases(2.0, (1.0, 3.0, 2.0), (0.0, 0.5, 0.25))
    apart = np.array([[7.0, 3.0, -3.0]] * 5)
    variances, within = np.full(5, 4.0), np.full(5, 1.0)
    found = biases.added(variances, within, apart, asked=np.array([0, 1, 2, 3, 9]), periods=np.full(5, 7.0))
    for told, raised, beyond in zip(found, (1.0, 3.0, 2.0, 2.0, 2.0), (0.0, 0.5, 0.25, 0.25, 0.25), strict=True):
        own = np.array([5.0 * raised])
        by_hand = own - 1.0 + bias_squares(apart[:1], own, least=2.0, beyond=beyond)
        assert told == pytest.approx(float(by_hand[0]))
    assert found[1] > found[2] > found[0]


def test_a_total_of_counts_that_no_noise_chose_has_no_bias() -> None:
    apart, given = np.array([[70.0, 3.0, -3.0]] * 2), (np.full(2, 4.0), np.full(2, 1.0))
    more = {"asked": np.array([0, 1]), "periods": np.ones(2)}
    biased, sure = (Biases(2.0, of_total=of_total).added(*given, apart, **more) for of_total in (True, False))
    assert sure[0] == 4.0 < biased[0]
    assert sure[1] == biased[1]


@pytest.mark.parametrize("probes", [0, 2])
def test_biases_of_periods_add_up_themselves(probes: int) -> None:
    """Twelve biases of deviation d and one sign make one of 12 d, whose square is 12 times the sum of theirs."""
    apart = np.array([[70.0, 30.0, -30.0]])[:, : 1 + probes if probes else 0]
    one, others = np.full(1, 4.0), np.zeros(1)
    more = {"asked": np.array([2]), "periods": np.array([12.0])}
    found = Biases(0.0, periods=True).added(one, others, apart, **more)
    assert found == pytest.approx(4.0 + bias_squares(apart, one, least=0.0, alike=12.0))
    assert found > Biases(0.0).added(one, others, apart, **more)
    if not probes:
        assert found == pytest.approx(4.0 + BIAS * 12 * 4.0)


def test_a_question_takes_as_many_periods_as_have_weight() -> None:
    weights = (np.array([[1.0] * 4, [0, 2.0, 2.0, 0], [3.0, 0, 0, 0], [0.0] * 4, [1.0, 1.0, -1.0, 0]]), np.ones((1, 2)))
    queries = CountingQueries(weights, np.array([[k, 0] for k in range(5)]))
    np.testing.assert_allclose(cells_taken_of_first(queries), [4, 2, 1, 1, 3])


def test_what_is_beyond_lies_between_what_is_stated_and_its_noise() -> None:
    """Stated 4 and noise of 36: between is 12; a prior of 5 + 2 * 12 of which noise hides 36 of 65."""
    told = bias_squares(np.array([[6.0, 6.0, -6.0]]), np.array([4.0]), least=0.0, beyond=2.0)
    ordinary = BIAS * 4 + 24
    believed = ordinary / (ordinary + 36)
    assert told > believed * 36 + (believed * 6) ** 2
    assert told < 1.5 * (believed * 36 + (believed * 6) ** 2)
    np.testing.assert_allclose(
        geometric_middle(np.array([4.0, 4.0]), np.array([36.0, 1e9])), [12.0, 4.0 * MAX_NOISE**0.5]
    )


def test_an_attribute_is_asked_of_where_weights_vary() -> None:
    weights = (np.array([[1.0, 1.0], [0.5, 0.5], [0.0, 1.0]]), np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 1.0]]))
    queries = CountingQueries(weights, np.array([[0, 1], [1, 1], [2, 1], [2, 0], [1, 0]]))
    np.testing.assert_array_equal(number_asked(queries), [0, 0, 1, 2, 1])


def test_some_cells_are_cells_of_the_table() -> None:
    cells = some_cells(SHAPE, (2, 3))
    every = cells_of_table(SHAPE, (2, 3))
    known = {tuple(row) for row in np.hstack([every.lower, every.upper]).tolist()}
    found = {tuple(row) for row in np.hstack([cells.lower, cells.upper]).tolist()}
    assert len(found) == CELLS
    assert found <= known
    assert len(some_cells(SHAPE, (4,))) == 2
    assert len(set(tables_over(list(range(9)), 3))) == TABLES


def noise_of(cells: Workload) -> Floats:
    """Eight probes of each range, always the same, all of a variance of about 400."""
    rows = [[*low, *high] for low, high in zip(cells.lower.tolist(), cells.upper.tolist(), strict=True)]
    return np.stack([20 * np.random.default_rng(row).normal(size=PROBES) for row in rows])


def learnt(shape: tuple[int, ...], *, moved: float, bias: float) -> Biases:
    """What is learnt if posteriors state 25, noise moves them by `moved` times as much, and all are off by `bias`."""

    def taken(cells: Workload) -> tuple[Floats, Floats]:
        noise = noise_of(cells)
        return np.column_stack([np.sqrt(np.mean(noise**2, axis=1) + bias**2), noise]), np.sqrt(moved * 25.0) + 0 * noise

    return learnt_biases(shape, 2.0, taken, lambda cells: np.full(len(cells), 25.0))


def test_what_noise_moves_is_not_stated_as_less() -> None:
    assert learnt(SHAPE, moved=3.0, bias=0.0).raised == pytest.approx((1.0, 3.0, 3.0, 3.0, 3.0))
    assert learnt(SHAPE, moved=0.5, bias=0.0).raised == (1.0, 1.0, 1.0, 1.0, 1.0)


def test_biases_are_found_one_standard_error_high() -> None:
    """Off by 40 each: 1,600 is 1.25 * 25 and beyond * sqrt(25 * 400) = 100 of each, so about 15.7."""
    biases = learnt(SHAPE, moved=1.0, bias=40.0)
    assert biases.beyond[0] == 0.0
    assert np.all(np.array(biases.beyond[1:]) > 15.0)
    assert np.all(np.array(biases.beyond[1:]) < 19.0)
    none = learnt(SHAPE, moved=1.0, bias=0.0).beyond[3]  # the error of a mean of 64 squares of 400, less what is BIAS
    assert none == pytest.approx((400 * (2 / 64) ** 0.5 - BIAS * 25) / 100, abs=0.4)


def test_attributes_of_one_value_and_cubes_of_few_attributes_learn_nothing() -> None:
    assert learnt((3, 1, 4, 2, 2, 2, 1), moved=3.0, bias=40.0) == Biases(2.0)
    assert learnt((300,), moved=3.0, bias=40.0) == Biases(2.0)
    assert len(learnt((3, 2, 4, 2, 2, 2), moved=3.0, bias=40.0).raised) == 5


def test_a_table_of_which_next_to_nothing_was_counted_tells_next_to_nothing() -> None:
    """Its noise is a hundred times that of the others, and happens to be half as large again as probes say."""

    def taken(cells: Workload) -> tuple[Floats, Floats]:
        vague = cells.upper[0, 0] - cells.lower[0, 0] < SHAPE[0]
        noise = noise_of(cells) * (100.0 if vague else 1.0)
        apart = np.sqrt(np.mean(noise**2, axis=1) * (1.5 if vague else 1.0))
        return np.column_stack([apart, noise]), np.zeros_like(noise)

    found = learnt_biases(SHAPE, 2.0, taken, lambda cells: np.full(len(cells), 25.0))
    assert max(found.beyond) < 1.0


def held(found: BalancedEstimate, table: Floats) -> float:
    """The part of 95% intervals of all 2-way sums that hold."""
    inside = []
    for first in range(table.ndim):
        for second in range(first):
            cells = cells_of_table(table.shape, (second, first))
            truth = table.sum(tuple(axis for axis in range(table.ndim) if axis not in (first, second))).reshape(-1)
            errors = found.errors(cells)
            stated = np.sqrt(errors.noise_variances + errors.nonuniformity_squares)
            inside.append(np.abs(found.values(cells) - truth) <= 1.96 * stated + 0.5)
    return float(np.mean(np.concatenate(inside)))


@pytest.mark.slow
def test_intervals_of_pairs_hold_on_nine_attributes_because_this_is_learnt() -> None:
    """The twin states errors as a posterior does that has learnt nothing from its release."""
    now, twin = [], []
    for seed in range(3):
        table = dependent_counts(9, 150_000, seed)
        found = estimate(all_cells(table, 3, seed))
        assert isinstance(found, BalancedEstimate)
        now.append(held(found, table))
        assert found.tree.biases is not None
        vars(found.tree)["biases"] = Biases(found.tree.biases.least)
        twin.append(held(found, table))
    assert np.mean(now) > 0.94, now
    assert np.mean(twin) < 0.93, twin
