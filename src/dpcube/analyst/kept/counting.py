"""Questions and a released file enter, answers leave: from what is kept of the file, or else from the file itself.

What is kept is found by the digest of the file's bytes, the version of this package and the stamp of its own files:
bytes that were read and checked once by the same code need not be read again, and no other code's answers are taken.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dpcube import __version__
from dpcube.analyst.answer import Answer, Answering, Answers
from dpcube.analyst.kept import folder
from dpcube.analyst.kept.tree_answers import DamagedError, TreeAnswers
from dpcube.domain import Domain
from dpcube.errors import DpcubeError
from dpcube.files import is_special
from dpcube.query import CountingQueries, query

if TYPE_CHECKING:
    from dpcube.analyst.kept.balanced_answers import BalancedAnswers

LARGEST_COUNTED = 2**30
TREE, BALANCED = b"t", b"b"
"""The kinds of what is kept: a posterior's tree, and a posterior that was moved to tables."""


def counted(path: Path, questions: Sequence[str], *, confidence: float, estimate: str = "auto") -> list[Answer]:
    """Return how many rows of a released file meet each question; "" is met by all. As `Release.count` does it."""
    place, digest = folder.cache_folder(), _digest(path)
    key = f"{digest} {estimate} {__version__} {_stamp()}"
    if place is not None and digest is not None and (found := _Counts.kept(place, key)) is not None:
        try:
            return found.answers(questions, confidence)
        except DamagedError:  # forged: what was kept whole by this code is sound
            pass
    made = _Counts.of_file(path, estimate)
    content = made.to_bytes() if place is not None and digest is not None else None
    if place is not None and content is not None and _digest(path) == digest:
        folder.write_entry(place, key, content)
    return made.answers(questions, confidence)


@dataclass(frozen=True, slots=True)
class _Counts:
    """A release as far as counting goes: its domain, and what answers come from."""

    domain: Domain
    source: Answering
    kind: bytes | None = None

    @classmethod
    def of_file(cls, path: Path, estimate: str) -> "_Counts":
        """Read a file. What is kept of an estimate answers here too, so that keeping it changes no answer."""
        from dpcube.analyst.kept.balanced_answers import BalancedAnswers
        from dpcube.analyst.release import Release
        from dpcube.estimate.marginals import BalancedEstimate
        from dpcube.estimate.posterior import PosteriorEstimate

        release = Release.open(path)
        made = release.estimate(estimate)
        if isinstance(made, PosteriorEstimate):
            return cls(release.domain, TreeAnswers.of(made), TREE)
        if isinstance(made, BalancedEstimate):
            return cls(release.domain, BalancedAnswers.of(made), BALANCED)
        return cls(release.domain, made)

    @classmethod
    def kept(cls, place: Path, key: str) -> "_Counts | None":
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
        return b"".join([self.kind, len(text).to_bytes(8, "little"), text, self.source.to_bytes()])  # type: ignore[attr-defined]

    def answers(self, questions: Sequence[str], confidence: float) -> list[Answer]:
        """Return the answer of each question."""
        asked = [CountingQueries.of(query(self.domain, question or None)) for question in questions]
        return [Answers.asked(self.domain, self.source, one).first(confidence) for one in asked]


def _form(kind: bytes) -> "type[TreeAnswers] | type[BalancedAnswers]":
    """Return what is kept under the name of a kind; modules are imported for those that there are."""
    if kind == TREE:
        return TreeAnswers
    if kind == BALANCED:
        from dpcube.analyst.kept.balanced_answers import BalancedAnswers

        return BalancedAnswers
    raise DamagedError


def _digest(path: Path) -> str | None:
    """Return the SHA-256 of a file's bytes; None if it is no plain file, or too large a one to be worth it."""
    try:
        if is_special(path) or path.stat().st_size > LARGEST_COUNTED:
            return None
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):  # which opening it says better
        return None


def _stamp() -> str:
    """Return a digest of the sizes and times of this package's files: a working copy changes without a new version."""
    whole = hashlib.sha256()
    for path, found in sorted(_sources(str(Path(__file__).parents[2]))):
        whole.update(f"{path} {found.st_size} {found.st_mtime_ns}\n".encode(errors="surrogateescape"))
    return whole.hexdigest()


def _sources(directory: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.path, entry.stat()
            elif entry.is_dir(follow_symlinks=False) and entry.name != "__pycache__":
                yield from _sources(entry.path)
