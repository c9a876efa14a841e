"""Sums of n independent discrete Laplace noises P(z) ~ exp(-alpha|z|): mass, tail and expected sizes (spec 4.10)."""

import numpy as np
from numpy.typing import ArrayLike

from dpcube.theory.arguments import Floats, numbers, plain, positive, whole
from dpcube.theory.contour import lattice_scales, log_tail


def dl_sum_logpmf(k: ArrayLike, n: ArrayLike, *, alpha: ArrayLike) -> Floats:
    """Return log P(S = k) for the sum S of n discrete Laplace noises, and -inf where k is not whole.

    >>> print(f"{np.exp(dl_sum_logpmf(7, 3, alpha=0.5)):.8f}")
    0.02384391
    """
    at, count, a = np.broadcast_arrays(np.abs(numbers("k", k)), whole("n", n), positive("alpha", alpha))
    single = np.log(np.tanh(a / 2)) - a * at
    many = _log_tail(np.floor(at), np.maximum(count, 2), a, order=0)
    return plain(np.where(at == np.floor(at), np.where(count == 1, single, many), -np.inf))


def dl_sum_sf(t: ArrayLike, n: ArrayLike, *, alpha: ArrayLike) -> Floats:
    """Return P(S > t) for the sum S of n discrete Laplace noises and any real t.

    >>> print(f"{dl_sum_sf(0, 1, alpha=1.0):.6f}")
    0.268941
    """
    at, count, a = np.broadcast_arrays(numbers("t", t), whole("n", n), positive("alpha", alpha))
    least = np.floor(at) + 1
    # By symmetry P(S >= j) = 1 - P(S >= 1 - j), so that only j >= 1 are computed.
    above = np.exp(_log_tail(np.where(least > 0, least, 1 - least) - 0.5, count, a, order=1))
    return plain(np.where(least > 0, above, 1 - above))


def dl_sum_mean_abs(n: ArrayLike, alpha: ArrayLike) -> Floats:
    """Return E|S| for the sum S of n discrete Laplace noises.

    >>> print(f"{dl_sum_mean_abs(11, 0.05):.4f}")
    73.9940
    """
    return dl_sum_mean_abs_shift(0.0, n, alpha=alpha)


def dl_sum_mean_abs_shift(w: ArrayLike, n: ArrayLike, *, alpha: ArrayLike) -> Floats:
    """Return E|w + S| for the sum S of n discrete Laplace noises: linear in w between whole numbers.

    >>> print(f"{dl_sum_mean_abs_shift(2.5, 1, alpha=1.0):.5f}")
    2.57876
    """
    at, count, a = np.broadcast_arrays(np.abs(numbers("w", w)), whole("n", n), positive("alpha", alpha))
    low = np.floor(at)
    here, next_one = (2 * np.exp(_log_tail(j, count, a, order=2)) + j for j in (low, low + 1))
    return plain(here + (at - low) * (next_one - here))


def _log_tail(x: Floats, n: Floats, alpha: Floats, *, order: int) -> Floats:
    log, _ = log_tail(x, lattice_scales(alpha)[..., None], n[..., None], order=order, lattice=True)
    return log
