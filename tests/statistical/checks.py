"""Checkers that statistical tests share: each returns one exact p-value, to be compared with ALARM."""

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from dpcube.core.exact import ExactData
from dpcube.noise.law import DiscreteLaplace

ALARM = 1e-6

Values = NDArray[np.int64]


def two_sided(law: stats.rv_discrete, seen: ArrayLike) -> NDArray[np.float64]:
    """The exact p-value of a count under a frozen scipy law."""
    return np.asarray(2 * np.minimum(law.cdf(seen), law.sf(np.asarray(seen) - 1)))


def union(*p_values: NDArray[np.float64] | float) -> float:
    """One p-value for several tests, by the union bound."""
    together = np.concatenate([np.atleast_1d(p) for p in p_values])
    return float(min(1, together.size * together.min()))


def scale(drawn: Values, epsilon: Fraction) -> float:
    """Test zeros, magnitudes and signs apart, each by its exact law.

    Of n values a binomial number N is not 0; given N, the sum of |z| - 1 over them is negative binomial, the sharpest
    statistic of scale; and a binomial number of them is positive.
    """
    law = DiscreteLaplace(epsilon)
    others = np.count_nonzero(drawn)
    if not others:
        return float(law.pmf(0)) ** drawn.size
    zeros = two_sided(stats.binom(drawn.size, law.pmf(0)), drawn.size - others)
    signs = two_sided(stats.binom(others, 0.5), np.count_nonzero(drawn > 0))
    sizes = two_sided(stats.nbinom(others, -np.expm1(-float(epsilon))), int(np.abs(drawn).sum()) - others)
    return union(zeros, signs, sizes)


def association(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Fisher's exact two-sided p-value: given the margins, the number of both is hypergeometric."""
    law = stats.hypergeom(first.size, np.count_nonzero(first), np.count_nonzero(second))
    return two_sided(law, np.count_nonzero(first & second))


def independence(first: Values, second: Values) -> float:
    """Test that paired values have unrelated signs and unrelated magnitudes."""
    both = (first != 0) & (second != 0)
    agreeing = np.count_nonzero((first * second)[both] > 0)
    signs = two_sided(stats.binom(np.count_nonzero(both), 0.5), agreeing)
    sizes = association(np.abs(first) > np.median(np.abs(first)), np.abs(second) > np.median(np.abs(second)))
    return union(signs, sizes)


def at_lag(drawn: Values, lag: int) -> tuple[Values, Values]:
    """Disjoint pairs of values, `lag` apart."""
    blocks = drawn[: drawn.size - drawn.size % (2 * lag)].reshape(-1, 2, lag)
    return blocks[:, 0].ravel(), blocks[:, 1].ravel()


def revealed(exact: ExactData) -> Values:
    """The exact counts of every cell."""
    return exact.marginal(tuple(range(len(exact.shape)))).reveal()
