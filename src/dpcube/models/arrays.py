"""The written form of an estimate: plain numbers and arrays by name, and the bytes of both.

`Estimate.to_arrays` makes it and `estimate_of_arrays` is the inverse: what comes back gives the same answers as the
estimate, but for rounding. The cache of counts, the offline page and processes use this one form. Packed are four bytes
with the length of the head, the head (JSON: facts, and where each array lies), and the arrays, each at a multiple of
eight bytes. Bytes are not trusted to form an estimate: whatever would let an answer fail, or never end, is found when
they are read, and is a `DamagedError`.
"""

import json
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Floats, Ints

if TYPE_CHECKING:
    from dpcube.models.protocol import Estimate

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
