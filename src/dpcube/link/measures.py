"""What blocking saves and what linkage finds: sizes of blocks and pairs enter, ratios between 0 and 1 leave.

True sizes and true links are private, or known of public data only: these are for evaluation, and for padded sizes,
which both parties see.
"""

from collections.abc import Collection, Hashable
from dataclasses import dataclass

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.core.errors import InputError


def compared_pairs(left: Ints, right: Ints, candidates: Ints | None = None) -> int:
    """Return how many pairs of records are compared: those of candidate blocks, or of equal ones unless said."""
    if candidates is None:
        if len(left) != len(right):
            msg = f"equal blocks need as many sizes on both sides, got {len(left)} and {len(right)}"
            raise InputError(msg)
        candidates = np.repeat(np.arange(len(left))[:, None], 2, axis=1)
    # In Python integers, for sizes of blocks that together have no 64-bit product.
    return sum(int(left[i]) * int(right[j]) for i, j in candidates.tolist())


def reduction_ratio(
    left: Ints, right: Ints, candidates: Ints | None = None, *, records: tuple[int, int] | None = None
) -> float:
    """Return the share of all pairs that need not be compared; below 0 if padding adds more than blocking saves.

    `records` are the true numbers of records on both sides: those of the sizes unless the sizes are padded.

    >>> round(reduction_ratio(np.array([3, 1, 0]), np.array([2, 0, 5])), 6)
    0.785714
    """
    n, m = (int(left.sum()), int(right.sum())) if records is None else records
    if n <= 0 or m <= 0:
        msg = "a reduction ratio needs records on both sides"
        raise InputError(msg)
    return 1 - compared_pairs(left, right, candidates) / (n * m)


@dataclass(frozen=True, slots=True)
class LinkQuality:
    """How well found links agree with true ones."""

    true_links: int
    found_links: int
    right_links: int

    @property
    def recall(self) -> float:
        """The share of true links that were found: pairs completeness, if all candidate pairs count as found."""
        return self.right_links / self.true_links if self.true_links else 1.0

    @property
    def precision(self) -> float:
        """The share of found links that are true."""
        return self.right_links / self.found_links if self.found_links else 1.0

    @property
    def f1(self) -> float:
        """The harmonic mean of recall and precision."""
        together = self.true_links + self.found_links
        return 2 * self.right_links / together if together else 1.0


def link_quality(
    found: Collection[tuple[Hashable, Hashable]], true: Collection[tuple[Hashable, Hashable]]
) -> LinkQuality:
    """Compare found links with true ones.

    >>> link_quality([(1, "a"), (2, "b")], [(1, "a"), (3, "c"), (4, "d")]).recall
    0.3333333333333333
    """
    made, known = set(found), set(true)
    return LinkQuality(len(known), len(made), len(made & known))


@dataclass(frozen=True, slots=True)
class LinkCost:
    """What a run compared, sent and took, and what it would without blocking, in proportion to the pairs."""

    pairs: int
    pairs_without: int
    sent_bytes: int
    seconds: float

    @property
    def seconds_without(self) -> float:
        """The seconds of all pairs, extrapolated and not measured."""
        return self.seconds * self.pairs_without / self.pairs if self.pairs else 0.0

    @property
    def bytes_without(self) -> float:
        """The bytes of all pairs, extrapolated and not measured."""
        return self.sent_bytes * self.pairs_without / self.pairs if self.pairs else 0.0

    def as_dict(self) -> dict[str, float]:
        """Return all of it, for JSON; what was extrapolated says so."""
        return {
            "pairs": self.pairs,
            "pairs_without_blocking": self.pairs_without,
            "bytes": self.sent_bytes,
            "seconds": self.seconds,
            "extrapolated_seconds_without_blocking": self.seconds_without,
            "extrapolated_bytes_without_blocking": self.bytes_without,
        }
