"""Two-way marginals that are counted before the tree, from three attributes on.

A tree cuts some attributes first and others last, so a sum over all but two of them takes thousands of its boxes; the
marginal of these two states it in one count.
"""

import itertools
from fractions import Fraction

from dpcube.core.counter import BUDGET_UNITS, NoisyCounter
from dpcube.measurements import Marginal
from dpcube.models.marginals.components import TableAxes, axes_of_several

MAX_PAIRS_SHARE = Fraction(3, 4)
"""Part of what one-way marginals leave that two-way marginals may get at most."""
AS_MUCH_AS_THE_TREE = 15
"""Or the tree weighs as much as so many pairs: n pairs get n / (n + 15) of that, .13 of 3 attributes."""
OF_CLASS_TABLES = Fraction(2, 3)
"""Share of the budget for the marginals of each attribute with the target, if a target is given."""


def pairs_of_attributes(shape: tuple[int, ...]) -> list[TableAxes]:
    """Return the pairs of attributes that have a marginal smaller than the cube: none unless there are three or more.

    >>> pairs_of_attributes((4, 1, 3, 2))
    [(0, 2), (0, 3), (2, 3)]
    >>> pairs_of_attributes((9, 9)), pairs_of_attributes((9, 9, 1))
    ([], [])
    """
    several = axes_of_several(shape)
    return list(itertools.combinations(several, 2)) if len(several) > 2 else []


def shares_of_pairs(shape: tuple[int, ...], *, before: Fraction = Fraction(0)) -> tuple[Fraction, ...]:
    """Return the shares of the budget that two-way marginals may get, given what was spent `before`: none first.

    >>> shares_of_pairs((4, 5, 6), before=Fraction(1, 2))
    (Fraction(0, 1), Fraction(1, 16), Fraction(3, 8))
    >>> shares_of_pairs((4, 5))
    (Fraction(0, 1),)
    """
    pairs, most = len(pairs_of_attributes(shape)), MAX_PAIRS_SHARE * (1 - before)
    return (Fraction(0), most * Fraction(pairs, pairs + AS_MUCH_AS_THE_TREE), most) if pairs else (Fraction(0),)


def count_pairs(counter: NoisyCounter, share: Fraction) -> list[Marginal]:
    """Count the marginals of all pairs with a share of the budget, in equal parts.

    Privacy: every count goes through `counter`; which marginals, and their units, follow from the shape and the share.
    """
    pairs = pairs_of_attributes(counter.shape)
    return _counted(counter, pairs, int(share * BUDGET_UNITS) // max(len(pairs), 1))


def count_class_tables(counter: NoisyCounter, target: int) -> list[Marginal]:
    """Count the marginal of each attribute with the class, on the axis `target`, with a share of the budget.

    Privacy: every count goes through `counter`; which marginals, and their units, follow from the shape and the target.
    """
    pairs = [pair for pair in pairs_of_attributes(counter.shape) if target in pair]
    return _counted(counter, pairs, int(OF_CLASS_TABLES * BUDGET_UNITS) // max(len(pairs), 1))


def _counted(counter: NoisyCounter, tables: list[TableAxes], units: int) -> list[Marginal]:
    return [Marginal(axes, counter.marginal(axes, units), units) for axes in tables]


def peak_bytes_of_tables(shape: tuple[int, ...]) -> int:
    """Return the memory of one-way and two-way marginals: their counts, and their bytes in the file."""
    return 16 * (sum(shape) + sum(shape[one] * shape[other] for one, other in pairs_of_attributes(shape)))
