"""An attribute as it is drawn: an attribute enters; its cells, merged where there are too many to see, leave."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcube.arrays import Ints
from dpcube.domain import Attribute

LONGEST_LABEL = 24


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """Bins that are drawn: bin k is the cells `starts[k]` to `stops[k] - 1`; the last `own` are cells of their own."""

    name: str
    labels: tuple[str, ...]
    starts: Ints
    stops: Ints
    ordered: bool
    own: int = 0

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def edges(self) -> Ints:
        """First cells of the bins, and one past the last cell."""
        return np.append(self.starts, self.stops[-1])

    def ticks(self, most: int) -> tuple[list[int], list[str]]:
        """Return evenly spaced bins to be labelled, and their labels; cells of their own always have theirs."""
        regular, step = len(self) - self.own, -(-len(self) // max(most - self.own, 1))
        at = [k for k in range(0, regular, step) if k == 0 or not self.own or 2 * (regular - k) > step]
        at += range(regular, len(self))
        return at, [self.labels[k] for k in at]


def axis_of(attribute: Attribute, *, most: int) -> Axis:
    """Return at most `most` bins of an attribute; neighbours are merged evenly, cells of their own never.

    >>> from dpcube.domain import Integer
    >>> axis_of(Integer(name="age", min=0, max=99, null="cell"), most=5).labels
    ('0-24', '25-49', '50-74', '75-99', '(null)')
    """
    bins, own = attribute.bins, len(attribute.own_cells)
    step = -(-bins // max(most - own, 1))
    starts = np.append(np.arange(0, bins, step), np.arange(bins, bins + own)).astype(np.int64)
    stops = np.append(starts[1:], bins + own)
    names = [f"({kind})" for kind in attribute.own_cells]
    edges, regular = attribute.bin_edges(), len(starts) - own
    names = [_label(attribute, edges, a, b) for a, b in zip(starts[:regular], stops[:regular], strict=True)] + names
    return Axis(printable(attribute.name), tuple(map(printable, names)), starts, stops, attribute.ordered, own)


def _label(attribute: Attribute, edges: NDArray[np.float64], start: int, stop: int) -> str:
    """Return the name of merged bins: numbers as a longer bin, days by the first, other values by both ends."""
    first, last = (attribute.bin_label(edges[k], edges[k + 1]) for k in (start, stop - 1))
    if stop - start == 1 or attribute.scale == "day":
        return first
    if attribute.scale == "position":
        half = LONGEST_LABEL // 2 - 1
        return f"{printable(first, longest=half)} \N{HORIZONTAL ELLIPSIS} {printable(last, longest=half)}"
    return attribute.bin_label(edges[start], edges[stop])


def in_rows(count: float) -> str:
    """Return a count as it is shown: whole, or if it is small to two digits.

    >>> in_rows(12345.6), in_rows(0.1234), in_rows(0), in_rows(math.nan)
    ('12,346', '0.12', '0', 'unknown')
    """
    if math.isnan(count):
        return "unknown"
    return f"{count:,.0f}" if abs(count) >= 10 else f"{count:.2g}"


def printable(text: str, *, longest: int = LONGEST_LABEL) -> str:
    """Return text fit to be shown: names in a file from elsewhere may hold anything, at any length."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}\N{HORIZONTAL ELLIPSIS}"
