"""Linking over a channel: a session and an authenticated peer enter, the ids of matching records of both leave.

The two first compare digests of their rules and blocks, then the secure step opens the match bits of every candidate
pair of blocks, and last each tells the ids of its matching records, in the order of the bits, which both have alike.
Nothing is sent of a record that matches none.
"""

import csv
import io
import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dpcube.core.arrays import Bools, Ints
from dpcube.core.errors import InputError, LinkageError
from dpcube.core.files import new_file
from dpcube.core.seal import sealed
from dpcube.core.sources.limits import MAX_RECORD_TEXT
from dpcube.core.spreadsheets import spreadsheet_text
from dpcube.link.block_file import BlockFile
from dpcube.link.features import Side
from dpcube.link.measures import LinkCost
from dpcube.link.program import Program
from dpcube.link.rules import MatchingRules
from dpcube.link.session import LinkSession

LINKING_FORMAT = "dpcube linking 1"


class Peer(Protocol):
    """What carries messages to the other side and back: `link/secure/channel.py`."""

    bytes_sent: int
    bytes_received: int

    def exchange(self, message: bytes) -> bytes:
        """Send a message and return the peer's."""


SecureStep = Callable[[Any, Program, list[Ints], list[tuple[int, int]]], list[Bools]]
"""Returns the match bits of each candidate pair of blocks, over a channel: `secure_matches`."""
OpenChannel = Callable[[], AbstractContextManager[Peer]]


@dataclass(frozen=True, slots=True)
class LinkResult:
    """The ids of matching records, this side's first, and what it took."""

    links: tuple[tuple[str, str], ...]
    cost: LinkCost

    def __repr__(self) -> str:
        return f"<the links of a session, {self.cost.pairs:,} pairs compared>"


@sealed
def link_records(
    open_channel: OpenChannel,
    side: Side,
    session: LinkSession,
    blocks: BlockFile,
    rules: MatchingRules,
    step: SecureStep,
) -> LinkResult:
    """Find the records that match the peer's, and exchange their ids."""
    features = session.features(rules, side)  # before the peer is there, who waits for a minute only
    candidates = [(int(i), int(j)) for i, j in blocks.plan.candidates()]
    with open_channel() as peer:
        _compare_plans(peer, blocks, rules)
        begun = time.monotonic()
        bits = step(peer, rules.program, features, candidates)
        seconds = time.monotonic() - begun
        own = _matched_ids(session, side, candidates, bits)
        theirs = _ids_of_peer(peer.exchange(json.dumps(own).encode()), len(own))
    shift = session.facts.shift
    rows = [_in_one_block(sizes, shift) for sizes in (session.sizes.tolist(), _peer_sizes(side, candidates, bits))]
    pairs = sum(one.size for one in bits)
    cost = LinkCost(pairs, rows[0] * rows[1], peer.bytes_sent + peer.bytes_received, seconds)
    return LinkResult(tuple(zip(own, theirs, strict=True)), cost)


def _compare_plans(peer: Peer, blocks: BlockFile, rules: MatchingRules) -> None:
    """Refuse a peer that has other rules or blocks, before anything about rows is told."""
    own = {"format": LINKING_FORMAT, "rules": rules.digest, "blocks": blocks.digest}
    told = peer.exchange(json.dumps(own, sort_keys=True).encode())
    try:
        theirs = json.loads(told)
    except (ValueError, RecursionError):
        theirs = None
    if theirs != own:
        differ = [key for key in own if not isinstance(theirs, dict) or theirs.get(key) != own[key]]
        msg = f"the peer has another {' and '.join(differ)}; both need the same rules and the same blocks file"
        raise LinkageError(msg)


def _matched_ids(
    session: LinkSession, side: Side, candidates: Sequence[tuple[int, int]], bits: Sequence[Bools]
) -> list[str]:
    """Return the id of this side's record of every match, in the order of candidates, rows and columns."""
    ids, place = session.ids(), 0 if side == "listener" else 1
    found = []
    for pair, matched in zip(candidates, bits, strict=True):
        block = ids[pair[place]]
        for row in np.argwhere(matched)[:, place].tolist():
            own = block[row]
            if own is None:
                msg = "a dummy was matched, so the peer or the engine is at fault; the result is not kept"
                raise LinkageError(msg)
            found.append(own)
    return found


def _ids_of_peer(told: bytes, number: int) -> list[str]:
    """Return the ids that a peer told, if there are as many as matches and each is a text as short as ids are."""
    try:
        ids = json.loads(told)
    except (ValueError, RecursionError):
        ids = None
    if not isinstance(ids, list) or len(ids) != number or not all(_is_id(one) for one in ids):
        msg = "the peer did not tell one id for each match; the result is not kept"
        raise LinkageError(msg)
    return ids


def _is_id(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MAX_RECORD_TEXT and value.encode(errors="ignore").decode() == value


def _peer_sizes(side: Side, candidates: Sequence[tuple[int, int]], bits: Sequence[Bools]) -> list[int]:
    """Return the padded sizes of the peer's blocks, of which each is in a candidate pair."""
    place = 1 if side == "listener" else 0
    return list({pair[place]: matched.shape[place] for pair, matched in zip(candidates, bits, strict=True)}.values())


def _in_one_block(sizes: Sequence[int], shift: int) -> int:
    """Return about how many rows a side would bring without blocks, padded once, by the sizes that both see."""
    return max(shift, sum(sizes) - (len(sizes) - 1) * shift)


def check_new_result(path: Path) -> None:
    """Refuse a place for the result before anything is sent."""
    if os.path.lexists(path) or not path.absolute().parent.is_dir():
        msg = f"{path} exists, or lies in no directory, and a result never overwrites a file; choose another name"
        raise InputError(msg)


@sealed
def write_links(path: Path, links: Sequence[tuple[str, str]]) -> None:
    """Write the ids of both sides as CSV, whole, in a file that only its owner may read.

    The peer's ids are foreign text, so one that a spreadsheet would run as a formula gets an apostrophe before it.
    """
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(("own_id", "peer_id"))
    lines.writerows((own, spreadsheet_text(theirs)) for own, theirs in links)
    with new_file(path, private=True) as part:
        part.write_text(text.getvalue(), encoding="utf-8", newline="")
