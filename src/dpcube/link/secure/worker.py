"""The engine's side of the secure step, run by its own Python: a job enters on stdin, match bits leave on stdout.

It imports nothing of dpcube, and nothing of its environment reaches dpcube. The protocol is Cheetah (two parties, no
third, semi-honest) in 64-bit integers. A side's rows enter as its private values: no share of them is sent at all, the
other side makes the placeholder from their public shape. Of a result only the bit that each share is made of is sent.
Equal items are found by KKRT set intersection. When stdin ends, dpcube is gone, and so is this process.
"""

import functools
import io
import json
import operator
import os
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

ALIVE, BLOCK, FAILED, DONE = b"A", b"B", b"F", b"D"
Tell = Callable[..., None]
"""Tells dpcube a kind and, perhaps, bytes."""


def read_job(stream: BinaryIO) -> tuple[dict[str, Any], Any]:
    """Return the public job and this side's arrays."""
    (size,) = struct.unpack(">Q", stream.read(8))
    arrays = np.load(io.BytesIO(stream.read(size)), allow_pickle=False)
    return json.loads(bytes(arrays["job"])), arrays


def end_with(stream: BinaryIO) -> None:
    """End this process when a stream ends."""
    while stream.read(1):
        pass
    os._exit(3)


def tiles(size: int, edge: int, quantum: int) -> list[tuple[int, int, int]]:
    """Cut a block into runs of rows, each with the size it is filled up to, so that few shapes are compiled."""
    cuts = [(start, min(start + edge, size)) for start in range(0, size, edge)]
    return [(start, stop, -(-(stop - start) // quantum) * quantum) for start, stop in cuts]


def matcher(job: dict[str, Any], numeric: Any) -> Any:
    """Return the function of both sides' rows that the engine compiles: whether each pair matches.

    `numeric` is JAX's NumPy; with NumPy itself it is the same function in the clear.
    """

    def match(left: Any, right: Any) -> Any:
        held, differences, products, start = [], [], [], 0
        for form, width, weight in job["forms"]:
            x, y = left[:, start : start + width], right[:, start : start + width]
            start += width
            if form == "eq":
                differences += [(weight, width, x[:, column, None] - y[None, :, column]) for column in range(width)]
            else:
                products.append((weight, x[:, :-1] @ y[:, :-1].T + x[:, -1, None] + y[None, :, -1]))
        last = left[:, -1, None], right[None, :, -1]
        if job["needs_all"] and not products:
            differences.append((0, 1, last[0] - last[1]))
        # All of a form are compared in one step: rounds cost more than pairs.
        if differences:
            equal = numeric.stack([difference for *_, difference in differences]) == 0
            held += joined(equal, [(weight, width) for weight, width, _ in differences])
        if products:
            signs = numeric.stack([product for _, product in products]) >= 0
            held += [(weight, signs[place]) for place, (weight, _) in enumerate(products)]
        if job["needs_all"]:
            return functools.reduce(operator.and_, [bit for _, bit in held])
        return sum((bit * numeric.int64(weight) for weight, bit in held), last[0] + last[1]) >= job["threshold"]

    return match


def joined(bits: Any, columns: list[tuple[int, int]]) -> list[tuple[int, Any]]:
    """Return the weight and the bit of each comparison, from those of its columns."""
    made, place = [], 0
    while place < len(columns):
        weight, width = columns[place]
        made.append((weight, functools.reduce(operator.and_, [bits[place + k] for k in range(width)])))
        place += width
    return made


def open_link(job: dict[str, Any]) -> Any:
    """Return a link to the peer's engine, through sockets that dpcube stands behind."""
    from spu import libspu

    link = libspu.link.Desc()
    link.id = "dpcube"
    link.recv_timeout_ms = 1000 * job["seconds"]
    link.connect_retry_times, link.connect_retry_interval_ms = job["seconds"], 1000
    for place, path in enumerate(job["sockets"]):
        link.add_party(f"p{place}", f"unix:{path}")
    return libspu.link.create_brpc(link, job["rank"])


class CheetahRuntime:
    """A link to the peer's engine, the runtime of Cheetah, and what was compiled."""

    def __init__(self, job: dict[str, Any]) -> None:
        import jax
        import spu
        from spu import libspu

        jax.config.update("jax_enable_x64", True)
        self.jax, self.spu, self.libspu = jax, spu, libspu
        self.rank, self.peer = job["rank"], 1 - job["rank"]
        self.link = open_link(job)
        config = spu.RuntimeConfig(protocol=spu.ProtocolKind.CHEETAH, field=spu.FieldType.FM64)
        config.experimental_enable_colocated_optimization = True
        self.io, self.runtime = spu.Io(2, config), spu.Runtime(self.link, config)
        self.match = matcher(job, jax.numpy)
        self.compiled: dict[Any, Any] = {}

    def bits(self, own: Any, other_rows: int) -> Any:
        """Return the match bits of this side's rows with those that the peer brings at the same time."""
        secret = self.spu.Visibility.VIS_SECRET
        other = np.zeros((other_rows, own.shape[1]), np.int64)
        names, sides = ("left", "right"), (own, other) if self.rank == 0 else (other, own)
        # Of the peer's rows there are zeros here, whose share for us is the placeholder that the engine expects.
        for place, rows in enumerate(sides):
            self.runtime.set_var(names[place], self.io.make_shares(rows, secret, place)[self.rank])
        self.runtime.run(self._executable(sides[0].shape, sides[1].shape))
        share = self.runtime.get_var("out")
        for name in (*names, "out"):
            self.runtime.del_var(name)
        shape = (len(sides[0]), len(sides[1]))
        own_bits = self._share_bits(share, shape[0] * shape[1])
        self.link.send(self.peer, np.packbits(own_bits).tobytes())
        told = np.frombuffer(self.link.recv(self.peer), np.uint8)
        return (own_bits ^ np.unpackbits(told, count=own_bits.size)).reshape(shape).astype(bool)

    def _executable(self, left: tuple[int, ...], right: tuple[int, ...]) -> Any:
        from spu.utils import frontend

        if (left, right) not in self.compiled:
            shapes = [self.jax.ShapeDtypeStruct(shape, np.int64) for shape in (left, right)]
            secret = [self.spu.Visibility.VIS_SECRET] * 2
            made, _ = frontend.compile(
                frontend.Kind.JAX, self.match, shapes, {}, ["left", "right"], secret, lambda _: ["out"]
            )
            self.compiled[left, right] = made
        return self.compiled[left, right]

    def _share_bits(self, share: Any, count: int) -> Any:
        """Return the one bit of each value's share; whatever else its word may hold stays here."""
        meta, content = self.libspu.ValueMeta(), b""
        meta.ParseFromString(share.meta)
        for serialized in share.share_chunks:
            chunk = self.libspu.ValueChunk()
            chunk.ParseFromString(serialized)
            content += chunk.content
        if meta.storage_type != "cheetah.BShr<FM64,1>" or len(content) != 8 * count:
            msg = "the engine's result is not a boolean share of one bit"
            raise TypeError(msg)
        return (np.frombuffer(content, np.uint64) & np.uint64(1)).astype(np.uint8)


def filled(rows: Any, size: int, dummy: Any) -> Any:
    """Return rows with dummies after them, `size` in all."""
    return np.ascontiguousarray(np.concatenate([rows, np.tile(dummy, (size - len(rows), 1))]))


def intersect_items(job: dict[str, Any], arrays: Any, answer: Tell) -> None:
    """Answer with those of this side's items, 16 bytes each, that the peer has too."""
    from spu import psi

    folder, items = Path(job["folder"]), bytes(arrays["items"])
    named = [items[start : start + 16].hex() for start in range(0, len(items), 16)]
    (folder / "items").write_text("\n".join(["item", *named, ""]))
    # One bucket for all: how many items fall into each of several would tell something about them.
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


def compare_blocks(job: dict[str, Any], arrays: Any, answer: Tell) -> None:
    """Answer with the match bits of every candidate pair of blocks, in the order that both sides keep."""
    engine = CheetahRuntime(job)
    answer(ALIVE)
    sizes, side = job["sizes"], job["rank"]
    for pair in job["candidates"]:
        found = np.zeros((sizes[0][pair[0]], sizes[1][pair[1]]), bool)
        own = arrays[f"block{pair[side]}"]
        cut = [tiles(size, job["edge"], job["quantum"]) for size in found.shape]
        for left in cut[0]:
            for right in cut[1]:
                start, stop, size = (left, right)[side]
                bits = engine.bits(filled(own[start:stop], size, arrays["dummy"]), (right, left)[side][2])
                rows, columns = left[1] - left[0], right[1] - right[0]
                found[left[0] : left[1], right[0] : right[1]] = bits[:rows, :columns]
                answer(ALIVE)
        answer(BLOCK, np.packbits(found).tobytes())
    answer(DONE)


def serve_job() -> None:
    """Run one job; whatever the engine prints is kept off stdout, and a failure is told by its kind alone."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def answer(kind: bytes, payload: bytes = b"") -> None:
        answers.write(kind + struct.pack(">Q", len(payload)) + payload)
        answers.flush()

    job, arrays = read_job(sys.stdin.buffer)
    watch = threading.Thread(target=end_with, args=(sys.stdin.buffer,), daemon=True)
    watch.start()
    try:
        {"compare": compare_blocks, "intersect": intersect_items}[job["task"]](job, arrays, answer)
    except Exception as error:
        answer(FAILED, type(error).__name__.encode())
        raise
    watch.join()  # the peer may still be reading: dpcube says when this process may go


if __name__ == "__main__":
    serve_job()
