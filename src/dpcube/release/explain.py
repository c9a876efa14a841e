"""Plain-text summary of a release: its measurements, the epsilon of each, and the errors of its answers."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpcube.measurements import Marginal, Selection
from dpcube.measurements.measurement import CountsAlike
from dpcube.noise import noise_variances
from dpcube.release.answer import MODELLED
from dpcube.release.trust import ONE_CELL, Trust, doubts, trust

if TYPE_CHECKING:
    from dpcube.release.release import Release

MAX_EXPLAINED_CELLS = 2**22
"""Larger cubes are summarised without errors, which would take too long."""
MAX_LISTED_SHARES = 3
"""Marginals of one order that were counted with more different units are listed together."""
MAX_LISTED_ATTRIBUTES, MAX_LISTED_KINDS, WIDTH = 6, 8, 100  # so that a summary fits one screen


@dataclass(frozen=True, slots=True)
class Measured:
    """A kind of counts that were measured: how many, the share of epsilon spent on each, the noise of each."""

    what: str
    counts: int
    share: float
    noise: float

    def __str__(self) -> str:
        counts = f"{self.counts:,} count{'s' if self.counts > 1 else ''}"
        return f"{self.what}: {counts}, each with {self.share:.2%} of epsilon, noise {_rows(self.noise)}"


class MeasuredSelections(Measured):
    """A kind of selections: how many, the share of epsilon spent on each, the noise of each score."""

    def __str__(self) -> str:
        selections = f"{self.counts:,} selection{'s' if self.counts > 1 else ''}"
        return f"{self.what}: {selections}, each with {self.share:.2%} of epsilon, noise of scores {_rows(self.noise)}"


@dataclass(frozen=True, slots=True)
class ReleaseAccount:
    """The summary of a release: its cube, its protection, its measurements, and the errors of its answers."""

    cube: str
    protection: str
    measured: tuple[Measured, ...]
    errors: tuple[Trust, ...]
    stamp: str
    answers: bool
    """Whether any estimate can answer from what was measured."""

    def __str__(self) -> str:
        parts = [self.stamp] if self.stamp else []
        parts += [self.cube, self.protection, "Measured, once and for all (noise: standard deviation in rows)"]
        parts += [f"  {row}" for row in self.measured]
        if self.errors:
            parts.append("Standard error of an answer, noise and unevenness together")
            parts += [
                f"  {row.question}: "
                + ("unknown" if np.isnan(row.most) else f"{_rows(row.middle)} rows; 9 in 10 below {_rows(row.most)}")
                + (f"; {row.modelled:.0%} {MODELLED}" if row.modelled else "")
                for row in self.errors
            ]
        return "\n".join([*(line for part in parts for line in _wrapped(part)), *_wrapped(self._support())])

    @property
    def doubts(self) -> str:
        """Why nothing can be made of the release; empty if something can, or if its errors were not worked out."""
        if not self.answers:
            return "No estimate of this dpcube can answer from these measurements."
        return doubts(self.errors) if self.errors else ""

    def _support(self) -> str:
        if self.doubts:
            return f"{self.doubts} Asking costs no privacy, however often."
        unseen = ""
        of_a_cell = next((row.half_width for row in self.errors if row.question == ONE_CELL), math.nan)
        if not math.isnan(of_a_cell):
            unseen = f"A single cell below about {_rows(of_a_cell)} rows cannot be distinguished from an empty one. "
        above = "totals, groups and ranges well above their errors" if self.errors else "what is well above its error"
        return (
            f"It supports {above}. {unseen}It says nothing reliable of any one row, and a question that cuts a bin is "
            f"answered as if the bin were even, with an interval from none of its rows to all. One 95% interval in "
            f"twenty misses; for many at once ask for simultaneous ones. Asking costs no privacy, however often."
        )

    def as_dict(self) -> dict[str, object]:
        """Return the measured counts and typical errors as plain values."""
        return {
            "measured": [asdict(row) for row in self.measured],
            "standard_errors": [asdict(row) for row in self.errors],
            "doubts": self.doubts,
        }


def account(release: "Release") -> ReleaseAccount:
    """Return the account of a release."""
    made, shape = release.provenance, release.domain.shape
    unit = "one row" if made.unit is None else f"all rows of one {made.unit} ({made.max_rows} counted at most)"
    names, sides = ", ".join(release.domain.names), " x ".join(map(str, shape))
    answers = bool(release.estimates)
    with_errors = answers and release.domain.size <= MAX_EXPLAINED_CELLS
    errors = trust(release, release.domain.names[:MAX_LISTED_ATTRIBUTES]) if with_errors else ()
    return ReleaseAccount(
        cube=f"A cube of {names}: {sides} = {release.domain.size:,} cells, by {_method(release)}.",
        protection=f"What {unit} adds changes the chance of any outcome by a factor of exp({made.epsilon}) at most.",
        measured=tuple(measured(release)),
        errors=tuple(errors),
        stamp="" if made.private else "NOT PRIVATE: this release was made with test noise or from an experiment.",
        answers=answers,
    )


def _method(release: "Release") -> str:
    """Return the strategy and the plan that it selected."""
    strategy, plan = release.provenance.strategy, release.transcript.plan
    return strategy if plan in (None, strategy) else f"{strategy} (plan: {plan})"


def measured(release: "Release") -> list[Measured]:
    """Return the counts of every measurement, grouped by the share of epsilon spent on each."""
    names = release.domain.names
    transcript = release.transcript
    tables, together = _tables_alike(transcript.marginals)
    several = tables + _selections_alike(transcript.selections, names)
    together |= set(map(id, transcript.selections))
    measurements = [kept for kept in transcript.measurements if id(kept) not in together]
    listed = [
        alike for kept in measurements[:MAX_LISTED_KINDS] for alike in kept.by_units(names, most=MAX_LISTED_KINDS)
    ]
    others = [alike for kept in measurements[MAX_LISTED_KINDS:] for alike in kept.by_units(names, most=0)]
    if others:
        counts, most = sum(alike.counts for alike in others), max(alike.units for alike in others)
        listed.append(
            CountsAlike(f"{len(measurements) - MAX_LISTED_KINDS} other measurements, with at most", counts, most)
        )
    return [_measured(alike, release) for alike in several + listed]


def _tables_alike(marginals: Sequence[Marginal]) -> tuple[list[CountsAlike], set[int]]:
    """Return marginals of one order and of equal units, several together, and the identities of these.

    If nearly each was counted with other units, as in a wide release, all marginals of one order are listed together.
    """
    alike: dict[tuple[int, bool, int], list[Marginal]] = {}
    for one in marginals:
        if one.axes:
            alike.setdefault((len(one.axes), one.groups is not None, one.units), []).append(one)
    listed, together = [], set[int]()
    for way, grouped in sorted({(way, grouped) for way, grouped, _ in alike}):
        of_way = {key[2]: tables for key, tables in alike.items() if key[:2] == (way, grouped)}
        every = "every group of cells" if grouped else "every cell"
        words = f"tables over {way} attribute{'s' * (way > 1)}"
        if len(of_way) > MAX_LISTED_SHARES:
            words += ", with at most"
            of_way = {max(of_way): [table for tables in of_way.values() for table in tables]}
        for units, tables in of_way.items():
            if len(tables) > 1:
                counts = sum(table.counts.size for table in tables)
                listed.append(CountsAlike(f"{every} of {len(tables)} {words}", counts, units))
                together |= {id(table) for table in tables}
    return listed, together


def _selections_alike(selections: Sequence[Selection], names: Sequence[str]) -> list[CountsAlike]:
    """Return selections by one score and cost together, as those of the levels of a tree."""
    alike: dict[tuple[str, int, int], list[Selection]] = {}
    for one in selections:
        alike.setdefault((one.score, one.units, one.sensitivity), []).append(one)
    listed = []
    for several in alike.values():
        widest = max(several, key=lambda one: int(one.candidates.max()))
        (group,) = widest.by_units(names, most=1)
        listed.append(group._replace(counts=sum(len(each.chosen) for each in several)))
    return listed


def _measured(alike: CountsAlike, release: "Release") -> Measured:
    made, epsilon_per_unit = release.provenance, release.transcript.epsilon_per_unit
    variance = float(noise_variances(np.array([alike.units]), epsilon_per_unit / (alike.sensitivity or 1))[0])
    share = float(alike.units * epsilon_per_unit * made.max_rows / made.epsilon)
    if alike.sensitivity is None:
        return Measured(alike.what, alike.counts, share, math.sqrt(variance))
    # The noise of a score is of one side, and has half the variance.
    return MeasuredSelections(alike.what, alike.counts, share, math.sqrt(variance / 2))


def _rows(amount: float) -> str:
    if np.isnan(amount):
        return "unknown"
    return f"{amount:,.0f}" if amount >= 10 else f"{amount:.2g}"


def _wrapped(text: str) -> list[str]:
    indent = " " * (len(text) - len(text.lstrip()))
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent + "  " if indent else "")
