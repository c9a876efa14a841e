"""The law of the error of any linear estimate, from the scales and multiplicities of its noises.

An estimate that adds weights times independent noises errs by X = sum over i of b_i S_i, where S_i is the sum of k_i
independent Lap(1) and b_i = |weight_i|/alpha_i (spec 4.2; the paper's lemma on multiples of Z lacks the bars, E14).
That covers any query, number of boxes and linear estimator.

With `noise="discrete"` each noise is an integer of the law P(z) ~ exp(-alpha|z|), and `weights` must be given beside
the scales where they are not 1: scales stay |weight|/alpha.

The last axis of `scales`, `multiplicities` and `weights` runs over the terms; the other axes broadcast.

Accuracy of a mean, relative, and what it takes: 1e-12 and 0.3 ms for Laplace noise, and for discrete noise with one or
two different weights (two: from alpha = .0015 on). With three or more, 1e-10 from points, which takes up to 5 ms where
there are two million (`dpcube.research.theory.lattice_points`); beyond that 1e-9 from a series (`many_lattices`,
measured: 6e-10 to 1e-9 at the 90th percentile, 7e-9 at most). Three to six weights take 0.2 to 1 ms for most alphas and
up to 9 ms between .1 and 1; more weights 1 ms up to alpha = .5, and up to 0.2 s above. Probabilities and quantiles:
1e-12 relative for one weight, 1e-10 absolute from points; a series gives quantiles up to 0.004 standard deviations too
wide. A quantile takes 1 ms for one weight, however many noises, and for two; up to 20 ms from points, 2 to 10 ms from a
series.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcube.core.arrays import Floats
from dpcube.core.errors import InputError
from dpcube.noise.contour import log_tail, tail_point
from dpcube.noise.law import NoiseLaw, is_discrete, numbers, plain, positive, whole_numbers
from dpcube.research.theory.lattice_points import (
    LARGEST_OF_MORE,
    LARGEST_OF_TWO,
    Lattice,
    LatticePoints,
    Law,
    OneLattice,
)
from dpcube.research.theory.many_lattices import ManyLattices
from dpcube.research.theory.single import not_negative

_NODES = np.exp(np.arange(-37, 37 + 1 / 16, 1 / 8))
_CHUNK = 1 << 10


def mean_abs(
    scales: ArrayLike, multiplicities: ArrayLike, *, noise: NoiseLaw = "laplace", weights: ArrayLike = 1.0
) -> Floats:
    """Return E|X|, the expected absolute error (spec 4.2): (2/pi) times the integral of (1 - phi(t))/t^2.

    >>> print(f"{mean_abs([20.0, 20.0], [5, 6]):.4f}")
    74.0028
    """
    b, k, w = _terms(scales, multiplicities, weights)
    if is_discrete(noise):
        return _row_by_row(lambda law, _: law.mean_abs(0.0), b, k, w, np.zeros(()))
    return plain(log_trapezoid(b, k))


def mean_abs_shift(
    shift: ArrayLike,
    scales: ArrayLike,
    multiplicities: ArrayLike,
    *,
    noise: NoiseLaw = "laplace",
    weights: ArrayLike = 1.0,
) -> Floats:
    """Return E|shift + X|, the expected absolute error of an estimate with a bias (spec 4.2 and 4.4).

    >>> print(f"{mean_abs_shift(-5.5, [0.5 / 0.15], [2]):.5f}")
    6.98839
    """
    b, k, w = _terms(scales, multiplicities, weights)
    off = numbers("shift", shift)
    if is_discrete(noise):
        return _row_by_row(lambda law, at: law.mean_abs(at), b, k, w, off)
    return plain(np.abs(off) + 2 * _tail(np.abs(off), b, k, order=2))


def error_sf(
    x: ArrayLike,
    scales: ArrayLike,
    multiplicities: ArrayLike,
    *,
    noise: NoiseLaw = "laplace",
    weights: ArrayLike = 1.0,
) -> Floats:
    """Return P(|X| > x), the probability of an absolute error above x.

    >>> print(f"{error_sf(3.0, [1.0], [1]):.6f}")
    0.049787
    """
    b, k, w = _terms(scales, multiplicities, weights)
    at = not_negative("x", x)
    if is_discrete(noise):
        return _row_by_row(lambda law, point: law.exceeds(point), b, k, w, at)
    return plain(2 * _tail(at, b, k, order=1))


def error_quantile(
    scales: ArrayLike,
    multiplicities: ArrayLike,
    confidence: ArrayLike,
    *,
    noise: NoiseLaw = "laplace",
    weights: ArrayLike = 1.0,
) -> Floats:
    """Return the smallest h with P(|X| <= h) at least `confidence`, by inverting the characteristic function.

    For how exactly, see the head of this module. P(|X| <= h) is never below the confidence by more than 2e-9.

    >>> print(f"{error_quantile([1.0], [1], 0.95):.6f}")
    2.995732
    >>> print(error_quantile([10.0], [1], 0.95, noise="discrete"))
    30.0
    """
    b, k, w = _terms(scales, multiplicities, weights)
    sure = numbers("confidence", confidence)
    if np.any((sure < 0) | (sure >= 1)):
        message = f"confidence is {sure[(sure < 0) | (sure >= 1)].flat[0]:g}; it must be in [0, 1), such as 0.95"
        raise InputError(message)
    if is_discrete(noise):
        return _row_by_row(lambda law, at: law.quantile(at), b, k, w, sure)
    silent, b, k = _without_silence(b, k)
    return plain(np.where(silent, 0.0, tail_point((1 - sure) / 2, b, k, lattice=False)))


def log_trapezoid(b: Floats, k: Floats) -> Floats:
    """Return (2/pi) times the integral of (1 - prod (1 + b_i^2 t^2)^(-k_i))/t^2 over t > 0, over the last axis.

    The trapezoid rule in x = log(sigma t), from -37 to 37 in steps of 1/8: the ends left out are below 1e-16 and the
    rule errs by less than exp(-39). Analytic in b: complex scales give derivatives (see `budget_split`).
    """
    sigma = np.sqrt((2 * k * (b * b).real).sum(axis=-1))
    unit = np.where(sigma > 0, sigma, 1.0)
    rows = (b / unit[..., None]).reshape(-1, b.shape[-1])
    counts = np.broadcast_to(k, b.shape).reshape(rows.shape)
    result = np.empty(len(rows), dtype=b.dtype)
    for start in range(0, len(rows), _CHUNK):
        part = slice(start, start + _CHUNK)
        log = np.zeros((len(rows[part]), _NODES.size), dtype=b.dtype)
        for scale, count in zip(rows[part].T, counts[part].T, strict=True):
            log -= count[:, None] * np.log1p((scale[:, None] * _NODES) ** 2)
        result[part] = -np.expm1(log) @ (1 / _NODES)
    return np.asarray(result.reshape(sigma.shape) * unit / (4 * np.pi))


def _terms(scales: ArrayLike, multiplicities: ArrayLike, weights: ArrayLike) -> tuple[Floats, Floats, Floats]:
    b = np.atleast_1d(not_negative("scales", scales))
    k = whole_numbers("multiplicities", multiplicities, least=0)
    w = positive("weights", weights)
    try:
        b, k, w = np.broadcast_arrays(b, k, w)
    except ValueError:
        shapes = f"scales {b.shape}, multiplicities {k.shape} and weights {w.shape}"
        message = f"{shapes} do not broadcast; give one of each per term"
        raise InputError(message) from None
    if not b.shape[-1]:
        message = "scales has no terms; give one scale per kind of noise, 0 for none"
        raise InputError(message)
    return b, k, w


def _tail(x: Floats, b: Floats, k: Floats, *, order: int) -> Floats:
    """Return the integral of `dpcube.noise.contour`, and 0 for rows without noise."""
    silent, b, k = _without_silence(b, k)
    log, _ = log_tail(x, b, k, order=order, lattice=False)
    return np.where(silent, 0.0, np.exp(log))


def _without_silence(b: Floats, k: Floats) -> tuple[NDArray[np.bool_], Floats, Floats]:
    """Return which rows have no noise at all, and the terms with some noise in these rows too."""
    silent = ~np.any((b > 0) & (k > 0), axis=-1)
    return silent, np.where(silent[..., None], 1.0, b), np.where(silent[..., None], 1.0, k)


def _row_by_row(ask: Callable[[Law, float], float], b: Floats, k: Floats, w: Floats, at: Floats) -> Floats:
    shape = np.broadcast_shapes(b.shape[:-1], at.shape)
    terms = [np.broadcast_to(part, shape + part.shape[-1:]).reshape(-1, part.shape[-1]) for part in (b, k, w)]
    points = np.broadcast_to(at, shape).reshape(-1)
    answers = [
        ask(_discrete_law(*row, shift=float(point)), float(point)) for *row, point in zip(*terms, points, strict=True)
    ]
    return plain(np.reshape(answers, shape))


class _Silent:
    """No noise at all."""

    def exceeds(self, _x: float) -> float:
        return 0.0

    def mean_abs(self, shift: float) -> float:
        return abs(shift)

    def quantile(self, _confidence: float) -> float:
        return 0.0


def _discrete_law(b: Floats, k: Floats, w: Floats, *, shift: float) -> Law:
    """Return the law of the sum of w times discrete noises of alpha = w/b, by as many lattices as it needs."""
    there = (b > 0) & (k > 0)
    if not there.any():
        return _Silent()
    order = np.argsort(-w[there])
    weights, counts = w[there][order], k[there][order]
    alphas = weights / b[there][order]
    starts = np.flatnonzero(np.append(True, np.diff(weights) < -1e-12 * weights[1:]))
    if starts.size == 1:
        return OneLattice(float(weights[0]), alphas, counts)
    ends = zip(starts, [*starts[1:], None], strict=True)
    most = LARGEST_OF_TWO if starts.size == 2 else LARGEST_OF_MORE
    lattices = [Lattice.of_noises(float(weights[i]), alphas[i:j], counts[i:j], most=most) for i, j in ends]
    few = [lattice for lattice in lattices if lattice is not None]
    points = LatticePoints.of_sum(few) if len(few) == len(lattices) else None
    # A lattice of too many points has next to none of its probability at 0.
    atom = float(np.prod([lattice.mass[0] if lattice is not None else 0.0 for lattice in lattices]))
    return points or ManyLattices.of_noises(weights, alphas, counts, atom=atom, shift=shift)
