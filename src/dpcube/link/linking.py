"""Record linkage over a secure channel: both parties learn the ids of matching records, and nothing about the others.

The parties first compare digests of their rules and blocks. Then the secure step reveals the match bits of every
candidate pair of blocks. Last, each sends the ids of its matching records in the order of the bits, which is the same
on both sides. Nothing is sent about a record that matches none.

**Evaluation measures.** Reduction ratio, recall and precision describe what blocking saves and what linkage finds. True
sizes and true links are private, or known for public data only: these measures are for evaluation, and for padded
sizes, which both parties see.
"""

import csv
import io
import json
import os
import time
from collections.abc import Callable, Collection, Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dpcube.core.arrays import Bools, Ints
from dpcube.core.errors import InputError, LinkageError
from dpcube.core.files import new_file
from dpcube.core.limits import MAX_RECORD_TEXT
from dpcube.core.seal import sealed
from dpcube.core.spreadsheets import spreadsheet_text
from dpcube.link.blocking import BlockFile
from dpcube.link.features import Side
from dpcube.link.program import Program
from dpcube.link.rules import MatchingRules
from dpcube.link.session import LinkSession


def compared_pairs(left: Ints, right: Ints, candidates: Ints | None = None) -> int:
    """Return the number of compared pairs of records: those of candidate blocks, by default of equal blocks."""
    if candidates is None:
        if len(left) != len(right):
            msg = f"both sides need the same number of block sizes, got {len(left)} and {len(right)}"
            raise InputError(msg)
        candidates = np.repeat(np.arange(len(left))[:, None], 2, axis=1)
    # Python integers: products of block sizes may exceed 64 bits.
    return sum(int(left[i]) * int(right[j]) for i, j in candidates.tolist())


def reduction_ratio(
    left: Ints, right: Ints, candidates: Ints | None = None, *, records: tuple[int, int] | None = None
) -> float:
    """Return the share of all pairs that need not be compared; negative if padding adds more than blocking saves.

    `records` are the true numbers of records on both sides, if the sizes are padded.

    >>> round(reduction_ratio(np.array([3, 1, 0]), np.array([2, 0, 5])), 6)
    0.785714
    """
    n, m = (int(left.sum()), int(right.sum())) if records is None else records
    if n <= 0 or m <= 0:
        msg = f"a reduction ratio needs at least one record on both sides, got {n} and {m}"
        raise InputError(msg)
    return 1 - compared_pairs(left, right, candidates) / (n * m)


@dataclass(frozen=True, slots=True)
class LinkQuality:
    """Quality of found links compared with true ones: recall, precision and F1."""

    true_links: int
    found_links: int
    right_links: int

    @property
    def recall(self) -> float:
        """Share of true links that were found (pairs completeness, if all candidate pairs count as found)."""
        return self.right_links / self.true_links if self.true_links else 1.0

    @property
    def precision(self) -> float:
        """The share of found links that are true."""
        return self.right_links / self.found_links if self.found_links else 1.0

    @property
    def f1(self) -> float:
        """The harmonic mean of recall and precision."""
        together = self.true_links + self.found_links
        return 2 * self.right_links / together if together else 1.0


def link_quality(
    found: Collection[tuple[Hashable, Hashable]], true: Collection[tuple[Hashable, Hashable]]
) -> LinkQuality:
    """Compare found links with true ones.

    >>> link_quality([(1, "a"), (2, "b")], [(1, "a"), (3, "c"), (4, "d")]).recall
    0.3333333333333333
    """
    made, known = set(found), set(true)
    return LinkQuality(len(known), len(made), len(made & known))


@dataclass(frozen=True, slots=True)
class LinkCost:
    """Cost of a run in pairs, bytes and seconds, and its extrapolation in proportion to the pairs without blocking."""

    pairs: int
    pairs_without: int
    sent_bytes: int
    seconds: float

    @property
    def seconds_without(self) -> float:
        """The seconds of all pairs, extrapolated and not measured."""
        return self.seconds * self.pairs_without / self.pairs if self.pairs else 0.0

    @property
    def bytes_without(self) -> float:
        """The bytes of all pairs, extrapolated and not measured."""
        return self.sent_bytes * self.pairs_without / self.pairs if self.pairs else 0.0

    def as_dict(self) -> dict[str, float]:
        """Return all fields for JSON; extrapolated ones are named so."""
        return {
            "pairs": self.pairs,
            "pairs_without_blocking": self.pairs_without,
            "bytes": self.sent_bytes,
            "seconds": self.seconds,
            "extrapolated_seconds_without_blocking": self.seconds_without,
            "extrapolated_bytes_without_blocking": self.bytes_without,
        }


LINKING_FORMAT = "dpcube linking 1"


class Peer(Protocol):
    """Message channel to the other party: `link/secure/channel.py`."""

    bytes_sent: int
    bytes_received: int

    def exchange(self, message: bytes) -> bytes:
        """Send a message and return the peer's."""


SecureStep = Callable[[Any, Program, list[Ints], list[tuple[int, int]]], list[Bools]]
"""Function that returns the match bits of each candidate pair of blocks, over a channel: `secure_matches`."""
OpenChannel = Callable[[], AbstractContextManager[Peer]]


@dataclass(frozen=True, slots=True)
class LinkResult:
    """Ids of matching records, this side's first, and the cost of the run."""

    links: tuple[tuple[str, str], ...]
    cost: LinkCost

    def __repr__(self) -> str:
        return f"<links of a session, {self.cost.pairs:,} pairs compared>"


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
    features = session.features(rules, side)  # before the peer connects, who waits for one minute only
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
    """Refuse a peer that has other rules or blocks, before anything about rows is sent."""
    own = {"format": LINKING_FORMAT, "rules": rules.digest, "blocks": blocks.digest}
    received = peer.exchange(json.dumps(own, sort_keys=True).encode())
    try:
        theirs = json.loads(received)
    except (ValueError, RecursionError):
        theirs = None
    if theirs != own:
        differ = [key for key in own if not isinstance(theirs, dict) or theirs.get(key) != own[key]]
        msg = f"the peer has different {' and '.join(differ)}; both parties need the same rules and blocks files"
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
                msg = "a dummy was matched, so the peer or the engine is at fault; the result is discarded"
                raise LinkageError(msg)
            found.append(own)
    return found


def _ids_of_peer(received: bytes, number: int) -> list[str]:
    """Parse the ids that the peer sent: one for each match, each a text of limited length."""
    try:
        ids = json.loads(received)
    except (ValueError, RecursionError):
        ids = None
    if not isinstance(ids, list) or len(ids) != number or not all(_is_id(one) for one in ids):
        msg = "the peer did not send one id for each match; the result is discarded"
        raise LinkageError(msg)
    return ids


def _is_id(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MAX_RECORD_TEXT and value.encode(errors="ignore").decode() == value


def _peer_sizes(side: Side, candidates: Sequence[tuple[int, int]], bits: Sequence[Bools]) -> list[int]:
    """Return the padded sizes of the peer's blocks, each of which is in a candidate pair."""
    place = 1 if side == "listener" else 0
    return list({pair[place]: matched.shape[place] for pair, matched in zip(candidates, bits, strict=True)}.values())


def _in_one_block(sizes: Sequence[int], shift: int) -> int:
    """Return roughly how many rows a side would have without blocks, padded once, from the sizes that both see."""
    return max(shift, sum(sizes) - (len(sizes) - 1) * shift)


def check_new_result(path: Path) -> None:
    """Refuse an output file that cannot be written, before anything is sent."""
    if os.path.lexists(path) or not path.absolute().parent.is_dir():
        msg = f"{path} exists, or its directory does not, and a result never overwrites a file; choose another name"
        raise InputError(msg)


@sealed
def write_links(path: Path, links: Sequence[tuple[str, str]]) -> None:
    """Write the ids of both sides atomically as CSV, in a file that only its owner may read.

    The peer's ids are untrusted text, so one that a spreadsheet would run as a formula gets an apostrophe before it.
    """
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(("own_id", "peer_id"))
    lines.writerows((own, spreadsheet_text(theirs)) for own, theirs in links)
    with new_file(path, private=True) as part:
        part.write_text(text.getvalue(), encoding="utf-8", newline="")
