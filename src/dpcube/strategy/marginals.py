"""What is counted of low order: tables over one and over two attributes, before the tree, from three attributes on.

A tree cuts some attributes first and others last, so a sum over all but one or two of them takes thousands of its
boxes; a table over these holds it in one count. Enters: a counter. Leaves: the noisy tables, as measurements.
"""

import itertools
import math
from fractions import Fraction

from dpcube.counter import BUDGET_UNITS, NoisyCounter
from dpcube.estimate.marginals.components import TableAxes, axes_of_several
from dpcube.transcript import MarginalCounts

AS_MUCH_AS_THE_TREE = 15
"""So many pairs of attributes get half of the budget, and n pairs get n / (n + 15) of it: the tree is worth 15 pairs.

3 attributes give .17 to tables, 4 .29, 5 .40, 6 .50, 8 .65.
"""
ONE_WAY = Fraction(1, 4)
"""The part of it for tables over one attribute; the rest is for pairs. Within a part every table gets the same."""

OF_CLASS_TABLES = Fraction(2, 3)
"""The part of the budget for tables of attributes by class, where a release is made for a target."""


def axes_of_tables(shape: tuple[int, ...]) -> tuple[list[TableAxes], list[TableAxes]]:
    """Return the attributes, and the pairs of them, that are worth a table: none unless there are three or more.

    An attribute of one value has nothing to tell. A pair whose table has over half as many cells as the cube is left
    out: it says what the cells' own counts say, at nearly the same cost. Without any pair nothing is worth a table.

    >>> axes_of_tables((4, 1, 3, 2))
    ([(0,), (2,), (3,)], [(0, 2), (0, 3), (2, 3)])
    >>> axes_of_tables((9, 9)), axes_of_tables((9, 9, 1))
    (([], []), ([], []))
    """
    several = axes_of_several(shape)
    if len(several) < 3:
        return [], []
    cells = math.prod(shape)
    pairs: list[TableAxes] = [
        pair for pair in itertools.combinations(several, 2) if 2 * shape[pair[0]] * shape[pair[1]] <= cells
    ]
    return ([(axis,) for axis in several], pairs) if pairs else ([], [])


def share_of_tables(shape: tuple[int, ...]) -> Fraction:
    """Return the part of the budget that tables get where they are worth it: 0 where none is counted."""
    pairs = len(axes_of_tables(shape)[1])
    return Fraction(pairs, pairs + AS_MUCH_AS_THE_TREE)


def count_tables(counter: NoisyCounter, share: Fraction) -> list[MarginalCounts]:
    """Count the tables with a share of the budget; what they cost every cell is the sum of their units.

    Privacy: every count goes through `counter`; which tables, and their units, follow from the shape and the share.
    """
    singles, pairs = axes_of_tables(counter.shape)
    counted = []
    for tables, part in ((singles, ONE_WAY * share), (pairs, (1 - ONE_WAY) * share)):
        units = int(part * BUDGET_UNITS) // max(len(tables), 1)
        counted += [MarginalCounts(axes, counter.count_marginal(axes, units), units) for axes in tables]
    return counted


def count_class_tables(counter: NoisyCounter, target: int) -> list[MarginalCounts]:
    """Count a table of each attribute by the class, on the axis `target`, with a share of the budget.

    Privacy: every count goes through `counter`; which tables, and their units, follow from the shape and the target.
    """
    pairs = [pair for pair in axes_of_tables(counter.shape)[1] if target in pair]
    units = int(OF_CLASS_TABLES * BUDGET_UNITS) // max(len(pairs), 1)
    return [MarginalCounts(axes, counter.count_marginal(axes, units), units) for axes in pairs]


def peak_bytes_of_tables(shape: tuple[int, ...]) -> int:
    """Return the memory of the tables: their counts, and what of them goes into the file."""
    singles, pairs = axes_of_tables(shape)
    return 16 * sum(math.prod(shape[axis] for axis in axes) for axes in singles + pairs)
