"""Exact counts that cannot be seen: an array enters, noisy arrays leave.

Whoever holds exact counts may be a frame in somebody's traceback, so nobody holds the array: it is in the closure of a
function, where no repr, no format, no walk over attributes and no serialiser comes across it. What the gate needs is
done here, behind the seal (`core/seal.py`).
"""

from collections.abc import Callable
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from dpcube.core.boxes import Boxes, box_sums
from dpcube.core.candidates import Candidates
from dpcube.core.seal import sealed
from dpcube.core.selection import chosen
from dpcube.core.unique import Unique


class ExactCounts(Unique):
    """Exact counts in an array whose shape is public and whose numbers are not.

    >>> ExactCounts(np.array([[7654321, 0]]))
    <exact counts of shape (1, 2), hidden>
    """

    __slots__ = ("_hold", "shape")

    _hold: Callable[[], NDArray[np.int64]]
    shape: tuple[int, ...]

    @sealed
    def __init__(self, counts: NDArray[np.int64]) -> None:
        held = np.ascontiguousarray(counts, np.int64)
        object.__setattr__(self, "_hold", lambda: held)
        object.__setattr__(self, "shape", held.shape)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        msg = "exact counts are never changed"
        raise AttributeError(msg)

    def __repr__(self) -> str:
        return f"<exact counts of shape {self.shape}, hidden>"

    @property
    def size(self) -> int:
        """Number of counts, which is public."""
        return int(np.prod(self.shape, dtype=np.int64))

    @sealed
    def total(self) -> "ExactCounts":
        """Return the exact count of the whole, as a table of one cell; as below, it does not wrap around."""
        return ExactCounts(self._hold().sum(dtype=np.int64).reshape(1))

    @sealed
    def sums(self, boxes: Boxes) -> "ExactCounts":
        """Return the exact count of each box."""
        return ExactCounts(box_sums(self._hold(), boxes))

    @sealed
    def marginal(self, axes: tuple[int, ...]) -> "ExactCounts":
        """Return the exact count of each cell of the table over some axes, which are checked and ascending.

        No sum wraps around: no count is negative, and the sources keep all of a cube together below 2^63
        (`sources/rows.py`, `sources/open.py`), so the sum of any of them is in between.
        """
        others = tuple(axis for axis in range(len(self.shape)) if axis not in axes)
        return ExactCounts(np.add.reduce(self._hold(), axis=others, dtype=np.int64))

    @sealed
    def plus(self, noise: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return each count plus its noise, in the array of the noise."""
        noisy = noise.reshape(self.shape)
        noisy += self._hold()
        return noisy

    @sealed
    def chosen(self, candidates: Candidates, noise: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the candidate chosen for each question, by its score and the noise for it."""
        return chosen(candidates.scores(self._hold()), noise, sizes=candidates.sizes)

    def reveal(self) -> NDArray[np.int64]:
        """Return the array itself: for tables that are public, and for tests."""
        return self._hold()
