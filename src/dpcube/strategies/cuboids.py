"""Adaptive selection of marginals for wide tables: one-way marginals, then the worst-approximated two-way marginals.

The one-way marginals come first, or the two-way marginals of each attribute with the target of a classifier. By these
the cells of every attribute are coarsened to groups whose counts stand out of the noise. Then, round after round, the
gate selects the pair of attributes whose marginal the model approximates worst, net of the noise that its measurement
would have, and counts it; the model is fitted again (`models/cuboids/`). All measurements are whole marginals, so the
loss of a row is the sum of the epsilons of the calls (`core/gate.py`).
"""

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
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
from dpcube.strategies.coarsening import coarsened_beside_large_cells, coarsened_cells
from dpcube.strategies.cuboid_budget import (
    LEAST_SHARE,
    MAX_TABLE_GROUPS,
    MOST_SHARE,
    NAMED_SHARE,
    SELECTION_SHARE,
    SELECTION_SHARE_BY_TARGET,
    SHARE_BY_TARGET,
    TableBudget,
    rounds_for,
    share_of_ones,
    units_by_target,
    units_of_ones,
)
from dpcube.strategies.strategy import STARTING, UNIT_EPSILON, Parameter, Store, WorkloadKind

NOISE_OF_TABLE = 0.3
"""Part of all rows to which the noise of a two-way marginal may add up: it decides the number of groups."""
MIN_TABLE_GROUPS = 3
MAX_CLIQUE_CELLS = 2**16
"""Cells of the model's cliques: it is fitted some hundred times, a pass over all of them each."""
STEPS_BETWEEN, CLOSE_BETWEEN = 60, 1e-7
"""Steps of the fit between two selections, and its tolerance: 1e-7 of some ten nats a row are less than a thousandth in
total variation, below the noise of a selection."""
FIRST_TABLES = 3
"""Marginals after which uninformative rounds are stopped: the first are those that depart most."""
MAX_TABLE_AXES, MAX_NAMED_TABLES = 4, 256
MAX_ATTRIBUTE_CELLS = 2**20
"""Cells of an attribute, each counted in its one-way marginal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuboids:
    """The strategy for tables of more attributes than one cube can hold.

    `cuboids` lists the marginals to count, each a tuple of attributes; then nothing is selected. A `target` is counted
    with each of the other attributes first, cell by cell; then pairs of the others are selected as without a target,
    so that dependent features are not counted twice as evidence. With neither, pairs are selected adaptively.
    """

    name: str = "cuboids"
    store: ClassVar[Store] = "rows"
    workload: ClassVar[WorkloadKind] = "wide"
    cuboids: tuple[tuple[str, ...], ...] = ()
    target: str | None = None
    ordered: tuple[bool, ...] | None = field(default=None, repr=False, compare=False)
    """Which attributes have ordered cells, set by `for_domain`."""
    named: tuple[CliqueAxes, ...] = field(default=(), repr=False, compare=False)
    """Axes of the marginals to count, set by `for_domain`."""
    target_axis: int | None = field(default=None, repr=False, compare=False)
    """Axis of the target, set by `for_domain`."""

    def __post_init__(self) -> None:
        if self.cuboids and self.target is not None:
            msg = "strategy cuboids: give either the list of cuboids or a target, not both"
            raise InputError(msg)

    def for_domain(self, domain: Domain) -> "Cuboids":
        """Return the strategy with the axes of the named marginals and of the target."""
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
            msg = f"strategy cuboids: name each marginal once, at most {MAX_NAMED_TABLES}, each over at most "
            msg += f"{MAX_TABLE_AXES} attributes"
            raise InputError(msg)
        found = replace(self, ordered=ordered, named=tuple(axes))
        found._check_model(domain.shape)
        return found

    def parameters(self) -> dict[str, Parameter]:
        """Return the named marginals or the target, for the release's manifest."""
        if self.cuboids:
            return {"cuboids": "; ".join(", ".join(table) for table in self.cuboids)}
        return {} if self.target is None else {"target": self.target}

    def peak_bytes(self, shape: tuple[int, ...]) -> int:
        """Return the memory of the marginals and of the model, without that of the rows."""
        pairs = math.comb(len(shape), 2) * MAX_TABLE_GROUPS**2
        classes = 1 if self.target_axis is None else shape[self.target_axis]
        return STARTING + 64 * MAX_CLIQUE_CELLS + 64 * classes * sum(shape) + 40 * pairs

    def description(self, domain: Domain, *, rows: int | None = None, epsilon: Fraction = UNIT_EPSILON) -> list[str]:
        """Return sentences on the measurements of a release, with the number of marginals if that of rows is given."""
        return [
            f"{domain.size:,} cells: released as cuboids, that is noisy marginals over few attributes each "
            "(docs/guides/wide-tables.md).",
            self._described_first(domain, None if rows is None else float(rows * epsilon)),
            self._described_further(domain, None if rows is None else float(rows * epsilon)),
        ]

    def _share_of_firsts(self, domain: Domain, rows_times_epsilon: float | None) -> Fraction | None:
        """Return the share of the first marginals, None if it follows from a number of rows that is not known."""
        if self.target is not None:
            return SHARE_BY_TARGET
        if self.cuboids:
            return NAMED_SHARE
        return None if rows_times_epsilon is None else share_of_ones(rows_times_epsilon, domain.shape)

    def _described_first(self, domain: Domain, rows_times_epsilon: float | None) -> str:
        if self.target is not None:
            return f"First each attribute by '{self.target}': {_percent(SHARE_BY_TARGET)} of epsilon, in equal parts."
        share = self._share_of_firsts(domain, rows_times_epsilon)
        if share is None:
            ends = _percent(Fraction(LEAST_SHARE)), _percent(Fraction(MOST_SHARE))
            return "First each attribute by itself: {} to {} of epsilon, the more the fewer the rows.".format(*ends)
        units = units_of_ones(domain.shape, Fraction(1, BUDGET_UNITS), share)
        parts = ", ".join(
            f"{name} {_percent(Fraction(of, BUDGET_UNITS))}" for name, of in zip(domain.names, units, strict=True)
        )
        return f"First each attribute by itself: {_percent(share)} of epsilon ({parts})."

    def _described_further(self, domain: Domain, rows_times_epsilon: float | None) -> str:
        beside = self.target is not None
        share = self._share_of_firsts(domain, rows_times_epsilon)
        within = "Then, on cells merged into groups of enough rows,"
        if self.cuboids:
            tables = "; ".join(", ".join(table) for table in self.cuboids)
            return f"{within} the marginals named ({tables}): {_percent(1 - NAMED_SHARE)}, in equal parts."
        if share is None:
            return (
                f"{within} pairs of attributes: each time the marginal that the model approximates worst is selected "
                f"({_percent(SELECTION_SHARE)} of what is left for all selections) and counted."
            )
        left = 1 - share
        selecting = left * (SELECTION_SHARE_BY_TARGET if beside else SELECTION_SHARE)
        many = ""
        if rows_times_epsilon is not None:
            few, most = rounds_for(rows_times_epsilon * float(left), domain.shape, beside=beside)
            many = f", about {few} of them" if few == most else f", about {few} to {most} of them"
        return (
            f"{within} pairs of attributes{many}: each time the marginal that the model approximates worst is selected "
            f"({_percent(selecting)} of epsilon for all selections) and counted ({_percent(left - selecting)} for all "
            "marginals)."
        )

    def run(self, counter: NoisyCounter) -> Transcript:
        """Measure the first marginals, then selected ones until the budget is spent."""
        firsts = self._count_firsts(counter)
        per = counter.epsilon_per_unit
        counted = [noisy_table(one.axes, one.counts, one.units, per) for one in firsts]
        further = self.further_marginals(counter, counted, BUDGET_UNITS - sum(one.units for one in firsts))
        return Transcript(counter.shape, per, (*firsts, *further), plan=self.name)

    def _count_firsts(self, counter: NoisyCounter) -> list[Marginal]:
        """Count the first marginals.

        Privacy: every count goes through `counter`; the share of one-way marginals follows from the shape, epsilon, and
        the noisy sum of the shortest of them, which is counted first.
        """
        shape, per = counter.shape, counter.epsilon_per_unit
        axes = self.first_axes(len(shape))
        if self.target_axis is not None or self.named:
            by_target = self.target_axis is not None
            units = units_by_target(len(axes)) if by_target else units_of_ones(shape, per, NAMED_SHARE)
            return [Marginal(of, counter.marginal(of, given), given) for of, given in zip(axes, units, strict=True)]
        shortest = min(range(len(shape)), key=lambda axis: (shape[axis] == 1, shape[axis]))
        units = units_of_ones(shape, per, Fraction(LEAST_SHARE))
        first = Marginal((shortest,), counter.marginal((shortest,), units[shortest]), units[shortest])
        share = share_of_ones(float(first.counts.sum()) * float(per * BUDGET_UNITS), shape)
        units = units_of_ones(shape, per, share)
        others = [axis for axis in range(len(shape)) if axis != shortest]
        return [first, *(Marginal((j,), counter.marginal((j,), units[j]), units[j]) for j in others)]

    def further_marginals(self, counter: NoisyCounter, counted: list[CountedTable], left: int) -> list[Measurement]:
        """Spend the units that are `left` on named or selected marginals, given the tables that were counted first.

        These are the one-way marginals, or those of each attribute with the target, and perhaps the total.

        Privacy: every count and every selection goes through `counter`.
        """
        shape, per = counter.shape, counter.epsilon_per_unit
        first = [table.axes for table in counted if table.axes]
        noisy = tables_of_one(counted)
        beside = self.target_axis is not None
        share = Fraction(0) if self.named else SELECTION_SHARE_BY_TARGET if beside else SELECTION_SHARE
        few, rounds = len(self.named), len(self.named)
        if not self.named:
            drawable = max(int(left * share * per / (2 * MIN_SHARE)), 1)  # noise of smaller shares is not
            signal = total_of(noisy) * float(left * per)
            few, rounds = (min(r, drawable) for r in rounds_for(signal, shape, beside=beside))
        of_selection, of_table = int(left * share / rounds), int(left * (1 - share) / rounds)
        noise = 1 / float(of_table * per)
        most = int(np.clip(math.sqrt(NOISE_OF_TABLE * total_of(noisy) / noise), MIN_TABLE_GROUPS, MAX_TABLE_GROUPS))
        groups = self._groups_of_a_model(noisy, most, noise, [*first, *self.named])
        coarse = counter.grouped(groups)
        budget = TableBudget(int(left * (1 - share)), rounds, coarse.shape, per)
        model_so_far = _ModelSoFar.from_tables(
            coarse, [in_groups(table, tuple(groups)) for table in counted], budget, self.target_axis
        )
        measured, grouped = list[Measurement](), CellGroups(tuple(groups))
        for turn in range(rounds):
            axes = self.named[turn] if self.named else None
            if axes is None:
                candidates = model_so_far.candidates()
                budget.turns = min(budget.turns, len(candidates))  # the last have all that is left
                if not budget.turns:
                    break
                selection = model_so_far.select(candidates, of_selection)
                measured.append(selection)
                axes = candidates[int(selection.chosen[0])]
                of_table = budget.spend(axes)
            counts = coarse.marginal(axes, of_table)
            measured.append(Marginal(axes, counts, of_table, grouped))
            if not self.named and turn < rounds - 1:
                model_so_far.add(noisy_table(axes, counts, of_table, per))
                if turn + 1 == FIRST_TABLES and not model_so_far.is_informative:
                    budget.stop_after(max(few - FIRST_TABLES, 1), of_selection)
        if not measured:  # no pair to count: one of the first marginals again, with the rest
            axes = max(first, key=lambda one: table_cells(coarse.shape, one))
            measured.append(Marginal(axes, coarse.marginal(axes, left), left, grouped))
        return measured

    def first_axes(self, attributes: int) -> list[CliqueAxes]:
        """Return the axes of the first marginals: of each attribute, or of each with the target if there are others."""
        target = self.target_axis
        if target is None or attributes == 1:
            return [(axis,) for axis in range(attributes)]
        return [(min(axis, target), max(axis, target)) for axis in range(attributes) if axis != target]

    def _check_model(self, shape: tuple[int, ...]) -> None:
        """Refuse marginals whose model would be too large however few the groups, before any budget is spent."""
        sides = [side if axis == self.target_axis else min(side, MIN_TABLE_GROUPS) for axis, side in enumerate(shape)]
        if model_cells(tuple(sides), [*self.first_axes(len(shape)), *self.named]) > MAX_MODEL_CELLS:
            what = "the marginals named" if self.named else f"the marginals with the target '{self.target}'"
            msg = (
                f"strategy cuboids: {what} form a junction tree of more than {MAX_MODEL_CELLS:,} cells; name fewer or "
            )
            msg += "smaller marginals, or use wider bins"
            raise InputError(msg)

    def _groups_of_a_model(
        self, noisy: list[CountedTable], most: int, noise: float, tables: list[CliqueAxes]
    ) -> list[Ints]:
        """Return groups, so few that the model of the marginals known in advance fits `MAX_MODEL_CELLS`."""
        while True:
            groups = self._groups(noisy, most, noise)
            sides = tuple(int(of_axis.max()) + 1 for of_axis in groups)
            if most == 1 or model_cells(sides, tables) <= MAX_MODEL_CELLS:
                return groups
            most = max(most * 3 // 4, 1)

    def _groups(self, noisy: list[CountedTable], most: int, noise: float) -> list[Ints]:
        """Return the groups of every attribute's cells; classes of a target are never merged."""
        ordered = self.ordered or (True,) * len(noisy)
        return [
            self._groups_of_one(one, most, max(math.sqrt(one.variance), noise) / 2, ordered=kind)
            for one, kind in zip(noisy, ordered, strict=True)
        ]

    def _groups_of_one(self, one: CountedTable, most: int, least: float, *, ordered: bool) -> Ints:
        if one.axes == (self.target_axis,):
            return np.arange(len(one.counts))
        if self.target_axis is not None:
            return coarsened_beside_large_cells(one.counts, ordered=ordered, most=most, least=least)
        counts = smoothed(one.counts, one.variance) if ordered else one.counts
        return coarsened_cells(counts, ordered=ordered, most=most, least=least)


@dataclass
class _ModelSoFar:
    """The marginals of the coarsened cube that were counted so far, and the model fitted to them."""

    counter: NoisyCounter
    tables: list[CountedTable]
    model: FittedModel
    budget: "TableBudget"
    target: int | None
    """The axis that was counted with every other, and is in no further marginal."""
    beyond: set[CliqueAxes] = field(default_factory=set)
    """Pairs with which the model would be too large; with more marginals it only grows."""
    excesses: list[tuple[float, int]] = field(default_factory=list)
    """Excess of each marginal's squared departures over those of its noise, in variances, and its cells."""

    @classmethod
    def from_tables(
        cls, counter: NoisyCounter, tables: list[CountedTable], budget: "TableBudget", target: int | None
    ) -> "_ModelSoFar":
        return cls(counter, tables, fit(counter.shape, tables), budget, target)

    def add(self, table: CountedTable) -> None:
        apart = table.counts - self.model.beliefs.marginal(table.axes)
        self.excesses.append((float((apart**2).sum()) / table.variance - apart.size, apart.size))
        self.tables.append(table)
        begun = self.model.thetas
        self.model = fit(self.counter.shape, self.tables, start=begun, steps=STEPS_BETWEEN, close=CLOSE_BETWEEN)

    @property
    def is_informative(self) -> bool:
        """Whether the marginals so far departed from the model beyond their noise, by two deviations of its squares.

        Of Laplace noise of variance 1 the square has the variance 5.
        """
        excess, cells = map(sum, zip(*self.excesses, strict=True))
        return excess > 2 * math.sqrt(5 * cells)

    def candidates(self) -> list[CliqueAxes]:
        """Return the pairs that were not counted and with which the model stays within its size."""
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
        """Select the marginal that the model approximates worst, net of the noise of its measurement, at the gate."""
        shape = self.counter.shape
        predicted = tuple(np.rint(table).astype(np.int64) for table in self.model.beliefs.marginals(candidates))
        costs = np.array([round(self.budget.noise(axes) * table_cells(shape, axes)) for axes in candidates], np.int64)
        alike = np.ones(len(candidates), np.int64)
        asked = TableDistances(shape, tuple(candidates), predicted, alike, costs)
        selected = self.counter.select(asked, units)
        return Selection.among(asked, selected, [candidates[int(selected[0])]], units)


def noisy_table(axes: CliqueAxes, counts: Ints, units: int, per: Fraction) -> CountedTable:
    """Return a noisy marginal with the variance of its noise."""
    return CountedTable(axes, counts.astype(np.float64), float(noise_variances(np.array([units]), per)[0]))


def _components(attributes: int, tables: Iterable[CliqueAxes]) -> list[int]:
    """Return the number of the connected component of each attribute."""
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
        msg = "strategy cuboids: a marginal is over one or more attributes, each named once"
        raise InputError(msg)


def _check_target(target: str, domain: Domain) -> None:
    """Refuse a target whose marginals with other attributes are too large to count."""
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
