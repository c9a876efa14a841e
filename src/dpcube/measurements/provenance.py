"""Where a release comes from: what was asked, what was spent on what, and what it may claim."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from dpcube.core.errors import DomainError


@dataclass(frozen=True, slots=True)
class Provenance:
    """The public facts of a job. `private` is False for anything made with silent or seeded noise.

    `reading` is a digest of how the column of a period was read: no row is in two periods of one reading.
    """

    strategy: str
    epsilon: Fraction
    library: str
    parameters: Mapping[str, object] = field(default_factory=dict)
    unit: str | None = None
    max_rows: int = 1
    period: str | None = None
    ledger: bool = False
    private: bool = True
    reading: str | None = None

    def __post_init__(self) -> None:
        if not self.epsilon > 0 or self.max_rows < 1:
            msg = f"a release needs epsilon above 0 and max_rows of at least 1, got {self.epsilon} and {self.max_rows}"
            raise DomainError(msg)
