"""Noisy counts along one attribute made smooth where nothing but noise differs: counts enter, smoother ones leave."""

import math

import numpy as np

from dpcube.core.arrays import Floats


def smoothed(counts: Floats, variance: float) -> Floats:
    """Return counts without the steps between neighbours that noise of this variance would make.

    Haar's wavelets, from every start (Coifman and Donoho): the mean of each run of 2, 4, 8 ... cells is compared with
    that of the next run, and a difference is dropped unless it is above the largest that noise alone would make of so
    many cells, sqrt(2 ln cells) of its standard deviations (Donoho and Johnstone). A spike is kept as it is, and a
    slope as far as it can be told. The cells are mirrored at the ends.

    >>> smoothed(np.array([9.0, 11.0, 10.0, 90.0, 10.0, 11.0, 9.0, 10.0]), 4.0).round()
    array([10., 10., 10., 90., 10., 10., 10., 10.])
    """
    size = len(counts)
    if size < 4:
        return counts.astype(np.float64)
    means, steps = np.concatenate([counts, counts[::-1]]).astype(np.float64), []
    least = math.sqrt(2 * math.log(size) * variance)
    levels = [1 << level for level in range(int(math.log2(size)))]
    for run in levels:
        following = np.roll(means, -run)
        half = (means - following) / 2
        steps.append(np.where(np.abs(half) > least / math.sqrt(2 * run), half, 0.0))
        means = (means + following) / 2
    for run, half in zip(reversed(levels), reversed(steps), strict=True):
        means = (means + half + np.roll(means - half, run)) / 2
    return means[:size]
