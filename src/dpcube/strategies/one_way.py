"""One-way marginals that are counted before a tree: which attributes, and which shares of epsilon.

A cut of a box of n values gains about 1/n^2 of what the log2(n) cuts down to a single value gain together, so no split
criterion that weighs one cut at a time ever reaches single values of a long attribute. Its marginal states them at
once. Shares follow from the shape, from what will be asked and from a noisy total, which are public.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

from dpcube.core.counter import BUDGET_UNITS, NoisyCounter
from dpcube.measurements import Marginal
from dpcube.models.marginals.components import axes_of_several

LARGEST_SHARE, SMALLEST_SHARE = 2 / 5, 1 / 4
"""The share of all one-way marginals together where cells are hidden in their noise, and where they stand out of it."""
SPARSE, DENSE = 0.3, 10.0
"""Rows times epsilon per cell up to which the share is the largest, and from which it is the smallest."""
COST_TO_CELLS = 0.3
"""The smallest is at most this over epsilon, because noise of cells falls exponentially with epsilon."""
STANDING_OUT = 1.0
"""Rows times epsilon per cell from which a marginal is counted only if it is more precise than a sum of cells."""
VALUES_POWER, MAX_SHARING_VALUES = 1 / 4, 2**10
"""The share is divided in proportion to this power of the number of values, up to so many."""
OF_RANGES = Fraction(1, 4)
"""Factor of the share of a marginal if the declared workload has only ranges of its attribute."""


def counts_one_way(shape: tuple[int, ...], kinds: tuple[str, ...]) -> bool:
    """Return whether one-way marginals are counted, given the kind of query of each attribute.

    From three attributes on; of two, unless ranges are asked of both: a tree has the marginals of these.

    >>> counts_one_way((99, 9), ("mixed", "mixed")), counts_one_way((99, 9), ("groups", "mixed"))
    (False, True)
    """
    several = axes_of_several(shape)
    return len(several) > 2 or (len(several) == 2 and any(kinds[axis] == "groups" for axis in several))


def one_way_shares(
    shape: tuple[int, ...], single_values: tuple[bool, ...], *, epsilon: float, total: float
) -> list[Fraction]:
    """Return the share of epsilon of the marginal of each attribute, given a noisy total.

    `single_values` says of which attributes single values may be asked. Where cells are hidden in their noise, two
    fifths of epsilon cost other answers little: with all of it most cells and boxes are not distinguished from their
    prediction either. Where cells stand out, a value of an attribute of c is a sum of cells, with the noise of
    sqrt(cells / c) of them, so that a marginal with less than the share sqrt(c / cells) adds little.
    """
    cells = math.prod(shape)
    signal = max(total, 1.0) * epsilon / cells
    fading = min(max(math.log(signal / SPARSE) / math.log(DENSE / SPARSE), 0.0), 1.0)
    whole = LARGEST_SHARE + fading * (min(SMALLEST_SHARE, COST_TO_CELLS / epsilon) - LARGEST_SHARE)
    roots = [min(values, MAX_SHARING_VALUES) ** VALUES_POWER if values > 1 else 0.0 for values in shape]
    shares = [whole * root / sum(roots) for root in roots]
    if signal >= STANDING_OUT:
        shares = [of if of > math.sqrt(values / cells) else 0.0 for of, values in zip(shares, shape, strict=True)]
    return [Fraction(of) * (1 if single else OF_RANGES) for of, single in zip(shares, single_values, strict=True)]


def count_one_way(counter: NoisyCounter, shares: list[Fraction]) -> list[Marginal]:
    """Count the marginal of every attribute that has a share.

    Privacy: every count goes through `counter`; which are counted, and with which units, follows from the shares.
    """
    units = [int(share * BUDGET_UNITS) for share in shares]
    return [Marginal((axis,), counter.marginal((axis,), of), of) for axis, of in enumerate(units) if of > 0]


def count_same_marginals(counter: NoisyCounter, tables: Sequence[Marginal]) -> list[Marginal]:
    """Measure the same marginals with the same units by the counter of a simulated table."""
    return [Marginal(one.axes, counter.marginal(one.axes, one.units), one.units) for one in tables]
