"""The strategy protocol: given a `NoisyCounter`, a strategy decides what to measure and returns the transcript."""

from fractions import Fraction
from typing import ClassVar, Literal, Protocol

from dpcube.core.counter import NoisyCounter
from dpcube.core.domain import Domain
from dpcube.measurements import Transcript

Parameter = str | int | float | bool | None
Store = Literal["cells", "rows"]
WorkloadKind = Literal["cube", "wide", "grid"]
UNIT_EPSILON = Fraction(1)
STARTING = 2**28
"""Memory of any run besides its arrays: libraries as they load, loops as they compile, a file's buffers."""


class Strategy(Protocol):
    """An untrusted algorithm: it sees noisy counts only, so it cannot spend more than its budget.

    A name and `run` are all that a strategy must have. It may have the methods of `FittedStrategy` too, for which
    `strategy_of` supplies what is safe, and `for_domain(domain)`, which returns the strategy fitted to
    the attributes of a domain (docs/guides/strategies.md).
    """

    @property
    def name(self) -> str:
        """Return the name that the ledger, the release's manifest and tables of errors give the strategy."""
        ...

    def run(self, counter: NoisyCounter) -> Transcript:
        """Measure, and return what was measured: every count, with the box and the units that it was asked with.

        It must serve any `counter.shape`, for plans run it on smaller cubes; spend at most BUDGET_UNITS on any cell, or
        the counter refuses; decide by nothing but the counter's answers and public facts; count every leaf of its tree,
        or there is nothing to estimate; and never fail: by then the budget is spent.
        """
        ...


class FittedStrategy(Strategy, Protocol):
    """A strategy with every method that a release calls before anything is spent, as `strategy_of` returns it."""

    @property
    def store(self) -> Store:
        """Return the exact data that the gate needs: counts of all "cells", or "rows" for a cube too large for that."""
        ...

    @property
    def workload(self) -> WorkloadKind:
        """Return the kind of table that it is made for, whose usual workload a plan evaluates."""
        ...

    def description(self, domain: Domain, *, rows: int | None = None, epsilon: Fraction = UNIT_EPSILON) -> list[str]:
        """Return sentences on what a release would measure; none, where the name says it.

        With a public guess of how many `rows` there are, it may say roughly how much.
        """
        ...

    def parameters(self) -> dict[str, Parameter]:
        """Return its public parameters as plain values, for the release's manifest.

        By default they are the fields of its dataclass, or its attributes, that do not begin with an underscore.
        """
        ...

    def peak_bytes(self, shape: tuple[int, ...]) -> int:
        """Return how much memory a run may need, whatever the rows hold: a release must not fail once charged.

        From the exact counts to the saved file. `python -m benchmarks.memory` compares it with what runs take. By
        default it is the memory of a tree of two nodes for every cell, with the posterior of each.
        """
        ...


class OfCells:
    """Base of the strategies of materialised cubes: they measure cells, and their names describe them."""

    __slots__ = ()
    store: ClassVar[Store] = "cells"
    workload: ClassVar[WorkloadKind] = "cube"

    def description(self, domain: Domain, *, rows: int | None = None, epsilon: Fraction = UNIT_EPSILON) -> list[str]:  # noqa: ARG002
        """Return nothing: see docs/guides/strategies.md."""
        return []
