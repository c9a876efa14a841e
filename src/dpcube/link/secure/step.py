"""Entry point of the secure step: choice of the engine, agreement and computation of the match bits."""

import importlib.util
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from dpcube.core.arrays import Bools, Ints
from dpcube.core.errors import InputError, LinkageError
from dpcube.link.program import Program, check_features
from dpcube.link.secure.agreement import Candidate, agree
from dpcube.link.secure.channel import SILENCE_SECONDS, Channel
from dpcube.link.secure.engine import STALLED_SECONDS, EngineWatch, engine_matches
from dpcube.link.secure.environment import ENGINE, engine_python
from dpcube.link.secure.intersection import engine_intersect, intersection_matches, openmined_intersect

OPENMINED = "openmined-psi 2, RAW"
_MODULE = "private_set_intersection"


def secure_matches(
    channel: Channel,
    program: Program,
    blocks: Sequence[Ints],
    candidates: Sequence[Candidate],
    *,
    peer_sizes: Sequence[int] | None = None,
    python: Path | None = None,
    silence: float = SILENCE_SECONDS,
    stalled: float = STALLED_SECONDS,
    progress: Callable[[int], None] = lambda _: None,
) -> list[Bools]:
    """Return, to both sides, the match bits of each candidate pair of blocks: the same as `program.matches`.

    `blocks` are this side's feature matrices, including dummies, with shuffled rows; their sizes are sent to the peer.
    A candidate is (a block of the listener, a block of the connector). Nothing else about the rows is revealed.
    Compute the blocks before opening the channel: a peer gives up after one minute. `progress` receives the number of
    finished candidates.
    """
    for block in blocks:
        check_features(program, block)
    engine, found = _common_engine(channel, program, python)
    sizes = [len(block) for block in blocks]
    agreement = agree(channel, program, candidates, sizes, engine=engine, peer_sizes=peer_sizes)
    if engine == OPENMINED:
        return intersection_matches(channel, agreement, blocks, openmined_intersect(channel, stalled))
    watch = EngineWatch(found, silence, stalled, progress)
    if program.is_equality:
        return intersection_matches(channel, agreement, blocks, engine_intersect(channel, watch))
    return engine_matches(channel, agreement, blocks, watch)


def usable_engines(program: Program, python: Path | None = None) -> dict[str, Path]:
    """Return the engines that can run a program here, the best first, each with its Python; refuse if there is none."""
    made: dict[str, Path] = {}
    try:
        made[ENGINE] = engine_python() if python is None else python
    except InputError as missing:
        refusal = missing
    if program.is_equality and importlib.util.find_spec(_MODULE) is not None:
        made[OPENMINED] = Path()
    if not made:
        raise refusal
    return made


def _common_engine(channel: Channel, program: Program, python: Path | None) -> tuple[str, Path]:
    """Return the common engine: the first of the listener's that the connector has too."""
    ours = usable_engines(program, python)
    try:
        received = json.loads(channel.exchange(json.dumps(list(ours)).encode()))
        theirs = [str(name) for name in received][:8]
    except (ValueError, TypeError, RecursionError):
        theirs = []
    first, second = (list(ours), theirs) if channel.role == "listener" else (theirs, list(ours))
    chosen = next((name for name in first if name in second), None)
    if chosen is None:
        msg = (
            f"the two sides have no engine in common; this side has {', '.join(ours)}: install one of them on the other"
        )
        raise LinkageError(msg)
    return chosen, ours[chosen]
