"""Public tables as exact counts of declared domains: cubes of the bundled one, and files of coded rows."""

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpcube import datasets
from dpcube.core.arrays import Ints
from dpcube.core.domain import Domain
from dpcube.core.domain.attribute import Attribute
from dpcube.core.domain.category import Category
from dpcube.core.domain.number import Integer
from dpcube.core.errors import DpcubeError, InputError
from dpcube.curator.publishing import count
from dpcube.queries import Workload


@dataclass(frozen=True, slots=True, eq=False)
class PublicTable:
    """A public table: where it is from (files, or generated), its name, its domain, the exact count of every cell."""

    origin: str
    name: str
    domain: Domain
    exact_counts: Ints


def demo_table() -> PublicTable:
    """Return the demo's cube of the bundled table."""
    domain = Domain.load(datasets.adult_domain())
    return PublicTable("bundled", "Adult (bundled)", domain, count(datasets.adult_table(), domain))


def bundled_cube(names: tuple[str, ...]) -> PublicTable:
    """Return a cube of some attributes of the bundled table, each at its finest."""
    domain = Domain.load(datasets.adult_domain(full=True)).project(names)
    return PublicTable("bundled", " x ".join(names), domain, count(datasets.adult_table(), domain))


def coded_tables(directory: Path) -> Iterator[PublicTable]:
    """Yield the tables `NAME.npz` of a directory, by name: `codes` of rows, `shape`, `ordered` and `names` of columns.

    Other `.npz` files there, such as questions, are passed over.
    """
    for path in sorted(directory.glob("*.npz")):
        arrays = _arrays(path)
        if "codes" in arrays:
            yield _coded(path.stem, arrays)


def coded_questions(directory: Path, table: PublicTable) -> Workload | None:
    """Return the ranges of `queries_NAME.npz` beside a table, or None where there is no such file."""
    path = directory / f"queries_{table.name}.npz"
    if not path.is_file():
        return None
    arrays = _arrays(path)
    return Workload(table.domain.shape, arrays["lower"], arrays["upper"])


def coded_domain(shape: tuple[int, ...], ordered: tuple[bool, ...], names: tuple[str, ...]) -> Domain:
    """Return a domain of whole numbers from 0 where values have an order, and of listed codes where they have none."""

    def attribute(name: str, size: int, is_ordered: bool) -> Attribute:  # noqa: FBT001 (one of three columns)
        if is_ordered:
            return Integer(name=name, min=0, max=size - 1)
        return Category(name=name, values=tuple(map(str, range(size))))

    return Domain(tuple(map(attribute, names, shape, ordered)))


def _coded(name: str, arrays: dict[str, Ints]) -> PublicTable:
    try:
        shape = tuple(int(size) for size in arrays["shape"])
        domain = coded_domain(shape, tuple(map(bool, arrays["ordered"])), tuple(map(str, arrays["names"])))
        cells = np.ravel_multi_index(tuple(arrays["codes"].T), shape)
    except (KeyError, ValueError, TypeError, DpcubeError):
        msg = f"{name}.npz is no table of codes; it must hold codes (rows, columns), shape, ordered and names"
        raise InputError(msg) from None
    exact_counts = np.bincount(cells, minlength=domain.size).reshape(shape)
    return PublicTable("files", name, domain, exact_counts.astype(np.int64))


def _arrays(path: Path) -> dict[str, Ints]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        msg = f"cannot read arrays from {path}; it must be a .npz file of NumPy arrays"
        raise InputError(msg) from None
