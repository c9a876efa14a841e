"""Workloads of range queries, as arrays."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcube.core.errors import QueryError


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Range queries by half-open index bounds: query k counts the cells with `lower[k] <= index < upper[k]`."""

    shape: tuple[int, ...]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))
        for name in ("lower", "upper"):
            given = np.asarray(getattr(self, name))
            if given.dtype.kind not in "iu" and given.size:
                msg = f"the {name} bounds of a workload are whole numbers, the indices of cells, got {given.dtype}"
                raise QueryError(msg)
            bounds = np.array(given, np.int64, order="C", ndmin=2)
            bounds.setflags(write=False)
            object.__setattr__(self, name, bounds)
        if self.lower.shape != self.upper.shape or self.lower.shape[1:] != (len(self.shape),):
            msg = f"a workload on {len(self.shape)} axes needs two arrays (queries, {len(self.shape)}) of one shape"
            raise QueryError(msg)
        if (self.lower < 0).any() or (self.upper > np.array(self.shape)).any() or (self.lower >= self.upper).any():
            msg = f"every query of a workload must be a non-empty range of cells inside the shape {self.shape}"
            raise QueryError(msg)

    @classmethod
    def inclusive(cls, shape: tuple[int, ...], low: ArrayLike, high: ArrayLike) -> "Workload":
        """Make a workload from bounds that include both ends."""
        return cls(shape, np.asarray(low), np.asarray(high) + 1)

    def __len__(self) -> int:
        return len(self.lower)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of cells of each query."""
        sizes: NDArray[np.int64] = np.prod(self.upper - self.lower, axis=1)
        return sizes

    def matrix(self) -> NDArray[np.float64]:
        """Return the query matrix, one row of cell weights per query; for small cubes, as the oracle in tests."""
        grid = np.stack(np.meshgrid(*map(np.arange, self.shape), indexing="ij")).reshape(len(self.shape), -1)
        inside = (grid >= self.lower[:, :, None]) & (grid < self.upper[:, :, None])
        return np.asarray(np.logical_and.reduce(inside, axis=1), np.float64)
