"""The transcript: everything that was measured, which is all that a release is.

Estimators are functions of it, so a better estimator can be applied to an old release at no privacy cost.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

import numpy as np

from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.domain.text import is_text
from dpcube.core.epsilon import LARGEST_SHARE, SMALLEST_SHARE
from dpcube.core.errors import DomainError
from dpcube.core.feasible import TOTAL_SHARE
from dpcube.measurements.cuboids import CuboidCounts
from dpcube.measurements.kinds import MEASUREMENT_KINDS
from dpcube.measurements.measurements import MOST_UNITS, BoxCounts, CellCounts, MarginalCounts, Measurement
from dpcube.noise import noise_variances

MOST_MEASUREMENTS = 1025
"""1,024 of a strategy, and the total before them."""
TOTAL_UNITS = int(BUDGET_UNITS * TOTAL_SHARE / (1 - TOTAL_SHARE))
"""Units of the total that is drawn before the strategy: 1/17 of epsilon is 2^36 units where 16/17 are 2^40, exactly."""
MOST_UNEVEN = 32
"""Measurements that may charge cells differently: to add them up, each is painted over the whole cube."""

FINE_GRID = "fine grid"
"""The plan of a transcript of boxes in a cube too fine to hold."""
PERIODS = "periods put together"
"""The plan of a transcript of releases of disjoint periods, whose first attribute is the period."""

M = TypeVar("M", bound=Measurement)


@dataclass(frozen=True, slots=True, eq=False)
class Transcript:
    """What a strategy measured, in the order in which it did. `epsilon_per_unit` is the noise of one unit of budget.

    `plan` names what the strategy chose to do by its first counts, if it has several ways.
    """

    shape: tuple[int, ...]
    epsilon_per_unit: Fraction
    measurements: tuple[Measurement, ...]
    plan: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "measurements", tuple(self.measurements))
        self._check_list()
        if self.plan is not None and not (is_text(self.plan) and self.plan.isprintable() and len(self.plan) <= 100):
            msg = "the plan of a transcript must be None, or printable text of up to 100 characters"
            raise DomainError(msg)
        if not self.epsilon_per_unit > 0:
            msg = f"the epsilon_per_unit of a transcript must be above 0, got {self.epsilon_per_unit}"
            raise DomainError(msg)
        for measurement in self.measurements:
            measurement.check_shape(self.shape)
            for units in measurement.least_and_most_units():
                if not SMALLEST_SHARE <= units * self.epsilon_per_unit <= LARGEST_SHARE:
                    msg = f"counts measured with {units} units are measured with an epsilon outside 1e-9 to 100"
                    raise DomainError(msg)

    def _check_list(self) -> None:
        if not 1 <= len(self.measurements) <= MOST_MEASUREMENTS:
            many = len(self.measurements)
            msg = f"a transcript needs at least one measurement and at most {MOST_MEASUREMENTS:,}, got {many:,}"
            raise DomainError(msg)
        for measurement in self.measurements:
            if type(measurement) not in MEASUREMENT_KINDS.values():
                msg = f"a {type(measurement).__name__} is no measurement; the kinds are {', '.join(MEASUREMENT_KINDS)}"
                raise DomainError(msg)
        kinds = {type(measurement) for measurement in self.measurements}
        if CuboidCounts in kinds and (kinds - {CuboidCounts, MarginalCounts} or self.only(CuboidCounts) is None):
            msg = "a transcript of cuboids holds them once, and tables over attributes besides, and nothing else"
            raise DomainError(msg)
        if sum(not measurement.charges_evenly for measurement in self.measurements) > MOST_UNEVEN:
            msg = f"a transcript holds {MOST_UNEVEN} trees of boxes and choices about boxes at most; put boxes that "
            msg += "nest into one tree, and choices about disjoint boxes into one"
            raise DomainError(msg)

    def only(self, kind: type[M]) -> M | None:
        """Return the only measurement of a kind; None if there is none, or more than one."""
        found = [measurement for measurement in self.measurements if isinstance(measurement, kind)]
        return found[0] if len(found) == 1 else None

    @property
    def cells(self) -> CellCounts | None:
        """The noisy cells, if they were measured once."""
        return self.only(CellCounts)

    @property
    def boxes(self) -> BoxCounts | None:
        """The noisy boxes, if those of one tree were measured."""
        return self.only(BoxCounts)

    @property
    def totals(self) -> tuple[MarginalCounts, ...]:
        """The noisy count of the whole table that was drawn first, if one was; a strategy's own ones are not."""
        first = self.measurements[0]
        return (first,) if isinstance(first, MarginalCounts) and not first.axes else ()

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
        total = MarginalCounts((), np.array(noisy_total, np.int64), TOTAL_UNITS)
        return replace(self, measurements=(total, *self.measurements))

    @property
    def cuboids(self) -> CuboidCounts | None:
        """The tables of a wide cube, which nobody could hold, if it is one."""
        return self.only(CuboidCounts)

    @property
    def cell_variance(self) -> float:
        """Noise variance of a phase-I cell, infinite when cells were not measured."""
        units = 0 if self.cells is None else self.cells.units
        return float(noise_variances(np.array([units]), self.epsilon_per_unit)[0])

    def most_charged(self) -> int:
        """Return the most units that any cell was charged by all measurements together; from 2^61 on, at least that.

        What charges every cell alike adds to any sum, so the most are added up. Two trees may each charge most where
        the other charges little: of more than one, the charges of every cell are added up (8 bytes a cell).
        """
        uneven = [measurement for measurement in self.measurements if not measurement.charges_evenly]
        total = sum(measurement.most_charged() for measurement in self.measurements if measurement.charges_evenly)
        if len(uneven) < 2:
            return total + sum(measurement.most_charged() for measurement in uneven)
        charges = np.zeros(self.shape, np.int64)
        for measurement in uneven:
            measurement.add_charges(charges)
            np.minimum(charges, MOST_UNITS, out=charges)
        return total + int(charges.max())
