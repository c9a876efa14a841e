"""Cells and boxes reconciled by least squares: estimates, and the law of their error for boxes given in advance.

A box has n_p cells with noisy counts y_i (parameter a1, variance v1) and a noisy total y_p (a2, v2); a query takes s of
its cells (spec 4.6, 4.9). Every estimate here is x_i = y_i + kappa (y_p - sum y), whose error on the query is

    s kappa N2 + (1 - s kappa) (sum of the s noises inside) - s kappa (sum of the n_p - s noises outside)

kappa = 1/(n_p + 1) is the paper's unweighted least squares; kappa = v1/(v2 + n_p v1) weighs counts by their precision.

These laws hold for boxes chosen without the same noise. In the paper's own algorithm boxes are chosen from the noisy
cells (E6): there the formulas overstate the error, by up to 29% in a test of 4x4 cells.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpcube.core.arrays import Floats
from dpcube.core.errors import InputError
from dpcube.noise.law import NoiseLaw, numbers, plain, positive, whole_numbers
from dpcube.research.theory.error_law import mean_abs, mean_abs_shift
from dpcube.research.theory.single import box_and_query, noise_variance, not_negative


class Terms(NamedTuple):
    """The noises in an error, as `mean_abs`, `error_sf` and `error_quantile` take them; terms on the last axis.

    The terms of a query over several boxes are those of its boxes side by side: `scales.ravel()` and so on.
    """

    scales: Floats
    multiplicities: Floats
    weights: Floats


def kappa(n_p: ArrayLike, *, v1: ArrayLike, v2: ArrayLike) -> Floats:
    """Return v1/(v2 + n_p v1), the share of its inconsistency that each cell takes in generalised least squares.

    With v1 = v2 it is the 1/(n_p + 1) of the paper.

    >>> print(f"{kappa(11, v1=800, v2=800 / 9):.2f}")
    0.09
    """
    n, one, two = whole_numbers("n_p", n_p), positive("v1", v1), not_negative("v2", v2)
    return plain(one / (two + n * one))


def H_plus(n_p: int) -> Floats:
    """Return the paper's pseudo-inverse of H = [1...1; I] for a box: one row per cell, the box's column first.

    For looking at: estimates are computed in closed form, never from this matrix.

    >>> print(H_plus(2).round(3))
    [[ 0.333  0.667 -0.333]
     [ 0.333 -0.333  0.667]]
    """
    n = int(whole_numbers("n_p", n_p))
    share = np.full((n, 1), 1 / (n + 1))
    return np.hstack([share, np.eye(n) - share])


def ls_estimate(y: ArrayLike, y_p: ArrayLike) -> Floats:
    """Return the paper's least squares estimate of the cells of a box (H^+), cells on the last axis of y.

    >>> print(ls_estimate([10.0, 20.0, 30.0], 68.0))
    [12. 22. 32.]
    """
    return gls_estimate(y, y_p, v1=1.0, v2=1.0)


def gls_estimate(y: ArrayLike, y_p: ArrayLike, *, v1: ArrayLike, v2: ArrayLike) -> Floats:
    """Return the generalised least squares estimate y_i + kappa (y_p - sum y), cells on the last axis of y.

    >>> print(gls_estimate([10.0, 20.0, 30.0], 68.0, v1=1.0, v2=5.0))
    [11. 21. 31.]
    """
    cells, total = _cells_and_total(y, y_p)
    share = kappa(cells.shape[-1], v1=v1, v2=v2)
    return plain(cells + np.asarray(share * (total - cells.sum(axis=-1)))[..., None])


def V_kappa(n_p: ArrayLike, s: ArrayLike, *, kappa: ArrayLike, v1: ArrayLike, v2: ArrayLike) -> Floats:
    """Return the variance s v1 - 2 s^2 kappa v1 + s^2 kappa^2 (v2 + n_p v1) of the error for any kappa.

    >>> print(V_kappa(11, 5, kappa=0, v1=800, v2=0))
    4000.0
    """
    n, size = box_and_query(n_p, s)
    share, one, two = numbers("kappa", kappa), not_negative("v1", v1), not_negative("v2", v2)
    return plain(size * one - 2 * size**2 * share * one + (size * share) ** 2 * (two + n * one))


def V_LS(n_p: ArrayLike, s: ArrayLike, *, v1: ArrayLike, v2: ArrayLike) -> Floats:
    """Return the variance of the paper's least squares error.

    >>> print(f"{V_LS(11, 5, v1=800, v2=800 / 9):.3f}")
    2209.877
    """
    return V_kappa(n_p, s, kappa=1 / (whole_numbers("n_p", n_p) + 1), v1=v1, v2=v2)


def V_GLS(n_p: ArrayLike, s: ArrayLike, *, v1: ArrayLike, v2: ArrayLike) -> Floats:
    """Return the variance s v1 (1 - s v1/(v2 + n_p v1)) of the generalised least squares error, the least of any kappa.

    >>> print(f"{V_GLS(11, 5, v1=800, v2=800 / 9):.0f}")
    2200
    """
    n, size = box_and_query(n_p, s)
    one, two = positive("v1", v1), not_negative("v2", v2)
    # (v2 + (n - s) v1)/(v2 + n v1) is 1 - s kappa without cancellation.
    return plain(size * one * (two + (n - size) * one) / (two + n * one))


def ls_terms(n_p: ArrayLike, s: ArrayLike, *, a1: ArrayLike, a2: ArrayLike) -> Terms:
    """Return the noises in the error of the paper's least squares: the box's, the s inside, the n_p - s outside.

    >>> print(ls_terms(3, 1, a1=0.5, a2=0.25).scales)
    [1.  1.5 0.5]
    """
    n, size, one, two = _arguments(n_p, s, a1, a2)
    return terms_of(n, size, one, two, size / (n + 1), (n + 1 - size) / (n + 1))


def gls_terms(n_p: ArrayLike, s: ArrayLike, *, a1: ArrayLike, a2: ArrayLike, noise: NoiseLaw = "laplace") -> Terms:
    """Return the noises in the error of generalised least squares: the box's, the s inside, the n_p - s outside.

    >>> print(gls_terms(3, 1, a1=0.5, a2=0.5).scales)
    [0.5 1.5 0.5]
    """
    n, size, one, two = _arguments(n_p, s, a1, a2)
    v1, v2 = noise_variance(one, noise=noise), noise_variance(two, noise=noise)
    whole_box = v2 + n * v1
    return terms_of(n, size, one, two, size * v1 / whole_box, (v2 + (n - size) * v1) / whole_box)


def ls_error(n_p: ArrayLike, s: ArrayLike, *, a1: ArrayLike, a2: ArrayLike, noise: NoiseLaw = "laplace") -> Floats:
    """Return the expected absolute error of the paper's least squares (Theorem LS, eq. E(eps_LS)).

    One integral in place of the paper's three. The paper's prefactor (n_p+1)^3/(s^2 (n_p+1-s)) is right for s < n_p; at
    s = n_p its f_0 is a point mass and the formula does not apply (E7), while this function does. See E6 above.

    >>> print(f"{ls_error(n_p=11, s=5, a1=.05, a2=.15):.4f}")
    37.0479
    """
    terms = ls_terms(n_p, s, a1=a1, a2=a2)
    return mean_abs(terms.scales, terms.multiplicities, noise=noise, weights=terms.weights)


def gls_error(n_p: ArrayLike, s: ArrayLike, *, a1: ArrayLike, a2: ArrayLike, noise: NoiseLaw = "laplace") -> Floats:
    """Return the expected absolute error of generalised least squares (spec 4.9).

    Its variance is the least, yet for small s its expected absolute error can be a little above that of `ls_error`.

    >>> print(f"{gls_error(11, 5, a1=.05, a2=.15):.4f}")
    36.9929
    """
    terms = gls_terms(n_p, s, a1=a1, a2=a2, noise=noise)
    return mean_abs(terms.scales, terms.multiplicities, noise=noise, weights=terms.weights)


def box_total(y: ArrayLike, y_p: ArrayLike, *, v1: ArrayLike, v2: ArrayLike) -> Floats:
    """Return t = (v2 sum y + n_p v1 y_p)/(v2 + n_p v1), the best total of a box from its cells and its own count.

    >>> print(box_total([10.0, 20.0, 30.0], 68.0, v1=1.0, v2=5.0))
    63.0
    """
    return plain(gls_estimate(y, y_p, v1=v1, v2=v2).sum(axis=-1))


def uniform_plus(y: ArrayLike, y_p: ArrayLike, *, v1: ArrayLike, v2: ArrayLike) -> Floats:
    """Return the uniform estimate of each cell from `box_total` in place of y_p alone, which costs nothing.

    >>> print(uniform_plus([10.0, 20.0, 30.0], 68.0, v1=1.0, v2=5.0))
    [21. 21. 21.]
    """
    return shrunk_estimate(y, y_p, v1=v1, v2=v2, shrink=0.0)


def uniform_plus_error(
    n_p: ArrayLike, s: ArrayLike, *, a1: ArrayLike, a2: ArrayLike, b: ArrayLike = 0.0, noise: NoiseLaw = "laplace"
) -> Floats:
    """Return the expected absolute error of `uniform_plus` for a query on which spreading evenly errs by b.

    >>> print(f"{uniform_plus_error(11, 5, a1=.15, a2=.05):.5f}")
    7.35384
    """
    n, size, _, _ = _arguments(n_p, s, a1, a2)
    total = gls_terms(n, n, a1=a1, a2=a2, noise=noise)
    part = (size / n)[..., None]
    weights = part * total.weights
    return mean_abs_shift(b, part * total.scales, total.multiplicities, noise=noise, weights=weights)


def shrunk_estimate(
    y: ArrayLike, y_p: ArrayLike, *, v1: ArrayLike, v2: ArrayLike, shrink: ArrayLike | None = None
) -> Floats:
    """Return t/n_p + shrink (y_i - mean y): uniform+ at 0, generalised least squares at 1, estimated when not given.

    >>> print(shrunk_estimate([10.0, 20.0, 30.0], 68.0, v1=1.0, v2=5.0, shrink=0.5))
    [16. 21. 26.]
    """
    cells, total = _cells_and_total(y, y_p)
    mean = cells.mean(axis=-1, keepdims=True)
    if shrink is None:
        shrink = shrinkage(((cells - mean) ** 2).sum(axis=-1), cells.shape[-1], v1=v1)
    t = np.asarray(box_total(cells, total, v1=v1, v2=v2))[..., None]
    return plain(t / cells.shape[-1] + numbers("shrink", shrink)[..., None] * (cells - mean))


def shrinkage(noisy_sse: ArrayLike, n_p: ArrayLike, *, v1: ArrayLike) -> Floats:
    """Return max(0, 1 - (n_p - 1) v1/SSE), which estimates the best `shrink` SSE/(SSE + (n_p - 1) v1).

    `noisy_sse` is the sum of squares of the noisy cells about their mean, the other SSE that of the exact ones.

    >>> print(shrinkage(4000.0, 5, v1=500))
    0.5
    """
    sse, n, one = not_negative("noisy_sse", noisy_sse), whole_numbers("n_p", n_p), not_negative("v1", v1)
    noise_part = (n - 1) * one
    return plain(np.where(sse > noise_part, 1 - noise_part / np.where(sse > 0, sse, 1.0), 0.0))


def terms_of(n: Floats, s: Floats, a1: Floats, a2: Floats, outside: Floats, inside: Floats) -> Terms:
    """Return the terms of an error with weight `inside` on the query's cells and `outside` on the rest and the box."""
    weights = np.stack(np.broadcast_arrays(outside, inside, outside), axis=-1)
    alphas = np.stack(np.broadcast_arrays(a2, a1, a1), axis=-1)
    counts = np.stack(np.broadcast_arrays(np.ones_like(n), s, n - s), axis=-1)
    return Terms(weights / alphas, counts, weights)


def _arguments(n_p: ArrayLike, s: ArrayLike, a1: ArrayLike, a2: ArrayLike) -> tuple[Floats, Floats, Floats, Floats]:
    n, size = box_and_query(n_p, s)
    n, size, one, two = np.broadcast_arrays(n, size, positive("a1", a1), positive("a2", a2))
    return n, size, one, two


def _cells_and_total(y: ArrayLike, y_p: ArrayLike) -> tuple[Floats, Floats]:
    cells, total = numbers("y", y), numbers("y_p", y_p)
    if not cells.ndim or not cells.shape[-1]:
        message = "y has no cells; give the noisy counts of a box on its last axis"
        raise InputError(message)
    return cells, total
