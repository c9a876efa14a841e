"""Training data of a release (X, y and sample weights, for any classifier), and the default model learnt from it."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Floats, Ints
from dpcube.core.domain import Domain
from dpcube.core.errors import QueryError
from dpcube.core.memory import check_memory
from dpcube.learn.class_tables import ClassTables, class_tables
from dpcube.learn.features import Encoding, Features
from dpcube.learn.model import Origin, model_of_tables, quality
from dpcube.learn.model_file import TrainedModel
from dpcube.models import Estimate

MAX_TRAINING_ROWS = 2**20
"""Rows of training data unless told otherwise; of more cells, so many are drawn by their weights, evenly."""
ROWS_A_BATCH = 2**16
GOLDEN_RATIO = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """Training data: `X, y, sample_weight = release.to_training("income")`, made when they are asked for.

    A row stands for the rows of one cell of the cube, and its weight is their estimated number; of a wide table, whose
    cells nobody could go through, rows are drawn from its model, the same each time. `features` turns other rows into
    the same matrix: `training.encode(rows)`.
    """

    features: Features
    encoding: Encoding
    cells: Ints
    target: Ints
    sample_weight: Floats
    rows: tuple[Floats, ...]

    def __len__(self) -> int:
        return len(self.cells)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return iter((self.X, self.y, self.sample_weight))

    @property
    def X(self) -> NDArray[Any]:
        """The features of each row, shape (rows, columns)."""
        needed = 8 * len(self) * len(self.columns)
        check_memory(needed, what=f"a matrix of {len(self):,} rows", remedy="use batches(), which streams")
        return self._encoded(self.cells)

    @property
    def y(self) -> NDArray[np.str_]:
        """The class of each row."""
        return self.features.classes[self.target]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of X."""
        return self.features.names if self.encoding == "cells" else self.features.columns

    def encode(self, rows: object) -> NDArray[Any]:
        """Return rows as X has them: a table with a column for each feature, or a mapping of names to lists."""
        return self._encoded(self.features.cells(rows))

    def batches(self, rows: int = ROWS_A_BATCH) -> Iterator[tuple[NDArray[Any], NDArray[np.str_], Floats]]:
        """Give X, y and sample weights in batches of so many rows, for classifiers that learn from a stream."""
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            msg = f"the rows of a batch must be a whole number of at least 1, got {rows!r}"
            raise QueryError(msg)
        for first in range(0, len(self), rows):
            part = slice(first, first + rows)
            yield self._encoded(self.cells[part]), self.y[part], self.sample_weight[part]

    def _encoded(self, cells: Ints) -> NDArray[Any]:
        return cells if self.encoding == "cells" else self.features.matrix(cells, self.rows)


def to_training(features: Features, estimate: Estimate, axis: int, *, encoding: Encoding, most: int) -> Training:
    """Return the training data of an estimate whose axis `axis` is the target."""
    if encoding not in get_args(Encoding):
        msg = f"an encoding must be one of {', '.join(get_args(Encoding))}, got {encoding!r}"
        raise QueryError(msg)
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        msg = f"the most rows must be a whole number of at least 1, got {most!r}"
        raise QueryError(msg)
    tables = class_tables(estimate, axis, features)
    cells, classes, weights = tables.sampled(most)
    # Cells in the order of their numbers would show a stream one end of the cube first; steps of the golden ratio round
    # a circle are spread evenly over it at any time.
    order = np.argsort(np.arange(len(cells)) * GOLDEN_RATIO % 1, kind="stable")
    return Training(features, encoding, cells[order], classes[order], weights[order], tuple(tables.cell_rows()))


ESTIMATES_TRIED = ("balanced", "posterior")
"""Estimates of one tree: where a release allows both, the one is learnt from that states smaller errors by class."""


def train(domain: Domain, target: str, estimates: Iterable[Estimate], origin: Origin) -> TrainedModel:
    """Return the default model of a target, learnt from the estimate that states the least errors of its tables."""
    features = Features.from_domain(domain, target)
    tables = [class_tables(estimate, domain.axis(target), features) for estimate in estimates]
    best = tables[0] if len(tables) == 1 else min(tables, key=ClassTables.stated)
    model = model_of_tables(best)
    return TrainedModel(domain, target, model, origin, quality(model, best).as_dict())
