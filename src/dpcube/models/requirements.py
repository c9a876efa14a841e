"""What estimators need of a transcript, which of its counts they use, and which parts of errors they can state."""

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from dpcube.core.boxes import MAX_LABELLED_CELLS
from dpcube.measurements import BoxCounts, Marginal, Transcript
from dpcube.models.cuboids.estimate import makes_a_small_model
from dpcube.models.cuboids.first_tables import counts_every_attribute
from dpcube.trees.straight_cuts import straight_cuts
from dpcube.trees.tree import BoxTree

Part = Literal["noise", "nonuniformity"]
"""A part of an error: that of the noise, and that of spreading boxes over their cells."""


class Need(NamedTuple):
    """Something that an estimator needs of a transcript, and what to say of a release without it."""

    met: Callable[[Transcript], bool]
    lacking: str


def counted_slabs(transcript: Transcript) -> BoxCounts | None:
    """Return the total that was drawn first as one box, or of releases put together those of the periods as boxes."""
    shape, first = transcript.shape, transcript.measurements[0]
    drawn_first = (0,) if transcript.layout == "periods" else ()
    if not isinstance(first, Marginal) or first.axes != drawn_first or first is transcript.cells:
        return None
    lower, upper = np.zeros((1, len(shape)), np.int64), np.array([shape], np.int64)
    if first.axes:
        starts = np.zeros((shape[0], len(shape)), np.int64)
        starts[:, 0] = np.arange(shape[0])
        ends = np.tile(upper, (shape[0], 1))
        ends[:, 0] = starts[:, 0] + 1
        lower, upper = np.concatenate([lower, starts]), np.concatenate([upper, ends])
    tree = BoxTree(shape, lower, upper, np.minimum(np.arange(len(lower)), 1) - 1)
    counts = first.counts.reshape(-1)
    return BoxCounts(tree, tree.leaves, counts, np.full(counts.size, first.units))


def counts_of_cells(transcript: Transcript) -> Marginal:
    """Return the counts of all cells."""
    assert transcript.cells is not None  # as declared
    return transcript.cells


def boxes_of(transcript: Transcript) -> BoxCounts:
    """Return the boxes that were counted, and counts of the whole apart from them as counts of the root."""
    boxes = transcript.boxes_with_totals
    assert boxes is not None  # as declared
    return boxes


def strategy_boxes(transcript: Transcript) -> BoxCounts:
    """Return the boxes that the strategy counted."""
    boxes = transcript.boxes
    assert boxes is not None  # as declared
    return boxes


def counts_every_leaf(transcript: Transcript) -> bool:
    """Return whether every leaf of the tree was counted."""
    boxes = boxes_of(transcript)
    counted = np.zeros(len(boxes.tree), np.bool_)
    counted[boxes.node] = True
    return bool(counted[boxes.tree.leaves].all())


def counts_leaves_only(transcript: Transcript) -> bool:
    """Return whether the leaves of the tree were counted and nothing else."""
    boxes = strategy_boxes(transcript)
    return bool(boxes.tree.is_leaf[boxes.node].all())


def states_everything(_: Transcript) -> frozenset[Part]:
    """State both parts of every error."""
    return frozenset({"noise", "nonuniformity"})


def states_of_uniform(transcript: Transcript) -> frozenset[Part]:
    """Noise; and the non-uniformity error if cells are evidence on it, or if no box has more than one cell."""
    tree = boxes_of(transcript).tree
    tells = transcript.cells is not None or tree.sizes[tree.leaves].max() == 1
    return frozenset({"noise", "nonuniformity"}) if tells else frozenset({"noise"})


def states_of_tree(transcript: Transcript) -> frozenset[Part]:
    """Noise; and the non-uniformity error if a posterior states it, or if no box has more than one cell."""
    tree = boxes_of(transcript).tree
    tells = has_posterior(transcript) or tree.sizes[tree.leaves].max() == 1
    return frozenset({"noise", "nonuniformity"}) if tells else frozenset({"noise"})


def states_of_consistent(transcript: Transcript) -> frozenset[Part]:
    """As `uniform`, but for the noise where boxes inside one another were counted."""
    return states_of_uniform(transcript) - (frozenset() if counts_leaves_only(transcript) else {"noise"})


def has_posterior(transcript: Transcript) -> bool:
    """Return whether boxes alone were counted, so that their tree has a posterior."""
    return transcript.cells is None and all(need.met(transcript) for need in NEEDS_OF_POSTERIOR)


def leaves_nothing_unused(transcript: Transcript) -> bool:
    """Return whether there are no counts of cells beside those of boxes."""
    return transcript.cells is None


def leaves_what_chose_boxes(transcript: Transcript) -> bool:
    """Whether no cells were counted, or before the boxes, which may then have been selected by the noise of the cells.

    Inside such boxes the same cells add little. Boxes that were counted first were not selected by cells, and spreading
    them evenly would ignore the counts of their inside.
    """
    if transcript.cells is None or transcript.boxes is None:
        return True
    order = transcript.measurements
    return order.index(transcript.cells) < order.index(transcript.boxes)


NEEDS_CELLS = Need(lambda transcript: transcript.cells is not None, "has no counts of cells")


NEEDS_BOXES = Need(lambda transcript: transcript.boxes is not None, "has no counts of boxes")


NEEDS_LEAVES = Need(counts_every_leaf, "did not count every leaf of its tree, so these have no counts to spread")


NEEDS_CUTS = Need(
    lambda transcript: straight_cuts(boxes_of(transcript).tree) is not None,
    "has boxes that straight cuts do not tell apart",
)


NEEDS_COARSE = Need(
    lambda transcript: math.prod(transcript.shape) <= MAX_LABELLED_CELLS,
    "is of a grid too fine for it: it would learn the sums of every value of each attribute",
)


NEEDS_FINE = Need(
    lambda transcript: transcript.layout == "grid" and boxes_of(transcript).tree.is_straight,
    "is not one of a fine grid",
)


NEEDS_OF_POSTERIOR = (NEEDS_BOXES, NEEDS_LEAVES, NEEDS_COARSE, NEEDS_CUTS)


NEEDS_MARGINALS = Need(lambda transcript: transcript.is_wide, "has not marginals alone")


NEEDS_ONES = Need(counts_every_attribute, "has not one table over each attribute beside others")


NEEDS_SMALL_MODEL = Need(
    makes_a_small_model,
    "has marginals that form a junction tree of more than 2^20 cells",
)
