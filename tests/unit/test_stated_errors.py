"""The errors that estimates state, against plain re-computations of the formulas: five per cent off is seen."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

from dpcube.core.arrays import Floats
from dpcube.models.errors.nonuniformity import PROBES, judge
from dpcube.models.errors.parts import evenly_placed_ranges, fixed_normals
from dpcube.models.posterior import Posterior, PosteriorEstimate, infer
from dpcube.queries.random_ranges import random_ranges
from dpcube.queries.workload_model import MIXED, WorkloadModel
from dpcube.trees.growth import grow
from dpcube.trees.halving import halve
from dpcube.trees.tree import BoxTree


def halved(shape: tuple[int, ...], cuts: int) -> BoxTree:
    order = WorkloadModel(shape, (MIXED,) * len(shape)).cut_order()
    return halve(BoxTree.uncut(shape), np.zeros(1, np.int64), cuts, order).tree


def inferred(tree: BoxTree, *, seed: int = 3) -> Posterior:
    generator = np.random.default_rng(seed)
    measured = np.where(tree.is_leaf, generator.gamma(2.0, 40.0, len(tree)), 0.0)
    variance = np.where(tree.is_leaf, generator.uniform(20.0, 90.0, len(tree)), np.inf)
    measured[0], variance[0] = measured.sum(), 300.0
    return infer(tree, measured, variance)


def test_what_an_uncut_leaf_may_hide_follows_from_its_prior() -> None:
    """The share of a half is 0, 1, anything, or within 0.3 of a half; then rows fall like a binomial's."""
    tree = halved((8, 4), 2)
    posterior = inferred(tree)
    depth = np.zeros(len(tree), np.int64)
    for node in range(1, len(tree)):
        depth[node] = depth[tree.parent[node]] + 1
    for node in tree.leaves.tolist():
        nothing, everything, anything, near = posterior.weights[min(depth[node], len(posterior.weights) - 1)]
        uniform = quad(lambda share: (share - 0.5) ** 2, 0, 1)[0]
        share_variance = (nothing + everything) * 0.5**2 + anything * uniform + near * 0.3**2
        total, square = posterior.totals[node], posterior.totals[node] ** 2 + posterior.variances[node]
        # Variance of a half: of T times the share, and of a binomial of T rows given the share.
        half = square * share_variance + total * (0.25 - share_variance)
        assert posterior.uneven[node] * 0.25 == pytest.approx(half, rel=1e-9)
    assert (posterior.uneven[~tree.is_leaf] == 0).all()
    assert (inferred(halved((4, 2), 3)).uneven == 0).all()  # single cells hide nothing


def test_a_split_by_the_counts_alone_has_the_variance_of_least_squares() -> None:
    """Two counts whose sum is known: the left one has variance ab/(a + b), and never more than its total allows."""
    tree = halved((8, 4), 3)
    posterior = inferred(tree)
    capped = 0
    for node in np.flatnonzero(~tree.is_leaf).tolist():
        left, right = node + 1, int(tree.end[node + 1])
        a, b = posterior.pooled[left], posterior.pooled[right]
        design = np.array([[1 / math.sqrt(a)], [-1 / math.sqrt(b)]])  # of x in (x, T - x), each weighted
        free = float(np.linalg.inv(design.T @ design)[0, 0])
        most = (posterior.totals[node] ** 2 + posterior.pooled[node]) / 4
        capped += most < free
        assert posterior.measurement_only_splits[node] == pytest.approx(min(free, most), rel=1e-9)
    assert capped < len(tree.leaves) - 1
    small = infer(tree, np.zeros(len(tree)), np.where(tree.is_leaf, 50.0, np.inf))
    inner = ~tree.is_leaf
    np.testing.assert_allclose(
        small.measurement_only_splits[inner] <= (small.totals**2 + small.pooled)[inner] / 4 + 1e-12, 1
    )


def test_the_variance_of_a_total_goes_down_the_tree() -> None:
    """A half is its share of the total: its variance is that of the split and, squared, its share of the total's."""
    tree = halved((8, 4), 4)
    posterior = inferred(tree)
    for node in np.flatnonzero(~tree.is_leaf).tolist():
        for half in (node + 1, int(tree.end[node + 1])):
            kept = posterior.totals[half] / posterior.totals[node]
            expected = posterior.splits[node] + kept**2 * posterior.variances[node]
            assert posterior.variances[half] == pytest.approx(expected, rel=1e-9)


def covered(tree: BoxTree, node: int, mask: Floats, marginals: list[Floats]) -> float:
    """The part of a node's total that a mask of cells takes, spread by the marginals."""
    box = tuple(slice(low, high) for low, high in zip(tree.lower[node], tree.upper[node], strict=True))
    weights = np.outer(marginals[0][box[0]], marginals[1][box[1]])
    return float((weights * mask[box]).sum() / weights.sum())


def test_the_stated_variance_of_a_range_is_that_of_its_splits_and_of_its_total() -> None:
    """Propagated by hand: each split moves rows between halves, the total moves all, in proportion."""
    tree = halved((8, 4), 5)  # down to the cells
    posterior = inferred(tree)
    measured, variance = posterior.totals, np.where(tree.is_leaf, 50.0, np.inf)
    estimate = PosteriorEstimate("balanced", posterior, measured, variance, doubting=True)
    places = zip(posterior.start.tolist(), (8, 4), strict=True)
    marginals = [np.diff(posterior.prefix[base : base + n + 1]) for base, n in places]
    ranges = random_ranges((8, 4), 12, seed=5)
    errors = estimate.errors(ranges)
    for k, (low, high) in enumerate(zip(ranges.lower, ranges.upper, strict=True)):
        mask = np.zeros((8, 4))
        mask[low[0] : high[0], low[1] : high[1]] = 1
        stated = posterior.variances[0] * covered(tree, 0, mask, marginals) ** 2
        for node in np.flatnonzero(~tree.is_leaf).tolist():
            halves = [covered(tree, half, mask, marginals) for half in (node + 1, int(tree.end[node + 1]))]
            stated += posterior.splits[node] * (halves[0] - halves[1]) ** 2
        cells = [estimate._spread(totals) for totals in estimate._probes.columns.T]
        apart, *moves = (float((mask * each).sum()) for each in cells)
        noise = sum(move**2 for move in moves) / len(moves)
        told, likely = [], []
        for part, prior in (
            (0.9, 1.25 * max(stated, 50.0)),
            (0.1, 50 * max(stated, 50.0)),
        ):
            believed = prior / (prior + noise)
            told.append(believed * noise + (believed * apart) ** 2)
            likely.append(part * math.exp(-(apart**2) / (2 * (prior + noise))) / math.sqrt(prior + noise))
        stated += float(np.average(told, weights=likely))
        assert errors.noise_variances[k] == pytest.approx(stated, rel=1e-6)
        assert errors.nonuniformity_squares[k] == pytest.approx(0.0, abs=1e-9)


def test_boxes_are_judged_by_plain_sums_over_ranges() -> None:
    """The same number by loops: the mean over ranges of (deviation inside)^2 / cut, less the noise's."""
    generator = np.random.default_rng(8)
    cells = generator.poisson(np.add.outer(np.arange(9) * 6, np.arange(7) * 3)).astype(np.int64)
    tree = grow(cells, threshold=60.0)
    judges = cells + np.rint(generator.laplace(scale=3.0, size=cells.shape)).astype(np.int64)
    found = judge(tree, judges, 18.0)
    assert found is not None
    ranges = evenly_placed_ranges((9, 7))
    leaves = tree.leaf_boxes

    def pooled(values: Floats) -> Floats:
        rows = []
        for low, high in zip(ranges.lower, ranges.upper, strict=True):
            inside = np.zeros((9, 7), bool)
            inside[low[0] : high[0], low[1] : high[1]] = True
            off = cut = 0.0
            for box in range(len(leaves)):
                bounds = tuple(slice(a, b) for a, b in zip(leaves.lower[box], leaves.upper[box], strict=True))
                taken, size = int(inside[bounds].sum()), int(leaves.sizes[box])
                off += float(values[bounds][inside[bounds]].sum()) - taken / size * float(values[bounds].sum())
                cut += taken - taken**2 / size
            if cut > 1e-9:
                rows.append((cut, off**2 / cut))
        ordered = np.array(sorted(rows, key=lambda row: round(row[0], 6)))  # alike: the first first
        halves = np.array_split(ordered, 2)
        return np.array([[np.log(half[:, 0]).mean(), half[:, 1].mean()] for half in halves])

    judged = pooled(judges.astype(np.float64))
    silent = [pooled(fixed_normals(judges.size, n).reshape(9, 7))[:, 1] for n in range(1, PROBES + 1)]
    np.testing.assert_allclose(found[0], judged[:, 0], rtol=1e-9)
    np.testing.assert_allclose(found[1], judged[:, 1] - 18.0, rtol=1e-9)
    np.testing.assert_allclose(found[2], 18.0 * np.std(silent, axis=0, ddof=1), rtol=1e-9)


def test_halves_may_come_in_either_order() -> None:
    """A file may hold the upper half of a box first; the posterior of the same boxes and counts is the same."""
    boxes = [((0, 0), (4, 2)), ((0, 0), (2, 2)), ((2, 0), (4, 2)), ((2, 0), (4, 1)), ((2, 1), (4, 2))]
    counts = np.array([100.0, 70.0, 35.0, 30.0, 6.0])
    answers = []
    for order, parent in (([0, 1, 2, 3, 4], [-1, 0, 0, 2, 2]), ([0, 2, 4, 3, 1], [-1, 0, 1, 1, 0])):
        lower, upper = (np.array([boxes[box][end] for box in order]) for end in (0, 1))
        tree = BoxTree((4, 2), lower, upper, np.array(parent))
        measured, variance = counts[order], np.full(5, 9.0)
        estimate = PosteriorEstimate("posterior", infer(tree, measured, variance), measured, variance)
        ranges = random_ranges((4, 2), 20, seed=1)
        answers.append((estimate.values(ranges), estimate.posterior.splits.sum(), estimate.cells()))
    for one, other in zip(*answers, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
