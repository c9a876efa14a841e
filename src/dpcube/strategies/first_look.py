"""What is counted before a plan is chosen: the whole table, and a few boxes if the cells may stand out of the noise.

It must be nearly free, for where plain cells are best all of it is lost on them.
"""

import math
from fractions import Fraction

import numpy as np

from dpcube.strategies.seen import ROOT, Seen, largest_tree
from dpcube.trees.halving import depth

FIRST_TOTAL = Fraction(1, 100)
"""Share for the first count of the whole table."""
MIN_PILOT_SHARE, MAX_PILOT_SHARE = Fraction(2, 1000), Fraction(15, 1000)
"""Share for the first look at boxes."""
MAX_PILOT_BOXES = 512
STAND_OUT = 3.0
"""Boxes of the first look are so few that their mean count is so many deviations of their noise."""
SPARSE = 0.5
"""Where the mean count of a cell is surely below so many deviations of plain cells' noise, no plan but looking pays."""
MAX_SELECTION_CELLS = 2**18
"""Cells of the largest cube for which a plan is chosen: it takes a few runs on tables of its size."""


def is_small(shape: tuple[int, ...]) -> bool:
    """Say whether a plan is chosen for a cube: its tree can be made as a whole, some times over."""
    return math.prod(shape) <= MAX_SELECTION_CELLS and 2 * math.prod(shape) <= largest_tree(shape)


def look_first(seen: Seen) -> bool:
    """Count the whole table, and boxes at one level of the tree; say whether the table may be dense enough to plan for.

    Privacy: every count goes through the counter; the level and the units follow from the total's noisy count.
    """
    cells, deviation = math.prod(seen.tree.shape), math.sqrt(2) / float(seen.whole * seen.counter.epsilon_per_unit)
    seen.count_total(FIRST_TOTAL)
    total = max(seen.total(), deviation)
    if total / deviation + 2 / float(FIRST_TOTAL) < SPARSE * cells:
        return False
    of_box = STAND_OUT * deviation / total  # share at which the mean box stands out when there is but one
    boxes = min(MAX_PILOT_BOXES, float(MAX_PILOT_SHARE) / of_box)
    level = min(int(math.log2(max(boxes, 1))), depth(seen.tree.shape))
    if level > 0:
        fresh, _ = seen.below(ROOT, level)
        share = max(Fraction(2**level * of_box), MIN_PILOT_SHARE)
        seen.count(fresh, np.full(len(fresh), seen.share_units(share)))
    return True
