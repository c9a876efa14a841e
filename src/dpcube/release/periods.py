"""Releases of disjoint periods over one domain, merged into one release with an axis of periods.

No row is in two of the periods, so what was measured of each is a measurement of its slab of a larger cube, whose first
attribute is the period. It is put together as such: trees of boxes below a tree that halves the periods, cells and
tables side by side. Boxes may have been counted with different epsilons, each has its own; tables of other noise than
those of other periods, or that not all have, are left out. Everything that works on a release works on the result:
asked without the period it adds up, told apart by the period the releases stand side by side, and errors are those of
one release. It can be saved.

Privacy: nothing is measured, so nothing is spent. A row is in one slab if all releases read the period's column alike,
so for one row the epsilon is that of one release (parallel composition). A row that two readings put into two periods
may be in both, and a unit with many rows in all of them: then epsilons add up, as they do in a ledger.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.core.domain import Category, Domain
from dpcube.core.errors import InputError
from dpcube.core.memory import check_memory
from dpcube.measurements import BoxCounts, Marginal, Measurement, Provenance, Selection, Transcript
from dpcube.release.capabilities import MERGE, refusal
from dpcube.trees.tree import BoxTree

if TYPE_CHECKING:
    from dpcube.release.release import Release

MOST_RELEASES = 1000
SPELL = re.compile(r"(?P<column>.+) from (?P<first>\S+) to (?P<last>\S+)", re.DOTALL)
PERIOD_NAMES = ("period", "release period", "period of release")
"""What the new attribute is called: the first of these that no attribute has."""


@dataclass(frozen=True, slots=True)
class ReleasedPeriod:
    """The rows that a release covers: those whose `column` lies from `first` to `last`, both included."""

    column: str
    first: date | int
    last: date | int

    @classmethod
    def of(cls, release: "Release", name: str) -> "ReleasedPeriod":
        """Return the period of a release, which is called `name` in messages."""
        words = SPELL.fullmatch(release.provenance.period or "")
        ends = None if words is None else [_end(words[part]) for part in ("first", "last")]
        if words is None or ends is None or None in ends or type(ends[0]) is not type(ends[1]):
            told = release.provenance.period or "all rows"
            msg = f"{name} covers {told}, and not a period that can be told from others; open it by itself"
            raise InputError(msg)
        return cls(words["column"], *ends)  # type: ignore[arg-type]

    def __str__(self) -> str:
        return f"{self.first} to {self.last}"


def _end(text: str) -> date | int | None:
    try:
        return int(text) if text.lstrip("+-").isdigit() else date.fromisoformat(text)
    except ValueError:
        return None


def merged(releases: Sequence["Release"], names: Sequence[str] | None = None) -> "Release":
    """Return releases of disjoint periods over one domain as one release, whose first attribute is the period.

    InputError says which two cannot be put together, by `names`, and why.
    """
    from dpcube.release.release import Release

    if not 2 <= len(releases) <= MOST_RELEASES:
        msg = f"2 to {MOST_RELEASES:,} releases can be put together, got {len(releases):,}"
        raise InputError(msg)
    for one in releases:
        if (refused := refusal(MERGE, one)) is not None:
            raise InputError(refused)
    names = [f"release {number}" for number in range(1, len(releases) + 1)] if names is None else names
    covered = [ReleasedPeriod.of(one, name) for one, name in zip(releases, names, strict=True)]
    for one, name, period in zip(releases[1:], names[1:], covered[1:], strict=True):
        _check_alike(releases[0], one, names[0], name)
        if (period.column, type(period.first)) != (covered[0].column, type(covered[0].first)):
            msg = f"{names[0]} covers a period of '{covered[0].column}' and {name} one of '{period.column}'; "
            msg += "rows may be in both, so they cannot be added up"
            raise InputError(msg)
    order = sorted(range(len(releases)), key=lambda place: covered[place].first)
    for earlier, later in pairwise(order):
        if covered[later].first <= covered[earlier].last:  # type: ignore[operator]
            msg = f"{names[earlier]} covers {covered[earlier]} and {names[later]} {covered[later]} of "
            msg += f"'{covered[0].column}': rows in both would count twice; leave one out"
            raise InputError(msg)
    ordered = [releases[place] for place in order]
    domain = _domain(ordered[0].domain, [str(covered[place]) for place in order])
    check_memory(16 * domain.size, what=f"a cube of {domain.size:,} cells", remedy="put fewer releases together")
    words = f"{covered[0].column} from {covered[order[0]].first} to {covered[order[-1]].last}"
    return Release(domain, _transcript(ordered, domain.shape), _provenance(ordered, words))


def _check_alike(first: "Release", other: "Release", name: str, others_name: str) -> None:
    """Refuse releases that were not made alike."""
    made, others = first.provenance, other.provenance
    differing = {
        "domains": first.domain != other.domain,
        "strategies": made.strategy != others.strategy,
        "units": (made.unit, made.max_rows) != (others.unit, others.max_rows),
        "epsilons of cells": _noise_of_cells(first.transcript) != _noise_of_cells(other.transcript),
        "kinds of counts": _needed(first.transcript) != _needed(other.transcript),
    }
    if wrong := [what for what, differs in differing.items() if differs]:
        msg = f"{name} and {others_name} have different {' and '.join(wrong)}; releases that were made alike can be "
        msg += "put together, others are opened one by one"
        raise InputError(msg)


def _counts(transcript: Transcript) -> list[Measurement]:
    """Return what was counted, counts of a whole period as those of the root of its boxes where it has boxes alone.

    Selections led to the boxes of one period, and nothing is estimated from them.
    """
    counted = [kept for kept in transcript.measurements if not isinstance(kept, Selection)]
    boxes = transcript.boxes_with_totals
    if boxes is None or transcript.cells is not None:
        return counted
    others = [kept for kept in counted if kept not in transcript.totals]
    return [boxes if isinstance(kept, BoxCounts) else kept for kept in others]


def _needed(transcript: Transcript) -> list[str]:
    """Return the kinds of counts that must be alike: all but tables beside others, which can be left out."""
    kinds = [one.kind for one in _counts(transcript) if one is transcript.cells or not isinstance(one, Marginal)]
    return kinds or [repr(_kind(one, transcript)) for one in _counts(transcript)]


def _noise_of_cells(transcript: Transcript) -> Fraction | None:
    """Return the epsilon of each cell's count, which all cells that stand side by side have in common."""
    return None if transcript.cells is None else transcript.cells.units * transcript.epsilon_per_unit


def _kind(measurement: Measurement, transcript: Transcript) -> tuple[object, ...]:
    """Return what a measurement is of, and the epsilon of each count if all of its counts must have the same."""
    if isinstance(measurement, BoxCounts):
        return (measurement.kind,)
    assert isinstance(measurement, Marginal)
    return measurement.kind, measurement.axes, measurement.units * transcript.epsilon_per_unit


def _domain(domain: Domain, periods: list[str]) -> Domain:
    taken = {name.casefold() for name in domain.names}
    name = next((name for name in PERIOD_NAMES if name not in taken), None)
    if name is None:
        msg = f"the domain has attributes {', '.join(PERIOD_NAMES)}, so that the periods have no name"
        raise InputError(msg)
    return Domain(
        (Category(name, periods, ordered=True), *domain.attributes),
        drafted_from_data=domain.drafted_from_data,
        signed_public_by=domain.signed_public_by,
    )


def _provenance(releases: Sequence["Release"], words: str) -> Provenance:
    made = [one.provenance for one in releases]
    epsilons = [one.epsilon for one in made]
    readings = {one.reading for one in made}
    disjoint = made[0].unit is None and len(readings) == 1 and None not in readings
    epsilon = max(epsilons) if disjoint else sum(epsilons, Fraction(0))
    same = all(dict(one.parameters) == dict(made[0].parameters) for one in made)
    return replace(
        made[0],
        epsilon=epsilon,
        period=words,
        reading=made[0].reading if len(readings) == 1 else None,
        parameters=made[0].parameters if same else {},
        ledger=all(one.ledger for one in made),
        private=all(one.private for one in made),
    )


def _transcript(releases: Sequence["Release"], shape: tuple[int, ...]) -> Transcript:
    """Put together what all have measured; tables that not all have, or with other noise, are left out.

    Units are made those of the release with the most epsilon, rounded down: of the 2^40 that there are, less than one
    is lost, so the noise that is stated is too large by less than a millionth of a millionth of the budget.
    """
    transcripts = [one.transcript for one in releases]
    common = set.intersection(*({_kind(kept, one) for kept in _counts(one)} for one in transcripts))
    most = max(one.epsilon_per_unit for one in transcripts)
    lists = zip(
        *(
            [_in_units_of(kept, one.epsilon_per_unit / most) for kept in _counts(one) if _kind(kept, one) in common]
            for one in transcripts
        ),
        strict=True,
    )
    return Transcript(shape, most, tuple(_side_by_side(shape, one) for one in lists), layout="periods")


def _in_units_of(measurement: Measurement, share: Fraction) -> Measurement:
    """Return a measurement whose units are a share of others."""
    if share == 1:
        return measurement
    if isinstance(measurement, BoxCounts):
        units = [max(1, int(one * share)) for one in measurement.units.tolist()]
        return replace(measurement, units=np.array(units, np.int64))
    assert isinstance(measurement, Marginal)
    return replace(measurement, units=max(1, int(measurement.units * share)))


def _side_by_side(shape: tuple[int, ...], parts: tuple[Measurement, ...]) -> Measurement:
    """Return measurements of slabs as one measurement of the whole."""
    first = parts[0]
    if isinstance(first, Marginal):
        stacked = np.stack([one.counts for one in parts if isinstance(one, Marginal)])
        return Marginal((0, *(axis + 1 for axis in first.axes)), stacked, first.units)
    assert isinstance(first, BoxCounts)
    boxes = [one for one in parts if isinstance(one, BoxCounts)]
    tree, starts = _stacked_tree(shape, [one.tree for one in boxes])
    node = np.concatenate([one.node + start for one, start in zip(boxes, starts, strict=True)])
    return BoxCounts(
        tree, node, np.concatenate([one.counts for one in boxes]), np.concatenate([one.units for one in boxes])
    )


def _stacked_tree(shape: tuple[int, ...], trees: Sequence[BoxTree]) -> tuple[BoxTree, list[int]]:
    """Return a tree that halves the slabs down to one, with a tree below each; and where each of those begins."""
    starts, parts, size = [0] * len(trees), list[tuple[Ints, Ints, Ints]](), 0

    def visit(low: int, high: int, above: int) -> None:
        nonlocal size
        me = size
        if high - low == 1:
            tree, starts[low] = trees[low], me
            bounds = (_with_slab(tree.lower, low), _with_slab(tree.upper, high))
            parts.append((*bounds, np.where(tree.parent < 0, above, tree.parent + me)))
            size += len(tree)
            return
        whole = np.array([[low, *[0] * (len(shape) - 1)]]), np.array([[high, *shape[1:]]])
        parts.append((*whole, np.array([above])))
        size += 1
        middle = (low + high) // 2  # as every tree of halves is cut
        visit(low, middle, me)
        visit(middle, high, me)

    visit(0, len(trees), -1)
    lower, upper, parent = (np.concatenate(part) for part in zip(*parts, strict=True))
    return BoxTree(shape, lower, upper, parent), starts


def _with_slab(bounds: Ints, place: int) -> Ints:
    return np.insert(bounds, 0, place, axis=1)
