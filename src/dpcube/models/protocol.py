"""What every estimate can do: the one interface between estimators and answers."""

from typing import Protocol

from dpcube.core.arrays import Floats
from dpcube.models.errors.parts import ErrorParts
from dpcube.queries import CountingQueries, Workload

DENSE_CELLS = 2**27
"""Cubes up to this size are answered from a table of every cell (1 GiB); larger ones from their boxes if they can."""


class Estimate(Protocol):
    """An estimate of the whole cube: what every estimator gives and every answer comes from."""

    @property
    def name(self) -> str:
        """Name of the estimator."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube."""
        ...

    def cells(self) -> Floats:
        """Return the estimated count of every cell, in the shape of the cube."""
        ...

    def answers(self, queries: CountingQueries) -> tuple[Floats, ErrorParts]:
        """Return the estimated answers of many counting queries, shape (queries,), and the parts of their errors."""
        ...

    def range_values(self, workload: Workload) -> Floats:
        """Return the estimated answers of many ranges, shape (ranges,)."""
        ...

    def range_errors(self, workload: Workload) -> ErrorParts:
        """Return the parts of the errors of many ranges."""
        ...
