"""The `Estimate` protocol: an estimated cube that answers queries, marginalises, draws rows and can be written down.

Every estimator returns one. Whatever uses a release (answers, SQL, views, plots, synthetic rows, classifiers, pages,
the cache) uses this protocol alone, and never asks which estimator made it. `dpcube.testing.check_estimate` is the
conformance check for implementations.

*The written form* is plain numbers and arrays by name, and the bytes of both. `Estimate.to_arrays` makes it and
`estimate_of_arrays` is the inverse: what comes back gives the same answers as the estimate, but for rounding. The cache
of counts, the offline page and processes use this one form. Packed are four bytes with the length of the head, the head
(JSON: facts, and where each array lies), and the arrays, each at a multiple of eight bytes. Bytes are not trusted to
form an estimate: whatever would let an answer fail, or never end, is found when they are read, and is a `DamagedError`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Floats, Ints, Places
from dpcube.models.errors.parts import ErrorParts
from dpcube.models.sampling import Generator
from dpcube.queries import CountingQueries, Workload

if TYPE_CHECKING:
    from dpcube.models.cuboids.beliefs import Beliefs
    from dpcube.models.cuboids.departures import Departure
    from dpcube.models.cuboids.fitting import CountedTable

Arrays = dict[str, NDArray[Any]]
PACKED_KINDS = {"float64": "f8", "int32": "i4"}
READERS = {
    "tree": "posterior.stored:stored_tree",
    "balanced": "marginals.balanced:stored_balanced",
    "grid": "fine_grid:stored_grid",
    "cuboids": "cuboids.stored:stored_cuboids",
    "boxes": "boxes:stored_boxes",
    "least squares": "least_squares_tree:stored_least_squares",
}
"""The module and the function that read each kind."""


class DamagedError(Exception):
    """Some arrays form no estimate."""


class EstimateArrays(NamedTuple):
    """An estimate as numbers and arrays: `facts` are JSON values, arrays are of doubles or 32-bit integers."""

    kind: str
    facts: dict[str, Any]
    arrays: Arrays

    def floats(self, name: str, *shape: int) -> Floats:
        """Return an array of doubles in a shape; DamagedError if there is no such array."""
        return self._found(name, np.float64).reshape(shape or (-1,)).astype(np.float64, copy=False)

    def ints(self, name: str, *shape: int) -> Ints:
        """Return an array of integers in a shape; DamagedError if there is no such array."""
        return self._found(name, np.int32).reshape(shape or (-1,)).astype(np.int64)

    def _found(self, name: str, kind: type) -> NDArray[Any]:
        array = self.arrays.get(name)
        if array is None or array.dtype != kind:
            raise DamagedError
        return array


def estimate_of_arrays(written: EstimateArrays) -> "Estimate":
    """Return the estimate that was written; DamagedError if there is none."""
    try:
        module, _, reader = READERS[written.kind].partition(":")
        made: Estimate = getattr(import_module(f"dpcube.models.{module}"), reader)(written)
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError):
        raise DamagedError from None
    return made


def small_ints(array: Ints) -> NDArray[np.int32]:
    """Return integers as they are written: flat, of 32 bits."""
    return array.astype(np.int32).reshape(-1)


def arrays_to_bytes(facts: Mapping[str, object], arrays: Arrays) -> bytes:
    """Return facts and arrays as bytes."""
    places, parts, at = {}, [], 0
    for name, array in arrays.items():
        content = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()
        places[name] = [PACKED_KINDS[array.dtype.name], at, array.size]
        parts += [content, bytes(-len(content) % 8)]
        at += len(content) + len(parts[-1])
    head = json.dumps({"facts": facts, "arrays": places}, allow_nan=False).encode()
    head += b" " * (-(len(head) + 4) % 8)
    return b"".join([len(head).to_bytes(4, "little"), head, *parts])


def arrays_of_bytes(content: bytes | memoryview) -> tuple[dict[str, Any], Arrays]:
    """Return the facts and the arrays of `arrays_to_bytes`; DamagedError if these bytes are none."""
    view = memoryview(content)
    start = 4 + int.from_bytes(view[:4], "little")
    try:
        head = json.loads(bytes(view[4:start]))
        facts, arrays, end = dict(head["facts"]), {}, start
        for name, (kind, at, size) in head["arrays"].items():
            if kind not in PACKED_KINDS.values() or not all(type(one) is int and one >= 0 for one in (at, size)):
                raise DamagedError
            arrays[name] = np.frombuffer(view, f"<{kind}", size, start + at)
            end = max(end, start + at + -(-arrays[name].nbytes // 8) * 8)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        raise DamagedError from None
    if end != len(view):
        raise DamagedError
    return facts, arrays


class MarginalModel(Protocol):
    """A model of groups of cells, and the noisy marginals that it was fitted to."""

    @property
    def groups(self) -> "tuple[Ints, ...]":
        """The group of each cell of every attribute."""
        ...

    @property
    def shares(self) -> "tuple[Floats, ...]":
        """The share of each cell of every attribute in its group."""
        ...

    @property
    def beliefs(self) -> "Beliefs":
        """The model of groups."""
        ...

    @property
    def firsts(self) -> "tuple[CountedTable, ...]":
        """Noisy marginals of cells."""
        ...

    @property
    def cuboids(self) -> "tuple[CountedTable, ...]":
        """Noisy marginals of groups over two attributes or more."""
        ...

    @property
    def departure(self) -> "Departure | None":
        """Estimated departure from the model of what was not measured, if there is any estimate."""
        ...


DENSE_CELLS = 2**27
"""Cubes up to this size are answered from a table of every cell (1 GiB); larger ones from their boxes if they can."""
Queries = CountingQueries | Workload
"""Queries about cells: products of weights along the axes, or ranges."""


class Estimate(Protocol):
    """An estimate of the whole cube."""

    @property
    def name(self) -> str:
        """Name of the estimator."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube."""
        ...

    @property
    def is_materialisable(self) -> bool:
        """Whether `cells` can lay out every cell."""
        ...

    @property
    def is_inferred(self) -> bool:
        """Whether it takes long to make and is therefore cached (`to_arrays`)."""
        ...

    def cells(self) -> Floats:
        """Return the estimated count of every cell, in the shape of the cube; QueryError if these are too many."""
        ...

    def values(self, queries: Queries) -> Floats:
        """Return the estimated answers, shape (queries,)."""
        ...

    def errors(self, queries: Queries) -> ErrorParts:
        """Return the parts of the errors of the answers, each of shape (queries,)."""
        ...

    def answers(self, queries: Queries) -> tuple[Floats, ErrorParts]:
        """Return `values` and `errors` at once: where one walk down a tree gives both it is taken once."""
        ...

    def marginal(self, axes: Sequence[int], starts: Sequence[Ints] | None = None) -> Floats:
        """Return the estimated table over some axes, ascending; the others are summed out.

        `starts` coarsens the table: for each of these axes it has the first cells, ascending, of the runs of cells that
        are put together. A first cell may be repeated; a run that ends where it starts stands for that single cell.
        """
        ...

    def draw(self, rows: int | None, generator: Generator, *, batch: int | None = None) -> Iterator[tuple[Places, ...]]:
        """Return the cells of synthetic rows on every axis, in batches; as many as are estimated if `rows` is None.

        The sample is stratified (`models/sampling.py`). A QueryError says if so many cannot be drawn.
        """
        ...

    def without_order(self, axes: tuple[int, ...]) -> "Estimate":
        """Return the estimate for a cube on some of whose axes values have no order: neighbours may differ there."""
        ...

    @property
    def marginal_model(self) -> MarginalModel | None:
        """The model of noisy marginals that it is, with their groups and errors; None if it estimates every cell."""
        ...

    def to_arrays(self) -> EstimateArrays:
        """Return all that answers need as plain arrays: see `models/protocol.py`, which has the inverse."""
        ...


def run_ends(starts: Ints, extent: int) -> Ints:
    """Return one past the last cell of each run of cells along an axis, by the first cells of `Estimate.marginal`.

    >>> run_ends(np.array([0, 3, 3, 4]), 9)
    array([3, 4, 4, 9])
    """
    return np.asarray(np.maximum(np.append(starts[1:], extent), starts + 1), np.int64)


def marginal_cells(shape: Sequence[int], axes: Sequence[int], starts: Sequence[Ints] | None = None) -> Workload:
    """Return the cells of the marginal over some axes as ranges of the cube, the last axis fastest."""
    firsts = [np.arange(shape[axis]) for axis in axes] if starts is None else list(starts)
    lasts = [run_ends(first, shape[axis]) for first, axis in zip(firsts, axes, strict=True)]
    grid = np.meshgrid(*(np.arange(len(first)) for first in firsts), indexing="ij")
    number = int(np.prod([len(first) for first in firsts], dtype=np.int64))
    lower, upper = np.zeros((number, len(shape)), np.int64), np.tile(np.array(shape, np.int64), (number, 1))
    for axis, first, last, at in zip(axes, firsts, lasts, grid, strict=True):
        lower[:, axis], upper[:, axis] = first[at.reshape(-1)], last[at.reshape(-1)]
    return Workload(tuple(shape), lower, upper)
