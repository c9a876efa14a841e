"""Silent and seeded noise, for tests and experiments. Whatever is made with it is stamped "not private"."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray


class SilentNoise:
    """No noise at all: exact counts come out."""

    private = False

    def draw(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:  # noqa: ARG002 (silence has no scale)
        """Return zeros."""
        return np.zeros(size, np.int64)


class SeededNoise:
    """Two-sided geometric noise from a seed, for experiments that others can repeat."""

    private = False

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def draw(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
        """Return the difference of two geometric variables, drawn with floating-point arithmetic."""
        stop = -np.expm1(-float(epsilon))
        return self._generator.geometric(stop, size) - self._generator.geometric(stop, size)
