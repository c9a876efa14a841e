"""Differentially private decision trees of others, grown with a noisy counter.

Interactive ID3 of Friedman and Schuster (KDD 2010), by noisy counts (SuLQ) or by private choices, and the random trees
of Jagannathan, Pillaipakkamnatt and Wright (ICDMW 2009). Privacy: all that depends on rows comes from the counter,
which refuses what any cell cannot pay; each call, and its units, follows from earlier answers and public facts. So the
loss is at most the job's epsilon, whatever is done here. Classes, values and the depth are public.

A tree spends 2 (depth + 1) equal parts of the budget on a path: on each of its depth + 1 levels one to count the rows
of a node and one to split it, or to count its classes. The nodes of a level are disjoint, so a cell pays for one.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.boxes import Boxes
from dpcube.core.candidates import MAX_COUNTED_ROWS, BestSplit, Criterion
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter
from dpcube.learn.id3 import Node, reached

Splits = Literal["sulq", "choice"]


class _Open:
    """A node that may be split: its place in the tree, its box, and the axes that no node above it was split by."""

    def __init__(self, node: Node, lower: Ints, upper: Ints, axes: tuple[int, ...]) -> None:
        self.node, self.lower, self.upper, self.axes = node, lower, upper, axes


def interactive_id3(
    counter: NoisyCounter,
    target: int,
    *,
    depth: int = 4,
    splits: Splits = "choice",
    criterion: Criterion = "max",
    most_rows: int = MAX_COUNTED_ROWS,
) -> Node:
    """Return the tree of Friedman and Schuster; `most_rows` is a public bound that information gain needs."""
    axes = tuple(axis for axis in range(len(counter.shape)) if axis != target)
    depth = min(depth, len(axes))
    units, shape = BUDGET_UNITS // (2 * (depth + 1)), np.array(counter.shape)
    root = Node(np.zeros(counter.shape[target]))
    level = [_Open(root, np.zeros_like(shape), shape, axes)]
    deviation = math.sqrt(2) / float(units * counter.epsilon_per_unit)
    for left in range(depth, -1, -1):
        rows = counter.boxes(_boxes(counter, level), np.full(len(level), units))
        worth = [
            _is_worth_splitting(one, int(n), target, deviation, counter) for one, n in zip(level, rows, strict=True)
        ]
        leaves = [one for one, split in zip(level, worth, strict=True) if left == 0 or not split]
        _count_classes(counter, leaves, target, units)
        level = [one for one, split in zip(level, worth, strict=True) if left and split]
        if not level:
            break
        chosen = _by_choice(counter, level, target, units, criterion, most_rows) if splits == "choice" else None
        chosen = _by_counts(counter, level, target, units) if chosen is None else chosen
        level = [child for one, axis in zip(level, chosen, strict=True) for child in _children(one, axis, target)]
    return root


def _is_worth_splitting(one: _Open, rows: int, target: int, deviation: float, counter: NoisyCounter) -> bool:
    """Whether a node has axes left, and enough rows that the classes of its parts stand out of the noise."""
    if not one.axes:
        return False
    largest = max(counter.shape[axis] for axis in one.axes)
    return max(rows, 0) / (largest * counter.shape[target]) >= deviation


def _boxes(counter: NoisyCounter, level: Sequence[_Open]) -> Boxes:
    return Boxes(counter.shape, np.stack([one.lower for one in level]), np.stack([one.upper for one in level]))


def _parts(counter: NoisyCounter, one: _Open, axes: Sequence[int]) -> tuple[Boxes, tuple[int, ...]]:
    """Return the boxes of all values of some axes of a node, and how many there are along each."""
    sizes = tuple(counter.shape[axis] for axis in axes)
    at = np.stack(np.unravel_index(np.arange(math.prod(sizes)), sizes), axis=1)
    lower, upper = np.tile(one.lower, (len(at), 1)), np.tile(one.upper, (len(at), 1))
    lower[:, list(axes)], upper[:, list(axes)] = at, at + 1
    return Boxes(counter.shape, lower, upper), sizes


def _count_classes(counter: NoisyCounter, leaves: Sequence[_Open], target: int, units: int) -> None:
    """Give leaves the noisy counts of their classes, none below zero."""
    if not leaves:
        return
    parts = [_parts(counter, one, (target,))[0] for one in leaves]
    lower, upper = (np.concatenate([getattr(part, end) for part in parts]) for end in ("lower", "upper"))
    noisy = counter.boxes(Boxes(counter.shape, lower, upper), np.full(len(lower), units))
    for one, counts in zip(leaves, noisy.reshape(len(leaves), -1), strict=True):
        one.node.weights[:] = np.maximum(counts, 0)


def _by_choice(
    counter: NoisyCounter, level: Sequence[_Open], target: int, units: int, criterion: Criterion, most_rows: int
) -> list[int]:
    """Return the axis of each node by one private selection; nodes with the same axes share a call."""
    chosen = [0] * len(level)
    for axes in sorted({one.axes for one in level}):
        alike = [k for k, one in enumerate(level) if one.axes == axes]
        asked = BestSplit(_boxes(counter, [level[k] for k in alike]), target, axes, criterion, most_rows)
        for k, number in zip(alike, counter.select(asked, units).tolist(), strict=True):
            chosen[k] = axes[number]
    return chosen


def _by_counts(counter: NoisyCounter, level: Sequence[_Open], target: int, units: int) -> list[int]:
    """Return the axis of each node by noisy counts of the values, and of the values by class, of every axis."""
    chosen = []
    for one in level:
        told, each = [], units // (2 * len(one.axes))
        for axis in one.axes:
            values, _ = _parts(counter, one, (axis,))
            by_class, sizes = _parts(counter, one, (axis, target))
            rows = counter.boxes(values, np.full(len(values), each)).astype(np.float64)
            parts = counter.boxes(by_class, np.full(len(by_class), each)).astype(np.float64).reshape(sizes)
            told.append(_information(parts, rows))
        chosen.append(one.axes[int(np.argmax(told))])
    return chosen


def _information(parts: Floats, rows: Floats) -> float:
    """Return the sum of n_jc log2(n_jc / n_j) over what is above zero."""
    known = (parts > 0) & (rows[:, None] > 0)
    shares = np.where(known, parts / np.where(known, rows[:, None], 1), 1.0)
    return float((np.where(known, parts, 0) * np.log2(shares)).sum())


def _children(one: _Open, axis: int, target: int) -> list[_Open]:
    """Split a node by an axis; the axes of features are numbered without that of the class."""
    one.node.axis = axis if axis < target else axis - 1
    others, made = tuple(other for other in one.axes if other != axis), []
    for value in range(int(one.lower[axis]), int(one.upper[axis])):
        lower, upper = one.lower.copy(), one.upper.copy()
        lower[axis], upper[axis] = value, value + 1
        child = Node(np.zeros_like(one.node.weights))
        one.node.children[float(value)] = child
        made.append(_Open(child, lower, upper, others))
    return made


def random_trees(
    counter: NoisyCounter, target: int, *, trees: int = 10, height: int | None = None, seed: int = 0
) -> list[Node]:
    """Return trees of random shape; each counts the classes of its leaves with an equal part of the budget.

    A record is in one leaf of each tree, and has one class: each tree costs its part. The seed decides the shapes,
    which are public. The height is half the number of attributes unless given.
    """
    generator = np.random.default_rng(seed)
    axes = tuple(axis for axis in range(len(counter.shape)) if axis != target)
    height = max(len(axes) // 2, 1) if height is None else min(height, len(axes))
    grown = []
    for _ in range(trees):
        shape = np.array(counter.shape)
        root = Node(np.zeros(counter.shape[target]))
        level = [_Open(root, np.zeros_like(shape), shape, axes)]
        for _ in range(height):
            picked = [one.axes[int(generator.integers(len(one.axes)))] for one in level]
            level = [child for one, axis in zip(level, picked, strict=True) for child in _children(one, axis, target)]
        _count_classes(counter, level, target, BUDGET_UNITS // trees)
        grown.append(root)
    return grown


def votes(trees: Sequence[Node], cells: Ints) -> Floats:
    """Return the counts of classes in the leaves that rows of cells reach, added up over trees: (rows, classes)."""
    return np.asarray(np.sum([reached(tree, cells)[0] for tree in trees], axis=0))
