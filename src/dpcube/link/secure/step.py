"""The secure step as one call: a channel, a program, a side's blocks and the candidates enter, the match bits leave."""

from collections.abc import Callable, Sequence
from pathlib import Path

from dpcube.arrays import Bools, Ints
from dpcube.link.program import Program, check_features
from dpcube.link.secure.agreement import Candidate, agree
from dpcube.link.secure.channel import SILENCE_SECONDS, Channel
from dpcube.link.secure.engine import STALLED_SECONDS, engine_matches
from dpcube.link.secure.environment import ENGINE, engine_python


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
    """Return, to both sides, which pairs match of each candidate pair of blocks: the same as `program.matches`.

    `blocks` are this side's feature matrices, dummies included, rows shuffled; how many rows they have is told to the
    peer. A candidate is (a block of the listener, a block of the connector). Nothing else about the rows is opened.
    Have the blocks ready before the channel is opened: a peer that waits longer than a minute gives up. `progress` is
    told how many candidates are done.
    """
    for block in blocks:
        check_features(program, block)
    chosen = engine_python() if python is None else python
    sizes = [len(block) for block in blocks]
    agreement = agree(channel, program, candidates, sizes, engine=ENGINE, peer_sizes=peer_sizes)
    return engine_matches(
        channel, agreement, blocks, python=chosen, silence=silence, stalled=stalled, progress=progress
    )
