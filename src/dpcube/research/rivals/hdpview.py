"""HDPView (Kato, Takahashi, Takagi, Cao, Liew, Yoshikawa, PVLDB 2022): boxes by noisy decisions on how uneven they are.

AE(B), the sum of |x_i - mean| over a box, moves by less than 2 with one row, and is never larger in a part of the box.
Each box that has not converged is cut in two where AE of both sides is least, by the exponential mechanism, and each
side converges if its AE, less a bias for each cut above it, plus noise is small. A fraction of epsilon counts the
boxes.

**Privacy.** *Cuts*: one row is in one box of each depth and in one side of each cut, so a cut's score moves by 2 at
most; the first `depth` cuts of a path are chosen with epsilon_cut each by weights exp(epsilon_cut * score/4), the
others blindly. *Convergence*: PrivTree's argument, with a bias of delta = lambda ln a a cut and noise of scale lambda.
Along the one path that a row touches AE never grows, so biased values above the floor are delta apart, and what a row
can change of the log-probabilities not to converge is at most (2/lambda) (1 + a/(a-1)) in all; the last decision, to
converge, adds 2/lambda of any sign. With lambda = ((2a-1)/(a-1) + 1) * 2/(gamma epsilon_r) that is gamma epsilon_r.
*Counts*: the boxes are disjoint. The sum is epsilon. (The public code makes one cut more than it pays for, and pays
each twice.)

The decisions are proved as a whole, which the gate cannot account for: research code.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.boxes import Boxes, box_sums, filled_boxes
from dpcube.core.compiled import compiled
from dpcube.research.rivals.rival import PURE, checked, goes_on, place_of


@dataclass(frozen=True, slots=True)
class HDPView:
    """The published parameters: nine tenths of epsilon for the boxes (`ratio`), of which `gamma` for convergence."""

    name: str = "hdpview"
    ratio: float = 0.9
    gamma: float = 0.9
    alpha: float = 1.6
    beta: float = 1.2
    privacy: str = PURE

    def release(self, counts: Ints, epsilon: float, rng: np.random.Generator) -> Floats:
        """Return the estimated counts."""
        exact = checked(counts, epsilon)
        boxes = self._boxes(exact, epsilon, rng)
        scale = 1 / ((1 - self.ratio) * epsilon)
        noisy = box_sums(exact, boxes) + rng.laplace(scale=scale, size=len(boxes))
        return filled_boxes(boxes, noisy / boxes.sizes)

    def noise_and_bias(self, epsilon: float) -> tuple[float, float]:
        """Return lambda and delta of a decision to converge.

        >>> [round(number, 3) for number in HDPView(ratio=0.5, gamma=1).noise_and_bias(2.0)]
        [9.333, 4.387]
        """
        scale = ((2 * self.alpha - 1) / (self.alpha - 1) + 1) * 2 / (self.gamma * self.ratio * epsilon)
        return scale, scale * math.log(self.alpha)

    def _boxes(self, exact: Floats, epsilon: float, rng: np.random.Generator) -> Boxes:
        shape = np.array(exact.shape)
        most = max(math.ceil(self.beta * math.log2(max(exact.size, 2))), 1)
        of_cut = (1 - self.gamma) * self.ratio * epsilon / most
        threshold, (scale, bias) = 1 / ((1 - self.ratio) * epsilon), self.noise_and_bias(epsilon)
        lower, upper, kept, depth = np.zeros((1, exact.ndim), np.int64), shape[None].copy(), [], 0
        if exact.size == 1:
            return Boxes(exact.shape, lower, upper)
        while len(lower):
            candidates = (upper - lower - 1).sum(axis=1)
            keys = rng.gumbel(size=int(candidates.sum()))  # the largest score plus Gumbel is the exponential mechanism
            weight = of_cut / 4 if depth < most else 0.0
            axis, place = _chosen_cuts(exact.reshape(-1), shape, lower, upper, weight, keys)
            lower, upper = _cut(lower, upper, axis, place)
            depth += 1
            uneven = _deviations(exact.reshape(-1), shape, lower, upper)
            biased = np.maximum(uneven - depth * bias, threshold + 2 - bias)
            noisy = biased + rng.laplace(scale=scale, size=len(biased))
            is_done = (noisy <= threshold) | ((upper - lower).max(axis=1) == 1)
            kept.append((lower[is_done], upper[is_done]))
            lower, upper = lower[~is_done], upper[~is_done]
        return Boxes(exact.shape, *(np.concatenate(side) for side in zip(*kept, strict=True)))


def _cut(lower: Ints, upper: Ints, axis: Ints, place: Ints) -> tuple[Ints, Ints]:
    """Return both sides of each box, cut across an axis at a place."""
    every = np.arange(len(axis))
    end, start = upper.copy(), lower.copy()
    end[every, axis], start[every, axis] = place, place
    return np.concatenate([lower, start]), np.concatenate([end, upper])


def box_deviations(exact: Floats, boxes: Boxes) -> Floats:
    """Return AE of each box: the sum of the distances of its cells from their mean."""
    return _deviations(exact.reshape(-1), np.array(exact.shape), boxes.lower, boxes.upper)


@compiled
def _deviations(flat: Floats, shape: Ints, lower: Ints, upper: Ints) -> Floats:
    found = np.empty(len(lower))
    for box in range(len(lower)):
        found[box] = _deviation(flat, shape, lower[box], upper[box])
    return found


@compiled
def _deviation(flat: Floats, shape: Ints, low: Ints, high: Ints) -> float:
    cells = 1
    for axis in range(len(shape)):
        cells *= high[axis] - low[axis]
    mean = _summed(flat, shape, low, high, 0.0, 1) / cells
    return _summed(flat, shape, low, high, mean, 2)


@compiled
def _summed(flat: Floats, shape: Ints, low: Ints, high: Ints, centre: float, what: int) -> float:
    """Return the sum over a box of its cells (1), or of their distances from a centre (2)."""
    index, length, found, more = low.copy(), high[-1] - low[-1], 0.0, True
    while more:
        start = place_of(index, shape)
        for cell in range(start, start + length):
            found += flat[cell] if what == 1 else abs(flat[cell] - centre)
        more = goes_on(index, low, high)
    return found


@compiled
def _chosen_cuts(flat: Floats, shape: Ints, lower: Ints, upper: Ints, weight: float, keys: Floats) -> tuple[Ints, Ints]:
    """Return axis and place of the cut of each box whose weighted score plus key is largest."""
    axes, at = len(shape), 0
    chosen_axis, chosen_place = np.zeros(len(lower), np.int64), np.zeros(len(lower), np.int64)
    for box in range(len(lower)):
        best = -np.inf
        low, high = lower[box].copy(), upper[box].copy()
        for axis in range(axes):
            first, last = lower[box, axis], upper[box, axis]
            for place in range(first + 1, last):
                key = keys[at]
                at += 1
                if weight > 0:
                    high[axis] = place
                    uneven = _deviation(flat, shape, low, high)
                    high[axis], low[axis] = last, place
                    uneven += _deviation(flat, shape, low, high)
                    low[axis] = first
                    key -= weight * uneven
                if key > best:
                    best, chosen_axis[box], chosen_place[box] = key, axis, place
    return chosen_axis, chosen_place
