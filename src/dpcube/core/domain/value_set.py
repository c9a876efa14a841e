"""The values of one attribute that a predicate selects: a union of intervals, plus cells of irregular values.

Intervals are on the attribute's coordinate (numbers themselves, ordinals of dates, positions of categories). A
set is closed under and, or and not. It yields the selected share of each cell, and the partly selected cells.
Real numbers are doubles, so a closed end is an open end at the next double, and a single number is an interval too: the
set is exact for each value. A single real number has the share 0.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class ValueSet:
    """Sorted, disjoint, half-open intervals of an attribute's coordinate, and selected irregular kinds of value.

    `closed` are the real numbers after which some interval starts or ends, at the next double.

    >>> ValueSet(((0, 10),)) & ValueSet(((5, 20),))
    ValueSet(intervals=((5, 10),), own_cells=frozenset())
    """

    intervals: tuple[Interval, ...] = ()
    own_cells: frozenset[str] = frozenset()
    closed: frozenset[float] = field(default=frozenset(), repr=False, compare=False)

    def __and__(self, other: "ValueSet") -> "ValueSet":
        pairs = [(max(a, c), min(b, d)) for a, b in self.intervals for c, d in other.intervals]
        return ValueSet(_merge(pairs), self.own_cells & other.own_cells, self.closed | other.closed)

    def __or__(self, other: "ValueSet") -> "ValueSet":
        intervals = _merge([*self.intervals, *other.intervals])
        return ValueSet(intervals, self.own_cells | other.own_cells, self.closed | other.closed)

    def complement(self, start: float, stop: float) -> "ValueSet":
        """Return the rest of [start, stop); cells of irregular values are never in it, as with NOT in SQL."""
        ends = [start, *(x for pair in self.intervals for x in pair), stop]
        return ValueSet(_merge(list(zip(ends[::2], ends[1::2], strict=True))), closed=self.closed)

    def shares(self, edges: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the selected share of each bin between consecutive `edges`."""
        covered = np.zeros(len(edges) - 1)
        for low, high in self.intervals:
            covered += np.diff(np.clip(edges, self._declared(low), self._declared(high)))
        return np.minimum(covered / np.diff(edges), 1.0)  # rounding errors may add up to slightly more than the bin

    def _declared(self, end: float) -> float:
        """Return an end as it was declared: the closed end itself, not the next double."""
        before = math.nextafter(end, -math.inf)
        return before if before in self.closed else end

    def parts(self, edges: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return a mask of the bins between consecutive `edges` that are partly selected, even by a single value."""
        touched = np.zeros(len(edges) - 1, np.bool_)
        whole = touched.copy()
        for low, high in self.intervals:  # disjoint and not adjoining, so a whole bin lies in one
            touched |= (edges[:-1] < high) & (edges[1:] > low)
            whole |= (edges[:-1] >= low) & (edges[1:] <= high)
        return touched & ~whole

    def single_values(self, edges: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return a mask of the bins between consecutive `edges` in which a single real number is selected or left out.

        The doubles on either side of such a number are not selected, or are; the end of a range is not such a number.
        """
        ends = np.array([edges[0], *(end for pair in self.intervals for end in pair), edges[-1]])
        alone = ends[:-1][ends[1:] == np.nextafter(ends[:-1], math.inf)]
        found = np.zeros(len(edges) - 1, np.bool_)
        found[np.searchsorted(edges, alone, side="right") - 1] = True
        return found


def _merge(pairs: list[Interval]) -> tuple[Interval, ...]:
    merged: list[Interval] = []
    for low, high in sorted(pair for pair in pairs if pair[0] < pair[1]):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)
