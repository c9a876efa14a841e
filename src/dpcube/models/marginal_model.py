"""Protocol of a model of noisy marginals: the resolution at which each attribute was measured."""

from typing import TYPE_CHECKING, Protocol

from dpcube.core.arrays import Floats, Ints

if TYPE_CHECKING:
    from dpcube.models.cuboids.beliefs import Beliefs
    from dpcube.models.cuboids.departures import Departure
    from dpcube.models.cuboids.fitting import CountedTable


class MarginalModel(Protocol):
    """A model of groups of cells, and the noisy marginals that it was fitted to."""

    @property
    def groups(self) -> "tuple[Ints, ...]":
        """The group of each cell of every attribute."""
        ...

    @property
    def shares(self) -> "tuple[Floats, ...]":
        """The share of each cell of every attribute in its group."""
        ...

    @property
    def beliefs(self) -> "Beliefs":
        """The model of groups."""
        ...

    @property
    def firsts(self) -> "tuple[CountedTable, ...]":
        """Noisy marginals of cells."""
        ...

    @property
    def cuboids(self) -> "tuple[CountedTable, ...]":
        """Noisy marginals of groups over two attributes or more."""
        ...

    @property
    def departure(self) -> "Departure | None":
        """Estimated departure from the model of what was not measured, if there is any estimate."""
        ...
