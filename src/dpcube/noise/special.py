"""Special functions: the normal law, the tail of the chi-square law, and the logistic function.

Each is accurate to a few units in the last places of a double; SciPy is their oracle in tests, not a dependency.

*Normal tail.* For x > 0 the trapezoid rule of step h on erfc(x) exp(x^2) = (x / pi) * integral of exp(-t^2) /
(t^2 + x^2) over all t errs by exp(-(pi/h)^2) and by the residue at t = ix, which is known (Chiarella and Reichel 1968):

    erfc(x) exp(x^2) = (2 h x / pi) * sum over k >= 0 of exp(-s^2) / (s^2 + x^2), s = (k + 1/2) h,
                       + 2 exp(x^2) / (1 + exp(2 pi x / h))

At half-integer nodes no term has a pole at x = 0, so both parts are positive and nothing cancels. With h = 1/2 the rest
is below 1e-17, and twelve terms reach exp(-36). Beyond x = 2 pi the residue is below 1e-17 of the sum.

*Quantile.* Wichura's rational approximations (1988, Applied Statistics 37, algorithm AS 241), over arrays.
"""

import math

import numpy as np

from dpcube.core.arrays import Floats

_STEP = 0.5
_NODES = ((np.arange(13) + 0.5) * _STEP) ** 2
_WEIGHTS = 2 * _STEP / np.pi * np.exp(-_NODES)
_NO_RESIDUE = 2 * np.pi

_CENTRAL, _MIDDLE = 0.425, 5.0
_QUANTILE = {
    "central": (
        (3.3871328727963666080, 133.14166789178437745, 1971.5909503065514427, 13731.693765509461125,
         45921.953931549871457, 67265.770927008700853, 33430.575583588128105, 2509.0809287301226727),
        (1.0, 42.313330701600911252, 687.18700749205790830, 5394.1960214247511077,
         21213.794301586595867, 39307.895800092710610, 28729.085735721942674, 5226.4952788528545610),
    ),
    "middle": (
        (1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504,
         1.27045825245236838258, 0.241780725177450611770, 2.27238449892691845833e-2, 7.74545014278341407640e-4),
        (1.0, 2.05319162663775882187, 1.67638483018380384940, 0.689767334985100004550,
         0.148103976427480074590, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9),
    ),
    "far": (
        (6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580, 0.296560571828504891230,
         2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7),
        (1.0, 0.599832206555887937690, 0.136929880922735805310, 1.48753612908506148525e-2,
         7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15),
    ),
}  # fmt: skip
"""Numerator and denominator of each range of Wichura's approximation, constant terms first."""


def normal_cdf(x: Floats) -> Floats:
    """Return the probability that a standard normal variable is at most x.

    >>> normal_cdf(np.array([-1.96, 0.0, 1.96])).round(4)
    array([0.025, 0.5  , 0.975])
    """
    tail = 0.5 * np.exp(-0.5 * x**2) * _scaled_tail(np.abs(x) / math.sqrt(2))
    return np.where(x < 0, tail, 1 - tail)


def inverse_mills_ratio(x: Floats) -> Floats:
    """Return the normal density at x over the probability of being at most x, for every x without overflow.

    >>> inverse_mills_ratio(np.array([-1000.0, 0.0, 5.0])).round(6)
    array([1.000001e+03, 7.978850e-01, 1.000000e-06])
    """
    density = np.exp(-0.5 * x**2) / math.sqrt(2 * math.pi)
    scaled = _scaled_tail(np.abs(x) / math.sqrt(2))
    return np.where(x < 0, math.sqrt(2 / math.pi) / scaled, density / normal_cdf(np.maximum(x, 0.0)))


def _scaled_tail(x: Floats) -> Floats:
    """Return erfc(x) exp(x^2) for x >= 0, by the formula of this module's docstring."""
    square = x**2
    total = np.zeros_like(x)
    for node, weight in zip(_NODES.tolist(), _WEIGHTS.tolist(), strict=True):
        total += weight / (node + square)
    near = np.minimum(x, _NO_RESIDUE)
    residue = 2 * np.exp(near**2) / (1 + np.exp(2 * np.pi / _STEP * near))
    return np.asarray(total * x + np.where(x < _NO_RESIDUE, residue, 0.0))


def normal_quantile(probability: Floats) -> Floats:
    """Return the x that a standard normal variable stays below with a probability between 0 and 1, excluded.

    >>> normal_quantile(np.array([0.025, 0.5, 0.975])).round(2)
    array([-1.96,  0.  ,  1.96])
    """
    p = np.asarray(probability, np.float64)
    q = p - 0.5
    found = np.asarray(q * _ratio("central", np.maximum(_CENTRAL**2 - q * q, 0.0)))
    outer = np.abs(q) > _CENTRAL
    if np.any(outer):
        r = np.sqrt(-np.log(np.where(q[outer] < 0, p[outer], 1 - p[outer])))
        tail = np.where(r <= _MIDDLE, _ratio("middle", r - 1.6), _ratio("far", r - _MIDDLE))
        found[outer] = np.copysign(tail, q[outer])
    return found


def _ratio(part: str, r: Floats) -> Floats:
    above, below = _QUANTILE[part]
    return _polynomial(above, r) / _polynomial(below, r)


def _polynomial(coefficients: tuple[float, ...], r: Floats) -> Floats:
    total = np.full_like(r, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total *= r
        total += coefficient
    return total


def chi_square_tail(x: float, degrees: int) -> float:
    """Return the probability that a chi-square variable of so many degrees of freedom exceeds x.

    With a = degrees/2 and y = x/2 this is the incomplete gamma function Q(a, y): where y < a + 1 one less the power
    series of P, elsewhere Legendre's continued fraction by Lentz's method.

    >>> round(chi_square_tail(3.841459, 1), 6)
    0.05
    """
    if x <= 0:
        return 1.0
    a, y = degrees / 2, x / 2
    front = math.exp(a * math.log(y) - y - math.lgamma(a))
    if y < a + 1:
        term = total = 1 / a
        while term > total * 1e-17:
            a += 1
            term *= y / a
            total += term
        return max(1 - front * total, 0.0)
    b, step, d = y + 1 - a, 0, 1 / (y + 1 - a)
    c, fraction, change = math.inf, d, 0.0
    while abs(change - 1) > 1e-15:
        step += 1
        numerator = step * (a - step)
        b += 2
        d = 1 / (b + numerator * d)
        c = b + numerator / c
        change = c * d
        fraction *= change
    return front * fraction


def logistic(x: Floats) -> Floats:
    """Return 1 / (1 + exp(-x)) without overflow.

    >>> logistic(np.array([-1000.0, 0.0, 1000.0]))
    array([0. , 0.5, 1. ])
    """
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, small, 1.0) / (1 + small))
