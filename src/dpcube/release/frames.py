"""Views as tables: Arrow, pandas, Polars, xarray or Scikit-HEP's hist.

Each of these libraries but Arrow is optional and imported when asked for.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcube.core.arrays import Floats
from dpcube.core.errors import InputError, QueryError
from dpcube.queries import Workload
from dpcube.release.answer import Answers
from dpcube.release.capabilities import BOXES, require
from dpcube.release.view import AxisGroups, check_rows, group_answers, group_values, row_values

if TYPE_CHECKING:
    from dpcube.release.release import Release
    from dpcube.release.view import View

MEASURES = ("value", "stderr", "low", "high")


def table(view: "View", *, errors: bool, confidence: float) -> pa.Table:
    """Return a row for each combination of groups, in the order of the axes."""
    axes = view.groups()
    measured = _measures(view, axes, errors=errors, confidence=confidence)
    shape = [len(axis) for axis in axes]
    places = np.unravel_index(np.arange(check_rows(axes)), shape) if all(shape) else [np.zeros(0, np.int64)] * len(axes)
    columns = {
        axis.attribute.name: _named(axis.labels, place) for axis, place in zip(axes, places, strict=True) if axis.level
    }
    return pa.table({**columns, **_with_names_of_their_own(measured, columns)})


def pivot(view: "View", rows: str, *, measures: Sequence[str], confidence: float) -> pa.Table:
    """Return the table of a view of two attributes with a row for each group of one, columns for those of the other."""
    if isinstance(measures, str) or not measures or not set(measures) <= set(MEASURES):
        msg = f"the measures of a pivot table are some of {', '.join(MEASURES)}, got {measures!r}"
        raise QueryError(msg)
    axes = [axis for axis in view.groups() if axis.level is not None]
    measured = _measures(view, view.groups(), errors=set(measures) != {"value"}, confidence=confidence)
    down, across = sorted(axes, key=lambda axis: axis.attribute.name != rows)
    laid_out = {name: measured[name].reshape([len(axis) for axis in axes]) for name in measures}
    if axes[0] is across:
        laid_out = {name: values.T for name, values in laid_out.items()}
    wide = {
        label if name == "value" else f"{label} {name}": laid_out[name][:, column]
        for column, label in enumerate(across.labels)
        for name in measures
    }
    names = {rows: _named(down.labels, np.arange(len(down)))}
    return pa.table({**names, **_with_names_of_their_own(wide, names)})


def to_pandas(frame: pa.Table) -> Any:
    """Return a table as a pandas DataFrame; names of groups are ordered categories."""
    imported_extra("pandas")
    return frame.to_pandas()


def to_polars(frame: pa.Table) -> Any:
    """Return a table as a Polars DataFrame."""
    return imported_extra("polars").from_arrow(frame)


def to_xarray(view: "View", *, errors: bool, confidence: float) -> Any:
    """Return a Dataset; numbers and dates also have the edges of their groups, as `NAME_from` and `NAME_to`."""
    xarray = imported_extra("xarray")
    axes = view.groups()
    check_rows(axes)
    shown = [axis for axis in axes if axis.level is not None]
    measured = _measures(view, axes, errors=errors, confidence=confidence)
    names, shape = [axis.attribute.name for axis in shown], [len(axis) for axis in shown]
    coordinates: dict[str, object] = {axis.attribute.name: np.array(axis.labels, object) for axis in shown}
    for axis in shown:
        if axis.attribute.has_distances:
            name, (first, stop) = axis.attribute.name, _edges(axis)
            edges = {f"{name}_from": (name, first), f"{name}_to": (name, stop)}
            coordinates |= _with_names_of_their_own(edges, coordinates)
    variables = _with_names_of_their_own(measured, coordinates)
    return xarray.Dataset({name: (names, values.reshape(shape)) for name, values in variables.items()}, coordinates)


def to_hist(view: "View", *, errors: bool) -> Any:
    """Return a histogram without flow bins; an axis that is no row of adjacent bins of numbers is one of texts."""
    hist = imported_extra("hist")
    axes = view.groups()
    shown = [axis for axis in axes if axis.level is not None]
    if not shown or not check_rows(axes):
        msg = "a histogram needs an attribute to group by and at least one cell; drill down, or dice less"
        raise QueryError(msg)
    shape = [len(axis) for axis in shown]
    made = [_hist_axis(hist, axis) for axis in shown]
    if not errors:
        histogram = hist.Hist(*made, storage=hist.storage.Double())
        histogram.view()[...] = _row_values(view, axes).reshape(shape)
        return histogram
    answers = group_answers(axes, view.release, view.estimate)
    histogram = hist.Hist(*made, storage=hist.storage.Weight())
    histogram.view().value[...] = answers.values.reshape(shape)
    histogram.view().variance[...] = (
        answers.stderrs**2 + answers.nonuniformities**2 + answers.cut_reach() ** 2
    ).reshape(shape)
    return histogram


def boxes(release: "Release", *, estimate: str, confidence: float) -> pa.Table:
    """Return a row for each box of a release: its first and last cell on each axis, noisy count and estimate."""
    require(BOXES, release)
    measured = release.transcript.boxes
    if measured is None:
        only = "marginals" if release.transcript.is_wide else "cells"
        msg = f"this release has no boxes, it measured {only} alone; use table, to_pandas or to_polars for its cells"
        raise QueryError(msg)
    tree, leaves = measured.tree, measured.tree.leaves
    lower, upper = tree.lower[leaves], tree.upper[leaves]
    columns: dict[str, object] = {}
    for axis, attribute in enumerate(release.domain.attributes):
        labels = attribute.labels()
        columns[f"{attribute.name}_first"] = _named(labels, lower[:, axis])
        columns[f"{attribute.name}_last"] = _named(labels, upper[:, axis] - 1)
    counts, variances = (column[leaves] for column in measured.by_node(release.transcript.epsilon_per_unit))
    answers = release.answer(Workload(tree.shape, lower, upper), estimate=estimate)
    facts = {
        "cells": tree.sizes[leaves],
        "noisy_count": pa.array(counts, mask=np.isinf(variances)),
        **_of_answers(answers, confidence),
    }
    return pa.table({**columns, **_with_names_of_their_own(facts, columns)})


def _measures(view: "View", axes: Sequence[AxisGroups], *, errors: bool, confidence: float) -> dict[str, Any]:
    check_rows(axes)
    if not errors:
        return {"value": _row_values(view, axes)}
    return _of_answers(group_answers(axes, view.release, view.estimate), confidence)


def _row_values(view: "View", axes: Sequence[AxisGroups]) -> Floats:
    """Return the estimated count of every row: from a marginal, or row by row where not every cell can be laid out."""
    estimate = view.release.estimate(view.estimate)
    if estimate.is_materialisable:
        return group_values(axes, view.release.cells(view.estimate))
    return row_values(axes, estimate)


def _of_answers(answers: Answers, confidence: float) -> dict[str, Any]:
    """Return the measures of answers; where any cuts bins, which bins each cuts; of a model's, which are."""
    low, high = answers.interval(confidence)
    cut = {} if answers.cuts is None else {"cut": np.array(answers.cut_words(), object)}
    modelled = {} if answers.modelled is None else {"modelled": answers.modelled}
    return {"value": answers.values, "stderr": answers.stderrs, "low": low, "high": high, **modelled, **cut}


def _named(labels: Sequence[str], place: NDArray[Any]) -> pa.Array:
    """Return names as a dictionary array whose order is that of the domain."""
    return pa.DictionaryArray.from_arrays(pa.array(place.astype(np.int32)), pa.array(labels, pa.string()), ordered=True)


def _with_names_of_their_own(columns: dict[str, Any], taken: dict[str, Any]) -> dict[str, Any]:
    """Return columns renamed where an attribute has their name already."""
    renamed = {}
    for name, column in columns.items():
        free = name
        while free in taken or free in renamed:
            free += "_"
        renamed[free] = column
    return renamed


def _edges(axis: AxisGroups) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return where the groups of numbers or dates start and stop; cells of their own are nowhere."""
    edges = np.append(axis.attribute.bin_edges(), [np.nan] * len(axis.attribute.own_cells))
    own = axis.lower >= axis.attribute.bins
    first, stop = np.where(own, np.nan, edges[axis.lower]), np.where(own, np.nan, edges[axis.upper])
    if axis.attribute.is_numeric:
        return first, stop
    times = [axis.attribute.values_at(np.where(own, 0, edge)) for edge in (first, stop)]
    first, stop = (np.where(own, np.datetime64("NaT"), time).astype("datetime64[s]") for time in times)
    return first, stop


def _hist_axis(hist: Any, axis: AxisGroups) -> Any:
    name, attribute = axis.attribute.name, axis.attribute
    numbers = attribute.is_numeric and (axis.upper <= attribute.bins).all()
    if not numbers or (axis.lower[1:] != axis.upper[:-1]).any():
        return hist.axis.StrCategory(axis.labels, name=name, flow=False)
    first, stop = _edges(axis)
    if not attribute.is_continuous and (stop - first == 1).all():
        return hist.axis.Integer(int(first[0]), int(stop[-1]), name=name, flow=False)
    return hist.axis.Variable(np.append(first, stop[-1]), name=name, flow=False)


def imported_extra(name: str, *, pip: str | None = None, extra: str = "frames") -> Any:
    """Return an optional library; InputError with how to install it if it is not there."""
    try:
        return import_module(name)
    except ImportError:
        msg = f"this needs {name}, which is not installed: pip install {pip or name}, or 'dpcube[{extra}]' for all"
        raise InputError(msg) from None
