"""UTC offsets of a time zone during a range of days.

Engines ship their own time zone databases, of different years. So the offsets come from Python's `zoneinfo` and are
sent to each engine as numbers, and all engines agree.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

from dpcube.core.errors import SourceError

MARGIN = timedelta(days=2)  # more than any offset
STEP = 86_400  # seconds; two changes of a zone's offset were never less than four days apart


class Offsets(NamedTuple):
    """`offsets[i]` seconds hold from `edges[i]` up to `edges[i + 1]`, in seconds since 1970."""

    edges: tuple[int, ...]
    offsets: tuple[int, ...]


@lru_cache
def offsets_of(zone: str, start: date, end: date) -> Offsets:
    """Return a zone's offsets for all instants that could fall on a day from `start` to `end`.

    >>> offsets_of("Europe/Berlin", date(2026, 3, 1), date(2026, 4, 1)).offsets
    (3600, 7200)
    """
    try:
        there = ZoneInfo(zone)
    except (OSError, ValueError, KeyError):
        msg = f"there is no time zone '{zone}' on this machine; use an IANA name such as Europe/Berlin, or install "
        msg += "the time zone database: pip install tzdata"
        raise SourceError(msg) from None
    first, last = (datetime(day.year, day.month, day.day, tzinfo=UTC) for day in (start, end))
    low = int(max(first, datetime.min.replace(tzinfo=UTC) + 2 * MARGIN).timestamp()) - MARGIN.days * 86400
    high = int(min(last, datetime.max.replace(tzinfo=UTC) - 2 * MARGIN).timestamp()) + MARGIN.days * 86400

    def offset(second: int) -> int:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
        return round(moment.astimezone(there).utcoffset().total_seconds())  # type: ignore[union-attr]

    steps = [*range(low, high, STEP), high]
    seen = zip(pairwise(steps), pairwise(map(offset, steps)), strict=True)
    changes = [_change(a, b, offset) for (a, b), (before, after) in seen if before != after]
    return Offsets((low, *changes, high), tuple(offset(edge) for edge in (low, *changes)))


def _change(a: int, b: int, offset: Callable[[int], int]) -> int:
    """Return the first second after a at which the offset is b's."""
    before = offset(a)
    while b - a > 1:
        middle = (a + b) // 2
        a, b = (middle, b) if offset(middle) == before else (a, middle)
    return b
