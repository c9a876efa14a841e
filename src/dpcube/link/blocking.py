"""Blocking for record linkage: boxes of the linkage attributes, and the blocks file that both parties share.

Boxes are made from the estimated cells of a release, so from noisy counts alone: they cost no privacy budget and can be
public. Records go to the box of their cell, by the binning rules of every source. Two boxes are candidates if they are
the same, or if along every attribute they overlap or are no further apart than two matching values may be (`reach`).
Every pair of candidates is compared, empty ones too.

**Number of boxes.** Each block is padded by about k dummies (`core/padding.py`), so with B blocks each side has B k of
them. Finer boxes save pairs of records and add pairs of dummies. The total is n m / B + k (n + m) + B k^2 for even
blocks of which equal ones are compared, and is minimal at B = sqrt(n m) / k. `plan_boxes` repeatedly cuts the largest
box in two, and keeps the number of boxes with the fewest predicted pairs, before any padding is paid for. A pair of
blocks may also cost rounds of messages, which are worth as much as comparing so many pairs of records (`rounds`).
"""

import hashlib
import heapq
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dpcube.core.arrays import Bools, Floats, Ints
from dpcube.core.boxes import Boxes, Partitioning, box_sums
from dpcube.core.domain import Domain
from dpcube.core.domain.file import read_text, write_text
from dpcube.core.epsilon import parse_delta, parse_epsilon
from dpcube.core.errors import DpcubeError, InputError, MemoryLimitError
from dpcube.core.memory import check_memory
from dpcube.core.padding import padding_shift
from dpcube.link.limits import MAX_OTHER_ROWS, MAX_PLANNED_BLOCKS
from dpcube.link.rules import MatchingRules

BoxBounds = tuple[Ints, Ints]


@dataclass(frozen=True, slots=True, eq=False)
class BlockPlan:
    """Blocks over a domain, the reach of matching values along each axis, and the predicted cost.

    `pairs` is the number of compared pairs, including dummies, and `pairs_without` the number without blocking.
    """

    domain: Domain
    boxes: Partitioning
    reach: tuple[float, ...]
    pairs: float
    pairs_without: float

    def __len__(self) -> int:
        return len(self.boxes)

    def candidates(self) -> Ints:
        """Return the pairs of boxes that are compared, in order, as an array of shape (pairs, 2)."""
        return candidate_pairs(self.domain, self.boxes, self.reach)

    def block_of(self, cells: Ints) -> Ints:
        """Return the block of each record by the number of its cell."""
        return self.boxes.labels.reshape(-1)[cells].astype(np.int64)


def plan_boxes(
    domain: Domain,
    estimated: Floats,
    *,
    reach: Sequence[float],
    shift: int,
    other_rows: float | None = None,
    rounds: float = 0.0,
) -> BlockPlan:
    """Choose boxes by estimated cells and the shift of the padding; by default the other side has as many rows."""
    if len(reach) != len(domain.attributes):
        msg = f"reach needs one number for each of the {len(domain.attributes)} attributes, got {len(reach)}"
        raise InputError(msg)
    cells = np.maximum(estimated, 0)
    ours = float(cells.sum())
    theirs = ours if other_rows is None else other_rows
    share = theirs / ours if ours > 0 else 0.0
    most = int(min(MAX_PLANNED_BLOCKS, max(1, 8 * math.sqrt(ours * theirs) / shift)))
    found: tuple[float, float, BoxBounds] | None = None
    widths = _widths(domain)
    for may_be_cut in {tuple(r == 0 for r in reach), (True,) * len(reach)}:
        grown = _grown(cells, most, _cutter(widths, reach, may_be_cut))
        for number in _numbers(len(grown)):
            bounds = _leaves(grown, number, domain.shape)
            pairs, of_blocks = _predicted(domain, cells, bounds, reach, shift, share)
            cost = pairs + rounds * of_blocks
            if found is None or cost < found[0]:
                found = cost, pairs, bounds
    assert found is not None
    without = (ours + shift) * (theirs + shift)
    return BlockPlan(domain, Partitioning(domain.shape, *found[2]), tuple(map(float, reach)), found[1], without)


def candidate_pairs(domain: Domain, boxes: Boxes, reach: Sequence[float]) -> Ints:
    """Return the pairs (i, j) of boxes, i of one side and j of the other, that may hold matching values."""
    if not any(reach):
        return np.repeat(np.arange(len(boxes))[:, None], 2, axis=1)
    near = np.ones((len(boxes), len(boxes)), np.bool_)
    for axis, apart in enumerate(reach):
        near &= _near(domain, boxes, axis, apart)
    return np.argwhere(near)


def _near(domain: Domain, boxes: Boxes, axis: int, apart: float) -> Bools:
    """Return a mask of the pairs of boxes that overlap along an axis, or whose nearest values are within the reach."""
    attribute = domain.attributes[axis]
    lower, upper = boxes.lower[:, axis], boxes.upper[:, axis]
    near = (lower[:, None] < upper[None, :]) & (lower[None, :] < upper[:, None])
    if apart > 0 and attribute.has_distances:
        edges = attribute.bin_edges()
        has_bins = lower < attribute.bins
        start = edges[np.minimum(lower, attribute.bins - 1)]
        stop = edges[np.minimum(upper, attribute.bins)] - attribute.step
        gap = np.maximum(start[:, None] - stop[None, :], start[None, :] - stop[:, None])
        near |= (gap <= apart) & has_bins[:, None] & has_bins[None, :]
    return np.asarray(near)


def _predicted(
    domain: Domain, cells: Floats, bounds: BoxBounds, reach: Sequence[float], shift: int, share: float
) -> tuple[float, int]:
    """Return the predicted number of compared pairs of records, including dummies, and of pairs of blocks."""
    boxes = Boxes(domain.shape, *bounds)
    rows = box_sums(cells, boxes)
    left, right = candidate_pairs(domain, boxes, reach).T
    return float(((rows[left] + shift) * (rows[right] * share + shift)).sum()), len(left)


Cut = tuple[int, int]
Cutter = Callable[[Floats, Ints], Cut | None]


def _cutter(widths: Sequence[Floats], reach: Sequence[float], may_be_cut: Sequence[bool]) -> Cutter:
    """Return a function that cuts a box at its median, across the axis that is longest relative to its reach."""

    def cut(cells: Floats, lower: Ints) -> Cut | None:
        best: tuple[float, Cut] | None = None
        for axis, allowed in enumerate(may_be_cut):
            if not allowed or cells.shape[axis] < 2:
                continue
            along = cells.sum(axis=tuple(other for other in range(cells.ndim) if other != axis))
            place = _median(along)
            width = widths[axis][lower[axis] : lower[axis] + len(along)]
            beside = max(reach[axis], float(width.mean()))
            smaller = min(along[:place].sum(), along[place:].sum()) / max(along.sum(), 1e-300)
            score = smaller * min(float(width.sum()) / beside, 16.0)  # beyond, an axis is long enough
            if best is None or score > best[0]:
                best = score, (axis, place)
        return None if best is None or best[0] <= 0 else best[1]

    return cut


def _median(along: Floats) -> int:
    """Return the most even cut of a sum with at least one cell on either side."""
    before = np.cumsum(along)[:-1]
    return int(np.argmin(np.abs(2 * before - along.sum()))) + 1


def _widths(domain: Domain) -> list[Floats]:
    """Return the width of each cell on its attribute's coordinate; listed and irregular values have width 1."""
    return [
        np.append(np.diff(one.bin_edges()) if one.has_distances else np.ones(one.bins), np.ones(len(one.own_cells)))
        for one in domain.attributes
    ]


def _grown(cells: Floats, most: int, cut: Cutter) -> list[tuple[int, BoxBounds, BoxBounds]]:
    """Repeatedly cut the box with most rows in two, up to `most` boxes; return each cut: the box and its halves."""
    turn = count(1)
    whole = (np.zeros(cells.ndim, np.int64), np.array(cells.shape))
    waiting = [(-float(cells.sum()), 0, whole)]
    cuts: list[tuple[int, BoxBounds, BoxBounds]] = []
    while waiting and len(cuts) < most - 1:
        _, number, (lower, upper) = heapq.heappop(waiting)
        inside = cells[tuple(map(slice, lower, upper))]
        found = cut(inside, lower)
        if found is None:
            continue
        axis, place = found
        left_upper, right_lower = upper.copy(), lower.copy()
        left_upper[axis] = right_lower[axis] = lower[axis] + place
        halves = (lower, left_upper), (right_lower, upper)
        cuts.append((number, *halves))
        for half in halves:
            rows = float(cells[tuple(map(slice, *half))].sum())
            heapq.heappush(waiting, (-rows, next(turn), half))
    return cuts


def _leaves(cuts: Sequence[tuple[int, BoxBounds, BoxBounds]], number: int, shape: tuple[int, ...]) -> BoxBounds:
    """Return the boxes after the first `number` cuts: those that were not cut again."""
    boxes: dict[int, BoxBounds] = {0: (np.zeros(len(shape), np.int64), np.array(shape))}
    for turn, (parent, low, high) in enumerate(cuts[:number]):
        del boxes[parent]
        boxes[2 * turn + 1], boxes[2 * turn + 2] = low, high
    lower, upper = zip(*boxes.values(), strict=True)
    return np.array(lower, np.int64), np.array(upper, np.int64)


def _numbers(cuts: int) -> list[int]:
    """Return candidate numbers of cuts from none to all, in geometric steps."""
    steps = {0, cuts, *(int(2 ** (step / 4)) for step in range(4 * cuts.bit_length()))}
    return sorted(number for number in steps if number <= cuts)


ROUNDS_AS_PAIRS = 2048
"""Assumed fixed cost of a pair of blocks in the secure step, in pairs of records: a product takes time for each row of
one side however few the other has. Measured (docs/guides/linkage.md) as about 900 pairs in processor time and 4,500
in bytes; this value is in between."""
BLOCKS_FORMAT = "dpcube blocks 1"
_KEYS = {
    "format",
    "domain",
    "lower",
    "upper",
    "reach",
    "pairs",
    "pairs_without",
    "epsilon",
    "delta",
    "release",
    "rules",
}


class NoisyCube(Protocol):
    """Source of the plan: a `Release`, which this package must not import."""

    domain: Domain

    @property
    def digest(self) -> str:
        """SHA-256 that identifies the release."""

    def cells(self) -> Floats:
        """Return the estimated count of every cell."""


@dataclass(frozen=True, eq=False)
class BlockFile:
    """Blocks file: a block plan, and the rules, the epsilon and delta of the padding and the release it was made for.

    It is JSON, public, and the same for both parties.
    """

    plan: BlockPlan
    epsilon: Fraction
    delta: Fraction
    release: str
    rules: str

    @classmethod
    def planned(
        cls,
        release: NoisyCube,
        rules: MatchingRules,
        *,
        epsilon: str | Fraction,
        delta: str | Fraction = "1e-6",
        max_rows: int = 1,
        other_rows: float | None = None,
        rounds: float | None = None,
    ) -> "BlockFile":
        """Choose blocks for a release and rules by the cost of padding at (epsilon, delta); no budget is spent.

        `rounds` is the fixed cost of a pair of blocks; by default 0 if equal records are found by set intersection.
        """
        amount, slack = parse_epsilon(epsilon), parse_delta(delta)
        if other_rows is not None and not 0 <= other_rows <= MAX_OTHER_ROWS:  # refuses NaN too
            msg = f"the rows of the other party must be a number from 0 to {MAX_OTHER_ROWS:,}, got {other_rows}"
            raise InputError(msg)
        domain = release.domain
        check_memory(24 * domain.size, what=f"a cube of {domain.size:,} cells", remedy="block on fewer attributes")
        shift = padding_shift(amount, slack, sensitivity=max_rows)
        reach = [rules.reach_along(name) for name in domain.names]
        cells = release.cells()
        if rounds is None:
            rounds = 0 if rules.program.is_equality else ROUNDS_AS_PAIRS
        plan = plan_boxes(domain, cells, reach=reach, shift=shift, other_rows=other_rows, rounds=rounds)
        return cls(plan, amount, slack, release.digest, rules.digest)

    def dumps(self) -> str:
        """Return the text of the file."""
        plan = self.plan
        fields = {
            "format": BLOCKS_FORMAT,
            "domain": plan.domain.dumps(),
            "lower": plan.boxes.lower.tolist(),
            "upper": plan.boxes.upper.tolist(),
            "reach": list(plan.reach),
            "pairs": plan.pairs,
            "pairs_without": plan.pairs_without,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "release": self.release,
            "rules": self.rules,
        }
        return json.dumps(fields, indent=1, sort_keys=True) + "\n"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the contents, which both parties must share."""
        return hashlib.sha256(self.dumps().encode()).hexdigest()

    def save(self, path: Path) -> None:
        """Write the file."""
        write_text(path, self.dumps())

    @classmethod
    def load(cls, path: Path) -> "BlockFile":
        """Read an untrusted file: InputError in one line unless it is a complete block plan."""
        text = read_text(path)
        try:
            return cls._read(json.loads(text))
        except MemoryLimitError:
            raise
        except (DpcubeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            why = str(error) if isinstance(error, DpcubeError) else "it was changed, or written by another program"
            msg = f"{path} is not a blocks file of `dpcube block`: {why}"
            raise InputError(msg) from None

    @classmethod
    def _read(cls, fields: Any) -> "BlockFile":
        if not isinstance(fields, dict) or set(fields) != _KEYS or fields["format"] != BLOCKS_FORMAT:
            msg = f"its format is not '{BLOCKS_FORMAT}'"
            raise InputError(msg)
        domain = Domain.loads(fields["domain"])
        check_memory(24 * domain.size, what=f"a cube of {domain.size:,} cells", remedy="ask for fewer attributes")
        lower, upper = (np.array(fields[key], np.int64) for key in ("lower", "upper"))
        reach = tuple(float(apart) for apart in fields["reach"])
        if (
            not 1 <= len(lower) <= MAX_PLANNED_BLOCKS
            or len(reach) != len(domain.names)
            or not all(0 <= r < 2**60 for r in reach)
        ):
            msg = f"it must have 1 to {MAX_PLANNED_BLOCKS:,} boxes and a reach for each attribute"
            raise InputError(msg)
        plan = BlockPlan(
            domain,
            Partitioning(domain.shape, lower, upper),
            reach,
            float(fields["pairs"]),
            float(fields["pairs_without"]),
        )
        digests = [str(fields[key]) for key in ("release", "rules")]
        return cls(plan, parse_epsilon(str(fields["epsilon"])), parse_delta(str(fields["delta"])), *digests)
