"""Estimates of released files, cached as arrays: the next command neither reads the file nor infers them again.

An estimate that takes inference is kept in its written form (`models/protocol.py`); the closed forms of boxes and cells
are as quick from the file. Answers come from the written form at once, so that caching changes none.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dpcube.core.caches import cache_folder
from dpcube.core.domain import Domain
from dpcube.core.errors import DpcubeError
from dpcube.models.protocol import DamagedError, EstimateArrays, arrays_of_bytes, arrays_to_bytes, estimate_of_arrays
from dpcube.queries import CountingQueries, query
from dpcube.release.answer import Answer, Answers
from dpcube.release.cache.store import digest_of, key_of, read_entry, write_entry

if TYPE_CHECKING:
    from dpcube.models import Estimate
    from dpcube.release.release import Release


def counted(path: Path, questions: Sequence[str], *, confidence: float, estimate: str = "auto") -> list[Answer]:
    """Return how many rows of a released file meet each question; "" is met by all. As `Release.count` does it."""
    domain, infer = domain_and_estimate(path, estimate)
    asked = [CountingQueries.of(query(domain, question or None)) for question in questions]
    chosen = infer()
    return [Answers.asked(domain, chosen, one).first(confidence) for one in asked]


def domain_and_estimate(path: Path, name: str) -> "tuple[Domain, Callable[[], Estimate]]":
    """Return the domain of a released file, and what gives an estimate of it: the cache, or inference when called."""
    place, digest = cache_folder(), digest_of(path)
    key = None if digest is None else key_of(digest, name)
    if place is not None and key is not None and (found := _cached(place, key)) is not None:
        domain, cached = found
        return domain, lambda: cached
    from dpcube.release.release import Release

    release = Release.open(path)

    def infer() -> "Estimate":
        made, content = _inferred(release, name)
        if content is not None and place is not None and key is not None and digest_of(path) == digest:
            write_entry(place, key, content)
        return made

    return release.domain, infer


def _inferred(release: "Release", name: str) -> "tuple[Estimate, bytes | None]":
    """Return an estimate of a release, and what is cached of it, if that is worth while."""
    made = release.estimate(name)
    if not made.is_inferred:
        return made, None
    written = made.to_arrays()
    facts = {"domain": release.domain.dumps(), "kind": written.kind, "facts": written.facts}
    return estimate_of_arrays(written), arrays_to_bytes(facts, written.arrays)


def _cached(place: Path, key: str) -> "tuple[Domain, Estimate] | None":
    """Return what is cached under a key; None if there is nothing, or not what was written."""
    content = read_entry(place, key)
    if content is None:
        return None
    try:
        facts, arrays = arrays_of_bytes(content)
        domain = Domain.loads(facts["domain"])
        found = estimate_of_arrays(EstimateArrays(facts["kind"], facts["facts"], arrays))
    except (DpcubeError, DamagedError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return (domain, found) if found.shape == domain.shape else None
