"""Estimates by totals of boxes as they are stored: closed forms, and least squares on a tree."""

from dataclasses import fields
from typing import Any

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.core.errors import DpcubeError
from dpcube.models.arrays import DamagedError, EstimateArrays, estimate_of_arrays
from dpcube.models.boxes.estimate import BoxEstimate
from dpcube.models.boxes.part import BoxPart
from dpcube.models.errors.nonuniformity import NonUniformity, Ratio
from dpcube.models.least_squares_tree import LeastSquaresTree
from dpcube.trees.tree import BoxTree


def stored_boxes(written: EstimateArrays) -> BoxEstimate:
    """Return the estimate by boxes and details that was written."""
    facts, arrays = written.facts, written.arrays
    shape = tuple(map(int, facts["shape"]))
    (cell_variance,) = written.floats("cellVariance", 1).tolist()
    boxes = detail = within = None
    if "end" in arrays:
        tree = _tree(written, shape)
        below = written.floats("below", len(tree), 3)[tree.leaves]
        boxes = BoxPart(tree, below[:, 0], below[:, 1] / tree.leaf_boxes.sizes.astype(np.float64) ** 2)
    if "detail" in arrays:
        detail = written.floats("detail", *shape)
    if "ratio" in arrays:
        assert boxes is not None
        noise, *ratio = written.floats("ratio", 1 + len(fields(Ratio))).tolist()
        within = NonUniformity(np.zeros(shape, np.int64), boxes.tree, noise)
        within.__dict__.update(ratio=Ratio(*ratio), deviation=written.floats("deviation", *shape))
    alpha = None if facts["alpha"] is None else float(facts["alpha"])
    return BoxEstimate(str(facts["name"]), shape, boxes, detail, cell_variance, within, alpha)


def stored_least_squares(written: EstimateArrays) -> LeastSquaresTree:
    """Return the least squares on a tree that was written, with the posterior beside it, if there is one."""
    facts: dict[str, Any] = written.facts
    tree = _tree(written, tuple(map(int, facts["shape"])))
    totals, variance = (written.floats(name, len(tree)) for name in ("totals", "subtree"))
    posterior = None
    if facts["posterior"] is not None:
        kind, of = facts["posterior"]
        mark = "posterior "
        arrays = {name.removeprefix(mark): array for name, array in written.arrays.items() if name.startswith(mark)}
        made = estimate_of_arrays(EstimateArrays(kind, of, arrays))
        posterior = lambda: made  # noqa: E731 (a field)
    return LeastSquaresTree(str(facts["name"]), tree, totals, variance, posterior=posterior)


def _tree(written: EstimateArrays, shape: tuple[int, ...]) -> BoxTree:
    """Return the tree of boxes that was written."""
    end = written.ints("end")
    lower, upper = (written.ints(name, len(end), len(shape)) for name in ("lower", "upper"))
    try:
        return BoxTree(shape, lower, upper, _parents(end))
    except DpcubeError:
        raise DamagedError from None


def _parents(end: Ints) -> Ints:
    """Return the parent of each node in preorder, -1 for the first."""
    parents, above = [], [-1]
    ends = end.tolist()
    for node in range(len(ends)):
        while len(above) > 1 and ends[above[-1]] <= node:
            above.pop()
        parents.append(above[-1])
        above.append(node)
    return np.array(parents, np.int64)
