"""Boxes spread evenly over their cells: exact error, bounds for smooth data, usefulness (spec 4.4).

The estimate (s/n_p) y_p of a query of s cells errs by b + c N: the bias b = (s/n_p) (sum of the box) - (sum of the
query's cells) and c N, c = s/n_p, with fresh noise N of parameter a2. This is exact for boxes however chosen.

Data is gamma-smooth when the cells of the box differ by at most gamma. Then |b| <= gamma s (n_p - s)/n_p, and some
such data attains it; the paper's gamma min(s, n_p - s) is up to twice that (E9). The paper writes its error bounds as
equalities and as bounds on the error itself (E10): they hold for its expectation and its distribution.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from dpcube.core.arrays import Floats
from dpcube.noise.law import NoiseLaw, each, fraction, numbers, plain, positive
from dpcube.research.theory.single import (
    box_and_query,
    lap_sum_mean_abs_shift,
    noise_mean_abs,
    noise_mean_abs_shift,
    not_negative,
)


def smoothness(x: ArrayLike) -> Floats:
    """Return the least gamma for which the cells of a box, on the last axis, are gamma-smooth.

    >>> print(smoothness([[10, 21, 37], [5, 5, 5]]))
    [27.  0.]
    """
    return plain(np.ptp(numbers("x", x), axis=-1))


def uniform_bias_bound(gamma: ArrayLike, s: ArrayLike, *, n_p: ArrayLike) -> Floats:
    """Return gamma s (n_p - s)/n_p, the largest |bias| of a query on gamma-smooth data.

    >>> print(f"{uniform_bias_bound(5, 5, n_p=11):.4f}")
    13.6364
    """
    n, size = box_and_query(n_p, s)
    return plain(not_negative("gamma", gamma) * size * (n - size) / n)


def uniform_bias_bound_paper(gamma: ArrayLike, s: ArrayLike, *, n_p: ArrayLike) -> Floats:
    """Return the paper's gamma min(s, n_p - s), valid but up to twice the attainable (E9).

    >>> print(uniform_bias_bound_paper(5, 5, n_p=11))
    25.0
    """
    n, size = box_and_query(n_p, s)
    return plain(not_negative("gamma", gamma) * np.minimum(size, n - size))


def uniform_error_exact(
    b: ArrayLike, s: ArrayLike, *, n_p: ArrayLike, a2: ArrayLike, noise: NoiseLaw = "laplace"
) -> Floats:
    """Return the expected absolute error for bias b: |b| + c exp(-|b|/c), c = s/(n_p a2), when noise is Laplace.

    >>> print(f"{uniform_error_exact(0, 5, n_p=11, a2=.15):.4f}")
    3.0303
    """
    n, size = box_and_query(n_p, s)
    part = size / n
    return plain(part * noise_mean_abs_shift(numbers("b", b) / part, positive("a2", a2), noise=noise))


def uniform_error_bound_paper(
    gamma: ArrayLike, s: ArrayLike, *, n_p: ArrayLike, a2: ArrayLike, noise: NoiseLaw = "laplace"
) -> Floats:
    """Return the paper's bound gamma min(s, n_p - s) + s/(n_p a2) of the expected error (eq. max E(eps_H)).

    Valid, but about twice the attainable (E9); `uniform_error_bound_tight` is the supremum. At fixed s it falls with
    n_p once n_p >= 2 s, though the paper says errors grow with the box, and the tight bound does (E28).

    >>> print(f"{uniform_error_bound_paper(5, 5, n_p=11, a2=.15):.4f}")
    28.0303
    """
    n, size = box_and_query(n_p, s)
    return plain(uniform_bias_bound_paper(gamma, size, n_p=n) + size / n * noise_mean_abs(a2, noise=noise))


def uniform_error_bound_tight(
    gamma: ArrayLike, s: ArrayLike, *, n_p: ArrayLike, a2: ArrayLike, noise: NoiseLaw = "laplace"
) -> Floats:
    """Return the largest expected absolute error over gamma-smooth data: the exact one at the largest bias.

    >>> print(f"{uniform_error_bound_tight(5, 5, n_p=11, a2=.15):.4f}")
    13.6700
    """
    return uniform_error_exact(uniform_bias_bound(gamma, s, n_p=n_p), s, n_p=n_p, a2=a2, noise=noise)


def uniform_gamma_max(eps: ArrayLike, delta: ArrayLike, *, s: ArrayLike, n_p: ArrayLike, a2: ArrayLike) -> Floats:
    """Return the paper's largest gamma, (eps + c ln delta)/min(s, n_p - s), that keeps the estimate useful.

    Equation usefulness-kd, sufficient only (E9); negative where even equal cells are not enough. At s = n_p it is 0/0
    in the paper (E8): here inf when eps >= c ln(1/delta), else -inf. `uniform_gamma_max_exact` is the exact limit.

    >>> print(f"{uniform_gamma_max(34.0779766, 0.05, s=5, n_p=11, a2=.15):.4f}")
    5.0000
    """
    room = positive("eps", eps) + _scale(s, n_p, a2) * np.log(fraction("delta", delta))
    return _per_bias(room, uniform_bias_bound_paper(1.0, s, n_p=n_p))


def uniform_gamma_crossover(
    error: ArrayLike, s: ArrayLike, *, n_p: ArrayLike, a2: ArrayLike, noise: NoiseLaw = "laplace"
) -> Floats:
    """Return the gamma up to which the tight bound stays within `error`, the expected error of a rival.

    inf where every gamma does (a query of the whole box), -inf where none does.

    >>> print(f"{uniform_gamma_crossover(37.0479271, 5, n_p=11, a2=.15):.4f}")
    13.5842
    """
    n, size = box_and_query(n_p, s)
    part = size / n
    bias = part * _shift_with_mean_abs(positive("error", error) / part, positive("a2", a2), noise)
    return _per_bias(bias, uniform_bias_bound(1.0, size, n_p=n))


def uniform_gamma_crossover_paper(
    error: ArrayLike, s: ArrayLike, *, n_p: ArrayLike, a2: ArrayLike, noise: NoiseLaw = "laplace"
) -> Floats:
    """Return the gamma up to which the paper's bound stays within `error`; it is pessimistic (E9).

    >>> print(f"{uniform_gamma_crossover_paper(37.0479271, 5, n_p=11, a2=.15):.4f}")
    6.8035
    """
    n, size = box_and_query(n_p, s)
    room = positive("error", error) - size / n * noise_mean_abs(a2, noise=noise)
    return _per_bias(room, uniform_bias_bound_paper(1.0, size, n_p=n))


def uniform_error_eta(eta: ArrayLike, s: ArrayLike, *, a1: ArrayLike) -> Floats:
    """Return the paper's curve "E(eps_H)" of the inconsistency eta (Theorem random). NOT an expected error (E5).

    It takes eta = (s/n_p) y_p - Q y_I for independent of the cell noise that eta contains. The true expected error does
    not depend on a1 at all: it is `uniform_error_exact`, 3.03 at the paper's defaults where this gives 49.39. What the
    paper reads off the curve (growing with s, E23; spend on cells, E25; still above least squares at eta = 10, E26) is
    about the curve only. For an estimate of the error from a release use `uniform_risk_estimate`.

    >>> print(f"{uniform_error_eta(5, 5, a1=.05):.4f}")
    49.3895
    """
    return lap_sum_mean_abs_shift(eta, s, alpha=a1)


def uniform_risk_estimate(y: ArrayLike, q: ArrayLike, *, v1: ArrayLike, v2: ArrayLike) -> Floats:
    """Return an unbiased estimate of the squared error of the uniform estimate, from the released cells y of a box.

    q holds the query's weight of each cell; cells are on the last axis. The estimated bias b = (s/n_p) sum y - q y has
    variance v1 (sum q^2 - s^2/n_p), so E[b^2] less that, plus (s/n_p)^2 v2, is the risk (spec 4.5). One query's
    estimate is far too noisy (it may be negative): pool over queries or boxes. Compare with `V_GLS`.

    >>> print(uniform_risk_estimate([10.0, 20.0, 30.0, 40.0], [1, 0, 0, 0], v1=100, v2=16))
    151.0
    """
    cells, weights = np.broadcast_arrays(numbers("y", y), numbers("q", q))
    part = weights.mean(axis=-1)
    bias = part * cells.sum(axis=-1) - (weights * cells).sum(axis=-1)
    spread = (weights**2).sum(axis=-1) - part * weights.sum(axis=-1)
    return plain(bias**2 - not_negative("v1", v1) * spread + part**2 * not_negative("v2", v2))


def _scale(s: ArrayLike, n_p: ArrayLike, a2: ArrayLike) -> Floats:
    n, size = box_and_query(n_p, s)
    return np.asarray(size / (n * positive("a2", a2)))


def _per_bias(room: Floats, bias_per_gamma: Floats) -> Floats:
    """Return the gamma that fills `room`; a query without bias has any gamma or none."""
    free = bias_per_gamma == 0
    gamma = room / np.where(free, 1.0, bias_per_gamma)
    return plain(np.where(free, np.where(room >= 0, np.inf, -np.inf), gamma))


def _shift_with_mean_abs(mean: Floats, alpha: Floats, noise: NoiseLaw) -> Floats:
    """Return w >= 0 with E|w + N| = mean, and -inf where the mean is below E|N|."""

    def solve(wanted: float, a: float) -> float:
        def excess(w: float) -> float:
            return float(noise_mean_abs_shift(w, a, noise=noise)) - wanted

        # E|w + N| is at least w, so w = wanted is far enough; rounding may put its excess just below 0.
        return (
            -np.inf
            if excess(0.0) > 0
            else wanted
            if excess(wanted) <= 0
            else float(brentq(excess, 0.0, wanted, xtol=1e-14 * wanted))
        )

    return each(solve, mean, alpha)
