"""`golden.json`, which notes what is read of it, and what tests of golden numbers share.

Golden numbers are printed to nine significant digits. A computed number agrees when it is within half a unit of the
ninth digit, that is within 0.5e-9 to 5e-9 relative: as much as the print allows and no more.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float64]
Table = dict[str, Any]

READ: set[tuple[str, ...]] = set()


class Noted(dict[str, Any]):
    """A table of the file; a number (or list, or text) of it is noted in READ when it is read."""

    def __init__(self, table: Table, path: tuple[str, ...] = ()) -> None:
        self.path = path
        super().__init__(
            {key: Noted(value, (*path, key)) if isinstance(value, dict) else value for key, value in table.items()}
        )

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        if not isinstance(value, dict):
            READ.add((*self.path, key))
        return value

    def items(self) -> Any:
        return {key: self[key] for key in self}.items()

    def values(self) -> Any:
        return dict(self.items()).values()


GOLDEN = Noted(json.loads((Path(__file__).parent / "golden.json").read_text()))

# The paper's defaults.
A1, A2, TOTAL, N_P = 0.05, 0.15, 0.2, 11
V1, V2 = 800.0, 800 / 9


def agrees(computed: ArrayLike, golden: ArrayLike) -> bool:
    """Whether every number is the golden one, to the nine digits printed."""
    value, printed = np.broadcast_arrays(np.asarray(computed, np.float64), np.asarray(golden, np.float64))
    size = np.where(printed == 0, 1.0, np.abs(printed))
    half_unit = 0.5 * 10.0 ** (np.floor(np.log10(size)) - 8)
    return bool(np.all(np.abs(value - printed) <= 1.0001 * half_unit))


def settings(key: str) -> dict[str, Any]:
    """Read a key such as n_p=11,s=5,alpha2=0.15."""
    return {name: float(value) for name, value in re.findall(r"(\w+)=([\d.e-]+)", key)}


def table(rows: Table) -> tuple[Numbers, dict[str, Numbers]]:
    """Return the keys of a table of rows as numbers, and its columns."""
    keys = np.array([float(key) for key in rows])
    return keys, {name: np.array([row[name] for row in rows.values()]) for name in next(iter(rows.values()))}
