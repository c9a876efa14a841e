"""Usefulness of the uniform estimate: the probability of an error of at most eps, exact and worst case (spec 4.4).

(eps, delta)-useful means P(|b + c N| <= eps) >= 1 - delta, in the notation of `dpcube.research.theory.uniform`.
For Laplace noise the probability falls with |b| (Anderson's theorem, which the paper's "symmetry" stands for: E10), so
the worst data has the largest bias. For discrete noise it falls only from one point of the lattice to the next, and the
worst bias of a whole step of c is looked for.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from dpcube.core.arrays import Floats
from dpcube.noise.contour import SAME
from dpcube.noise.law import NoiseLaw, discrete_sf, each, fraction, is_discrete, numbers, plain, positive
from dpcube.research.theory.single import box_and_query, not_negative
from dpcube.research.theory.uniform import uniform_bias_bound, uniform_bias_bound_paper


def uniform_usefulness(
    eps: ArrayLike, b: ArrayLike, *, s: ArrayLike, n_p: ArrayLike, a2: ArrayLike, noise: NoiseLaw = "laplace"
) -> Floats:
    """Return P(|error| <= eps) of the uniform estimate of a query with bias b.

    >>> print(f"{uniform_usefulness(9.07797659, 0, s=5, n_p=11, a2=.15):.6f}")
    0.950000
    """
    n, size = box_and_query(n_p, s)
    most, bias, a = positive("eps", eps), np.abs(numbers("b", b)), positive("a2", a2)
    part = size / n
    if is_discrete(noise):
        return _discrete_probability(most / part, bias / part, a)
    near, far = a * np.abs(most - bias) / part, a * (most + bias) / part
    within = 1 - (np.exp(-near) + np.exp(-far)) / 2
    beyond = -np.exp(-near) * np.expm1(near - far) / 2
    return plain(np.where(bias <= most, within, beyond))


def uniform_usefulness_worst(
    eps: ArrayLike, gamma: ArrayLike, *, s: ArrayLike, n_p: ArrayLike, a2: ArrayLike, noise: NoiseLaw = "laplace"
) -> Floats:
    """Return the least P(|error| <= eps) of the uniform estimate over gamma-smooth data.

    >>> print(f"{uniform_usefulness_worst(20.6142682, 5, s=5, n_p=11, a2=.15):.6f}")
    0.950000
    """
    largest = uniform_bias_bound(gamma, s, n_p=n_p)
    at_largest = uniform_usefulness(eps, largest, s=s, n_p=n_p, a2=a2, noise=noise)
    if not is_discrete(noise):
        return at_largest
    n, size = box_and_query(n_p, s)
    part, most = size / n, positive("eps", eps)
    # A step of the bias by c never gains probability, so the least lies in the last step: at its end, or just past the
    # bias at which the upper end eps - b leaves a lattice point behind.
    past = most - (np.floor((most - largest) / part + SAME) + 1) * part + 1e3 * SAME * part
    candidates = np.where((past > 0) & (past < largest), past, 0.0)
    elsewhere = uniform_usefulness(most, candidates, s=s, n_p=n_p, a2=a2, noise=noise)
    return plain(np.minimum(at_largest, elsewhere))


def uniform_eps_paper(gamma: ArrayLike, delta: ArrayLike, *, s: ArrayLike, n_p: ArrayLike, a2: ArrayLike) -> Floats:
    """Return the paper's sufficient eps, gamma min(s, n_p - s) + c ln(1/delta) (eq. usefulness-kd; loose, E9).

    >>> print(f"{uniform_eps_paper(5, 0.05, s=5, n_p=11, a2=.15):.4f}")
    34.0780
    """
    n, size = box_and_query(n_p, s)
    c = size / (n * positive("a2", a2))
    return plain(uniform_bias_bound_paper(gamma, size, n_p=n) - c * np.log(fraction("delta", delta)))


def uniform_eps_exact(
    gamma: ArrayLike, delta: ArrayLike, *, s: ArrayLike, n_p: ArrayLike, a2: ArrayLike, noise: NoiseLaw = "laplace"
) -> Floats:
    """Return the least eps that holds with probability 1 - delta for all gamma-smooth data.

    >>> print(f"{uniform_eps_exact(5, 0.05, s=5, n_p=11, a2=.15):.4f}")
    20.6143
    """
    n, size = box_and_query(n_p, s)
    bias, left, a = uniform_bias_bound(gamma, size, n_p=n), fraction("delta", delta), positive("a2", a2)
    part = size / n
    if is_discrete(noise):
        return each(_least_eps, not_negative("gamma", gamma), left, size, n, a)
    ratio = bias * a / part
    # From exp(-eps/c) cosh(b/c) = delta where eps >= b, else exp(-b/c) sinh(eps/c) = 1 - delta; without overflow.
    wide = ratio + np.log1p(np.exp(-2 * ratio)) - np.log(2 * left)
    narrow = ratio + np.log(1 - left + np.sqrt((1 - left) ** 2 + np.exp(-2 * ratio)))
    return plain(np.where(wide >= ratio, wide, narrow) * part / a)


def uniform_gamma_max_exact(
    eps: ArrayLike, delta: ArrayLike, *, s: ArrayLike, n_p: ArrayLike, a2: ArrayLike, noise: NoiseLaw = "laplace"
) -> Floats:
    """Return the largest gamma for which all gamma-smooth data has P(|error| <= eps) >= 1 - delta.

    inf where every gamma will do (a query of the whole box), -inf where none will.

    >>> print(f"{uniform_gamma_max_exact(20.6142682, 0.05, s=5, n_p=11, a2=.15):.4f}")
    5.0000
    """
    n, size = box_and_query(n_p, s)
    return each(
        lambda *case: _largest_gamma(*case, noise=noise),
        positive("eps", eps),
        fraction("delta", delta),
        size,
        n,
        positive("a2", a2),
    )


def _discrete_probability(most: Floats, bias: Floats, alpha: Floats) -> Floats:
    """Return P(-most <= bias + Z <= most)."""
    least, last = np.ceil(-most - bias - SAME), np.floor(most - bias + SAME)
    mass = discrete_sf(least - 1, alpha) - discrete_sf(last, alpha)
    return plain(np.where(last >= least, mass, 0.0))


def _least_eps(gamma: float, left: float, s: float, n: float, a2: float) -> float:
    def useful(eps: float) -> bool:
        return bool(uniform_usefulness_worst(eps, gamma, s=s, n_p=n, a2=a2, noise="discrete") >= 1 - left)

    high = float(uniform_bias_bound(gamma, s, n_p=n)) + s / n
    while not useful(high):
        high *= 2
    return _border(useful, high, 0.0)


def _largest_gamma(eps: float, left: float, s: float, n: float, a2: float, *, noise: NoiseLaw) -> float:
    def useful(gamma: float) -> bool:
        return bool(uniform_usefulness_worst(eps, gamma, s=s, n_p=n, a2=a2, noise=noise) >= 1 - left)

    if not useful(0.0):
        return -np.inf
    if s == n:
        return np.inf
    low, high = 0.0, eps * n / (s * (n - s))
    while useful(high):
        low, high = high, 2 * high
    return _border(useful, low, high)


def _border(holds: Callable[[float], bool], inside: float, outside: float) -> float:
    """Return the last point towards `outside` at which a condition that holds `inside` still does."""
    while abs(outside - inside) > 1e-14 * max(abs(inside), abs(outside)):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if holds(middle) else (inside, middle)
    return inside
