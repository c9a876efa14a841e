"""Budgets in exact rationals, composed as PINQ composes them.

Enters: requests to spend epsilon. Leaves: nothing, or a BudgetError raised before anything is drawn.

Proof. Sequential: if M1 is a-DP and M2, which may depend on M1's output, is b-DP, releasing both multiplies the two
probability ratios, so the loss is at most a + b; `Budget` adds. Parallel: a record lies in at most one part of a
partition, so two neighbouring tables differ in one part and the loss is that part's; `PartitionBudget` charges its
parent for the largest part only, and the sum of its charges is that maximum because each charge is its increase.

Proof for threads. A root and all that hang from it have one lock, and whoever charges any of them decides and spends,
up to the root, while holding it: charges happen one after another, and the proof above is about them in that order.
The root is charged first, so a charge that is interrupted has spent too much or nothing, never too little. Nothing is
ever in two places: copies and pickles are refused, and a forked process, which has a copy of its parent's memory, is
refused before it asks for the lock, which in that copy may be held for ever.
"""

from collections.abc import Hashable
from contextlib import AbstractContextManager
from fractions import Fraction
from threading import RLock
from typing import Protocol

from dpcube.core.errors import BudgetError, InputError
from dpcube.core.unique import Unique, this_process


class Account(Unique):
    """The lock of a budget and of all that hangs from it, and the process in which they may be spent.

    >>> with Account().mine():
    ...     pass
    """

    __slots__ = ("_lock", "_owner")

    def __init__(self) -> None:
        self._lock = RLock()
        self._owner = this_process()

    def mine(self) -> AbstractContextManager[object]:
        """Return the lock to charge under, or raise BudgetError in a process that has a copy of the budget."""
        if self._owner != this_process():
            msg = "a budget is spent in the process that made it, and this is another; ask there; nothing was drawn"
            raise BudgetError(msg)
        return self._lock


class Agent(Protocol):
    """Whatever can be asked to spend."""

    @property
    def account(self) -> Account:
        """What the whole chain up to the root is charged under."""

    def charge(self, epsilon: Fraction) -> None:
        """Spend epsilon, or raise BudgetError and change nothing."""


class Budget(Unique):
    """An amount of epsilon that can be spent and never returns.

    >>> budget = Budget(Fraction(1, 5))
    >>> budget.charge(Fraction(1, 10))
    >>> budget.remaining
    Fraction(1, 10)
    """

    def __init__(self, total: Fraction) -> None:
        self.account = Account()
        self.total = check_positive(total)
        self.spent = Fraction(0)

    @property
    def remaining(self) -> Fraction:
        """What is left to spend."""
        with self.account.mine():
            return self.total - self.spent

    def charge(self, epsilon: Fraction) -> None:
        """Spend epsilon, or raise BudgetError and change nothing."""
        with self.account.mine():
            if check_positive(epsilon) > self.remaining:
                left = f"{self.remaining} of {self.total} is left"
                msg = f"a request for epsilon {epsilon} was refused: {left}; nothing was drawn"
                raise BudgetError(msg)
            self.spent += epsilon


class PartitionBudget(Unique):
    """The budget of a table cut into disjoint parts: its parent pays for the part that spends most."""

    def __init__(self, parent: Agent) -> None:
        self.account = parent.account
        self._parent = parent
        self._spent: dict[Hashable, Fraction] = {}
        self._largest = Fraction(0)

    def part(self, key: Hashable) -> Agent:
        """Return the agent of one part."""
        return _Part(self, key)

    def charge_part(self, key: Hashable, epsilon: Fraction) -> None:
        """Spend epsilon on one part; the parent is asked for the increase of the maximum, and first."""
        with self.account.mine():
            would_be = self._spent.get(key, Fraction(0)) + check_positive(epsilon)
            if would_be > self._largest:
                self._parent.charge(would_be - self._largest)
                self._largest = would_be
            self._spent[key] = would_be


class _Part(Unique):
    def __init__(self, partition: PartitionBudget, key: Hashable) -> None:
        self.account = partition.account
        self._partition = partition
        self._key = key

    def charge(self, epsilon: Fraction) -> None:
        self._partition.charge_part(self._key, epsilon)


def epsilon_per_row(epsilon: Fraction, max_rows: int) -> Fraction:
    """Return what one row may cost if a unit has up to `max_rows` of them and may cost epsilon in all."""
    if not isinstance(max_rows, int) or max_rows < 1:  # a float would make epsilon one, and NaN is not below 1
        msg = f"a unit has a whole number of rows, 1 or more, got max_rows {max_rows!r:.50}"
        raise InputError(msg)
    return check_positive(epsilon) / max_rows


def check_positive(epsilon: Fraction) -> Fraction:
    """Return epsilon, or raise BudgetError unless it is a rational above zero."""
    if not isinstance(epsilon, Fraction) or epsilon <= 0:
        msg = f"a charge must be an exact rational above 0, got {epsilon!r}"
        raise BudgetError(msg)
    return epsilon
