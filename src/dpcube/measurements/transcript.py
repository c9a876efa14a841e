"""The transcript of a release, which is the list of all its noisy measurements, and the provenance of the release.

Estimators are functions of the transcript, so a better one can be applied to an old release at no privacy cost.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal, TypeVar, get_args

import numpy as np

from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.domain.text import is_text
from dpcube.core.epsilon import MAX_SHARE, MIN_SHARE
from dpcube.core.errors import DomainError
from dpcube.core.feasible import TOTAL_SHARE
from dpcube.measurements.measurement import CellGroups, Measurement
from dpcube.measurements.measurements import MAX_SUMMED_UNITS, MEASUREMENT_KINDS, BoxCounts, Marginal, Selection
from dpcube.noise import noise_variances

MAX_MEASUREMENTS = 1025
"""1,024 of a strategy, and the noisy total before them."""
TOTAL_UNITS = int(BUDGET_UNITS * TOTAL_SHARE / (1 - TOTAL_SHARE))
"""Units of the total that is drawn before the strategy: 1/17 of epsilon is 2^36 units where 16/17 are 2^40, exactly."""
MAX_UNEVEN_MEASUREMENTS = 32
"""Measurements that may charge cells differently: to add up their charges, each needs an array of the whole cube."""

Kind = TypeVar("Kind", bound=Measurement)
Layout = Literal["cube", "grid", "periods"]
"""Layout of the boxes of a transcript: a cube; a grid too fine to materialise; or boxes below the slabs of disjoint
periods, which are the first attribute."""
LAYOUTS: tuple[Layout, ...] = get_args(Layout)


@dataclass(frozen=True, slots=True)
class Provenance:
    """The public facts of a job. `private` is False for anything made with silent or seeded noise.

    `reading` is a digest of how the column of a period was read: no row is in two periods of one reading.
    """

    strategy: str
    epsilon: Fraction
    library: str
    parameters: Mapping[str, object] = field(default_factory=dict)
    unit: str | None = None
    max_rows: int = 1
    period: str | None = None
    ledger: bool = False
    private: bool = True
    reading: str | None = None

    def __post_init__(self) -> None:
        if not self.epsilon > 0 or self.max_rows < 1:
            msg = f"a release needs epsilon above 0 and max_rows of at least 1, got {self.epsilon} and {self.max_rows}"
            raise DomainError(msg)


@dataclass(frozen=True, slots=True, eq=False)
class Transcript:
    """The noisy measurements of a strategy, in order. `epsilon_per_unit` is the noise of one unit of budget.

    `plan` is the name of the plan that the strategy selected by its first counts, if it has several.
    """

    shape: tuple[int, ...]
    epsilon_per_unit: Fraction
    measurements: tuple[Measurement, ...]
    plan: str | None = None
    layout: Layout = "cube"

    def __post_init__(self) -> None:
        object.__setattr__(self, "measurements", tuple(self.measurements))
        self._check_list()
        if self.plan is not None and not (is_text(self.plan) and self.plan.isprintable() and len(self.plan) <= 100):
            msg = "the plan of a transcript must be None, or printable text of up to 100 characters"
            raise DomainError(msg)
        if self.layout not in LAYOUTS:
            msg = f"the layout of a transcript must be one of {', '.join(LAYOUTS)}"
            raise DomainError(msg)
        if not self.epsilon_per_unit > 0:
            msg = f"the epsilon_per_unit of a transcript must be above 0, got {self.epsilon_per_unit}"
            raise DomainError(msg)
        for measurement in self.measurements:
            measurement.check_shape(self.shape)
            for units in measurement.noise_units():
                if not MIN_SHARE <= units * self.epsilon_per_unit <= MAX_SHARE:
                    msg = f"noise of {units} units is drawn with an epsilon outside 1e-9 to 100"
                    raise DomainError(msg)

    def _check_list(self) -> None:
        if not 1 <= len(self.measurements) <= MAX_MEASUREMENTS:
            many = len(self.measurements)
            msg = f"a transcript needs at least one measurement and at most {MAX_MEASUREMENTS:,}, got {many:,}"
            raise DomainError(msg)
        for measurement in self.measurements:
            if type(measurement) not in MEASUREMENT_KINDS.values():
                msg = f"a {type(measurement).__name__} is no measurement; the kinds are {', '.join(MEASUREMENT_KINDS)}"
                raise DomainError(msg)
        if self.groups is not None:
            grouped = [one for one in self.marginals if one.groups is not None]
            if any(one.groups is not self.groups for one in grouped):
                msg = "all marginals of groups in a transcript share one object of groups"
                raise DomainError(msg)
            if any(not isinstance(one, Marginal) and not one.charges_evenly for one in self.measurements):
                msg = (
                    "a transcript with marginals of groups has marginals and selections of the whole cube, and no more"
                )
                raise DomainError(msg)
        if sum(not measurement.charges_evenly for measurement in self.measurements) > MAX_UNEVEN_MEASUREMENTS:
            msg = f"a transcript has {MAX_UNEVEN_MEASUREMENTS} trees of boxes and selections in boxes at most; put "
            msg += "boxes that nest into one tree, and selections in disjoint boxes into one"
            raise DomainError(msg)

    def _of_kind(self, kind: type[Kind]) -> tuple[Kind, ...]:
        return tuple(one for one in self.measurements if isinstance(one, kind))

    @property
    def marginals(self) -> tuple[Marginal, ...]:
        """Every marginal: the total, the cells, those of groups, and all others."""
        return self._of_kind(Marginal)

    @property
    def selections(self) -> tuple[Selection, ...]:
        """Every selection."""
        return self._of_kind(Selection)

    @property
    def groups(self) -> CellGroups | None:
        """The groups of cells of coarsened marginals, if there are any."""
        return next((one.groups for one in self.marginals if one.groups is not None), None)

    @property
    def cells(self) -> Marginal | None:
        """The noisy cells: the marginal over all attributes, if it was measured once."""
        found = [one for one in self.marginals if one.covers(self.shape)]
        return found[0] if len(found) == 1 else None

    @property
    def boxes(self) -> BoxCounts | None:
        """The noisy boxes, if those of one tree were measured."""
        found = self._of_kind(BoxCounts)
        return found[0] if len(found) == 1 else None

    @property
    def is_wide(self) -> bool:
        """Whether only marginals over some of the attributes were measured, as of a cube too large to materialise."""
        if any(isinstance(one, BoxCounts) for one in self.measurements):
            return False
        return self.groups is not None or not any(one.covers(self.shape) for one in self.marginals)

    @property
    def totals(self) -> tuple[Marginal, ...]:
        """The noisy count of the whole table that was drawn first, if one was; a strategy's own ones are not."""
        return tuple(one for one in self.marginals[:1] if one is self.measurements[0] and not one.axes)

    @property
    def boxes_with_totals(self) -> BoxCounts | None:
        """The noisy boxes, with the counts of the whole table as counts of their root, before the others."""
        boxes, totals = self.boxes, self.totals
        if boxes is None or not totals:
            return boxes
        counts, units = (np.array([getattr(one, of) for one in totals], np.int64) for of in ("counts", "units"))
        return BoxCounts(
            boxes.tree,
            np.concatenate([np.zeros(len(totals), np.int64), boxes.node]),
            np.concatenate([counts, boxes.counts]),
            np.concatenate([units, boxes.units]),
        )

    def after_total(self, noisy_total: int) -> "Transcript":
        """Return the transcript of a release whose total was drawn first, with `TOTAL_SHARE` of its epsilon."""
        total = Marginal((), np.array(noisy_total, np.int64), TOTAL_UNITS)
        return replace(self, measurements=(total, *self.measurements))

    @property
    def cell_variance(self) -> float:
        """Noise variance of a phase-I cell, infinite when cells were not measured."""
        units = 0 if self.cells is None else self.cells.units
        return float(noise_variances(np.array([units]), self.epsilon_per_unit)[0])

    def most_charged(self) -> int:
        """Return the most units that any cell was charged by all measurements together; from 2^61 on, at least that.

        Uniform charges add up. Two trees may each charge most where
        the other charges little: of more than one, the charges of every cell are added up (8 bytes a cell).
        """
        uneven = [measurement for measurement in self.measurements if not measurement.charges_evenly]
        total = sum(measurement.most_charged() for measurement in self.measurements if measurement.charges_evenly)
        if len(uneven) < 2:
            return total + sum(measurement.most_charged() for measurement in uneven)
        charges = np.zeros(self.shape, np.int64)
        for measurement in uneven:
            measurement.add_charges(charges)
            np.minimum(charges, MAX_SUMMED_UNITS, out=charges)
        return total + int(charges.max())
