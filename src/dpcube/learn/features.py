"""Features and the class of a classifier, and the design matrix of cells."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Floats, Ints
from dpcube.core.domain import Attribute, Domain
from dpcube.core.errors import DomainError, InputError, QueryError
from dpcube.learn.rows import cells_of_rows

MAX_CLASSES = 64
Encoding = Literal["numbers", "cells"]


@dataclass(frozen=True, eq=False)
class Features:
    """All attributes of a domain but the target, in the order of its axes, and the target, whose bins are the classes.

    >>> from dpcube.core.domain import Category, Integer
    >>> Features.from_domain(Domain(Integer("age", 0, 39, width=20), Category("ill", ["no", "yes"])), "ill").columns
    ('age',)
    """

    attributes: tuple[Attribute, ...]
    target: Attribute

    @classmethod
    def from_domain(cls, domain: Domain, target: str) -> "Features":
        """Return the features for a target; QueryError if it is none of the attributes, or nothing can be learnt."""
        try:
            found = domain[target]
        except DomainError as error:
            raise QueryError(str(error)) from None
        if not 2 <= found.bins <= MAX_CLASSES:
            msg = f"attribute '{target}' has {found.bins:,} values, and a classifier tells 2 to {MAX_CLASSES} apart; "
            msg += "release it with coarser bins, or choose another target"
            raise QueryError(msg)
        others = tuple(attribute for attribute in domain.attributes if attribute.name != target)
        if not others:
            msg = f"there is nothing to tell '{target}' from: the release has no other attribute"
            raise QueryError(msg)
        return cls(others, found)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells of each feature."""
        return tuple(attribute.size for attribute in self.attributes)

    @property
    def order(self) -> tuple[int, ...]:
        """How many of the first cells of each feature are in order: its bins, or none where values have no order."""
        return tuple(attribute.bins if attribute.ordered else 0 for attribute in self.attributes)

    @cached_property
    def classes(self) -> NDArray[np.str_]:
        """Names of the classes: the bins of the target. Its cells for irregular values are no classes."""
        return np.array(self.target.labels()[: self.target.bins])

    def cells(self, rows: object) -> Ints:
        """Return the cell of each row along each feature, shape (rows, features); -1 where a value has none.

        `rows` is a table with a column for each feature (Arrow, pandas, Polars) or a mapping of names to lists; or an
        array of numbers of cells, shape (rows, features).
        """
        if isinstance(rows, np.ndarray) and rows.dtype.kind in "iu" and rows.ndim == 2:
            return self._checked(rows)
        return cells_of_rows(self.attributes, rows)

    def _checked(self, cells: NDArray[np.integer]) -> Ints:
        if cells.shape[1] != len(self.shape) or (cells < -1).any() or (cells >= np.array(self.shape)).any():
            msg = f"cells must be an array (rows, {len(self.shape)}) of numbers below {self.shape}, or -1"
            raise InputError(msg)
        return np.asarray(cells, np.int64)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of `matrix`."""
        return tuple(name for attribute in self.attributes for name in _column_names(attribute))

    def matrix(self, cells: Ints, rows: Sequence[Floats]) -> Floats:
        """Return numbers for cells, shape (rows, columns), for any classifier.

        A number is the middle of its bin, a date the middle day since 1970-01-01, an ordered category its position;
        other categories have a column of 0 and 1 for each value. Each cell for irregular values has such a column too,
        and the number beside it is then the mean, as it is for a value without a cell. `rows` are those of every cell
        of each feature, for the means.
        """
        pairs = zip(self.attributes, cells.T, rows, strict=True)
        return np.concatenate([_numbers(attribute, of)[at] for attribute, at, of in pairs], axis=1)


def _column_names(attribute: Attribute) -> list[str]:
    labels = attribute.labels()
    shown = labels[attribute.bins :] if attribute.ordered else labels
    return [*([attribute.name] if attribute.ordered else []), *(f"{attribute.name}={label}" for label in shown)]


def _numbers(attribute: Attribute, rows: Floats) -> Floats:
    """Return what stands for each cell of an attribute, and last for no cell: shape (cells + 1, columns)."""
    ones = np.eye(attribute.size + 1, attribute.size)  # the last row is 0
    if not attribute.ordered:
        return ones
    edges = attribute.bin_edges()
    middles = (edges[:-1] + edges[1:] - attribute.step) / 2 - attribute.origin
    weights = rows[: attribute.bins]
    mean = float(middles @ weights / weights.sum()) if weights.sum() > 0 else float(middles.mean())
    values = np.append(middles, np.full(attribute.size + 1 - attribute.bins, mean))
    return np.column_stack([values, ones[:, attribute.bins :]])
