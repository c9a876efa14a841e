"""What both sides must hold alike before either brings a record: public things enter, an agreement or a refusal leaves.

First the digests of what decides the result are compared; only if they are equal are the padded sizes of blocks told.
"""

import hashlib
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from dpcube.core.errors import InputError, LinkageError
from dpcube.link.program import Program
from dpcube.link.secure.channel import Channel

PROTOCOL_VERSION = "dpcube secure step 2"
MOST_BLOCKS = 2**20
MOST_CANDIDATES = 2**22
LARGEST_BLOCK = 2**20
MOST_PAIRS_AT_ONCE = 2**30

Candidate = tuple[int, int]
"""A block of the listener and a block of the connector, by number."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """The program, the candidate pairs of blocks and the padded sizes of either side's blocks."""

    program: Program
    candidates: tuple[Candidate, ...]
    listener_sizes: tuple[int, ...]
    connector_sizes: tuple[int, ...]

    @property
    def pairs(self) -> int:
        """How many pairs of rows are compared, dummies included."""
        return sum(self.listener_sizes[i] * self.connector_sizes[j] for i, j in self.candidates)


def agree(
    channel: Channel,
    program: Program,
    candidates: Sequence[Candidate],
    sizes: Sequence[int],
    *,
    engine: str,
    peer_sizes: Sequence[int] | None = None,
) -> Agreement:
    """Return what both sides hold alike; name what they do not. `peer_sizes` are what the peer is held to, if known."""
    _compare(channel, program, candidates, engine)
    told = _whole_numbers(channel.exchange(struct.pack(f">{len(sizes)}I", *sizes)))
    if peer_sizes is not None and told != tuple(peer_sizes):
        msg = "the peer brings blocks of other sizes than it has published; begin the session anew on both sides"
        raise LinkageError(msg)
    own = tuple(sizes)
    listener, connector = (own, told) if channel.role == "listener" else (told, own)
    check_block_pairs(candidates, len(listener), len(connector))
    if any(listener[i] * connector[j] > MOST_PAIRS_AT_ONCE for i, j in candidates):
        msg = f"two blocks have more than {MOST_PAIRS_AT_ONCE:,} pairs, which need a byte each; make smaller blocks"
        raise InputError(msg)
    return Agreement(program, tuple(candidates), listener, connector)


def check_block_pairs(candidates: Sequence[Candidate], listener_blocks: int, connector_blocks: int) -> None:
    """Refuse candidates that are not distinct pairs of blocks that are there."""
    inside = all(0 <= i < listener_blocks and 0 <= j < connector_blocks for i, j in candidates)
    if not inside or len(set(candidates)) != len(candidates) or len(candidates) > MOST_CANDIDATES:
        msg = f"candidates are distinct pairs of one of {listener_blocks} blocks and one of {connector_blocks}"
        raise InputError(msg)


def _compare(channel: Channel, program: Program, candidates: Sequence[Candidate], engine: str) -> None:
    own = {
        "version of the protocol": _digest(PROTOCOL_VERSION),
        "engine": _digest(engine),
        "rules": program.digest().hex(),
        "candidate blocks": _digest([list(one) for one in candidates]),
    }
    told = channel.exchange(json.dumps(own, sort_keys=True).encode())
    if told == json.dumps(own, sort_keys=True).encode():
        return
    try:
        theirs = json.loads(told)
        differ = [name for name, digest in own.items() if theirs[name] != digest]
    except (ValueError, KeyError, TypeError, RecursionError):
        differ = []
    named = ", ".join(differ) or "version of the protocol"
    msg = f"the two sides differ in: {named}; nothing was compared; give both the same"
    raise LinkageError(msg)


def _digest(told: object) -> str:
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def _whole_numbers(message: bytes) -> tuple[int, ...]:
    if len(message) % 4 or len(message) > 4 * MOST_BLOCKS:
        msg = f"the peer told no sizes of at most {MOST_BLOCKS} blocks; the session is over"
        raise LinkageError(msg)
    sizes = struct.unpack(f">{len(message) // 4}I", message)
    if max(sizes, default=0) > LARGEST_BLOCK:
        msg = f"the peer brings a block of more than {LARGEST_BLOCK} rows; the session is over"
        raise LinkageError(msg)
    return sizes
