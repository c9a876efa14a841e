"""The axes of a planned cube: the facts of a domain on which a plan depends."""

from dataclasses import dataclass, replace

import numpy as np

from dpcube.core.domain import Domain


@dataclass(frozen=True, slots=True)
class PlannedAxis:
    """One attribute of a planned cube: its bins, the cells after them for irregular values, and whether it is ordered.

    >>> PlannedAxis("age", bins=80, own=1, ordered=True).halved().size
    41
    """

    name: str
    bins: int
    own: int
    ordered: bool

    @property
    def size(self) -> int:
        """Number of cells along this axis."""
        return self.bins + self.own

    def halved(self) -> "PlannedAxis":
        """Return the axis with its bins merged in pairs."""
        return replace(self, bins=-(-self.bins // 2))


Axes = tuple[PlannedAxis, ...]


def axes_of(domain: Domain) -> Axes:
    """Return the axes of a domain."""
    return tuple(PlannedAxis(a.name, a.bins, len(a.own_cells), a.ordered) for a in domain.attributes)


def shape_of(axes: Axes) -> tuple[int, ...]:
    """Return the shape of the cube that axes span."""
    return tuple(axis.size for axis in axes)


def halve_longest(axes: Axes, *, least: int = 2) -> Axes | None:
    """Merge in pairs the bins of the attribute that has most of them; None when none has more than `least`."""
    longest = max(range(len(axes)), key=lambda j: axes[j].bins)
    if axes[longest].bins <= least:
        return None
    return (*axes[:longest], axes[longest].halved(), *axes[longest + 1 :])


def at_most(axes: Axes, cells: int) -> Axes:
    """Return a cube of at most so many cells in place of a larger one, its longest attributes cut down."""
    while np.prod(shape_of(axes), dtype=float) > cells:
        # Cells for irregular values are cut like any others.
        axes = halve_longest(tuple(replace(axis, bins=axis.size, own=0) for axis in axes), least=1) or axes
    return axes
