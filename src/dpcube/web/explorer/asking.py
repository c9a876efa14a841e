"""The server's side of the explorer: counts with their errors, as JSON, for releases too large for the page.

For cubes of more cells than a page takes, and for wide tables. The page says of each attribute which runs of cells or
which range is chosen, as its address has it (`page/state.js`), and shows what it is told.
"""

import math
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dpcube.core.arrays import Bools, Floats, Ints
from dpcube.core.domain import Attribute, Domain, ValueSet
from dpcube.core.errors import QueryError
from dpcube.models import Estimate
from dpcube.models.protocol import DENSE_CELLS
from dpcube.queries import CountingQueries
from dpcube.release.answer import Answers, deviations_for
from dpcube.release.plots.axis import Axis
from dpcube.web.explorer.contents import drawn_axis

WEIGHTS_AT_ONCE = 2**22
"""Weights of drawn bins that are laid out at once."""
MAX_ANSWERED_SQUARES = 20_000
"""Squares of a map; `page/maps.js` marks as many."""
SQUARES_AT_ONCE = 240
"""Squares whose intervals are worked out in one request: so that a page need not wait for what it no longer shows."""
Chosen = tuple[Floats, Bools]
"""The weight of each cell of an axis, and which are taken in part."""


class PageQuestions:
    """The questions of a page about one release, answered from an estimate, one request at a time."""

    def __init__(
        self, domain: Domain, estimate: Estimate, *, confidence: float, noisy: Callable[[], Floats] | None = None
    ) -> None:
        """`noisy` gives the noisy counts that the estimate comes from, spread over cells, if they can be shown."""
        self._domain, self._estimate, self._confidence, self._noisy = domain, estimate, confidence, noisy
        self._cells: Floats | None = None
        self._noisy_cells: Floats | None = None
        self._drawn = [drawn_axis(attribute) for attribute in domain.attributes]
        self._lock = threading.Lock()  # estimates work out tables when they are first asked

    def headline(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of what is chosen."""
        chosen = chosen_weights(self._domain, request.get("asked"))
        return {"answer": {name: of[0] for name, of in self._told(self._queries(chosen, {})).items()}}

    def bars(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answers of each drawn bin of an attribute, which is not narrowed by what is chosen of itself."""
        chosen, axis = chosen_weights(self._domain, request.get("asked")), self._axis(request, "axis")
        return {"answers": self._of_drawn(chosen, {axis: self._drawn[axis]})}

    def counts(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is quick to tell: values alone, of every attribute's drawn bins and of a map; nothing if none is.

        A cube whose cells can be laid out is added up; of one that cannot be, answers are all there is.
        """
        axes, chosen = self._map(request), [w for w, _ in chosen_weights(self._domain, request.get("asked"))]
        if not self._is_dense:
            return {"bars": None, "squares": None}
        cells, drawn = self._laid_out(), self._drawn
        bars = [over_drawn(added_up(cells, chosen, (k,)), [drawn[k]]).tolist() for k in range(cells.ndim)]
        return {"bars": bars, "squares": None if axes is None else self._map_of(cells, chosen, axes)}

    def squares(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answers of some drawn bins across a map, from the `first` on: of each, those up."""
        axes, first = self._map(request), request.get("first")
        if axes is None or type(first) is not int or not 0 <= first < len(self._drawn[axes[0]]):
            msg = f"a map is of two attributes of at most {MAX_ANSWERED_SQUARES:,} squares; reload the page"
            raise QueryError(msg)
        across, up = (self._drawn[axis] for axis in axes)
        columns = min(max(SQUARES_AT_ONCE // len(up), 1), len(across) - first)
        drawn = {axes[0]: part_of(across, first, columns), axes[1]: up}
        chosen = chosen_weights(self._domain, request.get("asked"))
        return {"columns": columns, "answers": self._of_drawn(chosen, drawn)}

    def noisy(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the noisy counts that a map is estimated from, or nothing: of what was counted, spread evenly."""
        axes, chosen = self._map(request), [w for w, _ in chosen_weights(self._domain, request.get("asked"))]
        if self._noisy is None or axes is None:
            return {"squares": None}
        with self._lock:
            cells = self._noisy_cells = self._noisy() if self._noisy_cells is None else self._noisy_cells
        return {"squares": self._map_of(cells, chosen, axes)}

    def _laid_out(self) -> Floats:
        """Return the cells of the estimate, laid out once: spreading millions anew would keep every drag waiting."""
        with self._lock:
            if self._cells is None:
                self._cells = self._estimate.cells()
            return self._cells

    def _map_of(self, cells: Floats, chosen: list[Floats], axes: tuple[int, int]) -> list[float]:
        squares = over_drawn(added_up(cells, chosen, axes), [self._drawn[k] for k in axes])
        told: list[float] = squares.reshape(-1).tolist()
        return told

    def _map(self, request: Mapping[str, Any]) -> tuple[int, int] | None:
        """Return the two attributes of a map; none where it would have too many squares."""
        if len(self._drawn) < 2:
            return None
        across, up = (self._axis(request, key) for key in ("across", "up"))
        if across == up:
            msg = "a map is of two attributes, got one twice"
            raise QueryError(msg)
        return (across, up) if len(self._drawn[across]) * len(self._drawn[up]) <= MAX_ANSWERED_SQUARES else None

    @property
    def _is_dense(self) -> bool:
        return self._domain.size <= DENSE_CELLS and self._estimate.is_materialisable

    def _axis(self, request: Mapping[str, Any], key: str) -> int:
        axis = request.get(key)
        if type(axis) is not int or not 0 <= axis < len(self._drawn):
            msg = f"{key} must be the number of an attribute, from 0 to {len(self._drawn) - 1}"
            raise QueryError(msg)
        return axis

    def _of_drawn(self, chosen: list[Chosen], drawn: Mapping[int, Axis]) -> dict[str, list[Any]]:
        """Return answers narrowed to each combination of drawn bins, the first attribute slowest."""
        told: dict[str, list[Any]] = {}
        first, *others = drawn.items()
        size = max(self._domain.shape[axis] for axis in drawn)
        most = max(WEIGHTS_AT_ONCE // size, 1)
        for start in range(0, len(first[1]), most):
            narrowed = {first[0]: part_of(first[1], start, most), **dict(others)}
            for name, values in self._told(self._queries(chosen, narrowed)).items():
                told.setdefault(name, []).extend(values)
        return told

    def _queries(self, chosen: list[Chosen], drawn: Mapping[int, Axis]) -> CountingQueries:
        weights, parts = [w[None] for w, _ in chosen], [p[None] for _, p in chosen]
        for axis, bins in drawn.items():
            cells = np.arange(self._domain.shape[axis])
            within = (cells >= bins.starts[:, None]) & (cells < bins.stops[:, None])
            weights[axis], parts[axis] = within.astype(np.float64), np.zeros_like(within)
        places = np.meshgrid(*(np.arange(len(bins)) for bins in drawn.values()), indexing="ij")
        taken = np.zeros((math.prod(map(len, drawn.values())), len(chosen)), np.int64)
        for axis, place in zip(drawn, places, strict=True):
            taken[:, axis] = place.ravel()
        return CountingQueries(tuple(weights), taken, tuple(parts))

    def _told(self, queries: CountingQueries) -> dict[str, list[Any]]:
        with self._lock:
            answers = Answers.asked(self._domain, self._estimate, queries)
            low, high = answers.interval(self._confidence)
            half_width = answers.half_width(self._confidence)
        errors = np.hypot(answers.stderrs, answers.nonuniformities)
        with np.errstate(divide="ignore", invalid="ignore"):
            deviations = np.where(errors > 0, half_width / errors, deviations_for(self._confidence))
        numbers = {
            "value": answers.values,
            "stderr": answers.stderrs,
            "nonuniformity": answers.nonuniformities,
            "low": low,
        }
        numbers |= {"high": high, "reach": answers.cut_reach(), "deviations": deviations}
        told: dict[str, list[Any]] = {name: known_numbers(of) for name, of in numbers.items()}
        modelled = np.zeros(len(answers), np.bool_) if answers.modelled is None else answers.modelled
        return told | {"modelled": modelled.tolist()}


def chosen_weights(domain: Domain, asked: object) -> list[Chosen]:
    """Return what a page's choice takes of each cell, or a QueryError: it may say anything."""
    if not isinstance(asked, Mapping) or not set(asked) <= set(map(str, range(len(domain.shape)))):
        msg = "what is chosen must be said by the numbers of attributes; reload the page"
        raise QueryError(msg)
    return [_chosen(attribute, asked.get(str(axis))) for axis, attribute in enumerate(domain.attributes)]


def _chosen(attribute: Attribute, of: object) -> Chosen:
    if of is None:
        return np.ones(attribute.size), np.zeros(attribute.size, np.bool_)
    if isinstance(of, list):
        return _runs(attribute, of), np.zeros(attribute.size, np.bool_)
    ends: list[Any] = [of.get("from"), of.get("to")] if isinstance(of, Mapping) else []
    if not attribute.has_distances or not ends or not all(_is_number(end) for end in ends):
        raise _refused(attribute)
    low, high = (float(end) for end in ends)
    whole = attribute.step == 0 or (low.is_integer() and high.is_integer())
    first, end = attribute.limits()[[0, -1]].tolist()
    if not whole or low > high or high < first or low >= end:
        raise _refused(attribute)
    closed = frozenset({high}) if attribute.step == 0 else frozenset[float]()
    selection = ValueSet(((max(low, first), min(attribute.after(high), end)),), closed=closed)
    return attribute.weights(selection), attribute.parts(selection)


def _runs(attribute: Attribute, runs: list[object]) -> Floats:
    weights = np.zeros(attribute.size)
    for run in runs:
        if not isinstance(run, list) or len(run) != 2 or not all(type(end) is int for end in run):
            raise _refused(attribute)
        weights[max(run[0], 0) : max(run[1] + 1, 0)] = 1
    return weights


def _is_number(end: object) -> bool:
    return isinstance(end, int | float) and not isinstance(end, bool) and abs(end) < 2**1000


def _refused(attribute: Attribute) -> QueryError:
    return QueryError(
        f"attribute '{attribute.name}': what is chosen must be runs of its {attribute.size:,} cells, or a range "
        "of its values; reload the page"
    )


def part_of(axis: Axis, first: int, number: int) -> Axis:
    """Return some of the drawn bins of an axis."""
    part = slice(first, first + number)
    return Axis(axis.name, axis.labels[part], axis.starts[part], axis.stops[part], axis.ordered)


def added_up(cells: Floats, weights: list[Floats], kept: tuple[int, ...]) -> Floats:
    """Return the table of a cube over some axes, in their order, others added up by their weights.

    >>> added_up(np.arange(6.0).reshape(2, 3), [np.array([1.0, 0.5]), np.ones(3)], (1,)).tolist()
    [1.5, 3.0, 4.5]
    """
    for axis in reversed(range(cells.ndim)):
        if axis not in kept:
            cells = np.tensordot(cells, weights[axis], axes=([axis], [0]))
    order = np.argsort(np.argsort(kept))
    return cells.transpose(order) if len(kept) > 1 else cells


def over_drawn(table: Floats, drawn: list[Axis]) -> Floats:
    """Return a table as sums over the drawn bins of its axes."""
    for axis, bins in reversed(list(enumerate(drawn))):  # the last lies together in memory
        table = np.add.reduceat(table, bins.starts, axis=axis)
    return table


def known_numbers(numbers: Floats | Ints) -> list[float | None]:
    """Return numbers as JSON has them: those that are not known are null.

    >>> known_numbers(np.array([1.5, np.nan]))
    [1.5, None]
    """
    return [number if math.isfinite(number) else None for number in np.asarray(numbers, np.float64).tolist()]
