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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np

from dpcube.core.arrays import Bools, Ints
from dpcube.core.errors import LinkageError
from dpcube.link.secure import worker
from dpcube.link.secure.agreement import Agreement
from dpcube.link.secure.channel import SILENCE_SECONDS, Channel
from dpcube.link.secure.frames import FrameKind
from dpcube.link.secure.terms import public_program, side_terms
from dpcube.link.secure.tunnel import Tunnel

STALLED_SECONDS = 900.0
TILE_EDGE = 256
ROWS_ALIKE = 4
PAIRS_ALIKE = 4096
_TURN_SECONDS = 0.5


def pairs_at_once(conditions: int) -> int:
    """Return how many pairs are decided at once: many, for rounds cost much; few enough for about 2 GB."""
    return max(PAIRS_ALIKE, 2**19 // conditions // PAIRS_ALIKE * PAIRS_ALIKE)


@dataclass(frozen=True, slots=True)
class EngineWatch:
    """How the engine is started, how long its silence and the peer's are borne, and who is told of candidates done."""

    python: Path
    silence: float = SILENCE_SECONDS
    stalled: float = STALLED_SECONDS
    progress: Callable[[int], None] = lambda _: None


def engine_matches(channel: Channel, agreement: Agreement, blocks: Sequence[Ints], watch: EngineWatch) -> list[Bools]:
    """Return the match bits of each candidate pair of blocks, computed by both sides' engines."""
    program, role = agreement.program, channel.role
    needed = {pair[0 if role == "listener" else 1] for pair in agreement.candidates}
    terms: dict[str, Ints] = {}
    for number in sorted(needed):
        terms[f"bits{number}"], terms[f"added{number}"] = side_terms(program, blocks[number], role)
    public = public_program(program)
    job = {
        **public,
        "task": "compare",
        "sizes": [agreement.listener_sizes, agreement.connector_sizes],
        "candidates": agreement.candidates,
        "edge": TILE_EDGE,
        "rows_alike": ROWS_ALIKE,
        "pairs_at_once": pairs_at_once(sum(ge + eq for ge, eq, _ in public["forms"])),
        "pairs_alike": PAIRS_ALIKE,
    }
    packed = run_engine(channel, job, terms, watch)
    shapes = [(agreement.listener_sizes[i], agreement.connector_sizes[j]) for i, j in agreement.candidates]
    return [_bits(one, shape) for one, shape in zip(packed, shapes, strict=True)]


def run_engine(channel: Channel, job: dict[str, Any], arrays: Mapping[str, Any], watch: EngineWatch) -> list[bytes]:
    """Return what both sides' engines answer to a job, or say which of them, or the peer, has failed."""
    with TemporaryDirectory(prefix="dpcube-") as folder:  # 0700
        own, peer = Path(folder, "own"), Path(folder, "peer")
        rank = 0 if channel.role == "listener" else 1
        sockets = [str(path) for path in ((own, peer) if rank == 0 else (peer, own))]
        job = {**job, "folder": folder, "rank": rank, "sockets": sockets, "seconds": int(watch.stalled)}
        with Tunnel(channel, doorway=peer, engine=own) as tunnel, EngineProcess(watch.python, folder) as child:
            child.give(job, arrays)
            is_peer_done = False
            while not (child.is_done and is_peer_done):
                frame = tunnel.turn(_ready({**tunnel.watched(), child.fileno(): select.POLLIN}))
                if frame is not None and (is_peer_done or frame.kind != FrameKind.DONE):
                    msg = "the peer sent something else than what is due; the session is over"
                    raise LinkageError(msg)
                is_peer_done = is_peer_done or frame is not None
                known = len(child.answers)
                if child.heed(stalled=watch.stalled):
                    channel.queue(FrameKind.DONE)
                if len(child.answers) > known:
                    watch.progress(len(child.answers))
                channel.beat(watch.silence)
            _end_tunnel(channel)
            return child.answers


def _end_tunnel(channel: Channel) -> None:
    """Say that nothing of the engines follows, and pass over what the peer's had sent before it said so."""
    channel.queue(FrameKind.DONE)
    while (frame := channel.receive_frame()).kind != FrameKind.DONE:
        if frame.kind not in (FrameKind.OPEN, FrameKind.DATA, FrameKind.CLOSE):
            msg = "the peer sent something else than what is due; the session is over"
            raise LinkageError(msg)
    channel.flush()


class EngineProcess:
    """A child that runs `worker.py` with the engine's Python in a folder, and what it has answered so far."""

    def __init__(self, python: Path, folder: str) -> None:
        self.answers: list[bytes] = []
        self.is_done = False
        self._held = bytearray()
        self._moved = time.monotonic()
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        try:
            self._process = subprocess.Popen(
                [python, "-I", worker.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env={**kept, "JAX_PLATFORMS": "cpu", "TMPDIR": folder},  # set intersection leaves files where it can
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

    def give(self, job: dict[str, Any], arrays: Mapping[str, Any]) -> None:
        """Hand the job over; the child reads it before anything else."""
        told = io.BytesIO()
        public = np.frombuffer(json.dumps(job).encode(), np.uint8)
        np.savez(told, job=public, **arrays)
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
                self.answers.append(payload)
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


def _bits(packed: bytes, shape: tuple[int, int]) -> Bools:
    count = shape[0] * shape[1]
    return np.unpackbits(np.frombuffer(packed, np.uint8), count=count).reshape(shape).astype(bool)
