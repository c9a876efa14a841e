"""Privelet (Xiao, Wang, Gehrke, "Differential privacy via wavelet transforms", ICDE 2010).

In 1-D a row of m = 2^l cells is turned into its sum and the differences of the sums of all pairs of halves: m numbers.
One row more changes l + 1 of them, each by one, so Laplace noise of scale (l + 1)/epsilon on each is epsilon-DP (this
is the paper's generalised sensitivity 1 + log2 m with its weights multiplied out; with neighbours that replace a row
it has twice as much). In several dimensions each axis is transformed in turn, and the sensitivities multiply.

It needs noise on differences, which the gate does not count, so it is research code.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.research.rivals.rival import PURE, checked


@dataclass(frozen=True, slots=True)
class Privelet:
    """The Haar wavelet on every axis; axes of one cell are left alone."""

    name: str = "privelet"
    privacy: str = PURE

    def release(self, counts: Ints, epsilon: float, rng: np.random.Generator) -> Floats:
        """Return the counts whose transform is that of the exact ones plus noise."""
        exact = checked(counts, epsilon)
        padded = np.pad(exact, [(0, 2 ** _levels(extent) - extent) for extent in exact.shape])
        scale = sensitivity(exact.shape) / epsilon
        noisy = haar(padded) + rng.laplace(scale=scale, size=padded.shape)
        return unhaar(noisy)[tuple(map(slice, exact.shape))]


def sensitivity(shape: tuple[int, ...]) -> int:
    """Return how far one row more moves the transform, in L1: the product of 1 + log2 of the padded axes.

    >>> sensitivity((128, 100))
    64
    """
    return math.prod(1 + _levels(extent) for extent in shape)


def _levels(extent: int) -> int:
    return (extent - 1).bit_length()


def haar(array: Floats) -> Floats:
    """Return sums and differences of halves along every axis, each a power of two long: the sum first.

    >>> haar(np.array([1.0, 2.0, 3.0, 5.0])).tolist()
    [11.0, -5.0, -1.0, -2.0]
    """
    for axis in range(array.ndim):
        rows = np.moveaxis(array, axis, -1).copy()
        length = rows.shape[-1]
        while length > 1:
            even, odd = rows[..., :length:2].copy(), rows[..., 1:length:2].copy()
            length //= 2
            rows[..., :length], rows[..., length : 2 * length] = even + odd, even - odd
        array = np.moveaxis(rows, -1, axis)
    return array


def unhaar(array: Floats) -> Floats:
    """Return the array whose sums and differences these are.

    >>> unhaar(np.array([11.0, -5.0, -1.0, -2.0])).tolist()
    [1.0, 2.0, 3.0, 5.0]
    """
    for axis in range(array.ndim):
        rows = np.moveaxis(array, axis, -1).copy()
        length = 1
        while length < rows.shape[-1]:
            total, apart = rows[..., :length].copy(), rows[..., length : 2 * length].copy()
            rows[..., : 2 * length : 2], rows[..., 1 : 2 * length : 2] = (total + apart) / 2, (total - apart) / 2
            length *= 2
        array = np.moveaxis(rows, -1, axis)
    return array
