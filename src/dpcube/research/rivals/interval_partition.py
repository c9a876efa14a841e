"""The first stage of DAWA: buckets of a row of cells, chosen by noisy deviations.

Every run of 2^j cells, at any place, is a candidate. Its cost is the sum of |x_i - mean| over its cells, plus
1/epsilon2 for the noise that its count will have. A dynamic programme over right ends finds the cheapest way to cover
the row.

**Privacy.** One row more in cell i changes the deviation of a run of n cells that holds i by 2(1 - 1/n) at most, and
that of no other run. Every partition has exactly one bucket that holds i. Let P be a partition, B its bucket around i,
of n cells, and fix the noise of all other runs. Partitions that have B too are beaten or not whatever B's noise and
whatever x_i. The others, with B' around i, are beaten if B's noise is at most the difference of the remaining noisy
costs; from x to its neighbour this threshold falls by 2(1 - 1/n) for B plus 2(1 - 1/N) for B' at most, N the number of
all cells. So Laplace noise of scale 2(2 - 1/n - 1/N)/epsilon on *every* run of n cells makes each partition at most
exp(epsilon) times as likely: the partition is epsilon-DP.

The proof needs noise on runs of one cell too, though their deviation is 0 whatever they hold: all their rivals move
together, each with noise of its own, and nothing covers that. On (1,0,1,1) and (1,1,1,1), with silent single cells, the
log-ratio of all cells being buckets is (1/2.5 + 1/2.5 + 1.5/3) epsilon = 1.3 epsilon, and it grows with the number of
cells. Raising noisy costs to a floor breaks the proof in the same way, for at the floor there is no noise either. The
public code does both, with half of the noise.
"""

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.compiled import compiled


def deviations_of_runs(row: Floats) -> Floats:
    """Return the deviation of the run of 2^j cells that ends at each cell: shape (lengths, cells), infinite if none.

    >>> deviations_of_runs(np.array([0.0, 0.0, 9.0, 9.0]))
    array([[ 0.,  0.,  0.,  0.],
           [inf,  0.,  9.,  0.],
           [inf, inf, inf, 18.]])
    """
    values = np.sort(row)
    rank = np.empty(len(row), np.int64)
    rank[np.argsort(row, kind="stable")] = np.arange(len(row))
    return _deviations(row, values, rank, len(row).bit_length())


def cheapest_buckets(costs: Floats) -> Ints:
    """Return where the buckets of the cheapest cover begin, ascending; costs are laid out as `deviations_of_runs`."""
    return _cheapest(costs)


@compiled
def _deviations(row: Floats, values: Floats, rank: Ints, lengths: int) -> Floats:
    """Slide a window of each length along the row, with its counts and sums by rank in a Fenwick tree."""
    cells = len(row)
    found = np.full((lengths, cells), np.inf)
    found[0] = 0.0
    for level in range(1, lengths):
        length = 1 << level
        counts, sums, total = np.zeros(cells + 1), np.zeros(cells + 1), 0.0
        for place in range(cells):
            _add(counts, sums, rank[place], 1.0, row[place])
            total += row[place]
            if place >= length:
                _add(counts, sums, rank[place - length], -1.0, -row[place - length])
                total -= row[place - length]
            if place >= length - 1:
                mean = total / length
                at = np.searchsorted(values, mean, side="right")
                number, below = 0.0, 0.0
                while at > 0:
                    number += counts[at]
                    below += sums[at]
                    at -= at & -at
                found[level, place] = max(2 * (mean * number - below), 0.0)
    return found


@compiled
def _add(counts: Floats, sums: Floats, rank: int, number: float, value: float) -> None:
    at = rank + 1
    while at < len(counts):
        counts[at] += number
        sums[at] += value
        at += at & -at


@compiled
def _cheapest(costs: Floats) -> Ints:
    lengths, cells = costs.shape
    least, begin = np.zeros(cells + 1), np.zeros(cells + 1, np.int64)
    for place in range(cells):
        least[place + 1] = np.inf
        for level in range(lengths):
            first = place + 1 - (1 << level)
            if first >= 0 and least[first] + costs[level, place] <= least[place + 1]:
                least[place + 1], begin[place + 1] = least[first] + costs[level, place], first
    number, at = 0, cells
    while at > 0:
        at = begin[at]
        number += 1
    found = np.empty(number, np.int64)
    at = cells
    for bucket in range(number - 1, -1, -1):
        at = begin[at]
        found[bucket] = at
    return found
