"""MWEM (Hardt, Ligett, McSherry, "A simple and practical algorithm for private data release", NIPS 2012).

From even counts on, each of T rounds picks the question that the estimate answers worst, by the exponential mechanism
with epsilon/2T (the score |q(x) - q(estimate)| moves by 1 at most: weight exp(epsilon/2T * score/2)), measures it with
noise of scale 2T/epsilon, and moves the estimate towards all measurements so far by multiplicative weights, a hundred
times over. The published one knows the number of rows; here a fiftieth of epsilon pays for it, and T follows from it by
the public code's tables (its variant MWEM*).

It needs the exponential mechanism over real-valued scores, so it is research code until it runs by the gate's `choose`.
"""

from dataclasses import dataclass

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.compiled import compiled
from dpcube.models.metrics import exact_answers
from dpcube.queries import Workload
from dpcube.research.rivals.rival import PURE, checked, goes_on, place_of

ROUNDS_BY_SCALE = {
    1: ((0, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7), (2, 2, 4, 8, 12, 60, 80, 140)),
    2: ((0, 1e3, 5e3, 1e4, 1e5, 5e5, 1e6), (12, 12, 32, 32, 60, 120, 140)),
}
"""Numbers of rounds by rows times epsilon, in one dimension and in more: DPBench's, learnt on data not tested with."""
PASSES = 100
LARGEST_EXPONENT = 30.0
"""No step multiplies by more than exp of it: where the noisy number of rows is far too small, steps would overflow."""


@dataclass(frozen=True, slots=True)
class Mwem:
    """Multiplicative weights for a workload; `rows` is the number of rows if it is public."""

    workload: Workload
    name: str = "mwem"
    rows: int | None = None
    share_of_rows: float = 0.02
    privacy: str = PURE

    def release(self, counts: Ints, epsilon: float, rng: np.random.Generator) -> Floats:
        """Return the estimated counts."""
        exact = checked(counts, epsilon)
        if self.rows is None:
            rows = max(exact.sum() + rng.laplace(scale=1 / (self.share_of_rows * epsilon)), 1.0)
            epsilon *= 1 - self.share_of_rows
        else:
            rows = float(max(self.rows, 1))
        scales, rounds = ROUNDS_BY_SCALE[min(exact.ndim, 2)]
        number = min(int(np.interp(rows * epsilon, scales, rounds)), len(self.workload))
        return self._rounds(exact, rows, epsilon / (2 * number), number, rng)

    def _rounds(self, exact: Floats, rows: float, each: float, number: int, rng: np.random.Generator) -> Floats:
        """Run the rounds; choosing and measuring cost `each` in every one of them."""
        estimate, truth = np.full(exact.shape, rows / exact.size), exact_answers(exact, self.workload)
        chosen, noisy = np.empty(number, np.int64), np.empty(number)
        left = np.ones(len(truth), np.bool_)
        for turn in range(number):
            score = np.abs(truth - exact_answers(estimate, self.workload))
            # the largest score plus Gumbel noise is the exponential mechanism
            keyed = np.where(left, each * score / 2 + rng.gumbel(size=len(score)), -np.inf)
            chosen[turn] = keyed.argmax()
            left[chosen[turn]] = False
            noisy[turn] = truth[chosen[turn]] + rng.laplace(scale=1 / each)
            some = chosen[: turn + 1]
            lower, upper = self.workload.lower[some], self.workload.upper[some]
            reweighted(estimate, lower, upper, noisy[: turn + 1], rows)
        return estimate


def reweighted(estimate: Floats, lower: Ints, upper: Ints, noisy: Floats, rows: float) -> None:
    """Move an estimate towards noisy answers of ranges, in place: a hundred passes over all of them."""
    _reweigh(estimate.reshape(-1), np.array(estimate.shape), lower, upper, noisy, rows)


@compiled
def _reweigh(flat: Floats, shape: Ints, lower: Ints, upper: Ints, noisy: Floats, rows: float) -> None:
    """Each step multiplies the cells of one range by exp(error/2N), then all so that they add up to N.

    Only the range is touched: `scale` stands for the second factor until the end.
    """
    total, scale = flat.sum(), 1.0
    for _ in range(PASSES):
        for query in range(len(noisy)):
            inside = _over(flat, shape, lower[query], upper[query], 1.0)
            error = noisy[query] - scale * inside
            factor = np.exp(min(max(error / (2 * rows), -LARGEST_EXPONENT), LARGEST_EXPONENT))
            _over(flat, shape, lower[query], upper[query], factor)
            total += (factor - 1) * inside
            scale = rows / total
        flat *= scale
        total, scale = flat.sum(), 1.0


@compiled
def _over(flat: Floats, shape: Ints, low: Ints, high: Ints, factor: float) -> float:
    """Return the sum of a range, and multiply its cells by a factor unless that is 1."""
    index, length, found, more = low.copy(), high[-1] - low[-1], 0.0, True
    while more:
        start = place_of(index, shape)
        for cell in range(start, start + length):
            if factor == 1.0:
                found += flat[cell]
            else:
                flat[cell] *= factor
        more = goes_on(index, low, high)
    return found
