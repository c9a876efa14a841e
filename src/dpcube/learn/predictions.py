"""Predictions as a table: the class of each row, with probabilities and their confidence intervals."""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from dpcube.core.arrays import Ints
from dpcube.core.domain.attribute import listing
from dpcube.core.errors import InputError
from dpcube.core.files import is_special
from dpcube.learn.model_file import TrainedModel
from dpcube.learn.rows import NO_CELL, cells_of

PREDICTION = "prediction"


class ToldRightly(NamedTuple):
    """The number of rows whose class is known, and the accuracy on these; None if there are none."""

    known: int
    accuracy: float | None


def own_rows(path: Path, trained: TrainedModel) -> pa.Table:
    """Read the columns that a model needs from a CSV or Parquet file, and the target's if it is there."""
    try:
        if is_special(path):
            msg = f"{path} is no plain file of rows"
            raise InputError(msg)
        table = _read(path, trained)
    except (OSError, pa.ArrowException, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or "it is no whole CSV or Parquet file"
        msg = f"cannot read rows from {path}: {reason}"
        raise InputError(msg) from None
    return table


def _read(path: Path, trained: TrainedModel) -> pa.Table:
    if path.suffix.lower() == ".parquet":
        held = pq.read_schema(path).names
        return pq.read_table(path, columns=_wanted(trained, held, path))
    kind = re.search(r"\.(csv|tsv)(\.gz|\.zst)?$", path.name.lower())
    if kind is None:
        msg = f"cannot tell how to read {path}; its name must end in .csv, .tsv (also .gz or .zst) or .parquet"
        raise InputError(msg)
    usual = "," if kind[1] == "csv" else "\t"
    parse = pacsv.ParseOptions(delimiter=trained.domain.delimiter or usual, newlines_in_values=trained.domain.multiline)
    read = pacsv.ReadOptions(encoding=trained.domain.encoding or "utf8")
    with pacsv.open_csv(path, read_options=read, parse_options=parse) as opened:
        held = opened.schema.names
    wanted = _wanted(trained, held, path)
    # Everything is text, which the domain says how to read; an empty text is null.
    options = pacsv.ConvertOptions(
        column_types=dict.fromkeys(wanted, pa.string()),
        include_columns=wanted,
        null_values=[""],
        strings_can_be_null=True,
    )
    return pacsv.read_csv(path, read_options=read, parse_options=parse, convert_options=options)


def _wanted(trained: TrainedModel, held: list[str], path: Path) -> list[str]:
    found = []
    for attribute in (*trained.features.attributes, trained.features.target):
        name = next((name for name in (attribute.source_column, attribute.name) if name in held), None)
        if name is not None and held.count(name) > 1:
            msg = f"{path} has the column '{name}' twice; which of them is meant cannot be told"
            raise InputError(msg)
        if name is not None:
            found.append(name)
        elif attribute is not trained.features.target:
            known = any(one.source_column in held or one.name in held for one in trained.features.attributes)
            there = f"columns are {listing(held)}" if known else "first line is not shown, for it may be a row"
            msg = f"{path} has no column '{attribute.source_column}'; its {there}"
            raise InputError(msg)
    return found


def predictions(trained: TrainedModel, cells: Ints, confidence: float) -> pa.Table:
    """Return the likeliest class of each row, and for each class its probability and between what that lies."""
    chances = trained.model.probabilities(cells)
    low, high = trained.model.interval(cells, confidence)
    classes = trained.features.classes
    columns = {PREDICTION: pa.array(classes[chances.argmax(axis=1)].tolist(), pa.string())}
    for number, label in enumerate(classes.tolist()):
        named = {f"p({label})": chances, f"p({label}) low": low, f"p({label}) high": high}
        columns |= {name: pa.array(of[:, number]) for name, of in named.items()}
    return pa.table(columns)


def told_rightly(trained: TrainedModel, rows: pa.Table, made: pa.Table) -> ToldRightly | None:
    """Return how many predictions are right, None if the rows have no column of the target."""
    target = trained.features.target
    name = next((name for name in (target.source_column, target.name) if name in rows.column_names), None)
    if name is None:
        return None
    cells = cells_of(target, rows.column(name))
    known = (cells != NO_CELL) & (cells < target.bins)
    said = np.array(made.column(PREDICTION).to_pylist(), object)[known]
    right = said == trained.features.classes[cells[known]].astype(object)
    return ToldRightly(int(known.sum()), float(right.mean()) if known.any() else None)
