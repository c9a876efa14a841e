"""Which values of one attribute a question means: a union of intervals, plus any cells of their own.

Enters: intervals in an attribute's coordinate (numbers as they are, dates as ordinals, categories as positions).
Leaves: the share of each cell that is selected, and which cells are selected in part, after any of `and`, `or`, `not`.
Real numbers are doubles, so a closed end of theirs is an open one at the next double, and a single one an interval too:
what is selected is known value by value. As shares go, a single one has none.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Selection:
    """Sorted, disjoint, half-open intervals of an attribute's coordinate, and the names of its own cells.

    `closed` are the real numbers behind which some interval starts or ends, at the next double.

    >>> Selection(((0, 10),)) & Selection(((5, 20),))
    Selection(intervals=((5, 10),), own_cells=frozenset())
    """

    intervals: tuple[Interval, ...] = ()
    own_cells: frozenset[str] = frozenset()
    closed: frozenset[float] = field(default=frozenset(), repr=False, compare=False)

    def __and__(self, other: "Selection") -> "Selection":
        pairs = [(max(a, c), min(b, d)) for a, b in self.intervals for c, d in other.intervals]
        return Selection(_merge(pairs), self.own_cells & other.own_cells, self.closed | other.closed)

    def __or__(self, other: "Selection") -> "Selection":
        intervals = _merge([*self.intervals, *other.intervals])
        return Selection(intervals, self.own_cells | other.own_cells, self.closed | other.closed)

    def complement(self, start: float, stop: float) -> "Selection":
        """Everything in [start, stop) that is not selected; cells of their own never are, as in SQL's NOT."""
        ends = [start, *(x for pair in self.intervals for x in pair), stop]
        return Selection(_merge(list(zip(ends[::2], ends[1::2], strict=True))), closed=self.closed)

    def shares(self, edges: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the selected share of each bin between consecutive `edges`."""
        covered = np.zeros(len(edges) - 1)
        for low, high in self.intervals:
            covered += np.diff(np.clip(edges, self._said(low), self._said(high)))
        return np.minimum(covered / np.diff(edges), 1.0)  # rounding may add up to a hair more than the bin

    def _said(self, end: float) -> float:
        """Return an end as it was said: the next double after a closed one is that one."""
        before = math.nextafter(end, -math.inf)
        return before if before in self.closed else end

    def parts(self, edges: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Tell of each bin between consecutive `edges` whether it is selected in part, be that part a single value."""
        touched = np.zeros(len(edges) - 1, np.bool_)
        whole = touched.copy()
        for low, high in self.intervals:  # disjoint and not adjoining, so a whole bin lies in one
            touched |= (edges[:-1] < high) & (edges[1:] > low)
            whole |= (edges[:-1] >= low) & (edges[1:] <= high)
        return touched & ~whole

    def single_values(self, edges: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Tell of each bin between consecutive `edges` whether a single real number of it is selected, or left out.

        Such a number stands apart: the doubles on either side are not selected, or are. One that ends a range does not.
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
