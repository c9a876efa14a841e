"""Whether all counts of a tree leave it possible that its table is even: every cell has as many rows, but for chance.

The posterior expects halves to differ, so it sees structure in the noise of a table that has none. If a table is even,
a half of a box of n rows that has a part s of its cells has s n of them, with the variance s (1 - s) n of rows that
fall independently. How far the two halves of each box are off that, in deviations of noise and chance together, is what
is looked at: that of all boxes down to each level together, and of the one that is farthest off. And departures as
large as those of other tables must have been in sight. Tables of this world are far from even: at epsilon
0.1 none of 190 releases of DPBench's arrays of 10^5 rows was held to be (100 of 2-D arrays, 90 of 1-D).
"""

import math
from typing import NamedTuple

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.models.tree_totals import pooled_counts
from dpcube.trees.tree import BoxTree

ORDINARY = 0.1
"""Variance of the share of a half in other tables, before anything is known: about that of the posterior's guesses."""
RARE = 0.01
"""Departures that noise makes with a smaller chance are believed; and the evidence must be a hundred to one."""


class EvenTable(NamedTuple):
    """How far the halves of each box are off an even table: arrays of shape (boxes that were halved,)."""

    inner: Ints
    """The nodes."""
    levels: Ints
    squares: Floats
    """Squares of how far they are off, in deviations of noise and chance together."""
    expected: Floats
    """The variance that noise and chance have."""
    chance: Floats
    """The part of it that chance has."""
    ordinary: Floats
    """What variance departures of other tables would have besides, in parts of that."""

    @classmethod
    def of(cls, tree: BoxTree, measured: Floats, variance: Floats) -> "EvenTable":
        """Hold the counts of a binary tree, and the variances of their noise, against an even table."""
        inner = np.flatnonzero(~tree.is_leaf)
        counts, noise = pooled_counts(tree, measured, variance)
        left, right = inner + 1, tree.end[inner + 1]
        share = tree.sizes[left] / tree.sizes[inner]
        rows = max(counts[0], 0.0) * tree.sizes[inner] / tree.sizes[0]
        off = (1 - share) * counts[left] - share * counts[right]
        chance = share * (1 - share) * rows + 1e-12
        expected = (1 - share) ** 2 * noise[left] + share**2 * noise[right] + chance
        return cls(inner, tree.levels[inner], off**2 / expected, expected, chance, ORDINARY * rows**2 / expected)

    @property
    def is_likely(self) -> bool:
        """Whether nothing contradicts an even table, and departures of other tables would have been seen."""
        if len(self.inner) == 0:
            return False
        evidence = np.log1p(self.ordinary) - self.squares * self.ordinary / (1 + self.ordinary)
        return bool(evidence.sum() / 2 > -math.log(RARE)) and not self._is_large_together and not self._is_large_alone

    @property
    def _is_large_together(self) -> bool:
        """Whether squares of noise down to some level rarely add up to so much."""
        from scipy.special import chdtri  # an estimate that was stored needs none

        sums, number = np.cumsum(np.bincount(self.levels, self.squares)), np.cumsum(np.bincount(self.levels))
        return bool(np.any(sums > chdtri(number, RARE)))

    @property
    def _is_large_alone(self) -> bool:
        """Whether the largest of so many is rare.

        The difference of two Laplace noises exceeds z of its deviations with a chance of about (1 + z) exp(-2 z).
        """
        largest = math.sqrt(float(self.squares.max()))
        return 2 * largest - math.log1p(largest) > math.log(len(self.squares) / RARE)

    def unseen(self, splits: Floats) -> Floats:
        """Return the squared error that departures of each split may still make, unseen in noise.

        Departures have the variance that the squares of a level leave room for: their mean and a standard deviation of
        it, without the noise. A split that is measured to `splits`, its variance by a posterior that knows of chance
        alone, is drawn to an even one by that part of what chance has, and errs by as much of its departure.
        """
        number = np.maximum(np.bincount(self.levels), 1)
        mean = np.bincount(self.levels, self.squares) / number
        departures = np.maximum(mean - 1 + np.sqrt(2 / number), 0.0)[self.levels] * self.expected
        unseen: Floats = departures * np.minimum(splits / self.chance, 1.0) ** 2
        return unseen
