"""Questions and a released file enter, answers leave: from what is kept of the file, or else from the file itself.

What is kept is found by the digest of the file's bytes, the version of this package and the stamp of its own files:
bytes that were read and checked once by the same code need not be read again, and no other code's answers are taken.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dpcube import __version__
from dpcube.analyst.answer import Answer, Answering, Answers
from dpcube.analyst.kept import folder
from dpcube.analyst.kept.tree_answers import DamagedError, TreeAnswers
from dpcube.domain import Domain
from dpcube.errors import DpcubeError
from dpcube.files import is_special
from dpcube.query import CountingQueries, query

LARGEST_COUNTED = 2**30


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
    if place is not None and digest is not None and isinstance(made.source, TreeAnswers) and _digest(path) == digest:
        folder.write(place, key, made.to_bytes(made.source))
    return made.answers(questions, confidence)


@dataclass(frozen=True, slots=True)
class _Counts:
    """A release as far as counting goes: its domain, and what answers come from."""

    domain: Domain
    source: Answering

    @classmethod
    def of_file(cls, path: Path, estimate: str) -> "_Counts":
        """Read a file. A posterior answers in the form that is kept, so that what is kept changes no answer."""
        from dpcube.analyst.release import Release
        from dpcube.estimate.posterior import PosteriorEstimate

        release = Release.open(path)
        made = release.estimate(estimate)
        return cls(release.domain, TreeAnswers.of(made) if isinstance(made, PosteriorEstimate) else made)

    @classmethod
    def kept(cls, place: Path, key: str) -> "_Counts | None":
        """Return what is kept under a key; None if there is nothing, or not what `to_bytes` makes."""
        content = folder.read(place, key)
        if content is None:
            return None
        end = 8 + int.from_bytes(content[:8], "little")
        try:
            domain = Domain.loads(content[8:end].decode())
            return cls(domain, TreeAnswers.of_bytes(content[end:], domain.shape))
        except (DpcubeError, DamagedError, ValueError):
            return None

    def to_bytes(self, tree: TreeAnswers) -> bytes:
        """Return what is kept: the length of the domain's text, the text, and the tree."""
        text = self.domain.dumps().encode()
        return len(text).to_bytes(8, "little") + text + tree.to_bytes()

    def answers(self, questions: Sequence[str], confidence: float) -> list[Answer]:
        """Return the answer of each question."""
        asked = [CountingQueries.of(query(self.domain, question or None)) for question in questions]
        return [Answers.asked(self.domain, self.source, one).first(confidence) for one in asked]


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
