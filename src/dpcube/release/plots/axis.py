"""Display axis of an attribute: its bins, merged where there are too many, and their labels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Ints
from dpcube.core.domain import Attribute

LONGEST_LABEL, LONGEST_NAME = 40, 200


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """Display bins: bin k is the cells `starts[k]` to `stops[k] - 1`; the last `own` are cells of their own."""

    name: str
    labels: tuple[str, ...]
    starts: Ints
    stops: Ints
    ordered: bool
    own: int = 0
    numbers: tuple[float, ...] = ()
    """Edges of the bins, for attributes of real numbers, whose bins are labelled at their edges."""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def edges(self) -> Ints:
        """First cells of the bins, and one past the last cell."""
        return np.append(self.starts, self.stops[-1])

    def ticks(self, most: int) -> tuple[list[float], list[str]]:
        """Return evenly spaced places of labels, and the labels; cells of their own are always labelled.

        Labels are at the middles of bins; of real numbers at the edges between them. Bin k is from k - 1/2 to k + 1/2.
        """
        regular, step = len(self) - self.own, -(-len(self) // max(most - self.own, 1))
        at = [k for k in range(0, regular, step) if k == 0 or not self.own or 2 * (regular - k) > step]
        own = range(regular, len(self))
        places, labels = list(map(float, at)), [self.labels[k] for k in at]
        if self.numbers:
            at += [regular] if regular % step == 0 and not self.own else []
            places, labels = [k - 0.5 for k in at], short_numbers([self.numbers[k] for k in at])
        return [*places, *map(float, own)], [*labels, *(self.labels[k] for k in own)]


def axis_of(attribute: Attribute, *, most: int) -> Axis:
    """Return an attribute as at most `most` bins: neighbours are merged evenly, cells of their own are not.

    >>> from dpcube.core.domain import Integer
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
    labels, name = distinct(names), printable(attribute.name, longest=LONGEST_NAME)
    # Real numbers have bins like [1.5, 2), other numbers such as 17-26 that are short.
    is_real = attribute.is_numeric and names[0].startswith("[")
    numbers = tuple(map(float, edges[np.append(starts[:regular], bins)])) if is_real else ()
    return Axis(name, labels, starts, stops, attribute.ordered, own, numbers)


def _label(attribute: Attribute, edges: NDArray[np.float64], start: int, stop: int) -> str:
    """Return the label of merged bins: of numbers the wider bin, of days the first, of other values both ends."""
    first, last = (attribute.bin_label(edges[k], edges[k + 1]) for k in (start, stop - 1))
    if stop - start == 1:
        return first
    if not attribute.has_distances:
        half = LONGEST_LABEL // 2 - 1
        return f"{printable(first, longest=half)} \N{HORIZONTAL ELLIPSIS} {printable(last, longest=half)}"
    return attribute.bin_label(edges[start], edges[stop]) if attribute.is_numeric else first


def distinct(names: Sequence[str], *, longest: int = LONGEST_LABEL) -> tuple[str, ...]:
    """Return printable names, shortened so that they stay distinct: at the end, else in the middle, else numbered.

    >>> distinct(["ward for hearts", "ward for hands", "hall"], longest=10)
    ('ward …arts', 'ward …ands', 'hall')
    """
    for shorten in (printable, _without_middle):
        shown = tuple(shorten(name, longest=longest) for name in names)
        if len(set(shown)) == len(set(names)):
            return shown
    return tuple(f"{printable(name, longest=longest - 4)} {place}" for place, name in enumerate(names, start=1))


def _without_middle(text: str, *, longest: int) -> str:
    shown, half = printable(text, longest=len(text)), (longest - 1) // 2
    return shown if len(shown) <= longest else f"{shown[: longest - 1 - half]}\N{HORIZONTAL ELLIPSIS}{shown[-half:]}"


def short_numbers(values: Sequence[float]) -> list[str]:
    """Return ascending numbers with the fewest digits that are accurate to 1/50 of the least step between them.

    >>> short_numbers([13.08834, 13.155622, 13.222904]), short_numbers([0.0, 0.1, 0.2]), short_numbers([0, 2e6])
    (['13.088', '13.156', '13.223'], ['0.0', '0.1', '0.2'], ['0', '2,000,000'])
    """
    steps = [b - a for a, b in pairwise(values) if b > a]
    most, least = max(map(abs, values)), min(steps, default=1.0)
    if most >= 1e7 or most < 1e-4:
        return [f"{value:.4g}" for value in values]
    for decimals in range(16):
        if all(abs(round(value, decimals) - value) <= least / 50 for value in values):
            return [f"{value:,.{decimals}f}" for value in values]
    return [f"{value:.15g}" for value in values]


def in_rows(count: float) -> str:
    """Return the text of a count: rounded to whole rows, or a small one to two digits.

    >>> in_rows(12345.6), in_rows(0.1234), in_rows(0), in_rows(math.nan)
    ('12,346', '0.12', '0', 'unknown')
    """
    if math.isnan(count):
        return "unknown"
    return f"{count:,.0f}" if abs(count) >= 10 else f"{count:.2g}"


def printable(text: str, *, longest: int = LONGEST_LABEL) -> str:
    """Return text without unprintable characters and shortened: names in a file may be arbitrary."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}\N{HORIZONTAL ELLIPSIS}"
