"""Agreement on the public inputs of the secure step, before either side contributes a record.

First the parties compare digests of everything that decides the result; only if they are equal do they exchange the
padded sizes of blocks.
"""

import hashlib
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from dpcube.core.errors import InputError, LinkageError
from dpcube.link.limits import MAX_BLOCK_PAIRS, MAX_BLOCK_ROWS, MAX_BLOCKS, MAX_CANDIDATES
from dpcube.link.program import Program
from dpcube.link.secure.channel import Channel

PROTOCOL_VERSION = "dpcube secure step 2"

Candidate = tuple[int, int]
"""A block of the listener and a block of the connector, by number."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Public inputs: the program, the candidate pairs of blocks and the padded sizes of both sides' blocks."""

    program: Program
    candidates: tuple[Candidate, ...]
    listener_sizes: tuple[int, ...]
    connector_sizes: tuple[int, ...]

    @property
    def pairs(self) -> int:
        """Number of compared pairs of rows, including dummies."""
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
    """Return the agreement, or refuse and name what differs. `peer_sizes` are the sizes that the peer must have."""
    _compare(channel, program, candidates, engine)
    received = _whole_numbers(channel.exchange(struct.pack(f">{len(sizes)}I", *sizes)))
    if peer_sizes is not None and received != tuple(peer_sizes):
        msg = "the peer's blocks have other sizes than it has published; restart the session on both sides"
        raise LinkageError(msg)
    own = tuple(sizes)
    listener, connector = (own, received) if channel.role == "listener" else (received, own)
    check_block_pairs(candidates, len(listener), len(connector))
    if any(listener[i] * connector[j] > MAX_BLOCK_PAIRS for i, j in candidates):
        msg = f"two blocks have more than {MAX_BLOCK_PAIRS:,} pairs of rows; make smaller blocks"
        raise InputError(msg)
    return Agreement(program, tuple(candidates), listener, connector)


def check_block_pairs(candidates: Sequence[Candidate], listener_blocks: int, connector_blocks: int) -> None:
    """Refuse candidates that are not distinct pairs of existing blocks."""
    inside = all(0 <= i < listener_blocks and 0 <= j < connector_blocks for i, j in candidates)
    if not inside or len(set(candidates)) != len(candidates) or len(candidates) > MAX_CANDIDATES:
        msg = f"candidates must be distinct pairs of one of {listener_blocks} blocks and one of {connector_blocks}"
        raise InputError(msg)


def _compare(channel: Channel, program: Program, candidates: Sequence[Candidate], engine: str) -> None:
    own = {
        "version of the protocol": _digest(PROTOCOL_VERSION),
        "engine": _digest(engine),
        "rules": program.digest().hex(),
        "candidate blocks": _digest([list(one) for one in candidates]),
    }
    received = channel.exchange(json.dumps(own, sort_keys=True).encode())
    if received == json.dumps(own, sort_keys=True).encode():
        return
    try:
        theirs = json.loads(received)
        differ = [name for name, digest in own.items() if theirs[name] != digest]
    except (ValueError, KeyError, TypeError, RecursionError):
        differ = []
    named = ", ".join(differ) or "version of the protocol"
    msg = f"the two sides differ in: {named}; nothing was compared; use the same on both sides"
    raise LinkageError(msg)


def _digest(received: object) -> str:
    return hashlib.sha256(json.dumps(received).encode()).hexdigest()


def _whole_numbers(message: bytes) -> tuple[int, ...]:
    if len(message) % 4 or len(message) > 4 * MAX_BLOCKS:
        msg = f"the peer did not send the sizes of at most {MAX_BLOCKS} blocks; the session is over"
        raise LinkageError(msg)
    sizes = struct.unpack(f">{len(message) // 4}I", message)
    if max(sizes, default=0) > MAX_BLOCK_ROWS:
        msg = f"the peer has a block of more than {MAX_BLOCK_ROWS} rows; the session is over"
        raise LinkageError(msg)
    return sizes
