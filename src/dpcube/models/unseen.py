"""The posterior of boxes that any rule chose, of whose inside nothing is known.

The leaves of `adaptive` are boxes in which its posterior found little left to learn, and the same posterior says how
uneven they are. A grid ends where its rule says. What it leaves inside a box was not measured, so it is taken for the
worst that independent boxes can be: all rows of a box at one place, anywhere in it. A part f of the box then holds all
T of them or none, and the count in it has variance f (1 - f) E T^2. What this cannot see is boxes that are uneven in
the same way (rows that heap at one value of an attribute): docs/strategies.md has the coverage that was measured.
"""

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from dpcube.core.arrays import Floats
from dpcube.models.posterior import Posterior


@dataclass(frozen=True)
class UnseenInside(Posterior):
    """A posterior whose leaves may hold all their rows at one place."""

    @classmethod
    def of(cls, posterior: Posterior) -> "UnseenInside":
        """Return the same posterior with nothing known of the inside of its leaves."""
        return cls(**{one.name: getattr(posterior, one.name) for one in fields(Posterior)})

    @cached_property
    def uneven(self) -> Floats:
        """Return for each leaf what, times f (1 - f), is the variance of the count in a part f of it: E T^2."""
        tree = self.tree
        return np.where(tree.is_leaf & (tree.sizes > 1), self.totals**2 + self.variances, 0.0)
