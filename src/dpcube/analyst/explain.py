"""An account of a release in plain words: what was measured, what was spent, how far off answers are."""

import textwrap
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpcube.analyst.answer import deviations_for
from dpcube.estimate.within import evenly_placed_ranges
from dpcube.histogram import UNITS, noise_variances
from dpcube.partition.halving import levels
from dpcube.query import Workload

if TYPE_CHECKING:
    from dpcube.analyst.release import Release

ASKED = 200
"""Ranges, cells and values of one attribute that typical errors are taken over, always the same ones."""
MOST_CELLS = 2**22
"""Of larger cubes an account tells no errors: they would take longer than an account may."""
MOST_ATTRIBUTES, MOST_KINDS, WIDTH = 6, 8, 100  # so that an account fits one screen


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


@dataclass(frozen=True, slots=True)
class TypicalError:
    """Standard errors of a kind of question: the middle one, and what 9 in 10 stay below."""

    question: str
    middle: float
    most: float

    def __str__(self) -> str:
        return f"{self.question}: {_rows(self.middle)} rows; 9 in 10 below {_rows(self.most)}"


@dataclass(frozen=True, slots=True)
class Account:
    """What a release holds and how far its answers can be trusted."""

    cube: str
    protection: str
    measured: tuple[Measured, ...]
    errors: tuple[TypicalError, ...]
    unseen: float | None
    stamp: str

    def __str__(self) -> str:
        parts = [self.stamp] if self.stamp else []
        parts += [self.cube, self.protection, "Measured, once and for all (noise: standard deviation in rows)"]
        parts += [f"  {row}" for row in self.measured]
        if self.errors:
            parts.append("Standard error of an answer, noise and unevenness together")
            parts += [f"  {row}" for row in self.errors]
        return "\n".join([*(line for part in parts for line in _wrapped(part)), *_wrapped(self._support())])

    def _support(self) -> str:
        unseen = ""
        if self.unseen is not None:
            unseen = f"A single cell below about {_rows(self.unseen)} rows cannot be told from an empty one. "
        return (
            f"It supports totals, groups and ranges well above their errors. {unseen}It says nothing reliable of any "
            f"one row, and a value that cuts a bin is answered as if the bin were even. One 95% interval in twenty "
            f"misses; for many at once ask for simultaneous ones. Asking costs no privacy, however often."
        )

    def as_dict(self) -> dict[str, object]:
        """Return the measured counts and typical errors as plain values."""
        return {
            "measured": [asdict(row) for row in self.measured],
            "standard_errors": [asdict(row) for row in self.errors],
        }


def account(release: "Release") -> Account:
    """Return the account of a release."""
    made, shape = release.provenance, release.domain.shape
    unit = "one row" if made.unit is None else f"all rows of one {made.unit} ({made.max_rows} counted at most)"
    names = ", ".join(release.domain.names)
    errors = typical_errors(release) if release.domain.size <= MOST_CELLS else ()
    return Account(
        cube=f"A cube of {names}: {' x '.join(map(str, shape))} = {release.domain.size:,} cells, by {made.strategy}.",
        protection=f"What {unit} adds changes the chance of any outcome by a factor of exp({made.epsilon}) at most.",
        measured=tuple(measured(release)),
        errors=errors,
        unseen=deviations_for(0.95) * errors[-1].middle if errors else None,
        stamp="" if made.private else "NOT PRIVATE: this release was made with test noise or from an experiment.",
    )


def measured(release: "Release") -> list[Measured]:
    """Return the kinds of counts that were measured: cells, then boxes by what was spent on each, the first first."""
    transcript = release.transcript
    found = []
    if transcript.cells is not None:
        found.append(_measured("every cell", transcript.cells.counts.size, transcript.cells.units, release))
    if transcript.boxes is not None:
        boxes, level = transcript.boxes, levels(transcript.boxes.tree)[transcript.boxes.node]
        distinct, first = np.unique(boxes.units, return_index=True)
        order = distinct[np.argsort(first)]
        for units in order[:MOST_KINDS].tolist():
            there = boxes.units == units
            found.append(_measured(_boxes(level[there]), int(there.sum()), units, release))
        if len(order) > MOST_KINDS:
            rest = np.isin(boxes.units, order[MOST_KINDS:])
            most = int(boxes.units[rest].max())
            found.append(_measured("other boxes, with at most", int(rest.sum()), most, release))
    return found


def _boxes(level: NDArray[np.int64]) -> str:
    """Say after how many cuts of the whole boxes come."""
    low, high = int(level.min()), int(level.max())
    if high == 0:
        return "the whole"
    cuts = f"{low} to {high} cuts" if low < high else "1 cut" if low == 1 else f"{low} cuts"
    return f"boxes after {cuts}"


def _measured(what: str, counts: int, units: int, release: "Release") -> Measured:
    noise = np.sqrt(noise_variances(np.array([units]), release.transcript.grain))
    return Measured(what, counts, units / UNITS, float(noise[0]))


def typical_errors(release: "Release") -> tuple[TypicalError, ...]:
    """Return the standard errors of random ranges, of the values of each attribute, and of single cells."""
    ranges = evenly_placed_ranges(release.domain.shape)
    asked = Workload(ranges.shape, ranges.lower[:ASKED], ranges.upper[:ASKED])
    found = [_typical("a range at random", asked, release)]
    for axis, name in enumerate(release.domain.names[:MOST_ATTRIBUTES]):
        found.append(_typical(f"one value of {name}", _values_of(axis, ranges.shape), release))
    return (*found, _typical("one cell", Workload(asked.shape, asked.lower, asked.lower + 1), release))


def _values_of(axis: int, shape: tuple[int, ...]) -> Workload:
    """Return the ranges that hold one cell of an axis and all of the others."""
    places = np.unique(np.linspace(0, shape[axis] - 1, min(ASKED, shape[axis])).astype(np.int64))
    lower, upper = np.zeros((len(places), len(shape)), np.int64), np.tile(shape, (len(places), 1))
    lower[:, axis], upper[:, axis] = places, places + 1
    return Workload(shape, lower, upper)


def _typical(question: str, asked: Workload, release: "Release") -> TypicalError:
    errors = release.estimate().range_errors(asked)
    middle, most = np.quantile(np.sqrt(errors.variances + errors.withins), (0.5, 0.9))
    return TypicalError(question, float(middle), float(most))


def _rows(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 10 else f"{amount:.2g}"


def _wrapped(text: str) -> list[str]:
    indent = " " * (len(text) - len(text.lstrip()))
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent + "  " if indent else "")
