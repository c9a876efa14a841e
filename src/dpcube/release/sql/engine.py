"""Sandboxed DuckDB engine, and its function for order statistics (min, max, mode, quantiles) of noisy counts.

The engine has no files, no network, no extensions and no settings, and is bounded in memory and time.

The order statistics take, for each group, a list of rows: a value or the ends of a bin (`low`, `high`), its estimated
count `w` and the standard error `e` of that count. A value is *present* in a group when its estimated count exceeds
the noise: count > t * (its standard error). The threshold t is such that, over all the values of the group, noise
alone makes any absent value present with probability at most 1 - confidence (Bonferroni, with the wider of the Laplace
and normal tails). min and max are the least and greatest present values, so that an end of the domain is not reported
because of noise. Quantiles are of the rows between the first and the last value at which the rows up to it, or from it
on, exceed their noise together: count > t * (the root of the summed squares of the standard errors). So a quantile of
many values needs none that is present by itself. The standard error of a value that is made of several rows is taken as
the sum of theirs, its largest possible size; rows that differ only in attributes which do not decide about the value
are one row here (`Relation.noise`).
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import numpy as np
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType
from numpy.typing import NDArray

from dpcube.core.arrays import Floats, Places
from dpcube.core.errors import MemoryLimitError, QueryError, RefusedError
from dpcube.core.memory import available_bytes
from dpcube.release.answer import deviations_for

MAX_MEMORY = 4 * 2**30
LOCKED = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
}
ORDER_STATISTIC = "dpcube_order_statistic"
ORDER_STATISTIC_ARGUMENTS = ("STRUCT(low DOUBLE, high DOUBLE, w DOUBLE, e DOUBLE)[]", "DOUBLE", "VARCHAR")
ROUNDING = 1e-9  # of the group's count: what floating-point sums of whole rows may miss by


class Engine:
    """A connection restricted to computing on the tables that are added to it."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, seconds: float) -> None:
        self._connection = connection
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    def add(self, name: str, table: pa.Table) -> None:
        """Add a table that queries can read."""
        self._connection.register(name, table)

    def allow(self, seconds: float) -> None:
        """Allow more time, for what took it was not the query."""
        self._end += seconds

    def run(self, query: str) -> pa.Table:
        """Return the result of a query that was already checked and rewritten."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise self._late()
        timer = threading.Timer(left, self._connection.interrupt)
        timer.start()
        try:
            return self._connection.sql(query).to_arrow_table()
        except duckdb.InterruptException:
            raise self._late() from None
        except duckdb.OutOfMemoryException:
            msg = "the query needs more memory than is allowed; select fewer rows or columns"
            raise MemoryLimitError(msg) from None
        except duckdb.Error as error:
            words = str(error).split("\n\n")[0].replace("\n", " ").split("LINE 1")[0].strip()
            msg = f"the query cannot be run: {words}"
            raise QueryError(msg) from None
        finally:
            timer.cancel()

    def _late(self) -> RefusedError:
        msg = f"the query was stopped after {self._seconds:g} seconds; simplify it, or allow more time"
        return RefusedError(msg)


@contextmanager
def engine(*, confidence: float, seconds: float) -> Iterator[Engine]:
    """Open a locked engine, and close it."""
    free = available_bytes()
    memory = MAX_MEMORY if free is None else min(MAX_MEMORY, free // 2)
    with duckdb.connect(":memory:", config={**LOCKED, "memory_limit": f"{memory // 2**20}MiB"}) as connection:
        order_statistics = OrderStatistics(confidence)
        connection.create_function(
            ORDER_STATISTIC,
            order_statistics,
            [*ORDER_STATISTIC_ARGUMENTS],
            "DOUBLE",
            type=PythonUDFType.ARROW,
            null_handling=FunctionNullHandling.SPECIAL,
        )
        connection.execute("SET lock_configuration = true")
        locked = Engine(connection, seconds)
        try:
            yield locked
        finally:
            del locked._connection  # a reference to the engine does not keep the connection alive


class OrderStatistics:
    """User-defined function of the engine: one order statistic of each group of rows."""

    def __init__(self, confidence: float) -> None:
        deviations_for(confidence)  # raises if it is not a confidence level
        self._confidence = confidence

    def __call__(self, groups: pa.Array, quantile: pa.Array, kind: pa.Array) -> pa.Array:
        """Return one value for each group; null when no value is present.

        `groups` holds a list of rows for each group. `quantile` and `kind` hold the same value for every group: the
        share of rows below the value, and "min", "max", "mode" (the value with the largest count), "disc" (a value of
        some row), "cont" (between the two rows next to the place) or "even" (inside a bin with rows spread evenly).
        """
        if isinstance(groups, pa.ChunkedArray):
            groups, quantile, kind = (a.combine_chunks() for a in (groups, quantile, kind))
        lengths = groups.value_lengths().fill_null(0).to_numpy()
        values = _Values.from_rows(np.repeat(np.arange(len(groups)), lengths), groups.flatten(), len(groups))
        found = values.order_statistic(self._thresholds(values.tested()), float(quantile[0].as_py()), kind[0].as_py())
        return pa.array(found, mask=np.isnan(found))

    def _thresholds(self, tested: Places) -> Floats:
        """Return how many standard errors a count must exceed in each group, given how many values each has."""
        numbers, at = np.unique(np.maximum(tested, 1), return_inverse=True)
        most = [deviations_for(max(1 - 2 * (1 - self._confidence) / n, 0.5)) for n in numbers.tolist()]
        return np.array(most)[at]


class _Values:
    """The distinct values of all groups, group by group and rising within each, with their counts and standard errors.

    `groups` is the number of groups; the arrays have shape (values,): the group of each value, the value or its bin's
    ends `low` and `high`, its estimated count and the standard error of that.
    """

    def __init__(self, groups: int, group: Places, low: Floats, high: Floats, count: Floats, error: Floats) -> None:
        self.groups, self.group, self.low, self.high = groups, group, low, high
        self.count, self.error = count, error

    @classmethod
    def from_rows(cls, group: Places, rows: pa.StructArray, groups: int) -> "_Values":
        """Merge rows of equal value; `group` is the group of each row."""
        low, high, w, e = (rows.field(name).to_numpy(zero_copy_only=False) for name in ("low", "high", "w", "e"))
        order = np.lexsort((high, low, group))
        group, low, high, w, e = group[order], low[order], high[order], w[order], e[order]
        if len(group) == 0:
            return cls(groups, group, low, high, w, e)
        differs = [values[1:] != values[:-1] for values in (group, low, high)]  # infinities have no difference
        starts = np.flatnonzero(np.append(True, np.logical_or.reduce(differs)))
        sums = np.add.reduceat(w, starts), np.add.reduceat(e, starts)
        return cls(groups, group[starts], low[starts], high[starts], *sums)

    def tested(self) -> Places:
        """Return the number of distinct values of each group, shape (groups,)."""
        return np.bincount(self.group, minlength=self.groups)

    def order_statistic(self, threshold: Floats, quantile: float, kind: str) -> Floats:
        """Return one value for each group, shape (groups,); NaN where none is present."""
        present = (self.count > threshold[self.group] * self.error) & (self.count > 0)
        first, last = self._first(present), self._last(present)
        if kind in ("min", "max"):
            return self._at(first, self.low) if kind == "min" else self._at(last, self.high)
        if kind == "mode":
            return self._at(self._largest(present), self.low)
        places = np.arange(len(self.group))
        first, last = (
            self._first(present | self._exceeds(threshold)),
            self._last(present | self._exceeds(threshold, -1)),
        )
        kept = (places >= first[self.group]) & (places <= last[self.group]) & (first[self.group] >= 0)
        below, total = self._running(kept)
        found = self._quantile(below, total, quantile, kind)
        return np.where(total > 0, found, np.nan)

    def _exceeds(self, threshold: Floats, step: int = 1) -> NDArray[np.bool_]:
        """Return for each value whether the rows up to it exceed their noise; with `step` -1 those from it on."""
        group, count, squares = self.group[::step], self.count[::step], self.error[::step] ** 2
        starts = np.flatnonzero(np.append(True, group[1:] != group[:-1])[: len(group)])
        lengths = np.diff(np.append(starts, len(group)))
        total, noise = (
            np.cumsum(of) - np.repeat(np.cumsum(of)[starts] - of[starts], lengths) for of in (count, squares)
        )
        return np.asarray((total > threshold[group] * np.sqrt(noise)) & (total > 0))[::step]

    def _largest(self, present: NDArray[np.bool_]) -> Places:
        """Return the place of the present value of each group with the largest count, the least of equals; else -1."""
        order = np.lexsort((-np.arange(len(self.count)), self.count))  # rising, so that the last assignment is largest
        return self._found(order[present[order]])

    def _running(self, kept: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Return the count up to and including each value, -inf for those not kept, and the total of each group."""
        count = np.where(kept, self.count, 0.0)
        total = np.bincount(self.group, count, minlength=self.groups)
        running = np.cumsum(count)
        before = np.concatenate([[0.0], running])[np.searchsorted(self.group, np.arange(self.groups))]
        return np.where(kept, running - before[self.group], -np.inf), total.astype(np.float64)

    def _quantile(self, below: Floats, total: Floats, quantile: float, kind: str) -> Floats:
        """Return a quantile of each group, shape (groups,), given what `_running` returns."""
        rounding = ROUNDING * np.maximum(total, 1.0)
        if kind == "cont":  # between the rows next to place q (n - 1), counted from 0
            place = np.maximum(quantile * (total - 1), 0.0)
            whole = np.floor(place + rounding)
            left, right = (self._row(below, row, rounding) for row in (whole, np.ceil(place - rounding)))
            between: Floats = np.maximum(place - whole, 0.0) * (np.where(np.isnan(right), left, right) - left)
            return left + between
        wanted = quantile * total
        reached = self._first((below >= (wanted - rounding)[self.group]) & (below > 0))
        low, high, count, passed = (self._at(reached, v) for v in (self.low, self.high, self.count, below))
        share = np.clip(1 - (passed - wanted) / count, 0.0, 1.0)
        if kind == "even":
            return low + share * (high - low)
        units = _units(low, high)
        before: Floats = np.clip(np.ceil((share - rounding / count) * units) - 1, 0, units - 1)
        return low + before

    def _row(self, below: Floats, row: Floats, rounding: Floats) -> Floats:
        """Return the value of one row of each group, counted from 0; a bin's rows are spread over its whole numbers."""
        reached = self._first(below > (row + rounding)[self.group])
        low, high, count, passed = (self._at(reached, v) for v in (self.low, self.high, self.count, below))
        share, units = 1 - (passed - row) / count, _units(low, high)
        before: Floats = np.clip(np.floor((share + rounding / count) * units), 0, units - 1)
        return low + before

    def _first(self, chosen: NDArray[np.bool_]) -> Places:
        """Return the place of the first chosen value of each group, -1 when it has none."""
        return self._found(np.flatnonzero(chosen)[::-1])

    def _last(self, chosen: NDArray[np.bool_]) -> Places:
        """Return the place of the last chosen value of each group, -1 when it has none."""
        return self._found(np.flatnonzero(chosen))

    def _found(self, places: Places) -> Places:
        """Return for each group the last of its places, -1 when it has none."""
        found = np.full(self.groups, -1)
        found[self.group[places]] = places  # the last assignment wins
        return found

    def _at(self, place: Places, values: Floats) -> Floats:
        """Return the values at places, NaN at place -1."""
        found: Floats = np.append(values, np.nan)[place]  # place -1 is the NaN at the end
        return found


def _units(low: Floats, high: Floats) -> Floats:
    """Return how many whole numbers a bin holds; an expression has one value, which may be infinite."""
    units: Floats = np.ones(len(low))
    np.add(units, high - low, out=units, where=low < high)
    return units
