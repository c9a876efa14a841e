"""A posterior in the form in which single questions are answered from it, and in which it is kept: a few arrays.

Enters: a posterior estimate, or the bytes of what was made of one. Leaves: answers, by NumPy alone. They are those of
the compiled walk (`models/errors/walks.py`) but for rounding. The walk goes down the tree level by level, with all
boxes of a level at once, and passes over every subtree whose cells all have one weight. Bytes are not trusted to be a
tree: arrays are held against each other before they are used. That they are the right tree, their digest tells.
"""

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcube.core.arrays import Bools, Floats, Ints
from dpcube.models.errors.axis_weights import (
    ROW,
    AxisWeights,
    axis_starts,
    axis_weights,
    cells_taken_of_first,
    largest_weights,
    number_asked,
)
from dpcube.models.errors.biases import Biases
from dpcube.models.errors.parts import ErrorParts
from dpcube.models.errors.walks import COVERED
from dpcube.queries import CountingQueries

if TYPE_CHECKING:
    from dpcube.models.posterior import PosteriorEstimate

_FORM = (("end", "<i4"), ("axis", "<i1"), ("place", "<i4"), ("totals", "<f8"))
"""The arrays of shape (nodes,), in the order in which they are kept."""
LONGEST_HEAD = 2**16


class DamagedError(Exception):
    """What was kept is not what it should be."""


def headed(content: bytes | memoryview) -> tuple[Any, memoryview]:
    """Return what the first line of some bytes says, in JSON, and a view of the rest; ValueError if there is none."""
    view = memoryview(content)
    end = bytes(view[:LONGEST_HEAD]).index(b"\n") + 1
    return json.loads(bytes(view[:end])), view[end:]


@dataclass(frozen=True, slots=True, eq=False)
class TreeAnswers:
    """A tree of boxes, each with its total and the variance that is left in it; arrays of shape (nodes,).

    Nodes are in preorder: a node's descendants end before `end`. It is cut across `axis` before the cell `place`; a
    leaf is not. Its variance is that of its split, and of a leaf what, times f (1 - f), is the variance of the count in
    a part f of it. `measure` are the prefix sums by which totals are spread along each axis, one after another.
    """

    shape: tuple[int, ...]
    end: Ints
    axis: Ints
    place: Ints
    totals: Floats
    variances: Floats
    apart: Floats
    """By what biases are judged, shape (nodes, columns): see `models/errors/biases.py`."""
    measure: Floats
    of_total: float
    biases: Biases | None
    """How biases are judged, if they are."""
    unordered: tuple[int, ...] = ()
    """Axes of attributes whose values have no order."""

    @classmethod
    def of(cls, estimate: "PosteriorEstimate") -> "TreeAnswers":
        """Return what the answers of an estimate need; it is probed first, which takes a while."""
        posterior = estimate.posterior
        tree = posterior.tree
        return cls(
            tree.shape,
            tree.end,
            *tree.cuts,
            posterior.totals,
            np.where(tree.is_leaf, posterior.uneven, estimate._stated_splits),
            estimate.columns_apart,
            posterior.prefix,
            float(posterior.variances[0]),
            estimate.biases,
            estimate.unordered,
        )

    def to_bytes(self) -> bytes:
        """Return the arrays one after another, behind a line that says how long they are."""
        sizes = {"nodes": len(self.end), "columns": self.apart.shape[1]}
        biases = None if self.biases is None else asdict(self.biases)
        head = json.dumps({**sizes, "of_total": self.of_total, "biases": biases, "unordered": self.unordered})
        arrays = [getattr(self, name).astype(kind).tobytes() for name, kind in _FORM]
        arrays += [array.astype("<f8").tobytes() for array in (self.variances, self.apart, self.measure)]
        return b"".join([head.encode(), b"\n", *arrays])

    @classmethod
    def of_bytes(cls, content: bytes | memoryview, shape: tuple[int, ...]) -> "TreeAnswers":
        """Return what `to_bytes` made for a cube of this shape; DamagedError if it is not that."""
        try:
            head, rest = headed(content)
            nodes, columns = int(head["nodes"]), int(head["columns"])
            of_total, biases = float(head["of_total"]), _kept_biases(head["biases"])
            unordered = tuple(axis for axis in range(len(shape)) if axis in head["unordered"])
            arrays, at = [], 0
            lengths = [nodes, nodes * columns, sum(shape) + len(shape)]
            for length, kind in [*((nodes, kind) for _, kind in _FORM), *((length, "<f8") for length in lengths)]:
                array = np.frombuffer(rest, kind, length, at)
                at += array.nbytes
                arrays.append(array)
            end, axis, place = (array.astype(np.int64) for array in arrays[:3])
            variances, apart = arrays[4], arrays[5].reshape(nodes, columns)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            raise DamagedError from None
        found = cls(shape, end, axis, place, arrays[3], variances, apart, arrays[6], of_total, biases, unordered)
        if at != len(rest) or not found._is_sound():
            raise DamagedError
        return found

    def _is_sound(self) -> bool:
        """Whether it is a tree in preorder whose nodes have two halves or none: then every walk ends in its arrays."""
        nodes = np.arange(len(self.end))
        if len(nodes) == 0 or np.any((self.end <= nodes) | (self.end > len(nodes))) or self.end[0] != len(nodes):
            return False
        inner = np.flatnonzero(self.end > nodes + 1)
        right, last = self.end[inner + 1], self.end[inner]
        if np.any(right >= last) or np.any(self.end[right] != last):
            return False
        return bool(np.all((self.axis[inner] >= 0) & (self.axis[inner] < len(self.shape))))

    def answers(self, queries: CountingQueries) -> tuple[Floats, ErrorParts]:
        """Return the answers of counting queries and the parts of their errors, as an estimate does."""
        values, errors, _ = self.walked(queries)
        return values, errors

    def values(self, queries: CountingQueries) -> Floats:
        """Return the answers alone."""
        return self.answers(queries)[0]

    def walked(self, queries: CountingQueries) -> tuple[Floats, ErrorParts, Floats]:
        """Return the same, and the squared errors without any bias."""
        asked = axis_weights(queries, self.measure, axis_starts(self.shape))
        walks = [_Walk(self, asked, asked.taken[query, :, ROW]) for query in range(len(queries))]
        values = np.array([walk.value() for walk in walks])
        apart = np.array([walk.apart for walk in walks]).reshape(len(walks), -1)
        variances, within, hidden = (
            np.array([getattr(walk, name) for walk in walks]) for name in ("variance", "within", "hidden")
        )
        own = variances + within
        if self.biases is not None:
            variances = self.biases.added(
                variances,
                within,
                apart,
                asked=number_asked(queries),
                periods=cells_taken_of_first(queries),
                largest=largest_weights(queries),
            )
        return values, ErrorParts(variances, within + hidden), own


def _kept_biases(kept: Any) -> Biases | None:
    """Return biases as they were kept; an exception that `of_bytes` knows if they are none."""
    if kept is None:
        return None
    raised, beyond = (tuple(map(float, kept[name])) for name in ("raised", "beyond"))
    if len(raised) != len(beyond) or not raised:
        raise ValueError
    return Biases(float(kept["least"]), raised, beyond, bool(kept["of_total"]), bool(kept["periods"]))


class _Walk:
    """One question on its way down a tree. Boxes are columns: `lower` and `upper` have shape (axes, boxes)."""

    def __init__(self, tree: TreeAnswers, asked: AxisWeights, rows: Ints) -> None:
        self.tree, self.asked = tree, asked
        self.rows, self.starts = rows[:, None], asked.start[:, None]
        self.apart = np.zeros(tree.apart.shape[1])
        self.variance = self.within = self.hidden = 0.0

    def value(self) -> float:
        """Return the value; add up its variance by the total and the splits, that inside leaves, what is apart."""
        tree = self.tree
        nodes = np.zeros(1, np.int64)
        lower, upper = np.zeros((len(tree.shape), 1), np.int64), np.array(tree.shape)[:, None]
        whole = float(self._means(lower, upper, 0)[0])
        value = 0.0
        self.variance += tree.of_total * whole**2
        while len(nodes):
            weights, alike = self._common(lower, upper)
            value += float(weights[alike] @ tree.totals[nodes[alike]])
            self.apart += weights[alike] @ tree.apart[nodes[alike]]
            nodes, lower, upper = nodes[~alike], lower[:, ~alike], upper[:, ~alike]
            leaf = tree.end[nodes] == nodes + 1
            taken, squares = (self._means(lower[:, leaf], upper[:, leaf], power) for power in (0, 1))
            value += float(taken @ tree.totals[nodes[leaf]])
            self.apart += taken @ tree.apart[nodes[leaf]]
            within = np.maximum(squares - taken**2, 0.0) * tree.variances[nodes[leaf]]
            self.within += float(within.sum())
            if tree.unordered:
                alone = tree.totals[nodes[leaf]] ** 2 * self._of_one_value(lower[:, leaf], upper[:, leaf])
                self.hidden += float(np.maximum(alone - within, 0.0).sum())
            nodes, lower, upper = nodes[~leaf], lower[:, ~leaf], upper[:, ~leaf]
            below, above = self._halves(nodes, lower, upper)
            apart = self._means(*below, 0) - self._means(*above, 0)
            self.variance += float(apart**2 @ tree.variances[nodes])
            nodes = np.concatenate([nodes + 1, tree.end[nodes + 1]])
            lower, upper = (np.concatenate(sides, axis=1) for sides in zip(below, above, strict=True))
        return value

    def _common(self, lower: Ints, upper: Ints) -> tuple[Floats, Bools]:
        """Return the weight that all cells of each box have, and whether they have one."""
        at = self.rows + lower
        alike, weight = self.asked.until[at] >= upper, self.asked.weight[at]
        nothing = (alike & (weight == 0)).any(axis=0)
        return np.where(nothing, 0.0, weight.prod(axis=0)), nothing | alike.all(axis=0)

    def _means(self, lower: Ints, upper: Ints, power: int) -> Floats:
        """Return the mean over each box, by the measure, of the weights (0) or of their squares (1)."""
        return np.asarray(self._means_along(lower, upper, power).prod(axis=0))

    def _means_along(self, lower: Ints, upper: Ints, power: int) -> Floats:
        """Return the same along each axis, shape (axes, boxes)."""
        sums, measure = self.asked.sums[:, power], self.asked.measure
        taken = sums[self.rows + upper] - sums[self.rows + lower]
        return np.asarray(taken / (measure[self.starts + upper] - measure[self.starts + lower]))

    def _of_one_value(self, lower: Ints, upper: Ints) -> Floats:
        """Return the squared error, in units of each leaf's total, if one value without an order has all its rows."""
        means = self._means_along(lower, upper, 0)
        free = np.isin(np.arange(len(means)), self.tree.unordered)
        part, along = np.clip(means[free], 0.0, 1.0).prod(axis=0), means[~free].prod(axis=0)
        return np.asarray(np.where(part > 0, along**2 * (1 - part) * np.maximum(part, (1 - part) / COVERED), 0.0))

    def _halves(self, nodes: Ints, lower: Ints, upper: Ints) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints]]:
        """Return the bounds of the boxes below the cuts of nodes and of those above them."""
        box, axis, place = np.arange(len(nodes)), self.tree.axis[nodes], self.tree.place[nodes]
        if np.any((place <= lower[axis, box]) | (place >= upper[axis, box])):
            raise DamagedError
        middle_up, middle_low = upper.copy(), lower.copy()
        middle_up[axis, box] = middle_low[axis, box] = place
        return (lower, middle_up), (middle_low, upper)
