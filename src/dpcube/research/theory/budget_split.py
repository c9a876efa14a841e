"""How to split a budget alpha = a1 + a2 between cells and boxes for one kind of query (spec 4.8; E24, E33).

A box of n_p cells and a query of s of them enter; the best a1 and the expected absolute error there leave. The paper
advises equal shares "or slightly more for cells" for least squares: for half a box the best share of cells is 72%, and
runs from 83% (one cell) to 33% (the whole box) at n_p = 11 (E24). `cells_error(s, alpha)`, the whole budget in cells,
is the rival the paper leaves out (E33): it beats any split of least squares for small queries.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, minimize_scalar

from dpcube.core.arrays import Floats
from dpcube.noise.law import NoiseLaw, is_discrete, plain, positive
from dpcube.research.theory.cells import cells_error
from dpcube.research.theory.error_law import log_trapezoid
from dpcube.research.theory.least_squares import Terms, gls_error, ls_error, terms_of
from dpcube.research.theory.single import box_and_query, noise_mean_abs

Error = Callable[[float], float]

# Shares of a1 that are looked at first, closer together towards 0 and 1.
_SHARES = 1 / (1 + np.exp(-np.linspace(-12, 12, 49)))
_IMAGINARY = 1e-30j


class BudgetSplit(NamedTuple):
    """The cells' part of a budget, and the expected absolute error it leads to."""

    a1: Floats
    error: Floats


def ls_variance_split(n_p: ArrayLike, s: ArrayLike, *, alpha: ArrayLike) -> Floats:
    """Return the a1 of least variance for least squares: a1/a2 = (c1/c2)^(1/3) for Laplace noise.

    c1 = s (n_p+1-s)^2 + s^2 (n_p-s) and c2 = s^2.

    >>> print(f"{ls_variance_split(11, 5, alpha=.2):.6f}")
    0.143009
    """
    n, size = box_and_query(n_p, s)
    c1, c2 = size * (n + 1 - size) ** 2 + size**2 * (n - size), size**2
    return plain(positive("alpha", alpha) / (1 + np.cbrt(c2 / c1)))


def ls_best_split(n_p: ArrayLike, s: ArrayLike, *, alpha: ArrayLike, noise: NoiseLaw = "laplace") -> BudgetSplit:
    """Return the split of least expected absolute error for the paper's least squares.

    >>> best = ls_best_split(11, 5, alpha=.2)
    >>> print(f"{best.a1:.6f} {best.error:.4f}")
    0.144252 15.2099
    """

    def solve(n: float, size: float, total: float) -> tuple[float, float]:
        slope = None if is_discrete(noise) else _slope(lambda a1: _ls_terms(n, size, a1, total))
        return _best_inside(lambda a1: float(ls_error(n, size, a1=a1, a2=total - a1, noise=noise)), slope, total)

    return _split_of_each(solve, n_p, s, alpha)


def gls_best_split(n_p: ArrayLike, s: ArrayLike, *, alpha: ArrayLike, noise: NoiseLaw = "laplace") -> BudgetSplit:
    """Return the split of least expected absolute error for generalised least squares.

    a1 = alpha means cells only, which is best for small queries; a1 = 0 means the box's count only, best for a query of
    the whole box.

    >>> best = gls_best_split(11, 9, alpha=.2)
    >>> print(f"{best.a1:.6f} {best.error:.4f}")
    0.124503 15.5973
    """

    def solve(n: float, size: float, total: float) -> tuple[float, float]:
        slope = None if is_discrete(noise) else _slope(lambda a1: _gls_terms(n, size, a1, total))
        inside = _best_inside(lambda a1: float(gls_error(n, size, a1=a1, a2=total - a1, noise=noise)), slope, total)
        boxes = float(noise_mean_abs(total, noise=noise)) if size == n else np.inf
        ends = (total, float(cells_error(size, total, noise=noise))), (0.0, boxes)
        return min(*ends, inside, key=lambda split: split[1])

    return _split_of_each(solve, n_p, s, alpha)


def _split_of_each(
    solve: Callable[[float, float, float], tuple[float, float]], n_p: ArrayLike, s: ArrayLike, alpha: ArrayLike
) -> BudgetSplit:
    n, size = box_and_query(n_p, s)
    n, size, total = np.broadcast_arrays(n, size, positive("alpha", alpha))
    both = np.array([solve(*case) for case in zip(n.flat, size.flat, total.flat, strict=True)]).reshape(*n.shape, 2)
    return BudgetSplit(plain(both[..., 0]), plain(both[..., 1]))


def _best_inside(error: Error, slope: Error | None, total: float) -> tuple[float, float]:
    """Return the best a1 strictly between 0 and the total: to rounding where the slope is known, else to 1e-7."""
    shares = total * _SHARES
    at = int(np.argmin([error(a1) for a1 in shares]))
    low, high = shares[max(at - 1, 0)], shares[min(at + 1, shares.size - 1)]
    if slope is not None and slope(low) < 0 < slope(high):
        best = float(brentq(slope, low, high, xtol=1e-15 * total, rtol=1e-14))
    else:
        best = float(minimize_scalar(error, bounds=(low, high), method="bounded", options={"xatol": 1e-9 * total}).x)
    return best, error(best)


def _slope(terms: Callable[[complex], Terms]) -> Error:
    """Return the derivative of the expected absolute error in a1, by an imaginary step: exact, without differences."""

    def slope(a1: float) -> float:
        scales, multiplicities, _ = terms(a1 + _IMAGINARY)
        return float(log_trapezoid(scales, multiplicities).imag / _IMAGINARY.imag)

    return slope


def _ls_terms(n: float, s: float, a1: complex, total: float) -> Terms:
    return _complex_terms(n, s, a1, total, outside=s / (n + 1))


def _gls_terms(n: float, s: float, a1: complex, total: float) -> Terms:
    # kappa = v1/(v2 + n v1) with v = 2/a^2
    return _complex_terms(n, s, a1, total, outside=s / (n + (a1 / (total - a1)) ** 2))


def _complex_terms(n: float, s: float, a1: complex, total: float, *, outside: complex) -> Terms:
    parts = (np.asarray(part) for part in (n, s, a1, total - a1, outside, 1 - outside))
    return terms_of(*parts)
