"""Charges of a ledger without the digest of their release, left by a process that died before it finished.

A release records what it was charged for, not the number of the charge. It is matched by all common fields: the digest
of the domain, the strategy, the epsilon, the period and the unit. Entering a digest spends and draws nothing.
"""

import hashlib

from dpcube.core.errors import InputError
from dpcube.core.ledger.ledger import Charge, Statement
from dpcube.release.release import Release

BY_TOTAL = "total"
"""The strategy of a charge for the total that comes first; the rest is the next charge."""


def waiting_charges(release: Release, statement: Statement) -> list[list[int]]:
    """Return the charges that may have paid for a release, by their numbers: one, or a total and the rest."""
    made = release.provenance
    if not made.ledger:
        msg = "this release was made without a ledger, so none has a charge for it"
        raise InputError(msg)
    if any(charge.digest == release.digest for charge in statement.charges):
        msg = "the ledger has the digest of this release already"
        raise InputError(msg)
    domain = hashlib.sha256(release.domain.dumps().encode()).hexdigest()
    if made.unit != statement.unit:
        return []
    alike = {charge.number: charge for charge in statement.charges if _is_alike(charge, domain, made.period)}
    found = []
    for number, charge in alike.items():
        first = alike.get(number - 1)
        if charge.strategy != made.strategy:
            continue
        if charge.epsilon == made.epsilon:
            found.append([number])
        elif first is not None and first.strategy == BY_TOTAL and first.epsilon + charge.epsilon == made.epsilon:
            found.append([number - 1, number])
    return found


def _is_alike(charge: Charge, domain: str, period: str | None) -> bool:
    words = None if charge.period is None else charge.period.words
    return charge.is_open and not charge.delta and (charge.domain, words) == (domain, period)
