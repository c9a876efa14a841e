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

SPARSE_SHARE = Fraction(1, 3)
"""The share of all one-way marginals together where cells do not stand out of their noise."""
VALUES_POWER, MAX_SHARING_VALUES = 1 / 4, 2**10
"""It is divided in proportion to this power of the number of values, up to so many."""
DENSE = 1.0
"""Rows times epsilon per cell from which cells stand out of their noise."""
BESIDE_CELLS, MAX_MARGINAL_SHARE = 3.0, 1 / 4
"""There the share of a marginal is a multiple of the one that makes it as precise as a sum of cells; none if the latter
is larger than this part of epsilon."""
MIN_MARGINAL_SHARE = 1 / 15
"""Least share, for an attribute of few values in a cube of very many cells."""
MAX_MARGINALS_SHARE, COST_TO_CELLS = 1 / 4, 0.15
"""Limits on the sum of the shares: the first, and the second over epsilon, because noise of cells falls exponentially
with epsilon. Marginals that this makes less precise than a sum of cells are not counted."""
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

    `single_values` says of which attributes single values may be asked. Where cells stand out of their noise, a value
    of an attribute of c is a sum of cells, with the noise of sqrt(cells / c) of them; a marginal with the share
    sqrt(c / cells) is as precise.
    """
    cells = math.prod(shape)
    if total * epsilon < DENSE * cells:
        roots = [min(values, MAX_SHARING_VALUES) ** VALUES_POWER if values > 1 else 0.0 for values in shape]
        shares = [SPARSE_SHARE * Fraction(root / sum(roots)) for root in roots]
    else:
        shares = list(map(Fraction, _shares_beside_cells(shape, epsilon)))
    return [share * (1 if single else OF_RANGES) for share, single in zip(shares, single_values, strict=True)]


def _shares_beside_cells(shape: tuple[int, ...], epsilon: float) -> list[float]:
    cells = math.prod(shape)
    as_precise = [math.sqrt(values / cells) for values in shape]
    counted = [values > 1 and part <= MAX_MARGINAL_SHARE for values, part in zip(shape, as_precise, strict=True)]
    wanted = [max(BESIDE_CELLS * part, MIN_MARGINAL_SHARE) * of for part, of in zip(as_precise, counted, strict=True)]
    scale = min(1.0, min(MAX_MARGINALS_SHARE, COST_TO_CELLS / epsilon) / max(sum(wanted), 1e-9))
    return [scale * share if scale * BESIDE_CELLS >= 1 else 0.0 for share in wanted]


def count_one_way(counter: NoisyCounter, shares: list[Fraction]) -> list[Marginal]:
    """Count the marginal of every attribute that has a share.

    Privacy: every count goes through `counter`; which are counted, and with which units, follows from the shares.
    """
    units = [int(share * BUDGET_UNITS) for share in shares]
    return [Marginal((axis,), counter.marginal((axis,), of), of) for axis, of in enumerate(units) if of > 0]


def count_same_marginals(counter: NoisyCounter, tables: Sequence[Marginal]) -> list[Marginal]:
    """Measure the same marginals with the same units by the counter of a simulated table."""
    return [Marginal(one.axes, counter.marginal(one.axes, one.units), one.units) for one in tables]
