"""Predicted errors of cubes: in closed form where there is one, otherwise by running the strategy on simulated tables.

The prediction is the expected absolute error of each kind of question: the median over the tables, and their range. A
cube of more than SIMULATED_CELLS cells is not simulated itself: two smaller cubes with as many rows per cell are, and
the growth of their errors with the size of questions is extrapolated.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from dpcube.core.arrays import Floats
from dpcube.models import estimate
from dpcube.models.metrics import absolute_errors
from dpcube.noise.law import dl_sum_mean_abs
from dpcube.plan.axes import Axes, at_most, shape_of
from dpcube.plan.distributions import DISTRIBUTIONS, simulated_counts
from dpcube.plan.queries import QUERY_KINDS, QueryKind, workload_of
from dpcube.queries import Workload
from dpcube.strategies import Adaptive, Cells, Strategy
from dpcube.strategies.simulated import simulated_gate

SIMULATED_CELLS = 2**17
"""Cubes up to this size are simulated as they are; a run takes a fraction of a second."""
SMALLER = 8
"""Ratio of the sizes of the two cubes that are simulated for a larger one."""
MAX_RUNS = 8
RUNS_OF_PLANNERS = 4
"""Runs on each simulated table of a strategy that itself simulates plans: one takes half a second, a hundred times as
long as others. Typical errors of ranges were within 7% of those by eight runs."""
ABOVE_NOISE = 3
"""An error of three times the mean has probability 1/20 when it is Laplace noise, and less when it is a sum of many."""
DETECTION_LOG_ODDS = math.log(0.95 / 0.05)
"""A test of a release that calls k rows of none in 1/20 of cases calls k rows of k in at most exp(k epsilon)/20 of them
(group privacy): whatever the strategy, it is right in 19/20 of both only if k epsilon is at least this."""
NODES = 96


@dataclass(frozen=True, slots=True)
class Prediction:
    """The expected absolute error of one kind of question, in rows, for one strategy at one epsilon.

    `typical` is the median of the simulated tables, `low` and `high` their extremes; `answer` is the mean true answer.
    Counts under `noise_below` are hardly distinguishable from 0: errors alone reach it one time in twenty.
    `basis` says where the figures come from: `exact`, `simulated`, or `extrapolated` from smaller cubes or fewer rows.
    `about` names a part of the questions, such as those on one attribute; it is empty for all of them.
    """

    strategy: str
    queries: QueryKind
    epsilon: Fraction
    typical: float
    low: float
    high: float
    answer: float
    noise_below: float
    basis: str
    about: str = ""

    @property
    def of_answer(self) -> float:
        """Typical error as a share of the mean answer."""
        return self.typical / self.answer

    @property
    def stands_out(self) -> bool:
        """Whether the mean answer is above what errors alone reach."""
        return self.answer >= self.noise_below


def prediction_of(
    strategy: str, kind: QueryKind, epsilon: Fraction, errors: Floats, *, answer: float, each: Fraction, basis: str
) -> Prediction:
    """Return the prediction from the errors on every simulated table; `each` is the epsilon of a row."""
    low, typical, high = np.quantile(errors, [0, 0.5, 1]).tolist()
    noise_below = max(ABOVE_NOISE * typical, DETECTION_LOG_ODDS / float(each))
    return Prediction(strategy, kind, epsilon, typical, low, high, answer, noise_below, basis)


def rounded_rows(error: float) -> str:
    """Return a number of rows with as many digits as a prediction deserves.

    >>> rounded_rows(1234.5), rounded_rows(0.98765)
    ('1,234', '0.988')
    """
    return f"{error:,.0f}" if error >= 100 else f"{error:.3g}"


class SimulatedCube:
    """Simulated tables of one cube, on which strategies are run."""

    def __init__(self, axes: Axes, rows: float, *, seed: int) -> None:
        self.shape = shape_of(axes)
        self._unordered = tuple(number for number, axis in enumerate(axes) if not axis.ordered)
        self._seed = seed
        self._tables = [simulated_counts(name, axes, rows=rows, seed=seed) for name in DISTRIBUTIONS]
        self._runs = int(np.clip(2 * SIMULATED_CELLS // np.prod(self.shape), 2, MAX_RUNS))
        self.workloads = {kind: workload_of(kind, self.shape, seed=seed) for kind in QUERY_KINDS}
        self._all = Workload(
            self.shape,
            np.concatenate([workload.lower for workload in self.workloads.values()]),
            np.concatenate([workload.upper for workload in self.workloads.values()]),
        )

    def errors(self, strategy: Strategy, epsilon: Fraction, *, roughly: bool = False) -> Floats:
        """Return the mean absolute error by simulated table (row) and kind of question (column)."""
        runs = self._runs
        if isinstance(strategy, Adaptive):
            runs = 1 if roughly else min(runs, RUNS_OF_PLANNERS)
        return np.array([self._errors_on(table, strategy, epsilon, runs) for table in range(len(self._tables))])

    def _errors_on(self, table: int, strategy: Strategy, epsilon: Fraction, runs: int) -> list[float]:
        truth, wrong = self._tables[table], np.zeros(len(self._all))
        for run in range(runs):
            # The same seeds for every strategy and epsilon: what differs then is due to them.
            counter = simulated_gate(truth, epsilon, seed=(self._seed, table, run))
            estimated = estimate(strategy.run(counter), unordered=self._unordered).cells()
            wrong += absolute_errors(truth, estimated, self._all)
        ends = np.cumsum([len(workload) for workload in self.workloads.values()])
        return [float(part.mean()) / runs for part in np.split(wrong, ends[:-1])]


class Predictor:
    """Predictor of the errors on one planned cube of about `rows` rows; a unit may have up to `max_rows` of them."""

    def __init__(self, axes: Axes, rows: int, *, max_rows: int = 1, seed: int = 0) -> None:
        self.axes = axes
        self.rows = rows
        self._max_rows = max_rows
        self._seed = seed
        self._sizes = {kind: workload_of(kind, self.shape, seed=seed).sizes for kind in QUERY_KINDS}

    def on(self, axes: Axes) -> "Predictor":
        """Return a predictor for the same rows on other axes."""
        return Predictor(axes, self.rows, max_rows=self._max_rows, seed=self._seed)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the planned cube."""
        return shape_of(self.axes)

    @property
    def size(self) -> float:
        """Number of cells of the planned cube."""
        return float(np.prod(self.shape, dtype=float))

    def predict(self, strategy: Strategy, epsilon: Fraction, *, roughly: bool = False) -> Mapping[str, Prediction]:
        """Return the predicted error of every kind of question; `roughly`, from one run where runs take long."""
        each = epsilon / self._max_rows
        if type(strategy) is Cells:  # not of its kind: a subclass may differ
            errors, basis = self._exact(each), "exact"
        elif self.size <= SIMULATED_CELLS:
            errors, basis = self._cubes[0].errors(strategy, each, roughly=roughly), "simulated"
        else:
            errors, basis = self._extrapolated(strategy, each, roughly=roughly), "extrapolated"
        answers = {kind: self.rows * float(self._sizes[kind].mean()) / self.size for kind in QUERY_KINDS}
        return {
            kind: prediction_of(strategy.name, kind, epsilon, of_kind, answer=answers[kind], each=each, basis=basis)
            for kind, of_kind in zip(QUERY_KINDS, errors.T, strict=True)
        }

    def _exact(self, epsilon: Fraction) -> Floats:
        """Return the errors of noisy cells, the same for every table: the mean of |sum of s noises| over questions."""
        errors = np.empty((1, len(QUERY_KINDS)))
        for column, kind in enumerate(QUERY_KINDS):
            sizes = self._sizes[kind]
            # Between nodes the logarithms are all but linear: within 1e-4, in a tenth of the time.
            nodes = np.unique(np.geomspace(sizes.min(), sizes.max(), NODES).round())
            logs = np.log(dl_sum_mean_abs(nodes, float(epsilon)))
            errors[0, column] = np.exp(np.interp(np.log(sizes), np.log(nodes), logs)).mean()
        return errors

    @cached_property
    def _cubes(self) -> tuple[SimulatedCube, ...]:
        """The planned cube, or a large and a small one in its place with as many rows per cell."""
        within = at_most(self.axes, SIMULATED_CELLS)
        axes_of_cubes = [within] if within == self.axes else [within, at_most(within, SIMULATED_CELLS // SMALLER)]
        density = self.rows / self.size
        return tuple(
            SimulatedCube(axes, density * float(np.prod(shape_of(axes))), seed=self._seed) for axes in axes_of_cubes
        )

    def _extrapolated(self, strategy: Strategy, epsilon: Fraction, *, roughly: bool) -> Floats:
        """Extrapolate the power law of error against the cells in a question: 1/2 if all is noise, 1 if all is bias."""
        large, small = (cube.errors(strategy, epsilon, roughly=roughly) for cube in self._cubes)
        sizes = np.array([[cube.workloads[kind].sizes.mean() for kind in QUERY_KINDS] for cube in self._cubes])
        wanted = np.array([self._sizes[kind].mean() for kind in QUERY_KINDS])
        grown = np.log(sizes[0] / sizes[1])
        with np.errstate(divide="ignore", invalid="ignore"):
            power = np.where(grown > 0, np.log(large / small) / grown, 0.0)
        power = np.clip(np.nan_to_num(power, nan=0.5), 0.5, 1.0)
        return np.asarray(large * (wanted / sizes[0]) ** power)
