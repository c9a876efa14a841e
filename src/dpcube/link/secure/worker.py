"""Worker process of the secure step: the Cheetah protocol and KKRT set intersection, run by the engine's Python.

It reads a job from stdin and writes match bits to stdout. It imports nothing of dpcube, and its environment does not
reach dpcube. The protocol is Cheetah (two parties, no third, semi-honest). Products are computed in 64-bit integers: a
side's bits are its private input, no share of them is sent at all, and the other side makes the placeholder from their
public shape. A side's term of a condition is its share of it without change. Shares of products are truncated to 32
bits, added and compared (`terms.py` proves that this decides as the clear does). Of a result only the bit of each share
is sent. Equal items are found by KKRT set intersection. When stdin ends, dpcube has exited: this process then removes
its files and ends.
"""

import functools
import io
import json
import operator
import os
import shutil
import struct
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

ALIVE, BLOCK, FAILED, DONE = b"A", b"B", b"F", b"D"
Tell = Callable[..., None]
"""Function that sends a kind and an optional payload to dpcube."""


def read_job(stream: BinaryIO) -> tuple[dict[str, Any], Any]:
    """Return the public job and this side's arrays."""
    (size,) = struct.unpack(">Q", stream.read(8))
    arrays = np.load(io.BytesIO(stream.read(size)), allow_pickle=False)
    return json.loads(bytes(arrays["job"])), arrays


def end_with(stream: BinaryIO, folder: str) -> None:
    """End this process when a stream ends, and remove its files."""
    while stream.read(1):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(3)


def tiles(size: int, edge: int, alike: int) -> list[tuple[int, int, int]]:
    """Split a block into runs of rows, each with the size to which it is padded, so that few shapes are compiled.

    The size is a power of two from `alike` to `edge`, for products of other sizes cost as much.
    """
    cuts = [(start, min(start + edge, size)) for start in range(0, size, edge)]
    return [(start, stop, max(alike, 1 << (stop - start - 1).bit_length())) for start, stop in cuts]


def packed_rows(rows: Any, places: list[int], size: int) -> Any:
    """Return `size` rows, each the sum of one row per place, shifted to that place."""
    fields = filled(rows, size * len(places)).reshape(len(places), size, -1)
    return sum(field << np.int64(place) for field, place in zip(fields, places, strict=True))


def cut_fields(share: Any, places: list[int], kept: int, raised: int) -> Any:
    """Return this side's shares of the fields of a product, modulo 2^32, in the order of the packed rows."""
    fields = [(share >> np.uint64(place - kept)).astype(np.uint32) << np.uint32(raised) for place in places]
    return np.concatenate(fields, axis=1)


def decider(job: dict[str, Any], numeric: Any) -> Any:
    """Return the function from the conditions of pairs to their match bits, which the engine compiles.

    `numeric` is JAX's NumPy; with NumPy itself it is the same function in the clear.
    """
    ge, eq = (sum(form[place] for form in job["forms"]) for place in (0, 1))

    def decide(conditions: Any) -> Any:
        # All conditions of a kind are compared in one step: rounds cost more than pairs.
        signs = conditions[:ge] >= 0 if ge else ()
        equal = conditions[ge : ge + eq] == 0 if eq else ()
        weighted, at_ge, at_eq = [], 0, 0
        for more_ge, more_eq, weight in job["forms"]:
            parts = [signs[at_ge + k] for k in range(more_ge)] + [equal[at_eq + k] for k in range(more_eq)]
            weighted.append((weight, functools.reduce(operator.and_, parts)))
            at_ge, at_eq = at_ge + more_ge, at_eq + more_eq
        if job["needs_all"]:
            return functools.reduce(operator.and_, [bit for _, bit in weighted])
        return sum((bit * numeric.int32(weight) for weight, bit in weighted), conditions[-1]) >= job["threshold"]

    return decide


def open_link(job: dict[str, Any]) -> Any:
    """Return a link to the peer's engine, through sockets that dpcube forwards."""
    from spu import libspu

    link = libspu.link.Desc()
    link.id = "dpcube"
    link.recv_timeout_ms = 1000 * job["seconds"]
    link.connect_retry_times, link.connect_retry_interval_ms = job["seconds"], 1000
    for place, path in enumerate(job["sockets"]):
        link.add_party(f"p{place}", f"unix:{path}")
    return libspu.link.create_brpc(link, job["rank"])


class CheetahRuntime:
    """Cheetah runtimes in 64 and 32 bits, with a link to the peer's engine and a cache of compiled programs."""

    def __init__(self, job: dict[str, Any]) -> None:
        import jax
        import spu
        from spu import libspu

        jax.config.update("jax_enable_x64", True)
        self.jax, self.spu, self.libspu = jax, spu, libspu
        self.rank, self.peer = job["rank"], 1 - job["rank"]
        self.link = open_link(job)
        self.long, self.word = self._runtime(spu.FieldType.FM64), self._runtime(spu.FieldType.FM32)
        self.decide = decider(job, jax.numpy)
        self.compiled: dict[Any, Any] = {}
        self.metas: dict[Any, Any] = {}

    def _runtime(self, field: Any) -> tuple[Any, Any]:
        config = self.spu.RuntimeConfig(protocol=self.spu.ProtocolKind.CHEETAH, field=field)
        config.experimental_enable_colocated_optimization = True
        return self.spu.Io(2, config), self.spu.Runtime(self.link, config)

    def product(self, own: Any, other_rows: int) -> Any:
        """Return this side's share of the product of its rows with the peer's."""
        io, runtime = self.long
        other = np.zeros((other_rows, own.shape[1]), np.int64)
        sides = (own, other) if self.rank == 0 else (other, own)
        # Zeros stand for the peer's rows here; our share of them is the placeholder that the engine expects.
        for place, (name, rows) in enumerate(zip(("left", "right"), sides, strict=True)):
            runtime.set_var(name, io.make_shares(rows, self.spu.Visibility.VIS_SECRET, place)[self.rank])
        runtime.run(self._executable(multiplied, ("left", "right"), [rows.shape for rows in sides], np.int64))
        share = self._content(runtime.get_var("out"), "cheetah.AShr<FM64>", np.uint64)
        for name in ("left", "right", "out"):
            runtime.del_var(name)
        return share.reshape(len(sides[0]), len(sides[1]))

    def bits(self, shares: Any) -> Any:
        """Return the match bits of pairs from this side's shares of all conditions and the peer's."""
        runtime = self.word[1]
        runtime.set_var("conditions", self._share(shares))
        runtime.run(self._executable(self.decide, ("conditions",), [shares.shape], np.int32))
        content = self._content(runtime.get_var("out"), "cheetah.BShr<FM32,1>", np.uint32)
        for name in ("conditions", "out"):
            runtime.del_var(name)
        # Other bits in the word of a share stay here.
        own_bits = (content & np.uint32(1)).astype(np.uint8)
        self.link.send(self.peer, np.packbits(own_bits).tobytes())
        received = np.frombuffer(self.link.recv(self.peer), np.uint8)
        return (own_bits ^ np.unpackbits(received, count=own_bits.size)).astype(bool)

    def _executable(self, function: Any, names: tuple[str, ...], shapes: list[tuple[int, ...]], kind: Any) -> Any:
        from spu.utils import frontend

        key = (names, *shapes)
        if key not in self.compiled:
            given = [self.jax.ShapeDtypeStruct(shape, kind) for shape in shapes]
            secret = [self.spu.Visibility.VIS_SECRET] * len(names)
            made, _ = frontend.compile(frontend.Kind.JAX, function, given, {}, list(names), secret, lambda _: ["out"])
            self.compiled[key] = made
        return self.compiled[key]

    def _share(self, shares: Any) -> Any:
        """Return words as this side's arithmetic share of values, in the engine's format."""
        if shares.shape not in self.metas:
            zeros = np.zeros(shares.shape, np.int32)
            self.metas[shares.shape] = self.word[0].make_shares(zeros, self.spu.Visibility.VIS_SECRET, -1)[0].meta
        made, chunk = self.libspu.Share(), self.libspu.ValueChunk()
        made.meta, content = self.metas[shares.shape], shares.tobytes()
        self._check(made.meta, "cheetah.AShr<FM32>")
        chunk.total_bytes, chunk.chunk_offset, chunk.content = len(content), 0, content
        made.share_chunks = [chunk.SerializeToString()]
        return made

    def _content(self, share: Any, form: str, kind: Any) -> Any:
        """Return the words of a share of the expected type."""
        self._check(share.meta, form)
        parts = []
        for serialized in share.share_chunks:
            chunk = self.libspu.ValueChunk()
            chunk.ParseFromString(serialized)
            parts.append(chunk.content)
        return np.frombuffer(b"".join(parts), kind)

    def _check(self, serialized: Any, form: str) -> None:
        meta = self.libspu.ValueMeta()
        meta.ParseFromString(serialized)
        if meta.storage_type != form:
            msg = f"the type of the engine's share is not {form}"
            raise TypeError(msg)


def multiplied(left: Any, right: Any) -> Any:
    """Return the product of every row of one side with every row of the other."""
    return left @ right.T


def filled(rows: Any, size: int) -> Any:
    """Return rows with zeros after them, `size` in all."""
    return np.concatenate([rows, np.zeros((size - len(rows), rows.shape[1]), rows.dtype)])


def intersect_items(job: dict[str, Any], arrays: Any, answer: Tell) -> None:
    """Answer with the common items of both sides, 16 bytes each."""
    from spu import psi

    folder, items = Path(job["folder"]), bytes(arrays["items"])
    named = [items[start : start + 16].hex() for start in range(0, len(items), 16)]
    (folder / "items").write_text("\n".join(["item", *named, ""]))
    # A single bucket: the sizes of several would reveal something about the items.
    protocol = psi.PsiProtocolConfig(
        protocol=psi.PsiProtocol.PROTOCOL_KKRT, receiver_rank=0, broadcast_result=True, bucket_size=job["most_items"]
    )
    given = psi.InputParams(path=str(folder / "items"), selected_keys=["item"], keys_unique=True)
    taken = psi.OutputParams(path=str(folder / "common"), disable_alignment=True)
    link = open_link(job)
    answer(ALIVE)
    psi.psi_execute(psi.PsiExecuteConfig(protocol, given, taken), link)
    _, *common = (folder / "common").read_text().split()
    answer(BLOCK, b"".join(bytes.fromhex(one.strip('"')) for one in common))
    answer(DONE)


class PairStream:
    """Batching of pairs across tiles: a fixed number is decided at once, and the bits are written to their places."""

    def __init__(self, bits: Callable[[Any], Any], at_once: int, quantum: int) -> None:
        self._bits, self._at_once, self._quantum = bits, at_once, quantum
        self._shares: list[Any] = []
        self._held = 0
        self._places: deque[Any] = deque()
        self._decided = np.zeros(0, bool)
        self.placed = 0  # pairs whose bits are written

    def take(self, shares: Any, place: Any) -> None:
        """Add the shares of a tile's pairs, row by row, and the array for its bits."""
        self._shares.append(shares)
        self._places.append(place)
        self._held += shares.shape[1]
        while self._held >= self._at_once:
            self._decide(self._at_once)

    def finish(self) -> None:
        """Decide the remaining pairs."""
        if self._held:
            self._decide(self._held)

    def _decide(self, number: int) -> None:
        together = np.concatenate(self._shares, axis=1)
        taken = np.ascontiguousarray(together[:, :number])
        self._shares, self._held = [together[:, number:]], self._held - number
        size = -(-number // self._quantum) * self._quantum  # so that few shapes are compiled
        bits = self._bits(np.pad(taken, ((0, 0), (0, size - number))))[:number]
        self._decided = np.concatenate([self._decided, bits])
        while self._places and self._places[0].size <= len(self._decided):
            place = self._places.popleft()
            place[:] = self._decided[: place.size].reshape(place.shape)
            self._decided = self._decided[place.size :]
            self.placed += place.size


def compare_blocks(job: dict[str, Any], arrays: Any, answer: Tell) -> None:
    """Answer with the match bits of every candidate pair of blocks, in the order that both sides share."""
    engine = CheetahRuntime(job)
    answer(ALIVE)

    stream = PairStream(engine.bits, job["pairs_at_once"], job["pairs_alike"])
    waiting: deque[tuple[int, Any]] = deque()  # the last pair of a candidate, and its bits
    last = 0
    for pair in job["candidates"]:
        found = np.zeros((job["sizes"][0][pair[0]], job["sizes"][1][pair[1]]), bool)
        last += found.size
        waiting.append((last, found))
        for shares, rows, columns in tile_shares(job, arrays, pair, engine.product):
            stream.take(shares, found[rows, columns])
            answer(ALIVE)
        answer_placed(waiting, stream.placed, answer)
    stream.finish()
    answer_placed(waiting, stream.placed, answer)
    answer(DONE)


def answer_placed(waiting: "deque[tuple[int, Any]]", placed: int, answer: Tell) -> None:
    """Answer with the bits of complete candidates, in order."""
    while waiting and waiting[0][0] <= placed:
        answer(BLOCK, np.packbits(waiting.popleft()[1]).tobytes())


def tile_shares(
    job: dict[str, Any], arrays: Any, pair: list[int], product: Callable[[Any, int], Any]
) -> Iterator[tuple[Any, slice, slice]]:
    """Yield this side's shares of the conditions of a pair of blocks, tile by tile, and the place of each tile."""
    side, alike = job["rank"], job["rows_alike"]
    bits, added = arrays[f"bits{pair[side]}"], arrays[f"added{pair[side]}"]
    fields = min((len(places) for _, _, places, *_ in job["texts"]), default=1)
    cut = [tiles(job["sizes"][one][pair[one]], job["edge"] * (fields if one else 1), alike) for one in (0, 1)]
    for left in cut[0]:
        for right in cut[1]:
            rows, columns = slice(*left[:2]), slice(*right[:2])
            shape = left[1] - left[0], right[1] - right[0]
            own = (rows, columns)[side]
            mine = added[own].T[:, :, None] if side == 0 else added[own].T[:, None, :]
            shares = np.array(np.broadcast_to(mine, (added.shape[1], *shape)), np.uint32)
            first = 0
            for condition, width, places, kept, raised in job["texts"]:
                # Padded with a few rows, so that few shapes are compiled.
                fewer = -(-shape[1] // (len(places) * alike)) * alike
                text = bits[own, first : first + width]
                given = filled(text, left[2]) if side == 0 else packed_rows(text, places, fewer)
                made = cut_fields(product(given, (fewer, left[2])[side]), places, kept, raised)
                shares[condition] += made[: shape[0], : shape[1]]
                first += width
            yield shares.reshape(len(shares), -1), rows, columns


def serve_job() -> None:
    """Run one job; the engine's own output is kept off stdout, and a failure is reported by its type alone."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def answer(kind: bytes, payload: bytes = b"") -> None:
        answers.write(kind + struct.pack(">Q", len(payload)) + payload)
        answers.flush()

    job, arrays = read_job(sys.stdin.buffer)
    watch = threading.Thread(target=end_with, args=(sys.stdin.buffer, job["folder"]), daemon=True)
    watch.start()
    try:
        {"compare": compare_blocks, "intersect": intersect_items}[job["task"]](job, arrays, answer)
    except Exception as error:
        answer(FAILED, type(error).__name__.encode())
        raise
    watch.join()  # the peer may still be reading: dpcube decides when this process ends


if __name__ == "__main__":
    serve_job()
