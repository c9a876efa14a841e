"""Charges of one release in its ledger: on disk before its noise is drawn, all parts at once.

The rest of a release whose total is drawn first is charged with the total, so that no other release can take it
meanwhile, and is given back if the release stops at its total. Proof. What is given back has paid for no noise: the
gate that would have spent it is made only by a release that goes on, and such a release gives nothing back. So at any
time the ledger holds at least what was drawn; a process that dies leaves both parts charged.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dpcube.core.errors import DpcubeError, LedgerError
from dpcube.core.ledger.ledger import Ledger


@dataclass(slots=True)
class LedgerAccount:
    """The charges of one release in a ledger, or in none if it is released without one.

    `strategy` names what spends them, and `terms` are the other fields with which each charge is recorded.
    """

    book: Ledger | None
    strategy: str
    terms: dict[str, Any]
    numbers: list[int] = field(default_factory=list)

    def charge(self, epsilon: Fraction, *, before: tuple[str, Fraction] | None = None) -> None:
        """Charge an amount, after another part by its own name if there is one; or raise with nothing recorded."""
        parts = [*([] if before is None else [before]), (self.strategy, epsilon)]
        if self.book is not None:
            self.numbers += self.book.charge_parts(parts, **self.terms)

    @contextmanager
    def rest_undrawn(self) -> Iterator[None]:
        """Give the last charge back if what is done here fails; nothing is drawn for that charge here."""
        try:
            yield
        except BaseException as stopped:
            if self.book is not None:
                try:
                    self.book.withdraw(self.numbers.pop())
                except LedgerError as error:
                    if isinstance(stopped, DpcubeError):
                        msg = f"{stopped}. But this could not be recorded: {error}"
                        raise LedgerError(msg) from None
            raise

    def complete(self, digest: str) -> None:
        """Record the digest of the release with each of its charges."""
        if self.book is not None:
            self.book.complete_parts(self.numbers, digest)
