"""Algorithm 1, noise in every cell: expected error, and the alpha that makes it useful (spec 4.3).

Usefulness: (eps, delta)-useful means |error| <= eps for all queries in question with probability 1 - delta. The paper's
condition (Theorem cell usefulness) is valid but loose (E13); the exact conditions beside it say for which queries.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import gammainc, gammaincc
from scipy.stats import binom, nbinom

from dpcube.core.arrays import Floats
from dpcube.noise.contour import SAME
from dpcube.noise.law import (
    NoiseLaw,
    discrete_sf,
    dl_sum_mean_abs,
    each,
    fraction,
    is_discrete,
    plain,
    positive,
    whole_numbers,
)
from dpcube.research.theory.single import dl_sum_sf, lap_sum_mean_abs, lap_sum_sf

SizesSf = Callable[[Floats, float, float], Floats]

# Binomial weights further than this many standard deviations from their mean are below 1e-20.
_SPREAD = 10.0


def cells_error(s: ArrayLike, alpha: ArrayLike, *, noise: NoiseLaw = "laplace") -> Floats:
    """Return the expected absolute error of a query of s cells answered from noisy cells.

    >>> print(f"{cells_error(5, 0.2):.4f} {cells_error(5, 0.2, noise='discrete'):.4f}")
    12.3047 12.2773
    """
    size = whole_numbers("s", s)
    return dl_sum_mean_abs(size, alpha) if is_discrete(noise) else lap_sum_mean_abs(size, alpha)


def sumlap_bound(m: ArrayLike, b: ArrayLike, *, eps: ArrayLike, noise: NoiseLaw = "laplace") -> Floats:
    """Return the paper's lower bound 1 - m exp(-eps/(m b)) of P(sum of m |Lap(b)| <= eps) (Lemma SumLap).

    It holds for every eps > 0, not only below 1 (E12), and says nothing when negative. For discrete noise of
    alpha = 1/b the tail exp(-eps/(m b)) of one noise is replaced by its own, P(|Z| > eps/m).

    >>> print(f"{sumlap_bound(9, 20.0, eps=800.0):.6f}")
    0.894307
    """
    count, scale, most = whole_numbers("m", m), positive("b", b), positive("eps", eps)
    if is_discrete(noise):
        return plain(1 - count * 2 * discrete_sf(np.floor(most / count + SAME), 1 / scale))
    return plain(1 - count * np.exp(-most / (count * scale)))


def sumlap_exact(m: ArrayLike, b: ArrayLike, *, eps: ArrayLike, noise: NoiseLaw = "laplace") -> Floats:
    """Return P(sum of m |Lap(b)| <= eps) itself, a Gamma probability.

    >>> print(f"{sumlap_exact(100, 1.0, eps=130.0):.6f}")
    0.997250
    """
    count, scale, most = whole_numbers("m", m), positive("b", b), positive("eps", eps)
    if is_discrete(noise):
        return each(lambda k, a, t: 1 - _discrete_sizes_sf(np.array([k]), a, t)[0], count, 1 / scale, most)
    return plain(gammainc(count, most / scale))


def boolean_sup_cdf(t: ArrayLike, m: ArrayLike, *, alpha: ArrayLike, noise: NoiseLaw = "laplace") -> Floats:
    """Return P(no boolean query over m noisy cells errs by more than t).

    The worst query takes all cells of one sign of noise, so sup|Q N| = max(sum of positive parts, sum of negative
    parts). Given which k of the m noises are positive (signs are fair coins), the two sums are independent.

    >>> print(f"{boolean_sup_cdf(10.5903578, 9, alpha=1.0):.6f}")
    0.950000
    """
    sizes_sf = _sizes_sf(noise)
    return each(
        lambda most, cells, a: 1 - _sup_sf(int(cells), a, most, sizes_sf),
        positive("t", t),
        whole_numbers("m", m),
        positive("alpha", alpha),
    )


def cell_usefulness_alpha(m: ArrayLike, eps: ArrayLike, *, delta: ArrayLike) -> Floats:
    """Return the paper's alpha = m ln(m/delta)/eps, sufficient for all linear counting queries at once.

    Theorem cell usefulness: valid but loose, by 4 to 24 times for all queries and up to 440 times for one (E13); its
    proof confuses sums of noises and of their sizes and writes = for >= (E11), without harm to the result.

    >>> print(f"{cell_usefulness_alpha(9, 1.0, delta=0.05):.4f}")
    46.7366
    """
    cells, most, left = whole_numbers("m", m), positive("eps", eps), fraction("delta", delta)
    return plain(cells * np.log(cells / left) / most)


def cell_usefulness_alpha_sum_abs(
    m: ArrayLike, eps: ArrayLike, *, delta: ArrayLike, noise: NoiseLaw = "laplace"
) -> Floats:
    """Return the least alpha with P(sum of |noise| over m cells <= eps) >= 1 - delta.

    This is sufficient for all queries with weights in [-1, 1] at once, and necessary for them.

    >>> print(f"{cell_usefulness_alpha_sum_abs(9, 1.0, delta=0.05):.4f}")
    14.4346
    """
    sizes_sf = _sizes_sf(noise)
    return _least_alpha(
        lambda cells, most, a: sizes_sf(np.array([cells]), a, most)[0], whole_numbers("m", m), eps, delta
    )


def cell_usefulness_alpha_boolean(
    m: ArrayLike, eps: ArrayLike, *, delta: ArrayLike, noise: NoiseLaw = "laplace"
) -> Floats:
    """Return the least alpha with which all boolean queries over m cells err by at most eps at once.

    >>> print(f"{cell_usefulness_alpha_boolean(9, 1.0, delta=0.05):.4f}")
    10.5904
    """
    sizes_sf = _sizes_sf(noise)
    return _least_alpha(
        lambda cells, most, a: _sup_sf(int(cells), a, most, sizes_sf), whole_numbers("m", m), eps, delta
    )


def cell_usefulness_alpha_one_query(
    s: ArrayLike, eps: ArrayLike, *, delta: ArrayLike, noise: NoiseLaw = "laplace"
) -> Floats:
    """Return the least alpha with which one query of s cells errs by at most eps.

    >>> print(f"{cell_usefulness_alpha_one_query(9, 1.0, delta=0.05):.4f}")
    8.4166
    """
    sf = dl_sum_sf if is_discrete(noise) else lap_sum_sf
    return _least_alpha(lambda size, most, a: float(2 * sf(most, size, alpha=a)), whole_numbers("s", s), eps, delta)


def cell_usefulness_alpha_elementary(m: ArrayLike, eps: ArrayLike, *, delta: ArrayLike) -> Floats:
    """Return alpha = (m + sqrt(2 m L) + L)/eps, L = ln(1/delta): sufficient for all queries, without special functions.

    Chernoff's bound for the sum of the sizes of m noises. It holds for discrete noise too, whose generating function
    tanh(alpha/2)/tanh((alpha - c)/2) of |Z| is below alpha/(alpha - c).

    >>> print(f"{cell_usefulness_alpha_elementary(9, 1.0, delta=0.05):.4f}")
    19.3390
    """
    cells, most, left = whole_numbers("m", m), positive("eps", eps), -np.log(fraction("delta", delta))
    return plain((cells + np.sqrt(2 * cells * left) + left) / most)


def _least_alpha(
    fails: Callable[[float, float, float], float], cells: Floats, eps: ArrayLike, delta: ArrayLike
) -> Floats:
    """Return the alpha at which the probability `fails(cells, eps, alpha)` of an error above eps falls to delta."""

    def solve(size: float, most: float, left: float) -> float:
        high = (size + np.sqrt(2 * size * -np.log(left)) - np.log(left)) / most  # enough, by Chernoff's bound
        low = high / 2
        while fails(size, most, low) <= left:
            low /= 2
        return float(brentq(lambda a: fails(size, most, a) / left - 1, low, high, xtol=1e-14 * high, rtol=1e-13))

    return each(solve, cells, positive("eps", eps), fraction("delta", delta))


def _sup_sf(m: int, alpha: float, t: float, sizes_sf: SizesSf) -> float:
    """Return P(some boolean query errs by more than t), over the likely numbers k of positive noises."""
    spread = int(_SPREAD * np.sqrt(m) / 2) + 1
    least = max(0, m // 2 - spread)
    k = np.arange(least, m - least + 1, dtype=np.float64)
    one = sizes_sf(k, alpha, t)
    other = one[::-1]  # for m - k
    return float(binom.pmf(k, m, 0.5) @ (one + other - one * other))


def _sizes_sf(noise: NoiseLaw) -> SizesSf:
    return _discrete_sizes_sf if is_discrete(noise) else _laplace_sizes_sf


def _laplace_sizes_sf(counts: Floats, alpha: float, t: float) -> Floats:
    """Return P(sum of |N| over k noises > t) for each count k."""
    return np.where(counts == 0, 0.0, gammaincc(np.maximum(counts, 1), alpha * t))


def _discrete_sizes_sf(counts: Floats, alpha: float, t: float) -> Floats:
    """Return P(sum of |Z| over k discrete noises > t) for each k of an increasing sequence.

    A binomial number j of the k are not 0, and the sum over these of |Z| - 1 is negative binomial.
    """
    q, p = np.exp(-alpha), -np.expm1(-alpha)
    share, most = 2 * q / (1 + q), np.floor(t + SAME)
    spread = _SPREAD * np.sqrt(counts[-1] * share * (1 - share)) + 20
    j = np.arange(max(0, int(counts[0] * share - spread)), min(counts[-1], int(counts[-1] * share + spread)) + 1)
    given = np.where(j == 0, 0.0, nbinom.sf(most - j, np.maximum(j, 1), p))
    return np.asarray(binom.pmf(j[None, :], counts[:, None], share) @ given)
