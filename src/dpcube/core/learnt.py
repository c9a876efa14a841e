"""The stamp of a learnt domain, and the ledger that confirms it.

A learnt domain was measured with noise, and its charge is in a ledger (`curator/learning.py`). It needs no signature
where that charge is accounted for: a release from it composes with its learning only if both are in the same ledger.
So a domain file names each learnt attribute with the digest of its declaration, and the completion of the charge has
the digest of all of them. A release accepts a stamped domain without a signature if its own ledger has a completed
charge for learning with the digest of the stamp, and no stamped attribute was edited. Attributes that were left out or
added do not matter: what the owner adds is declared, as ever.
"""

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

from dpcube.core.domain import Attribute, Domain
from dpcube.core.domain.file import Stamp, attribute_lines
from dpcube.core.errors import DomainError
from dpcube.core.ledger.ledger import Ledger

LEARNING = "domain"
"""Name of the charge for learning a domain, where others name their strategy."""


def stamp(attributes: Iterable[Attribute]) -> Stamp:
    """Return the name of each attribute with the digest of its declaration."""
    return tuple((attribute.name, _digest("\n".join(attribute_lines(attribute)))) for attribute in attributes)


def stamp_digest(learnt: Stamp) -> str:
    """Return the digest that completes the charge of a stamp."""
    return _digest(json.dumps(sorted(learnt)))


def check_learnt(domain: Domain, place: Path | None) -> None:
    """Refuse a stamped domain, unless it is signed or the ledger of the release confirms its stamp."""
    if not domain.learnt or domain.signed_public_by is not None:
        return
    sign = 'or, if each of its bounds and values is publicly known, add signed_public_by = "your name" to its file'
    if place is None:
        msg = (
            f"this domain was learnt from the table, which its ledger accounts for; name that ledger (--ledger), {sign}"
        )
        raise DomainError(msg)
    charges = Ledger(place).statement().standing if os.path.lexists(place) else ()
    if not any(c.strategy == LEARNING and c.digest == stamp_digest(domain.learnt) for c in charges):
        msg = f"this domain was learnt, and {place} has no charge for that; name the ledger that has (--ledger), {sign}"
        raise DomainError(msg)
    declared = dict(stamp(domain.attributes))
    for name, digest in domain.learnt:
        if declared.get(name, digest) != digest:
            msg = f"attribute '{name}' was edited after it was learnt; restore it, {sign}"
            raise DomainError(msg)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
