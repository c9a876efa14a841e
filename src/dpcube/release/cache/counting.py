"""Questions and a released file enter, answers leave: from what is kept of the file, or else from the file itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcube.core.caches import cache_folder
from dpcube.core.domain import Domain
from dpcube.core.errors import DpcubeError
from dpcube.queries import CountingQueries, query
from dpcube.release.answer import Answer, Answers
from dpcube.release.cache import folder
from dpcube.release.cache.keys import digest_of, key_of
from dpcube.release.cache.tree_answers import DamagedError, TreeAnswers

if TYPE_CHECKING:
    from dpcube.models import Estimate
    from dpcube.release.cache.balanced_answers import BalancedAnswers

TREE, BALANCED = b"t", b"b"
"""The kinds of what is kept: a posterior's tree, and a posterior that was moved to tables."""


def counted(path: Path, questions: Sequence[str], *, confidence: float, estimate: str = "auto") -> list[Answer]:
    """Return how many rows of a released file meet each question; "" is met by all. As `Release.count` does it."""
    try:
        return counts_of(path, estimate).answers(questions, confidence)
    except DamagedError:  # forged: what was kept whole by this code is sound
        return counts_of(path, estimate, anew=True).answers(questions, confidence)


def counts_of(path: Path, estimate: str, *, anew: bool = False) -> "Counts":
    """Return what a released file's answers come from: what is kept of it, or else it is read (`anew`, always)."""
    place, digest = cache_folder(), digest_of(path)
    if place is None or digest is None:
        return Counts.of_file(path, estimate)
    key = key_of(digest, estimate)
    if not anew and (found := Counts.kept(place, key)) is not None:
        return found
    made = Counts.of_file(path, estimate)
    content = made.to_bytes()
    if content is not None and digest_of(path) == digest:
        folder.write_entry(place, key, content)
    return made


@dataclass(frozen=True, slots=True)
class Counts:
    """A release as far as counting goes: its domain, and what answers come from."""

    domain: Domain
    source: Any
    kind: bytes | None = None
    whole: "Estimate | None" = None
    """The estimate itself, if the file was read."""

    @classmethod
    def of_file(cls, path: Path, estimate: str) -> "Counts":
        """Read a file. What is kept of an estimate answers here too, so that keeping it changes no answer."""
        from dpcube.models.marginals import BalancedEstimate
        from dpcube.models.posterior import PosteriorEstimate
        from dpcube.release.cache.balanced_answers import BalancedAnswers
        from dpcube.release.release import Release

        release = Release.open(path)
        made = release.estimate(estimate)
        if isinstance(made, PosteriorEstimate):
            return cls(release.domain, TreeAnswers.of(made), TREE, made)
        if isinstance(made, BalancedEstimate):
            return cls(release.domain, BalancedAnswers.of(made), BALANCED, made)
        return cls(release.domain, made, None, made)

    @classmethod
    def kept(cls, place: Path, key: str) -> "Counts | None":
        """Return what is kept under a key; None if there is nothing, or not what `to_bytes` makes."""
        content = folder.read_entry(place, key)
        if content is None:
            return None
        kind, end = bytes(content[:1]), 9 + int.from_bytes(content[1:9], "little")
        try:
            domain = Domain.loads(bytes(content[9:end]).decode())
            return cls(domain, _form(kind).of_bytes(content[end:], domain.shape), kind)
        except (DpcubeError, DamagedError, ValueError):
            return None

    def to_bytes(self) -> bytes | None:
        """Return what is kept: its kind, the length of the domain's text, the text, and the rest; None for nothing."""
        if self.kind is None:
            return None
        text = self.domain.dumps().encode()
        return b"".join([self.kind, len(text).to_bytes(8, "little"), text, self.source.to_bytes()])

    def answers(self, questions: Sequence[str], confidence: float) -> list[Answer]:
        """Return the answer of each question."""
        asked = [CountingQueries.of(query(self.domain, question or None)) for question in questions]
        return [Answers.asked(self.domain, self.source, one).first(confidence) for one in asked]


def _form(kind: bytes) -> "type[TreeAnswers] | type[BalancedAnswers]":
    """Return what is kept under the name of a kind; modules are imported for those that there are."""
    if kind == TREE:
        return TreeAnswers
    if kind == BALANCED:
        from dpcube.release.cache.balanced_answers import BalancedAnswers

        return BalancedAnswers
    raise DamagedError
