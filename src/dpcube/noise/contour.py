"""Saddle-point contour integration of densities, tails and mean excesses of sums of Laplace noise.

Results are logarithms with a relative accuracy near machine precision, however far in the tail, with their slopes.

Let X be the sum of k_i independent Laplace variables of each scale b_i. Its moment generating function
M(y) = prod (1 - b_i^2 y^2)^(-k_i) has poles at +-1/b_i only, so for 0 < c < 1/max(b)

    (1/2 pi i) * integral over Re y = c of M(y) exp(-x y) y^(-p) dy

is the density of X at x (p = 0), P(X > x) (p = 1) and E max(X - x, 0) (p = 2).

*Lattice.* Let X instead be integer: a sum of discrete Laplace variables of parameters alpha_i. With y = 2 sinh(s/2) its
moment generating function at s is the same M(y), where b_i = 1/(2 sinh(alpha_i/2)): the lattice law is the continuous
one in another coordinate. As 1/(1 - exp(-s)) = exp(s/2)/y, summing P(X = j) exp(s (j - x)) over j gives

    (1/2 pi i) * integral of M(y) exp(-x s(y)) y^(-p) / sqrt(1 + y^2/4) dy,    s(y) = 2 arcsinh(y/2),

which is P(X = x), P(X >= x + 1/2) for half-integer x, and E max(X - x, 0) for integer x. (The path in s has length
2 pi; bent to the right its two ends run along Im s = +-pi, where the periodic integrand cancels.)

*Path.* The line is bent into the hyperbola y(u) = c + r (cosh(u + i theta) - cos theta), theta = 3 pi/8, through the
minimum c of the integrand on the real axis. All poles stay on their side of it. Shifting u to u + i v turns the
asymptotes by v: the integrand remains bounded for |v| <= pi/8 (towards 45 degrees, where a normal-like M no longer
decays, and towards the pole at 0), so the trapezoid rule of step 1/16 errs by exp(-2 pi (pi/8) 16) < 1e-17. The step is
smaller where the integrand is a narrow bell. Since |y| grows exponentially with u, 320 nodes reach any scale. Measured
against the closed forms: relative error below 1e-12 for n up to 10^4, scale ratios up to 10^6, tails down to 1e-88.
"""

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Floats
from dpcube.noise.special import normal_quantile

Complexes = NDArray[np.complex128]

ANGLE = 3 * np.pi / 8
CONTOUR_NODES = 320
CONTOUR_STEP = 1 / 16
# A bell of standard deviation w is summed to exp(-2 pi^2 w^2 / step^2) < 1e-17 with this step over w.
STEP_PER_WIDTH = 0.7
# Points of a lattice that differ by less than this fraction of its step are equal up to rounding.
SAME = 1e-9
_NEWTON_STEPS = 60
_CHUNK = 1 << 11


def log_tail(x: Floats, scales: Floats, multiplicities: Floats, *, order: int, lattice: bool) -> tuple[Floats, Floats]:
    """Return the logarithm of the integral in this module's docstring for p = `order`, and minus its slope in x.

    The last axis of `scales` and `multiplicities` runs over the terms; the others broadcast with x, which is not
    negative. On a lattice `scales` are the b_i of this module's docstring. Some scale must be positive in every row.
    """
    shape = np.broadcast_shapes(x.shape, scales.shape[:-1], multiplicities.shape[:-1])
    terms = np.broadcast_shapes(scales.shape[-1:], multiplicities.shape[-1:])
    points = np.broadcast_to(x, shape).reshape(-1)
    b = np.broadcast_to(scales, shape + terms).reshape(points.size, *terms)
    k = np.broadcast_to(multiplicities, shape + terms).reshape(points.size, *terms)
    logs, slopes = np.empty(points.size), np.empty(points.size)
    for start in range(0, points.size, _CHUNK):
        rows = slice(start, start + _CHUNK)
        logs[rows], slopes[rows] = _integrate(points[rows, None], b[rows], k[rows], order=order, lattice=lattice)
    return logs.reshape(shape), slopes.reshape(shape)


def tail_point(tail: Floats, scales: Floats, multiplicities: Floats, *, lattice: bool) -> Floats:
    """Return the x at which the integral of order 1 is `tail`, a probability of at most one half.

    The density is log-concave, so Newton's steps on the logarithm of the tail never fall short of the root after the
    first, and close in on it quadratically.
    """
    target = np.log(tail)
    x = _cornish_fisher(tail, scales, multiplicities)
    for _ in range(_NEWTON_STEPS):
        log, slope = log_tail(x, scales, multiplicities, order=1, lattice=lattice)
        last, x = x, np.maximum(x + (log - target) / slope, 0.0)
        if np.all(np.abs(x - last) <= 1e-7 * x):
            break
    return x


def lattice_quantile(confidence: Floats, scales: Floats, multiplicities: Floats) -> Floats:
    """Return the smallest whole h with P(|X| <= h) at least `confidence`, X the integer of this module's docstring."""
    point = tail_point(np.minimum((1 - confidence) / 2, 0.5), scales, multiplicities, lattice=True)
    return np.maximum(np.ceil(point - 0.5 - SAME * np.maximum(point, 1.0)), 0.0)


def _cornish_fisher(tail: Floats, scales: Floats, multiplicities: Floats) -> Floats:
    """Return the Cornish-Fisher approximation of a quantile from its cumulants 2 k b^2 and 12 k b^4."""
    variance = (2 * multiplicities * scales**2).sum(axis=-1)
    kurtosis = (12 * multiplicities * scales**4).sum(axis=-1) / variance**2
    z = -normal_quantile(tail)
    return np.asarray(np.sqrt(variance) * np.maximum(z + kurtosis / 24 * (z**3 - 3 * z), z / 2))


def lattice_scales(alpha: Floats) -> Floats:
    """Return the b of this module's docstring for discrete Laplace noise of parameter alpha."""
    # sinh overflows beyond 1400, where the noise is 0 for every purpose.
    return np.asarray(0.5 / np.sinh(np.minimum(alpha, 1400.0) / 2))


def _integrate(x: Floats, b: Floats, k: Floats, *, order: int, lattice: bool) -> tuple[Floats, Floats]:
    b = np.where(k > 0, b, 0.0)
    nearest = 1 / b.max(axis=1, keepdims=True)
    # Order 0 has no minimum at x = 0; the one of order 1 is a good path for it too.
    c = _minimum(x, b, k, order=max(order, 1), lattice=lattice)
    radius = np.minimum((nearest - c) / (1 - np.cos(ANGLE)), c / np.cos(ANGLE))
    step = np.minimum(CONTOUR_STEP, STEP_PER_WIDTH * _width(c, b, k, order=order) / (radius * np.sin(ANGLE)))
    u = step * np.arange(CONTOUR_NODES) + 1j * ANGLE
    y, direction = c + radius * (np.cosh(u) - np.cos(ANGLE)), radius * np.sinh(u)
    height = _log_integrand(c.astype(np.complex128), x, b, k, order=order, lattice=lattice).real
    values = np.exp(_log_integrand(y, x, b, k, order=order, lattice=lattice) - height) * direction
    values[:, 0] /= 2
    total = values.imag.sum(axis=1)
    slope = (values * _exponent(y, lattice=lattice)).imag.sum(axis=1) / total
    return np.log(total * step[:, 0] / np.pi) + height[:, 0], slope


def _log_integrand(y: Complexes, x: Floats, b: Floats, k: Floats, *, order: int, lattice: bool) -> Complexes:
    log = -x * _exponent(y, lattice=lattice)
    if order:
        log -= order * np.log(y)
    if lattice:
        log -= 0.5 * np.log1p(y * y / 4)
    for scale, count in zip(b.T, k.T, strict=True):
        log -= count[:, None] * np.log1p(-((scale[:, None] * y) ** 2))
    return log


def _exponent(y: Complexes, *, lattice: bool) -> Complexes:
    return np.asarray(2 * np.arcsinh(y / 2)) if lattice else y


def _minimum(x: Floats, b: Floats, k: Floats, *, order: int, lattice: bool) -> Floats:
    """Return the saddle point between 0 and the nearest pole, accurately enough for a path."""
    variance = (2 * k * b * b).sum(axis=1, keepdims=True)
    # A normal law of the same variance has its minimum further out, or else beyond the pole.
    normal = (x + np.sqrt(x * x + 4 * order * variance)) / (2 * variance)
    high = np.minimum(1 / b.max(axis=1, keepdims=True), normal)
    low = np.zeros_like(high)
    for _ in range(16):
        c = (low + high) / 2
        pull = x / np.sqrt(1 + c * c / 4) if lattice else x
        rising = (2 * k * b * b * c / (1 - (b * c) ** 2)).sum(axis=1, keepdims=True) > pull + order / c
        low, high = np.where(rising, low, c), np.where(rising, c, high)
    return np.asarray((low + high) / 2)


def _width(c: Floats, b: Floats, k: Floats, *, order: int) -> Floats:
    """Return the standard deviation of the bell that the integrand is near its minimum."""
    square = (b * c) ** 2
    curvature = (2 * k * b * b * (1 + square) / (1 - square) ** 2).sum(axis=1, keepdims=True) + max(order, 1) / c**2
    return np.asarray(1 / np.sqrt(curvature))
