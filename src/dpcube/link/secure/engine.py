"""The engine in a child process, and the watch over it: an agreement and a side's terms enter, match bits leave.

The engine ends its own process when its peer dies, and waits for ever for one that is silent. So it runs in a child,
which is killed when the peer is gone or silent, when it makes no progress, or when this process is done with it.
"""

import io
import json
import os
import select
import struct
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np

from dpcube.arrays import Bools, Ints
from dpcube.errors import LinkageError
from dpcube.link.secure import worker
from dpcube.link.secure.agreement import Agreement
from dpcube.link.secure.channel import SILENCE_SECONDS, Channel
from dpcube.link.secure.credentials import Role
from dpcube.link.secure.frames import FrameKind
from dpcube.link.secure.terms import dummy_row, public_program, side_terms
from dpcube.link.secure.tunnel import Tunnel

STALLED_SECONDS = 900.0
ROWS_ALIKE = 32
_TURN_SECONDS = 0.5


def tile_edge(comparisons: int) -> int:
    """Return how many rows of a side are compared at once: enough for few rounds, few enough for about 1 GB."""
    return 256 if comparisons <= 2 else 128 if comparisons <= 8 else 64


def engine_matches(
    channel: Channel,
    agreement: Agreement,
    blocks: Sequence[Ints],
    *,
    python: Path,
    silence: float = SILENCE_SECONDS,
    stalled: float = STALLED_SECONDS,
    progress: Callable[[int], None] = lambda _: None,
) -> list[Bools]:
    """Return the match bits of each candidate pair of blocks, computed by both sides' engines."""
    with TemporaryDirectory(prefix="dpcube-") as folder:  # 0700
        sockets = Path(folder, "own"), Path(folder, "peer")
        with Tunnel(channel, doorway=sockets[1], engine=sockets[0]) as tunnel, EngineProcess(python) as child:
            child.give(_job(channel.role, agreement, sockets, int(stalled)), _arrays(agreement, blocks, channel.role))
            is_peer_done = False
            while not (child.is_done and is_peer_done):
                for frame in tunnel.turn(_ready({**tunnel.watched(), child.fileno(): select.POLLIN})):
                    if frame.kind != FrameKind.DONE:
                        msg = "the peer sent something else than what is due; the session is over"
                        raise LinkageError(msg)
                    is_peer_done = True
                known = len(child.packed)
                if child.heed(stalled=stalled):
                    channel.queue(FrameKind.DONE)
                if len(child.packed) > known:
                    progress(len(child.packed))
                channel.beat(silence)
            channel.flush()
    shapes = [(agreement.listener_sizes[i], agreement.connector_sizes[j]) for i, j in agreement.candidates]
    return [_bits(packed, shape) for packed, shape in zip(child.packed, shapes, strict=True)]


class EngineProcess:
    """A child that runs `worker.py` with the engine's Python, and what it has answered so far."""

    def __init__(self, python: Path) -> None:
        self.packed: list[bytes] = []
        self.is_done = False
        self._held = bytearray()
        self._moved = time.monotonic()
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
        try:
            self._process = subprocess.Popen(
                [python, "-I", worker.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**kept, "JAX_PLATFORMS": "cpu"},
                start_new_session=True,
            )
        except OSError as error:
            msg = f"the engine cannot be started with {python}: {error.strerror}; install it again"
            raise LinkageError(msg) from None
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()
        self._process.wait()

    def fileno(self) -> int:
        """Return where answers can be waited for."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def give(self, job: dict[str, Any], arrays: dict[str, Ints]) -> None:
        """Hand the job over; the child reads it before anything else."""
        told = io.BytesIO()
        public = np.frombuffer(json.dumps(job).encode(), np.uint8)
        np.savez(told, allow_pickle=False, job=public, **arrays)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(struct.pack(">Q", told.tell()) + told.getvalue())
            self._process.stdin.flush()
        except OSError:
            raise self._failed() from None

    def heed(self, *, stalled: float) -> bool:
        """Take in what the child has answered, and return whether it has come to its end just now."""
        assert self._process.stdout is not None
        was_done = self.is_done
        if part := self._process.stdout.read():
            self._moved = time.monotonic()
            self._held += part
            self._take()
        elif self._process.poll() is not None and not self.is_done:
            raise self._failed()
        elif time.monotonic() - self._moved > stalled and not self.is_done:
            msg = f"the engine made no progress for {stalled:.0f} s and was stopped; start both sides again"
            raise LinkageError(msg)
        return self.is_done and not was_done

    def _take(self) -> None:
        while len(self._held) >= 9:
            kind, (size,) = bytes(self._held[:1]), struct.unpack_from(">Q", self._held, 1)
            if len(self._held) < 9 + size:
                return
            payload = bytes(self._held[9 : 9 + size])
            del self._held[: 9 + size]
            if kind == worker.BLOCK:
                self.packed.append(payload)
            elif kind == worker.FAILED:
                raise self._failed(payload)
            self.is_done = self.is_done or kind == worker.DONE

    def _failed(self, kind: bytes = b"") -> LinkageError:
        named = f" ({kind.decode('ascii', 'replace')[:40]})" if kind else ""
        return LinkageError(f"the engine stopped before its work was done{named}; start both sides again")


def _ready(watched: dict[int, int]) -> dict[int, int]:
    poller = select.poll()
    for descriptor, events in watched.items():
        poller.register(descriptor, events)
    return dict(poller.poll(_TURN_SECONDS * 1000))


def _job(role: Role, agreement: Agreement, sockets: tuple[Path, Path], seconds: int) -> dict[str, Any]:
    rank = 0 if role == "listener" else 1
    return {
        **public_program(agreement.program),
        "rank": rank,
        "session": "dpcube",
        "sockets": [str(path) for path in (sockets if rank == 0 else sockets[::-1])],
        "seconds": seconds,
        "sizes": [agreement.listener_sizes, agreement.connector_sizes],
        "candidates": agreement.candidates,
        "edge": tile_edge(len(agreement.program.comparisons)),
        "quantum": ROWS_ALIKE,
    }


def _arrays(agreement: Agreement, blocks: Sequence[Ints], role: Role) -> dict[str, Ints]:
    program = agreement.program
    needed = {pair[0 if role == "listener" else 1] for pair in agreement.candidates}
    terms = {f"block{number}": side_terms(program, blocks[number], role) for number in sorted(needed)}
    return {**terms, "dummy": dummy_row(program, role)}


def _bits(packed: bytes, shape: tuple[int, int]) -> Bools:
    count = shape[0] * shape[1]
    return np.unpackbits(np.frombuffer(packed, np.uint8), count=count).reshape(shape).astype(bool)
