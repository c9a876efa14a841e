"""HB (Qardaji, Yang, Li, "Understanding hierarchical methods for differentially private histograms", PVLDB 2013).

A regular tree with equal budgets for its levels, the root not counted, its branching selected to make ranges accurate.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from dpcube.core.counter import NoisyCounter
from dpcube.measurements import Transcript
from dpcube.research.strategies.hierarchical import MAX_BRANCHING, Hierarchical
from dpcube.strategies.strategy import Parameter

FLAT = 3
"""From so many axes on a tree hardly ever reduces the error (their section 5), so cells alone are counted."""


@dataclass(frozen=True, slots=True)
class HB:
    """`Hierarchical` with the branching of least expected error, a function of the public shape."""

    name: str = "hb"

    def parameters(self) -> dict[str, Parameter]:
        """Return nothing: there are no parameters."""
        return {}

    def peak_bytes(self, shape: tuple[int, ...]) -> int:
        """Return the memory of the regular tree."""
        return Hierarchical().peak_bytes(shape)

    def run(self, counter: NoisyCounter) -> Transcript:
        """Count the regular tree of the branching that fits the shape: proof as there."""
        return Hierarchical(branching=best_branching(counter.shape), root=False).run(counter)


def best_branching(shape: tuple[int, ...]) -> int:
    """Return the branching of least expected error of a range.

    With h levels, the error of a range in a row of n cells is proportional to (b - 1) h^3 - 2 (b + 1) h^2/3 (their
    equation 3), and that of a rectangle in a square of side n to b (n - 1) h^2 (their section 5.1). Sides that differ
    are taken for the square of as many cells.

    >>> [best_branching((n,)) for n in (256, 1024, 4096)], best_branching((128, 128))
    ([16, 32, 16], 12)
    """
    sides = [extent for extent in shape if extent > 1]
    if len(sides) in (0, 1):
        return _least(sides[0] if sides else 2, lambda b, h: (b - 1) * h**3 - 2 * (b + 1) * h**2 / 3)
    if len(sides) >= FLAT:
        return min(max(sides), MAX_BRANCHING)
    return _least(math.isqrt(math.prod(sides)), lambda b, h: b * h**2)


def _least(side: int, error: Callable[[int, int], float]) -> int:
    """Return the branching of least error among 2 to the side: of those with equal numbers of levels, the smallest."""
    candidates = {levels: _root(side, levels) for levels in range(1, max(side - 1, 1).bit_length() + 1)}
    return min(candidates.values(), key=lambda b: (error(b, _levels(side, b)), b))


def _root(side: int, levels: int) -> int:
    """Return the least branching (from 2) with which so many levels reach single cells."""
    branching: int = max(2, math.floor(side ** (1 / levels)) - 1)
    while branching**levels < side:
        branching += 1
    return min(branching, MAX_BRANCHING)


def _levels(side: int, branching: int) -> int:
    levels, reached = 0, 1
    while reached < side:
        levels, reached = levels + 1, reached * branching
    return max(levels, 1)
