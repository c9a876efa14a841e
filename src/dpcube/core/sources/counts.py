"""Counts that are there already: an array or a table of them enters, an array in the domain's shape leaves."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcube.core.domain import Domain
from dpcube.core.errors import SourceError
from dpcube.core.seal import sealed
from dpcube.core.sources.open import open_rows
from dpcube.core.sources.rows import LARGEST_COUNT


@sealed
def counts_from_array(array: Any, domain: Domain) -> NDArray[np.int64]:
    """Return an array of exact counts as integers; an error says what rule it breaks, not which count does.

    >>> counts_from_array([[1.0, 2.0]], Domain.of_shape((1, 2)))
    array([[1, 2]])
    """
    given = np.asarray(array)
    if given.shape != domain.shape:
        msg = f"the counts have the shape {given.shape}, and the domain {domain.shape}; give a count for each cell"
        raise SourceError(msg)
    if given.dtype.kind not in "iuf":
        msg = f"the counts have the type {given.dtype}; they must be whole numbers"
        raise SourceError(msg)
    whole = given.dtype.kind != "f" or bool(np.all(given == np.floor(given)))
    if not whole or not (given.min() >= 0 and given.max() <= LARGEST_COUNT):
        msg = "the counts must be whole numbers from 0 to 2^53, and they are not"
        raise SourceError(msg)
    if np.sum(given, dtype=np.float64) > 2.0**62:  # a sum of doubles is off by a small part of itself
        msg = "the counts must add up to less than 2^62, and they do not"
        raise SourceError(msg)
    return given.astype(np.int64, order="C")  # as the gate needs it: it would copy once the budget is charged


@sealed
def counts_from_frame(frame: Any, domain: Domain, *, count: str = "count") -> NDArray[np.int64]:
    """Return the counts of a table that has a column for each attribute and one of counts.

    An attribute's column holds values, which are binned as in any table, or cells' labels as text. Counts that meet in
    a cell add up; one that is negative, or no number, adds nothing.
    """
    return open_rows(frame).sum_cells(domain, count)
