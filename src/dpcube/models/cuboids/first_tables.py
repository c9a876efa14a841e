"""One-way marginals of a wide release, or two-way marginals of each attribute with a target, at full resolution.

They are read from the transcript. A marginal with the target, summed over the classes, is the attribute's one-way
marginal; that of the target is the mean of all of them, weighted by precision. Beside a one-way marginal of every
attribute, marginals of cells over several are those of a pilot: they are held out of the model.
"""

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.measurements import Marginal, Transcript
from dpcube.models.cuboids.fitting import CountedTable, pooled
from dpcube.models.cuboids.junction import CliqueAxes
from dpcube.noise import noise_variances


def counted_table(transcript: Transcript, one: Marginal) -> CountedTable:
    """Return a noisy marginal with the variance of its noise."""
    variance = float(noise_variances(np.array([one.units]), transcript.epsilon_per_unit)[0])
    return CountedTable(one.axes, one.counts.astype(np.float64), variance)


def first_tables(transcript: Transcript) -> list[CountedTable]:
    """Return the noisy tables of cells, by their axes; without those of a pilot."""
    found = sorted(_firsts(transcript), key=lambda one: one.axes)
    return [counted_table(transcript, one) for one in found]


def pilot_tables(transcript: Transcript) -> list[CountedTable]:
    """Return the noisy tables of cells over several attributes of which the model is to see nothing."""
    firsts = _firsts(transcript)
    apart = [one for one in _over_attributes(transcript) if not any(one is first for first in firsts)]
    return [counted_table(transcript, one) for one in apart]


def counts_of_whole(transcript: Transcript) -> list[CountedTable]:
    """Return the counts of the whole that were measured by themselves: tables over no axes."""
    return [counted_table(transcript, one) for one in transcript.totals]


def modelled_axes(transcript: Transcript) -> list[CliqueAxes]:
    """Return the axes of the marginals that the model is fitted to."""
    grouped = [one for one in transcript.marginals if one.groups is not None]
    return [one.axes for one in (*_firsts(transcript), *grouped)]


def _over_attributes(transcript: Transcript) -> list[Marginal]:
    return [one for one in transcript.marginals if one.axes and one.groups is None]


def _firsts(transcript: Transcript) -> list[Marginal]:
    """Return the one-way marginals if there is one of every attribute, and all marginals of cells if not."""
    every = _over_attributes(transcript)
    alone = [one for one in every if len(one.axes) == 1]
    return alone if len({one.axes for one in alone}) == len(transcript.shape) else every


def tables_of_one(tables: list[CountedTable]) -> list[CountedTable]:
    """Return the table over each attribute that first tables lead to."""
    made = pooled([_summed_to(table, axis) for table in tables for axis in table.axes])
    return sorted(made, key=lambda table: table.axes)


def _summed_to(table: CountedTable, axis: int) -> CountedTable:
    others = tuple(j for j, other in enumerate(table.axes) if other != axis)
    counts = table.counts.sum(axis=others)
    return CountedTable((axis,), counts, table.variance * table.counts.size / counts.size)


def in_groups(table: CountedTable, groups: tuple[Ints, ...]) -> CountedTable:
    """Return a table with its cells put together into groups, each with as many noises as it has cells."""
    counts, cells = table.counts, np.ones_like(table.counts)
    for at, axis in enumerate(table.axes):
        counts, cells = (_summed_by(groups[axis], one, at) for one in (counts, cells))
    return CountedTable(table.axes, counts, table.variance, cells)


def _summed_by(groups: Ints, table: Floats, at: int) -> Floats:
    lines = np.moveaxis(table, at, 0)
    summed = np.zeros((int(groups.max()) + 1, *lines.shape[1:]))
    np.add.at(summed, groups, lines)
    return np.moveaxis(summed, 0, at)


def target_of(transcript: Transcript) -> int | None:
    """Return the attribute that is in every first table of two, None where each is of one."""
    axes = [set(kept.axes) for kept in _firsts(transcript)]
    common = set.intersection(*axes) if axes else set()
    return max(common) if common and all(len(one) == 2 for one in axes) else None


def counts_every_attribute(transcript: Transcript) -> bool:
    """Say whether the first tables of cuboids are over every attribute by themselves, or once with one target."""
    every, target = range(len(transcript.shape)), target_of(transcript)
    found = sorted(kept.axes for kept in _firsts(transcript))
    if target is None:
        return sorted(set(found)) == [(axis,) for axis in every]
    return found == sorted(tuple(sorted((j, target))) for j in every if j != target)
