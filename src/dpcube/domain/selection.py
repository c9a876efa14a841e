"""Which values of one attribute a question means: a union of intervals, plus any cells of their own.

Enters: intervals in an attribute's coordinate (numbers as they are, dates as ordinals, categories as positions).
Leaves: the share of each cell that is selected, after any of `and`, `or`, `not`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Selection:
    """Sorted, disjoint, half-open intervals of an attribute's coordinate, and the names of its own cells.

    >>> Selection(((0, 10),)) & Selection(((5, 20),))
    Selection(intervals=((5, 10),), own_cells=frozenset())
    """

    intervals: tuple[Interval, ...] = ()
    own_cells: frozenset[str] = frozenset()

    def __and__(self, other: "Selection") -> "Selection":
        pairs = [(max(a, c), min(b, d)) for a, b in self.intervals for c, d in other.intervals]
        return Selection(_merge(pairs), self.own_cells & other.own_cells)

    def __or__(self, other: "Selection") -> "Selection":
        return Selection(_merge([*self.intervals, *other.intervals]), self.own_cells | other.own_cells)

    def complement(self, start: float, stop: float) -> "Selection":
        """Everything in [start, stop) that is not selected; cells of their own never are, as in SQL's NOT."""
        ends = [start, *(x for pair in self.intervals for x in pair), stop]
        return Selection(_merge(list(zip(ends[::2], ends[1::2], strict=True))))

    def shares(self, edges: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the selected share of each bin between consecutive `edges`."""
        covered = np.zeros(len(edges) - 1)
        for low, high in self.intervals:
            covered += np.diff(np.clip(edges, low, high))
        return np.minimum(covered / np.diff(edges), 1.0)  # rounding may add up to a hair more than the bin


def _merge(pairs: list[Interval]) -> tuple[Interval, ...]:
    merged: list[Interval] = []
    for low, high in sorted(pair for pair in pairs if pair[0] < pair[1]):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)
