"""What one release is charged: amounts enter, in order, each on disk before its noise is drawn."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dpcube.errors import BudgetError
from dpcube.privacy.ledger import Ledger


@dataclass(slots=True)
class LedgerAccount:
    """The charges of one release in a ledger, or in none if none is kept; `terms` are what each is recorded with."""

    book: Ledger | None
    terms: dict[str, Any]
    numbers: list[int] = field(default_factory=list)

    def charge(self, epsilon: Fraction, **more: Any) -> None:
        """Charge an amount, recorded with the terms and whatever more is said, or raise with nothing recorded."""
        if self.book is not None:
            self.numbers.append(self.book.charge(epsilon, **(self.terms | more)))

    def charge_rest(self, epsilon: Fraction, *, spent: Fraction) -> None:
        """Charge what is left of a release of which a part has been drawn; another may have come between."""
        try:
            self.charge(epsilon)
        except BudgetError:
            msg = f"another release was charged meanwhile, and {epsilon} is not left for this one any more; epsilon "
            msg += f"{spent} was charged for its total, and nothing else was drawn"
            raise BudgetError(msg) from None

    def complete(self, digest: str) -> None:
        """Record the digest of the release with each of its charges."""
        for number in self.numbers:
            assert self.book is not None
            self.book.complete(number, digest)
