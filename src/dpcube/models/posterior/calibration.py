"""How much more a posterior errs than it states, estimated on the release itself by probing it with simulated noise.

*Probes.* A posterior is compared with what its counts say without any prior (least squares), and with how far noise of
the known law moves the two (`probed`).

*One factor for all errors* (`calibrated_splits`; the estimate `posterior`). A posterior takes its prior for true and
its splits for independent. Where the table is otherwise, its errors exceed the variances it states, most where many
splits are wrong the same way. For a range, let p be its posterior answer and u a linear unbiased one. Then

    E (p - truth)^2  =  E (p - u)^2 - var(u) + 2 cov(p, u),

and the covariance is seen by probing: add noise of the known law to the counts and see how p and u move (Stein's
identity; noise is taken for normal). One range says next to nothing, so the excess over the stated variance is pooled
over many ranges, each weighted by 1/var(u), and taken one standard error high, since confidence intervals must hold
when it is unlucky. What is added to a stated variance is in proportion to the variance that the measured counts alone
would leave it: an excess is most often of counts that were taken for surely nothing.

*One factor for each number of attributes* (`learnt_biases`; the default). A posterior states the error of a sum as if
those of its boxes were independent. Over thousands of nearly empty boxes they are not: they move together with the
noise, and are off the same way. Both show in the release, for each number of asked attributes, on the cells of some
tables. Probes move the posterior's answers: the variance of an answer cannot be less than what noise makes of it, so
the squared errors o that it states are raised by the mean ratio of the two. And of what it is apart from least squares,
the mean square beyond the noise v of that is bias: a^2 - v is fitted by

    BIAS o + beyond geometric_middle(o, v),

by least squares over tables (the variance of a^2 is about (v + o)^2), one standard error high, as probes differ from
each other. The bias of each single question is then estimated by `errors/biases.py`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from dpcube.core.arrays import Floats
from dpcube.models.errors.axis_weights import everything
from dpcube.models.errors.biases import BIAS, Biases, geometric_middle
from dpcube.models.errors.parts import evenly_placed_ranges, fixed_normals
from dpcube.models.errors.walks import node_sums, split_sums
from dpcube.models.least_squares_tree import linear_totals
from dpcube.models.posterior.inference import Posterior, Whole, infer
from dpcube.queries import Workload

PROBES, FEWEST_PROBES = 8, 2
PROBED_COUNTS = 2**20
"""Probes times counts stay about below this: a larger tree is more informative with each probe."""
DERIVATIVE_STEP = 0.5
"""Noise of a probe in units of the noise that is there: small beside what it probes, large beside rounding."""


def number_of_probes(counts: int) -> int:
    """Return how often so many counts are probed: each probe runs the estimate anew.

    >>> number_of_probes(1000), number_of_probes(300_000), number_of_probes(10**8)
    (8, 3, 2)
    """
    return max(FEWEST_PROBES, min(PROBES, PROBED_COUNTS // counts))


def measured_calibration(
    apart: Floats, *, linear_moves: Floats, moves: Floats, stated: Floats, measurement_only: Floats
) -> float:
    """Return c such that calibrated variance = stated + c x measurement-only variance, c >= 0.

    Arrays of shape (ranges,) over the pooled ranges: `apart` is what a linear unbiased estimate answers less what the
    estimate answers; `stated` and `measurement_only` are the variances that the estimate states, and that the measured
    counts would leave by themselves, without a prior. `linear_moves` and `moves`, shape (ranges, probes), are how far
    simulated noise of the known law moves the linear estimate and the estimate.
    """
    squares = linear_moves**2
    linear_variance = squares.mean(axis=1)
    covariance = (moves * linear_moves).mean(axis=1)
    told = linear_variance > 1e-9
    if not told.any():
        return 0.0
    excess = apart**2 - linear_variance + 2 * covariance - stated
    weight = 1 / linear_variance[told]
    stderr = float(np.std(weight @ squares[told], ddof=1))
    pooled, by = max(float(excess[told] @ weight) + stderr, 0.0), float(measurement_only[told] @ weight)
    return pooled / by if by > 1e-9 * pooled else 0.0  # what hardly occurs can explain nothing


_OF_WHOLE = 1000
"""Probes from this number on are of the count of the whole."""


@dataclass(frozen=True)
class Probes:
    """Totals of the nodes of a tree by least squares beside a posterior's, and how both move with the noise."""

    apart: Floats
    """The least-squares total of each node less the posterior's, shape (nodes,)."""
    linear_moves: Floats
    """How far noise of the known law, simulated anew for each probe, moves least squares: shape (nodes, probes)."""
    posterior_moves: Floats
    """How far the same noise moves the posterior, shape (nodes, probes)."""

    @property
    def columns(self) -> Floats:
        """How far the two are apart, and how far noise alone takes them apart in each probe: (nodes, 1 + probes)."""
        return np.column_stack([self.apart, self.linear_moves - self.posterior_moves])


def probed(posterior: Posterior, measured: Floats, variance: Floats, whole: Whole | None) -> Probes:
    """Infer the posterior again from its counts with some noise added, a few times (`number_of_probes`)."""
    tree = posterior.tree
    deviation = np.sqrt(np.where(np.isfinite(variance), variance, 0.0))
    probes = number_of_probes(len(measured))
    linear, moved = np.empty((len(tree), probes)), np.empty((len(tree), probes))
    for number in range(probes):
        noise = deviation * fixed_normals(len(measured), number)
        linear[:, number] = linear_totals(tree, noise, variance)
        found = infer(
            tree, measured + DERIVATIVE_STEP * noise, variance, whole=_with_noise(whole, number), even=posterior.even
        )
        moved[:, number] = (found.totals - posterior.totals) / DERIVATIVE_STEP
    return Probes(linear_totals(tree, measured, variance) - posterior.totals, linear, moved)


def _with_noise(whole: Whole | None, number: int) -> Whole | None:
    """Return the count of the whole with noise of its own: what it shares with the nodes' is left out."""
    if whole is None:
        return None
    noise = math.sqrt(whole.variance) * float(fixed_normals(1, _OF_WHOLE + number)[0])
    return whole._replace(total=whole.total + DERIVATIVE_STEP * noise)


def calibrated_splits(posterior: Posterior, probes: Probes) -> Floats:
    """Return the variance of the split below each node, raised by what the posterior's errors exceed it by.

    The result is a function of the release alone.
    """
    tree = posterior.tree
    ranges = everything(tree.shape, posterior.prefix, posterior.start).inside(evenly_placed_ranges(tree.shape))

    def stated(splits: Floats, of_total: float) -> Floats:
        return split_sums(tree, posterior.totals, splits, posterior.uneven, ranges, of_total=of_total)[:, 1]

    sums = node_sums(tree, np.column_stack([probes.apart, probes.linear_moves, probes.posterior_moves]), ranges)
    linear_moves, moves = np.split(sums[:, 1:], 2, axis=1)
    calibration = measured_calibration(
        sums[:, 0],
        linear_moves=linear_moves,
        moves=moves,
        stated=stated(posterior.splits, float(posterior.variances[0])),
        measurement_only=stated(posterior.measurement_only_splits, 0.0),
    )
    return posterior.splits + calibration * posterior.measurement_only_splits


FEWEST_ATTRIBUTES = 6
"""With fewer, intervals are not calibrated: estimates from few tables would widen them by chance."""
MAX_CALIBRATED_ATTRIBUTES = 4
"""Queries on more attributes are assumed to have the errors of those on so many."""
TABLES, CELLS = 8, 8
"""Marginals that are probed for each number of attributes, and cells of each."""


def learnt_biases(
    shape: tuple[int, ...],
    least: float,
    taken: Callable[[Workload], tuple[Floats, Floats]],
    own_squares: Callable[[Workload], Floats],
) -> Biases:
    """Return how biases are judged, given the noise of the surest count.

    `taken` returns of ranges what they take of `Probes.columns` and of its `posterior_moves`, each of shape (ranges,
    columns), `own_squares` the squared errors that the posterior states.
    """
    several = [axis for axis, extent in enumerate(shape) if extent > 1]
    most = min(MAX_CALIBRATED_ATTRIBUTES, len(several) - 1) if len(several) >= FEWEST_ATTRIBUTES else 0
    raised, beyond = [1.0], [0.0]
    for number in range(1, most + 1):
        cells = [some_cells(shape, axes) for axes in tables_over(several, number)]
        tables = [_Table(*taken(of_table), np.maximum(own_squares(of_table), 1e-9)) for of_table in cells]
        raised.append(max(float(np.mean([table.moved for table in tables])), 1.0))
        beyond.append(_beyond([table._replace(own=raised[-1] * table.own) for table in tables]))
    return Biases(least, tuple(raised), tuple(beyond))


class _Table(NamedTuple):
    """Some cells of a table: what they take of `Probes.columns` and of its `posterior_moves`, and squares stated."""

    apart: Floats
    moves: Floats
    own: Floats

    @property
    def moved(self) -> float:
        """By what part of the squares stated probes move the answers."""
        return float(np.mean(self.moves**2) / np.mean(self.own))


def _beyond(tables: list[_Table]) -> float:
    excess, units, by_probe = 0.0, 0.0, np.zeros(1)
    for table in tables:
        noises = table.apart[:, 1:] ** 2
        noise = noises.mean(axis=1)
        unit = geometric_middle(table.own, noise)
        weight = unit.mean() / (noise + table.own + unit).mean() ** 2
        excess += weight * float(np.sum(table.apart[:, 0] ** 2 - noise - BIAS * table.own))
        units += weight * float(np.sum(unit))
        by_probe = by_probe + weight * noises.sum(axis=0)
    return max((excess + float(np.std(by_probe, ddof=1))) / units, 0.0) if units > 0 else 0.0


def some_cells(shape: tuple[int, ...], axes: tuple[int, ...]) -> Workload:
    """Return the ranges that some cells of a table over some axes count, at regular places."""
    extents = tuple(shape[axis] for axis in axes)
    whole = math.prod(extents)
    places = np.unravel_index(np.linspace(0, whole - 1, min(whole, CELLS)).astype(np.int64), extents)
    lower = np.zeros((len(places[0]), len(shape)), np.int64)
    upper = np.tile(np.array(shape, np.int64), (len(places[0]), 1))
    lower[:, axes] = np.stack(places, axis=1)
    upper[:, axes] = lower[:, axes] + 1
    return Workload(shape, lower, upper)


def tables_over(axes: list[int], number: int) -> list[tuple[int, ...]]:
    """Return some tables over so many of these axes, at regular places of the list.

    >>> tables_over([0, 2, 3], 2)
    [(0, 2), (0, 3), (2, 3)]
    """
    every = list(combinations(axes, number))
    return [every[at] for at in np.linspace(0, len(every) - 1, min(len(every), TABLES)).astype(np.int64)]
