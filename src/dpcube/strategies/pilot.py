"""The pilot before a plan is selected: the total, and a few boxes if cells may stand out of the noise.

It must be nearly free, because where plain cells are best all of it is lost on them.
"""

import math
from fractions import Fraction

import numpy as np

from dpcube.strategies.partial_tree import ROOT, PartialTree, largest_tree
from dpcube.trees.halving import depth

FIRST_TOTAL = Fraction(1, 100)
"""Share for the first count of the whole table."""
MIN_PILOT_SHARE, MAX_PILOT_SHARE = Fraction(2, 1000), Fraction(15, 1000)
"""Least and largest share for the pilot boxes."""
MAX_PILOT_BOXES = 512
STAND_OUT = 3.0
"""Pilot boxes are so few that their mean count is so many standard deviations of their noise."""
SPARSE = 0.5
"""Where the mean cell count is surely below so many deviations of plain cells' noise, only refinement pays."""
MAX_SELECTION_CELLS = 2**18
"""Cells of the largest cube for which a plan is selected: that takes a few runs on tables of its size."""


def is_small(shape: tuple[int, ...]) -> bool:
    """Return whether a plan is selected for a cube: its whole tree fits in memory, some times over."""
    return math.prod(shape) <= MAX_SELECTION_CELLS and 2 * math.prod(shape) <= largest_tree(shape)


def count_pilot(partial: PartialTree) -> bool:
    """Measure the total and boxes at one level of the tree; return whether the table may be dense enough for a plan.

    Privacy: every count goes through the counter; the level and the units follow from the total's noisy count.
    """
    cells, deviation = (
        math.prod(partial.tree.shape),
        math.sqrt(2) / float(partial.whole * partial.counter.epsilon_per_unit),
    )
    partial.count_total(FIRST_TOTAL)
    total = max(partial.total(), deviation)
    if total / deviation + 2 / float(FIRST_TOTAL) < SPARSE * cells:
        return False
    of_box = STAND_OUT * deviation / total  # share at which the mean box stands out when there is but one
    boxes = min(MAX_PILOT_BOXES, float(MAX_PILOT_SHARE) / of_box)
    level = min(int(math.log2(max(boxes, 1))), depth(partial.tree.shape))
    if level > 0:
        fresh, _ = partial.below(ROOT, level)
        share = max(Fraction(2**level * of_box), MIN_PILOT_SHARE)
        partial.count(fresh, np.full(len(fresh), partial.share_units(share)))
    return True
