"""Tables that a tree's own counts tell: sums of all noisy cells, to which a biased posterior is moved."""

import itertools
import math

import numpy as np
import pytest

from dependent_rows import all_cells, dependent_counts
from dpcube.core.arrays import Floats
from dpcube.measurements import BoxCounts
from dpcube.models import estimate
from dpcube.models.errors.parts import ErrorParts
from dpcube.models.marginals import BalancedEstimate, Components, noisy_cells
from dpcube.models.marginals.balanced import cells_of_table
from dpcube.models.marginals.components import pooled_errors, table_over
from dpcube.models.posterior import infer, whole_count
from dpcube.models.posterior.estimate import PosteriorEstimate
from dpcube.models.protocol import estimate_of_arrays
from dpcube.queries import CountingQueries
from dpcube.queries.random_ranges import random_ranges

SPARSE = (3,) * 9


def skewed(seed: int) -> Floats:
    return dependent_counts(len(SPARSE), 150_000, seed)


def tables_of(order: int) -> list[tuple[int, ...]]:
    return list(itertools.combinations(range(len(SPARSE)), order))


def test_components_of_cells_have_the_variance_of_so_many_cells() -> None:
    """A sum of n cells of variance v has n v, whatever components it is put together from."""
    shape = (4, 3, 5)
    cells = np.random.default_rng(1).normal(size=shape)
    found = Components.of_cells(cells, 2.5)
    for axes in [(), (0,), (2,), (0, 1), (1, 2)]:
        np.testing.assert_allclose(table_over(cells, axes).sum(), found.values[()])
        ranges = cells_of_table(shape, axes)
        sides = (ranges.upper - ranges.lower).astype(np.float64)
        np.testing.assert_allclose(found.question_variances(sides, sides), 2.5 * sides.prod(axis=1))
    three = random_ranges(shape, 30, seed=2)
    sides = (three.upper - three.lower).astype(np.float64)
    every = (sides < shape).all(axis=1)
    assert np.isinf(found.question_variances(sides, sides)[every]).all()
    assert every.any()


def test_cells_are_told_only_if_all_were_counted_alike() -> None:
    transcript = all_cells(skewed(1), 1, seed=1)
    boxes = transcript.boxes
    assert boxes is not None
    found = noisy_cells(boxes, transcript.epsilon_per_unit)
    assert found is not None
    cells, variance = found
    assert cells.sum() == boxes.counts.sum()
    assert cells[tuple(boxes.tree.lower[boxes.node[7]])] == boxes.counts[7]
    assert variance == pytest.approx(2 * math.exp(-1) / (1 - math.exp(-1)) ** 2)
    one_less = BoxCounts(boxes.tree, boxes.node[1:], boxes.counts[1:], boxes.units[1:])
    assert noisy_cells(one_less, transcript.epsilon_per_unit) is None
    units = boxes.units.copy()
    units[3] //= 2
    unlike = BoxCounts(boxes.tree, boxes.node, boxes.counts, units)
    assert noisy_cells(unlike, transcript.epsilon_per_unit) is None


def test_attributes_of_one_value_tell_nothing() -> None:
    """Their component has no noise and no departures: it is left out, and they are no reason to have tables."""
    found = Components.of_cells(np.random.default_rng(2).normal(size=(3, 1, 4, 2)), 2.0)
    assert [axes for axes in found.values if 1 in axes] == []
    assert (0, 2) in found.values
    sides = np.array([[1.0, 1.0, 4.0, 2.0]])
    np.testing.assert_allclose(found.question_variances(sides, sides), 2.0 * 8)
    flat = np.random.default_rng(2).integers(0, 9, (6, 1, 5)).astype(np.float64)
    assert isinstance(estimate(all_cells(flat, 1, seed=3)), PosteriorEstimate)
    assert estimate(all_cells(flat.reshape(3, 2, 1, 5), 1, seed=3)).cells().shape == (3, 2, 1, 5)


def errors_of(order: int, cells: Floats, table: Floats) -> float:
    return float(np.mean([np.abs(table_over(cells - table, axes)).mean() for axes in tables_of(order)]))


def test_a_posterior_that_its_own_counts_contradict_is_moved() -> None:
    """Of a table with most cells empty its sums are biased; plain sums are not, and single cells stay better."""
    posterior, moved, plain = np.zeros(4), np.zeros(4), np.zeros(4)
    for seed in range(3):
        table = skewed(seed)
        transcript = all_cells(table, 3, seed)
        boxes, unit = transcript.boxes, transcript.epsilon_per_unit
        assert boxes is not None
        found = estimate(transcript)
        assert isinstance(found, BalancedEstimate)
        assert (0,) in found.tables.of_tree
        measured = boxes.by_node(unit)
        tree = infer(boxes.tree, *measured, whole=whole_count(boxes, unit), even=None)
        of_tree = PosteriorEstimate("balanced", tree, *measured).cells()
        noisy = noisy_cells(boxes, unit)
        assert noisy is not None
        for made, into in ((of_tree, posterior), (found.cells(), moved), (noisy[0], plain)):
            into += [errors_of(1, made, table), errors_of(2, made, table), errors_of(3, made, table), 0.0]
            into[3] += float(np.abs(made - table).mean())
    assert (moved[:3] < 0.9 * posterior[:3]).all()
    assert moved[3] < plain[3]


def test_a_posterior_that_its_counts_bear_out_stays() -> None:
    """A table all of whose cells are clear is estimated by its counts: nothing to move."""
    table = np.random.default_rng(2).integers(500, 1500, (6, 5, 4)).astype(np.float64)
    assert isinstance(estimate(all_cells(table, 1, seed=3)), PosteriorEstimate)


def test_errors_with_the_same_noise_add_up() -> None:
    """A part w of the way: (1 - w) of the tree's error and w of the tables', in the worst case in one direction."""
    shape = (3, 4, 2)
    tables = Components.of_cells(np.zeros(shape), 2.0)
    sides = np.array([[1.0, 4.0, 2.0]])  # one bar of the first axis: 8 cells
    errors, own, factor = ErrorParts(np.array([9.0]), np.array([7.0])), np.array([4.0]), 12.0
    pooled = pooled_errors(errors, own, sides, sides, tables=tables, factors={(0,): factor})
    way = 48 / (48 + 16)
    of_tree, of_tables = (1 - way) ** 2, way**2 * 16
    assert pooled.nonuniformity_squares[0] == pytest.approx(of_tree * 7)
    expected = of_tree * (48 - 7) + of_tables + 2 * math.sqrt(of_tables * of_tree * 16)
    assert pooled.noise_variances[0] == pytest.approx(expected)
    unmoved = pooled_errors(errors, own, sides, sides, tables=tables, factors={(0,): 0.0})
    assert (unmoved.noise_variances[0], unmoved.nonuniformity_squares[0]) == (9.0, 7.0)


def test_what_is_kept_of_it_answers_as_it_does() -> None:
    found = estimate(all_cells(skewed(2), 2, seed=5))
    assert isinstance(found, BalancedEstimate)
    single = tuple(np.vstack([np.eye(extent), np.ones(extent)]) for extent in SPARSE)  # one value, or all
    asked = CountingQueries(single, np.random.default_rng(3).integers(2, 4, (40, len(SPARSE))))
    expected, parts = found.answers(asked)
    values, errors = estimate_of_arrays(found.to_arrays()).answers(asked)
    np.testing.assert_allclose(values, expected, rtol=1e-8, atol=1e-6)
    np.testing.assert_allclose(errors.noise_variances, parts.noise_variances, rtol=1e-7, atol=1e-6)
