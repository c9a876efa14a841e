"""What is kept of a file as an estimate: SQL is answered from it, and the file is only read where it is the better way.

What is kept answers few questions at once by NumPy. For many there are tables in the estimate itself, and loops that
are compiled; it is then made from the file.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.domain import Domain
from dpcube.models.cellwise import CellwiseEstimate
from dpcube.models.errors.parts import ErrorParts
from dpcube.models.protocol import Estimate
from dpcube.queries import CountingQueries, Workload
from dpcube.release.cache.balanced_answers import BalancedAnswers
from dpcube.release.cache.counting import counts_of
from dpcube.release.cache.once import made_once
from dpcube.release.cache.tree_answers import DamagedError, TreeAnswers

FEW = 128
"""Questions at once that are answered from what is kept."""


def estimate_of(path: Path, name: str) -> tuple[Domain, Estimate]:
    """Return the domain of a released file and an estimate of it, from what is kept if that fits."""
    found = counts_of(path, name)
    if not isinstance(found.source, TreeAnswers | BalancedAnswers):
        assert found.whole is not None  # what is kept is of these kinds
        return found.domain, found.whole
    made = KeptEstimate(path, name, found.source)
    if found.whole is not None:
        made.__dict__["whole"] = found.whole  # the file was read just now, and need not be again
    return found.domain, made  # type: ignore[return-value]


@dataclass
class KeptEstimate:
    """An estimate of which cells and errors are kept."""

    path: Path
    asked: str
    source: TreeAnswers | BalancedAnswers

    @property
    def name(self) -> str:
        """Name of the estimator."""
        return self.whole.name

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube."""
        return self.source.shape if isinstance(self.source, TreeAnswers) else self.source.tree.shape

    @cached_property
    def whole(self) -> Estimate:
        """The estimate itself, from the file."""
        from dpcube.release.release import Release

        return Release.open(self.path).estimate(self.asked)

    def cells(self) -> Floats:
        """Return the estimated count of every cell."""
        if isinstance(self.source, BalancedAnswers):
            return self.source.cells
        made = made_once(self.path, f"cells {self.asked}", lambda: self.whole.cells().astype("<f8").tobytes())
        if len(made) != 8 * math.prod(self.shape):  # forged
            return self.whole.cells()
        return np.frombuffer(made, "<f8").reshape(self.shape)

    def marginal(self, axes: Sequence[int], starts: Sequence[Ints] | None = None) -> Floats:
        """Return the table over some axes."""
        return CellwiseEstimate.marginal(self, axes, starts)  # type: ignore[arg-type]

    def answers(self, queries: CountingQueries) -> tuple[Floats, ErrorParts]:
        """Return the answers of counting queries and the parts of their errors."""
        if 0 < len(queries) <= FEW:
            try:
                return self.source.answers(queries)
            except DamagedError:  # forged: what was kept whole by this code is sound
                pass
        return self.whole.answers(queries)

    def values(self, workload: Workload | CountingQueries) -> Floats:
        """Return the answers of ranges."""
        return self.whole.values(workload) if isinstance(workload, Workload) else self.answers(workload)[0]

    def errors(self, workload: Workload | CountingQueries) -> ErrorParts:
        """Return the parts of the errors of ranges."""
        if not isinstance(workload, Workload):
            return self.answers(workload)[1]
        if len(workload) == 0:
            return ErrorParts(np.zeros(0), np.zeros(0))
        if len(workload) > FEW:
            return self.whole.errors(workload)
        return self.answers(_queries(workload))[1]


def _queries(workload: Workload) -> CountingQueries:
    """Return ranges as counting queries: weights of one inside their bounds."""
    weights = tuple(
        ((np.arange(extent) >= low[:, None]) & (np.arange(extent) < high[:, None])).astype(np.float64)
        for extent, low, high in zip(workload.shape, workload.lower.T, workload.upper.T, strict=True)
    )
    taken = np.repeat(np.arange(len(workload))[:, None], len(workload.shape), axis=1)
    return CountingQueries(weights, taken)
