"""Private set intersection for programs that only test equality: far cheaper than comparing pairs.

An item is a digest of a candidate pair of blocks and a record's exact columns, keyed with the session. A side's set has
one item for each distinct record of each of its candidates, and random ones in place of dummies and of repeated
records, so that its size is the padded one and reveals nothing more. Items that both sides have are revealed to both;
then each side sends the rows of its padded, shuffled blocks that contain them. The match bits reveal the same.
"""

import hmac
import secrets
import struct
from collections.abc import Callable, Sequence

import numpy as np

from dpcube.core.arrays import Bools, Ints
from dpcube.core.errors import DpcubeError, LinkageError
from dpcube.link.secure.agreement import Agreement
from dpcube.link.secure.channel import Channel
from dpcube.link.secure.engine import EngineWatch, run_engine

ITEM_BYTES = 16
Place = tuple[int, list[int]]
"""A candidate, by its position, and the rows of this side's block that contain an item there."""
Intersect = Callable[[Sequence[bytes], int], set[bytes]]
"""Function that returns the common items, given this side's items and the number of the peer's."""


def intersection_matches(
    channel: Channel, agreement: Agreement, blocks: Sequence[Ints], intersect: Intersect
) -> list[Bools]:
    """Return the match bits of each candidate pair of blocks."""
    side = 0 if channel.role == "listener" else 1
    sizes = [(agreement.listener_sizes[i], agreement.connector_sizes[j]) for i, j in agreement.candidates]
    found: list[Bools] = [np.zeros(shape, bool) for shape in sizes]
    totals = [sum(shape[one] for shape in sizes) for one in (0, 1)]
    if not all(totals):
        return found
    places = _places(channel.session, agreement, blocks, side)
    filling = [secrets.token_bytes(ITEM_BYTES) for _ in range(totals[side])]
    items = sorted([*places, *filling[len(places) :]])  # by digest: the order does not reveal which are dummies
    common = sorted(intersect(items, totals[1 - side]))
    if not set(common) <= set(places):
        msg = "the engine returned common items that are not ours; the session is over"
        raise LinkageError(msg)
    received = channel.exchange(b"".join(_pack(places[item][1]) for item in common))
    limits = [sizes[places[item][0]][1 - side] for item in common]
    for item, theirs in zip(common, _rows(received, limits), strict=True):
        candidate, ours = places[item]
        rows = (ours, theirs) if side == 0 else (theirs, ours)
        found[candidate][np.ix_(*rows)] = True
    return found


def engine_intersect(channel: Channel, watch: EngineWatch) -> Intersect:
    """Return the set intersection (KKRT) of the engine in a child process."""

    def intersect(items: Sequence[bytes], peers: int) -> set[bytes]:
        arrays = {"items": np.frombuffer(b"".join(items), np.uint8)}
        (common,) = run_engine(channel, {"task": "intersect", "most_items": max(len(items), peers)}, arrays, watch)
        return {common[start : start + ITEM_BYTES] for start in range(0, len(common), ITEM_BYTES)}

    return intersect


def openmined_intersect(channel: Channel, seconds: float) -> Intersect:
    """Return the set intersection of `openmined-psi` (elliptic curves), for platforms without the engine's wheel."""

    def intersect(items: Sequence[bytes], peers: int) -> set[bytes]:
        try:
            if channel.role == "connector":
                return _asked(channel, items, seconds)
            return _answered(channel, items, peers, seconds)
        except DpcubeError:
            raise
        except Exception as error:  # any error of the library on the peer's message
            msg = f"the peer sent an invalid set intersection message ({type(error).__name__}); the session is over"
            raise LinkageError(msg) from None

    return intersect


def _asked(channel: Channel, items: Sequence[bytes], seconds: float) -> set[bytes]:
    """Send the masked items, receive them doubly masked with the peer's masked items, and send the common items."""
    import private_set_intersection.python as psi

    asker, setup, response = psi.client.CreateWithNewKey(True), psi.ServerSetup(), psi.Response()
    request = asker.CreateRequest([item.hex() for item in items])
    setup.ParseFromString(channel.exchange(request.SerializeToString(), seconds=seconds))
    response.ParseFromString(channel.receive(seconds=seconds))
    common = {items[place] for place in asker.GetIntersection(setup, response)}
    channel.send(b"".join(sorted(common)))
    channel.flush()
    return common


def _answered(channel: Channel, items: Sequence[bytes], peers: int, seconds: float) -> set[bytes]:
    """Send the masked items, mask the peer's a second time, and receive the common items."""
    import private_set_intersection.python as psi

    answerer, request = psi.server.CreateWithNewKey(True), psi.Request()
    setup = answerer.CreateSetupMessage(0.0, peers, [item.hex() for item in items], psi.DataStructure.RAW)
    request.ParseFromString(channel.exchange(setup.SerializeToString(), seconds=seconds))
    if len(request.encrypted_elements) != peers:
        msg = "the peer sent another number of items than its blocks have rows; the session is over"
        raise LinkageError(msg)
    channel.send(answerer.ProcessRequest(request).SerializeToString())
    received = channel.receive(seconds=seconds)
    return {received[start : start + ITEM_BYTES] for start in range(0, len(received), ITEM_BYTES)}


def _places(session: bytes, agreement: Agreement, blocks: Sequence[Ints], side: int) -> dict[bytes, Place]:
    """Return the rows of each of a side's items. Dummies cost the same work, for the peer can measure time."""
    places: dict[bytes, Place] = {}
    for candidate, pair in enumerate(agreement.candidates):
        block = blocks[pair[side]]
        for row, is_real in enumerate(block[:, 0].tolist()):
            received = struct.pack(">Q", candidate) + block[row, 1:].astype(">i8").tobytes()
            item = hmac.digest(session, received, "sha256")[:ITEM_BYTES]
            if is_real:
                places.setdefault(item, (candidate, []))[1].append(row)
    return places


def _pack(rows: list[int]) -> bytes:
    return struct.pack(f">I{len(rows)}I", len(rows), *rows)


def _rows(received: bytes, limits: Sequence[int]) -> list[list[int]]:
    """Parse the peer's rows for each common item: distinct rows of a block of the size that the peer announced."""
    numbers = struct.unpack(f">{len(received) // 4}I", received[: len(received) // 4 * 4])
    found, start = [], 0
    for limit in limits:
        count = numbers[start] if start < len(numbers) else 0
        rows = list(numbers[start + 1 : start + 1 + count])
        if not rows or len(rows) != count or len(set(rows)) != count or max(rows) >= limit:
            msg = "the peer sent invalid row numbers; the session is over"
            raise LinkageError(msg)
        found.append(rows)
        start += 1 + count
    if 4 * start != len(received):
        msg = "the peer sent more row numbers than there are common items; the session is over"
        raise LinkageError(msg)
    return found
