"""Ours for wide tables: count each attribute, then the pairs of attributes that depart most from what is known.

A table over one attribute each comes first, or over each and a target that a classifier will tell. By these the cells
of every attribute are put into groups that hold enough rows to be told from noise. Then, round after round, the gate
chooses the pair of attributes whose table departs most from the model's, beyond what its noise would cost, and counts
it; the model learns it (`models/cuboids/`). All of the budget is spent on whole tables, so what a row costs is the
sum of what the calls cost (`core/gate.py`).
"""

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.core.candidates import TableDistances
from dpcube.core.counter import BUDGET_UNITS, MAX_TABLE_CELLS, NoisyCounter
from dpcube.core.domain import Domain
from dpcube.core.domain.attribute import listing
from dpcube.core.epsilon import MIN_SHARE
from dpcube.core.errors import DomainError, InputError
from dpcube.measurements import CellGroups, Marginal, Measurement, Selection, Transcript
from dpcube.models.cuboids.estimate import MAX_MODEL_CELLS
from dpcube.models.cuboids.first_tables import in_groups, tables_of_one
from dpcube.models.cuboids.fitting import CountedTable, FittedModel, fit, total_of
from dpcube.models.cuboids.junction import CliqueAxes, model_cells, model_cells_with, table_cells
from dpcube.models.cuboids.shares import smoothed
from dpcube.noise import noise_variances
from dpcube.strategies.groups_of_cells import groups_beside_large_cells, groups_of_cells
from dpcube.strategies.strategy import STARTING, UNIT_EPSILON, Parameter, Store, WorkloadKind

FIRST_SHARE, SHARE_BY_TARGET = Fraction(2, 5), Fraction(7, 10)
"""Of the budget, for the tables over one attribute, or over each and a target."""
CHOICE_SHARE, CHOICE_SHARE_BESIDE = Fraction(1, 10), Fraction(3, 10)
"""Of what is left then, for choices; beside tables by a target, where fewer are made and each matters."""
NOISE_OF_TABLE = 0.3
"""The part of all rows that the noise of a table over two attributes may amount to: it decides how many groups."""
MIN_TABLE_GROUPS, MAX_TABLE_GROUPS = 3, 60
MAX_CLIQUE_CELLS = 2**16
"""Cells of the model's cliques: it is fitted some hundred times, a pass over all of them each."""
STEPS_BETWEEN, CLOSE_BETWEEN = 60, 1e-7
"""Steps by which the model learns a table before the next choice, and how little the last may better it: 1e-7 of some
ten nats a row are less than a thousandth in total variation, below what a choice can tell."""
LITTLE_NOISE, MAX_AFFORDED_TABLES = 0.03, 100
"""The part of all rows that noise may move in each of many small tables, and how many there may be: each is fitted."""
FIRST_TABLES = 3
"""Tables by which it is judged whether many more of them would tell anything: these depart most."""
MAX_TABLE_AXES, MAX_NAMED_TABLES = 4, 256
MAX_WEIGHTED_SIDE = 2**10
MAX_ATTRIBUTE_CELLS = 2**20
"""Cells of an attribute: each is counted by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuboids:
    """The strategy for tables of more attributes than one cube can hold.

    `cuboids` names the tables to count, each a tuple of attributes, and leaves nothing to choose. A `target` is counted
    with each of the other attributes first, cell by cell; then pairs of these are chosen, as without a target, for what
    they tell twice counts once. With neither, pairs are chosen by what the table holds.
    """

    name: str = "cuboids"
    store: ClassVar[Store] = "rows"
    workload: ClassVar[WorkloadKind] = "wide"
    cuboids: tuple[tuple[str, ...], ...] = ()
    target: str | None = None
    ordered: tuple[bool, ...] | None = field(default=None, repr=False, compare=False)
    """Which attributes have ordered cells, once the domain is known."""
    named: tuple[CliqueAxes, ...] = field(default=(), repr=False, compare=False)
    """The tables to count, once the domain is known."""
    target_axis: int | None = field(default=None, repr=False, compare=False)
    """The axis of the target, once the domain is known."""

    def __post_init__(self) -> None:
        if self.cuboids and self.target is not None:
            msg = "strategy cuboids: name the cuboids, or a target for which they are made, not both"
            raise InputError(msg)

    def for_domain(self, domain: Domain) -> "Cuboids":
        """Return the strategy with the axes of what was named."""
        names = domain.names
        if max(domain.shape) > MAX_ATTRIBUTE_CELLS:
            widest = max(domain.attributes, key=lambda attribute: attribute.size)
            msg = f"strategy cuboids: an attribute has at most {MAX_ATTRIBUTE_CELLS:,} cells, and '{widest.name}' "
            msg += f"{widest.size:,}; use wider bins"
            raise DomainError(msg)
        ordered = tuple(attribute.ordered for attribute in domain.attributes)
        if self.target is not None:
            _check_named([self.target], names)
            _check_target(self.target, domain)
            found = replace(self, ordered=ordered, target_axis=domain.axis(self.target))
            found._check_model(domain.shape)
            return found
        axes = []
        for table in self.cuboids:
            _check_named(table, names)
            axes.append(tuple(sorted(domain.axis(name) for name in table)))
        if not self.cuboids:
            return replace(self, ordered=ordered)
        twice = [table for table, of in zip(self.cuboids, axes, strict=True) if axes.count(of) > 1]
        if twice or max(map(len, axes)) > MAX_TABLE_AXES or len(axes) > MAX_NAMED_TABLES:
            msg = f"strategy cuboids: name each table once, at most {MAX_NAMED_TABLES}, each of at most "
            msg += f"{MAX_TABLE_AXES} attributes"
            raise InputError(msg)
        found = replace(self, ordered=ordered, named=tuple(axes))
        found._check_model(domain.shape)
        return found

    def parameters(self) -> dict[str, Parameter]:
        """Return what was named, for the release's manifest."""
        if self.cuboids:
            return {"cuboids": "; ".join(", ".join(table) for table in self.cuboids)}
        return {} if self.target is None else {"target": self.target}

    def peak_bytes(self, shape: tuple[int, ...]) -> int:
        """Return the memory of the tables and of the model; rows take theirs besides, as many as there are."""
        pairs = math.comb(len(shape), 2) * MAX_TABLE_GROUPS**2
        classes = 1 if self.target_axis is None else shape[self.target_axis]
        return STARTING + 64 * MAX_CLIQUE_CELLS + 64 * classes * sum(shape) + 40 * pairs

    def description(self, domain: Domain, *, rows: int | None = None, epsilon: Fraction = UNIT_EPSILON) -> list[str]:
        """Return sentences on what a release would count; roughly how many tables, if it is known how many rows."""
        return [
            f"{domain.size:,} cells: released as cuboids, tables over few attributes each, from one count of the rows "
            "that are alike (docs/wide.md).",
            self._described_first(domain),
            self._described_further(domain, None if rows is None else float(rows * epsilon)),
        ]

    def _described_first(self, domain: Domain) -> str:
        if self.target is not None:
            return f"First each attribute by '{self.target}': {_percent(SHARE_BY_TARGET)} of epsilon, alike for all."
        units = units_of_ones(domain.shape, Fraction(1, BUDGET_UNITS))
        parts = ", ".join(
            f"{name} {_percent(Fraction(of, BUDGET_UNITS))}" for name, of in zip(domain.names, units, strict=True)
        )
        return f"First each attribute by itself: {_percent(FIRST_SHARE)} of epsilon ({parts})."

    def _described_further(self, domain: Domain, rows_times_epsilon: float | None) -> str:
        beside = self.target is not None
        left = 1 - (SHARE_BY_TARGET if beside else FIRST_SHARE)
        within = "Then, in groups of cells that hold enough rows,"
        if self.cuboids:
            tables = "; ".join(", ".join(table) for table in self.cuboids)
            return f"{within} the tables named ({tables}): {_percent(left)}, alike."
        choosing = left * (CHOICE_SHARE_BESIDE if beside else CHOICE_SHARE)
        many = ""
        if rows_times_epsilon is not None:
            few, most = rounds_for(rows_times_epsilon, domain.shape, beside=beside)
            many = f", about {few} of them" if few == most else f", about {few} to {most} of them"
        return (
            f"{within} pairs of attributes{many}: each time the one that departs most from the model is chosen "
            f"({_percent(choosing)} of epsilon for all choices) and counted ({_percent(left - choosing)} for all "
            "tables)."
        )

    def run(self, counter: NoisyCounter) -> Transcript:
        """Count each attribute, then tables of several, until the budget is spent."""
        shape, per = counter.shape, counter.epsilon_per_unit
        first = self.first_axes(len(shape))
        units = units_of_ones(shape, per) if self.target_axis is None else units_by_target(len(first))
        firsts = [Marginal(axes, counter.marginal(axes, of), of) for axes, of in zip(first, units, strict=True)]
        counted = [_noisy(one.axes, one.counts, one.units, per) for one in firsts]
        noisy = tables_of_one(counted)
        share = Fraction(0) if self.named else CHOICE_SHARE if self.target_axis is None else CHOICE_SHARE_BESIDE
        left = BUDGET_UNITS - sum(units)
        few, rounds = len(self.named), len(self.named)
        if not self.named:
            drawable = max(int(left * share * per / (2 * MIN_SHARE)), 1)  # noise of smaller shares is not
            signal = total_of(noisy) * float(per * BUDGET_UNITS)
            few, rounds = (min(r, drawable) for r in rounds_for(signal, shape, beside=self.target_axis is not None))
        of_choice, of_table = int(left * share / rounds), int(left * (1 - share) / rounds)
        noise = 1 / float(of_table * per)
        most = int(np.clip(math.sqrt(NOISE_OF_TABLE * total_of(noisy) / noise), MIN_TABLE_GROUPS, MAX_TABLE_GROUPS))
        groups = self._groups_of_a_model(noisy, most, noise, [*first, *self.named])
        coarse = counter.grouped(groups)
        purse = _Purse(int(left * (1 - share)), rounds, coarse.shape, per)
        learnt = _Learnt.of(coarse, [in_groups(table, tuple(groups)) for table in counted], purse, self.target_axis)
        measured, grouped = list[Measurement](firsts), CellGroups(tuple(groups))
        for turn in range(rounds):
            axes = self.named[turn] if self.named else None
            if axes is None:
                candidates = learnt.candidates()
                purse.turns = min(purse.turns, len(candidates))  # the last have all that is left
                if not purse.turns:
                    break
                selection = learnt.select(candidates, of_choice)
                measured.append(selection)
                axes = candidates[int(selection.chosen[0])]
                of_table = purse.spend(axes)
            counts = coarse.marginal(axes, of_table)
            measured.append(Marginal(axes, counts, of_table, grouped))
            if not self.named and turn < rounds - 1:
                learnt.learn(_noisy(axes, counts, of_table, per))
                if turn + 1 == FIRST_TABLES and not learnt.tells:
                    purse.leave(max(few - FIRST_TABLES, 1), of_choice)
        if len(measured) == len(firsts):  # there was no pair to count: one of the first again, with what is left
            axes = max(first, key=lambda one: table_cells(coarse.shape, one))
            measured.append(Marginal(axes, coarse.marginal(axes, left), left, grouped))
        return Transcript(shape, per, tuple(measured), plan=self.name)

    def first_axes(self, attributes: int) -> list[CliqueAxes]:
        """Return the axes of the first tables: each by itself, or each with the target if there is any other."""
        target = self.target_axis
        if target is None or attributes == 1:
            return [(axis,) for axis in range(attributes)]
        return [(min(axis, target), max(axis, target)) for axis in range(attributes) if axis != target]

    def _check_model(self, shape: tuple[int, ...]) -> None:
        """Refuse tables that no model could hold, however few the groups: by then the budget would be spent."""
        sides = [side if axis == self.target_axis else min(side, MIN_TABLE_GROUPS) for axis, side in enumerate(shape)]
        if model_cells(tuple(sides), [*self.first_axes(len(shape)), *self.named]) > MAX_MODEL_CELLS:
            what = "the tables named hang together so closely" if self.named else f"'{self.target}' has so many values"
            msg = f"strategy cuboids: {what} that no model could hold them; name fewer tables, or use wider bins"
            raise InputError(msg)

    def _groups_of_a_model(
        self, noisy: list[CountedTable], most: int, noise: float, tables: list[CliqueAxes]
    ) -> list[Ints]:
        """Return groups, so few that the model of the tables that are known to come can be held."""
        while True:
            groups = self._groups(noisy, most, noise)
            sides = tuple(int(of_axis.max()) + 1 for of_axis in groups)
            if most == 1 or model_cells(sides, tables) <= MAX_MODEL_CELLS:
                return groups
            most = max(most * 3 // 4, 1)

    def _groups(self, noisy: list[CountedTable], most: int, noise: float) -> list[Ints]:
        """Return the groups of every attribute's cells; classes of a target are never put together."""
        ordered = self.ordered or (True,) * len(noisy)
        return [
            self._groups_of_one(one, most, max(math.sqrt(one.variance), noise) / 2, ordered=kind)
            for one, kind in zip(noisy, ordered, strict=True)
        ]

    def _groups_of_one(self, one: CountedTable, most: int, least: float, *, ordered: bool) -> Ints:
        if one.axes == (self.target_axis,):
            return np.arange(len(one.counts))
        if self.target_axis is not None:
            return groups_beside_large_cells(one.counts, ordered=ordered, most=most, least=least)
        counts = smoothed(one.counts, one.variance) if ordered else one.counts
        return groups_of_cells(counts, ordered=ordered, most=most, least=least)


@dataclass
class _Learnt:
    """What is known of a coarser cube so far."""

    counter: NoisyCounter
    tables: list[CountedTable]
    model: FittedModel
    purse: "_Purse"
    target: int | None
    """The axis that was counted with every other, and is in no further table."""
    beyond: set[CliqueAxes] = field(default_factory=set)
    """Pairs with which the model would be too large; with more tables it only grows."""
    excesses: list[tuple[float, int]] = field(default_factory=list)
    """By what the squares of each table's departures exceed those of its noise, in variances, and its cells."""

    @classmethod
    def of(cls, counter: NoisyCounter, tables: list[CountedTable], purse: "_Purse", target: int | None) -> "_Learnt":
        return cls(counter, tables, fit(counter.shape, tables), purse, target)

    def learn(self, table: CountedTable) -> None:
        apart = table.counts - self.model.beliefs.marginal(table.axes)
        self.excesses.append((float((apart**2).sum()) / table.variance - apart.size, apart.size))
        self.tables.append(table)
        begun = self.model.thetas
        self.model = fit(self.counter.shape, self.tables, start=begun, steps=STEPS_BETWEEN, close=CLOSE_BETWEEN)

    @property
    def tells(self) -> bool:
        """Whether the tables so far departed from the model beyond their noise, by two deviations of its squares.

        Of Laplace noise of variance 1 the square has the variance 5.
        """
        excess, cells = map(sum, zip(*self.excesses, strict=True))
        return excess > 2 * math.sqrt(5 * cells)

    def candidates(self) -> list[CliqueAxes]:
        """Return the pairs that were not counted and with which the model can still be held."""
        shape, counted = self.counter.shape, [table.axes for table in self.tables]
        cliques = [set(clique) for clique in self.model.beliefs.tree.cliques]
        together = _components(len(shape), counted)
        open_axes = [axis for axis, side in enumerate(shape) if side > 1 and axis != self.target]
        pairs = [pair for pair in itertools.combinations(open_axes, 2) if pair not in counted]
        pairs = [pair for pair in pairs if pair not in self.beyond]
        tying = [
            pair
            for pair in pairs
            if together[pair[0]] == together[pair[1]] and not any(set(pair) <= clique for clique in cliques)
        ]
        if tying:
            cells = model_cells_with(shape, counted, tying)
            self.beyond |= {pair for pair, most in zip(tying, cells.tolist(), strict=True) if most > MAX_CLIQUE_CELLS}
        return [pair for pair in pairs if pair not in self.beyond]

    def select(self, candidates: list[CliqueAxes], units: int) -> Selection:
        """Let the counter select the table that departs most from the model, beyond what its noise would cost."""
        shape = self.counter.shape
        predicted = tuple(np.rint(table).astype(np.int64) for table in self.model.beliefs.marginals(candidates))
        costs = np.array([round(self.purse.noise(axes) * table_cells(shape, axes)) for axes in candidates], np.int64)
        alike = np.ones(len(candidates), np.int64)
        asked = TableDistances(shape, tuple(candidates), predicted, alike, costs)
        chosen = self.counter.select(asked, units)
        return Selection.among(asked, chosen, [candidates[int(chosen[0])]], units)


@dataclass
class _Purse:
    """The units that are left for the tables of so many turns. A table of c cells gets them by sqrt(c).

    So the noise of all tables, without signs, adds up to the least (`units_of_ones`). What later turns will choose is
    not known: their tables are taken to be like the mean of all pairs.
    """

    units: int
    turns: int
    shape: tuple[int, ...]
    per: Fraction

    def next_units(self, axes: CliqueAxes) -> int:
        """Return what a table over some axes would get in this turn; at the last, all that is left."""
        least, root = self._least, math.sqrt(table_cells(self.shape, axes))
        part = root / (root + (self.turns - 1) * self._mean_root)
        return least + int((self.units - self.turns * least) * part)

    @cached_property
    def _least(self) -> int:
        return least_units(self.per)

    @cached_property
    def _mean_root(self) -> float:
        pairs = itertools.combinations([side for side in self.shape if side > 1], 2)
        return float(np.mean([math.sqrt(one * other) for one, other in pairs] or [1.0]))

    def noise(self, axes: CliqueAxes) -> float:
        """Return the mean of the noise, without sign, of a count of a table over some axes, counted in this turn."""
        return 1 / (self.next_units(axes) * float(self.per))

    def spend(self, axes: CliqueAxes) -> int:
        """Return the units of the table that this turn counts."""
        units = self.next_units(axes)
        self.units, self.turns = self.units - units, self.turns - 1
        return units

    def leave(self, turns: int, of_choice: int) -> None:
        """Take no more turns than these; what the choices of the others would have cost goes to tables."""
        fewer = max(self.turns - turns, 0)
        self.units, self.turns = self.units + fewer * of_choice, self.turns - fewer


def least_units(per: Fraction) -> int:
    """Return the fewest units by which noise can be drawn."""
    return math.ceil(MIN_SHARE / per)


def units_of_ones(shape: tuple[int, ...], per: Fraction) -> list[int]:
    """Return the units of the table over each attribute: as the square roots of their cells.

    The noise of a table of c cells adds up to c / epsilon without signs, and the sum of c_j / epsilon_j is least, for
    epsilons that add up, if epsilon_j goes by the square root of c_j. An attribute of very many cells leaves others
    their part: no more than MAX_WEIGHTED_SIDE of them count.
    """
    roots = [math.sqrt(min(side, MAX_WEIGHTED_SIDE)) for side in shape]
    least = least_units(per)
    shared = int(FIRST_SHARE * BUDGET_UNITS) - least * len(shape)
    return [least + int(shared * root / sum(roots)) for root in roots]


def units_by_target(tables: int) -> list[int]:
    """Return the units of the tables over each attribute and a target: all alike."""
    return [int(SHARE_BY_TARGET * BUDGET_UNITS / tables)] * tables


def rounds_for(rows_times_epsilon: float, shape: tuple[int, ...], *, beside: bool = False) -> tuple[int, int]:
    """Return how many tables to count, and how many at most: more tell more, and each has less of the budget.

    Beside tables by a target there is less of it left, and at small epsilons only what departs much is found. Where
    tables are small, so many are counted as have little noise: all pairs of attributes of few values, as a rule. But
    where the first of them tell nothing, the others would tell less.
    """
    first, choices, less, fewest = (
        (SHARE_BY_TARGET, CHOICE_SHARE_BESIDE, 2.2, 0.2) if beside else (FIRST_SHARE, CHOICE_SHARE, 1.95, 0.5)
    )
    wanted = len(shape) * np.clip(0.72 * math.log10(max(rows_times_epsilon, 1.0)) - less, fewest, 2.0)
    sides = [min(side, MAX_TABLE_GROUPS) for side in shape if side > 1]
    cells = [one * other for one, other in itertools.combinations(sides, 2)]
    # A table with the epsilon of one of r rounds has a noise of 1 / epsilon a cell; half of their sum are rows moved.
    afforded = 2 * LITTLE_NOISE * rows_times_epsilon * float((1 - first) * (1 - choices)) / float(np.mean(cells or [1]))
    few, most = np.clip(np.rint([wanted, min(afforded, MAX_AFFORDED_TABLES)]), 1, max(math.comb(len(shape), 2), 1))
    return int(few), int(max(few, most))


def _noisy(axes: CliqueAxes, counts: Ints, units: int, per: Fraction) -> CountedTable:
    return CountedTable(axes, counts.astype(np.float64), float(noise_variances(np.array([units]), per)[0]))


def _components(attributes: int, tables: Iterable[CliqueAxes]) -> list[int]:
    """Return the number of the part in which each attribute hangs together with others."""
    part = list(range(attributes))
    for table in tables:
        joined = {part[axis] for axis in table}
        part = [min(joined) if one in joined else one for one in part]
    return part


def _check_named(table: Iterable[str], names: tuple[str, ...]) -> None:
    table = list(table)
    unknown = [name for name in table if name not in names]
    if unknown:
        msg = f"strategy cuboids: there is no attribute '{unknown[0]}'; the attributes are {listing(names, most=30)}"
        raise DomainError(msg)
    if not table or len(set(table)) < len(table):
        msg = "strategy cuboids: a table is over one or more attributes, each named once"
        raise InputError(msg)


def _check_target(target: str, domain: Domain) -> None:
    """Refuse a target whose tables with other attributes could not be counted."""
    widest = max(
        (attribute for attribute in domain.attributes if attribute.name != target),
        key=lambda one: one.size,
        default=None,
    )
    if widest is not None and widest.size * domain[target].size > MAX_TABLE_CELLS:
        msg = f"strategy cuboids: '{widest.name}' by the target '{target}' has more than {MAX_TABLE_CELLS:,} cells; "
        msg += "use wider bins"
        raise DomainError(msg)


def _percent(share: Fraction) -> str:
    return f"{100 * float(share):.3g}%"
