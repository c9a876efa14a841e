"""What is fuzzed, by name: hypothesis draws from the structured targets, and atheris feeds bytes to every one of them.

A target returns when its input was read or refused as it should be, in bounded time and memory, and raises otherwise.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import commands
import domains
import messages
import releases
from bounds import bounded
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpcube.core.domain import Category, Date, Domain, Float, Integer
from dpcube.core.errors import QueryError
from dpcube.queries import query

DOMAIN = Domain(
    (
        Integer(name="age", min=0, max=99, width=5, null="cell"),
        Float(name="dose", min=0.0, max=4.0, width=0.3, nan="cell"),
        Category(name="sex", values=("Female", "Male")),
        Category(name="grade", values=("low", "mid", "high"), ordered=True),
        Date(name="visit", start=date(2024, 1, 1), end=date(2024, 12, 31), every="month"),
    )
)
EXAMPLES = 120  # of each structured target in a run of the tests
QUESTIONS = (
    "age between 30 and 39 and sex = 'Female'",
    "not (age < 5 or age >= 90) and grade in ('low', 'high') and dose > .5e0",
    "visit >= '2024-02-29' and `age` is not null and \"sex\" <> 'Male'",
)


def question(text: str) -> None:
    """Read a question; whatever it is, it is refused with a QueryError, or asks for a share of each cell."""
    with suppress(QueryError):
        for weights in query(DOMAIN, text).weights:
            assert ((weights >= 0) & (weights <= 1)).all()


def command(arguments: list[str]) -> None:
    """Run a command among files of every kind."""
    with TemporaryDirectory() as place:
        commands.furnish(Path(place))
        commands.examine(arguments, Path(place))


def _structured(strategy: st.SearchStrategy[Any], examine: Callable[[Any], object]) -> Any:
    @settings(max_examples=EXAMPLES, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def target(drawn: Any) -> None:
        with bounded():
            examine(drawn)

    return target


def _raw(examine: Callable[[Any], object], read: Callable[[bytes], Any] = bytes) -> Callable[[bytes], None]:
    def target(data: bytes) -> None:
        with bounded():
            examine(read(data))

    return target


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


STRUCTURED = {
    "domains": _structured(domains.texts(), domains.examine),
    "manifests": _structured(releases.manifests(), releases.examine),
    "tables": _structured(releases.tables(), releases.examine),
    "members": _structured(releases.damaged_members(), releases.examine),
    "cubes": _structured(releases.other_domains(), releases.examine),
    "zips": _structured(releases.zips(), releases.examine),
    "frames": _structured(messages.streams(), messages.examine_stream),
    "messages": _structured(st.tuples(messages.places, messages.contents), messages.examine_message),
    "commands": _structured(commands.commands(), command),
}
RAW = {
    "domain-bytes": _raw(domains.examine, _text),
    "question-bytes": _raw(question, _text),
    "release-bytes": _raw(releases.examine),
}
TARGETS = RAW | {name: target.hypothesis.fuzz_one_input for name, target in STRUCTURED.items()}
SEEDS: dict[str, tuple[bytes, ...]] = {
    "domain-bytes": (DOMAIN.dumps().encode(), releases.MEMBERS["domain.toml"]),
    "question-bytes": tuple(text.encode() for text in QUESTIONS),
    "release-bytes": (
        releases.WHOLE,
        releases.LIST,
        releases.SELECTIONS,
        releases.CUBOIDS,
        releases.CELLS,
    ),
}
