"""Blocking: a release of the linkage attributes enters, boxes and the pairs of them that are compared leave.

Boxes are made from the estimated cells of a release, so from noisy counts alone: they cost nothing and can be public.
Records go to the box of their cell, by the binning rules of every source. Two boxes are candidates if they are one, or
if along every attribute they meet or lie no further apart than two matching values may (`reach`). Every pair of
candidates is compared, empty ones too.

How many boxes. Each block is padded by about k dummies (`core/padding.py`), so with B blocks each side has B k of
them, and finer boxes save pairs of records and add pairs of dummies: n m / B + k (n + m) + B k^2 for even blocks of
which equal ones are compared, least at B = sqrt(n m) / k. `plan_boxes` cuts the largest box in two, again and again,
and keeps the number of boxes at which the pairs that it predicts are fewest, before any padding is paid for. A pair of
blocks may cost rounds of messages besides, as much as comparing so many pairs of records (`rounds`).
"""

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from dpcube.core.arrays import Bools, Floats, Ints
from dpcube.core.boxes import Boxes, Partitioning, box_sums
from dpcube.core.domain import Domain
from dpcube.core.errors import InputError

MOST_PLANNED_BLOCKS = 4096
"""So that all pairs of boxes can be looked at."""
BoxBounds = tuple[Ints, Ints]


@dataclass(frozen=True, slots=True, eq=False)
class BlockPlan:
    """Boxes over a domain, how far apart values may match along each axis, and what it was predicted to cost.

    `pairs` is how many pairs are compared, dummies included, and `pairs_without` how many without blocking.
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
    """Choose boxes by estimated cells and the shift of the padding; the other side has as many rows unless said."""
    if len(reach) != len(domain.attributes):
        msg = f"a domain of {len(domain.attributes)} attributes needs as many reaches, got {len(reach)}"
        raise InputError(msg)
    cells = np.maximum(estimated, 0)
    ours = float(cells.sum())
    theirs = ours if other_rows is None else other_rows
    share = theirs / ours if ours > 0 else 0.0
    most = int(min(MOST_PLANNED_BLOCKS, max(1, 8 * math.sqrt(ours * theirs) / shift)))
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
    """Tell which boxes meet along an axis, or whose nearest values lie no further apart."""
    attribute = domain.attributes[axis]
    lower, upper = boxes.lower[:, axis], boxes.upper[:, axis]
    near = (lower[:, None] < upper[None, :]) & (lower[None, :] < upper[:, None])
    if apart > 0 and attribute.scale != "position":
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
    """Return the pairs of candidates, dummies included, that the estimated cells foretell, and those of blocks."""
    boxes = Boxes(domain.shape, *bounds)
    rows = box_sums(cells, boxes)
    left, right = candidate_pairs(domain, boxes, reach).T
    return float(((rows[left] + shift) * (rows[right] * share + shift)).sum()), len(left)


Cut = tuple[int, int]
Cutter = Callable[[Floats, Ints], Cut | None]


def _cutter(widths: Sequence[Floats], reach: Sequence[float], may_be_cut: Sequence[bool]) -> Cutter:
    """Return what cuts a box: across the axis that is longest beside its reach, where half of the rows lie before."""

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
    """Return the cut that divides a sum most evenly, with a cell on either side."""
    before = np.cumsum(along)[:-1]
    return int(np.argmin(np.abs(2 * before - along.sum()))) + 1


def _widths(domain: Domain) -> list[Floats]:
    """Return how wide each cell is in its attribute's coordinate; one that is no bin, and a listed value, is 1 wide."""
    return [
        np.append(
            np.diff(one.bin_edges()) if one.scale != "position" else np.ones(one.bins), np.ones(len(one.own_cells))
        )
        for one in domain.attributes
    ]


def _grown(cells: Floats, most: int, cut: Cutter) -> list[tuple[int, BoxBounds, BoxBounds]]:
    """Cut the box of most rows in two until there are as many as asked; return each cut: which box, and its halves."""
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
    """Return the boxes after so many cuts: those that were made and not cut again."""
    boxes: dict[int, BoxBounds] = {0: (np.zeros(len(shape), np.int64), np.array(shape))}
    for turn, (parent, low, high) in enumerate(cuts[:number]):
        del boxes[parent]
        boxes[2 * turn + 1], boxes[2 * turn + 2] = low, high
    lower, upper = zip(*boxes.values(), strict=True)
    return np.array(lower, np.int64), np.array(upper, np.int64)


def _numbers(cuts: int) -> list[int]:
    """Return some numbers of cuts from none to all, ever further apart."""
    steps = {0, cuts, *(int(2 ** (step / 4)) for step in range(4 * cuts.bit_length()))}
    return sorted(number for number in steps if number <= cuts)
