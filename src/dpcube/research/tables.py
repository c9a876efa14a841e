"""Public tables as exact counts of declared domains: cubes of the bundled one, files of coded rows, simulated tables.

Simulated tables are of random shapes and laws, or of named laws like the shapes of DPBench. A table of `drawn_tables`
has 1 to 6 attributes, some of them ordered, 10 to 200,000 cells and 1,000 to 3,000,000 rows. The same seed and number
give the same table, whatever else is drawn; so do a law, sides and a seed of `shape_shares`.
"""

import math
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpcube import datasets
from dpcube.core.arrays import Floats, Ints
from dpcube.core.domain import Domain
from dpcube.core.domain.attribute import Attribute, listing
from dpcube.core.domain.category import Category
from dpcube.core.domain.number import Integer
from dpcube.core.errors import DpcubeError, InputError
from dpcube.curator.publishing import count
from dpcube.queries import Workload
from dpcube.research.processes import seed_of


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


MAX_DRAWN_ATTRIBUTES = 6
CELL_RANGE = (10, 200_000)
ROW_RANGE = (1e3, 3e6)
LEAST_SIDE = 2

TableLaw = Callable[[tuple[int, ...], np.random.Generator], Floats]


def drawn_tables(number: int, *, seed: int) -> Iterator[PublicTable]:
    """Yield a number of tables."""
    return (drawn_table(seed, place) for place in range(number))


def drawn_table(seed: int, place: int) -> PublicTable:
    """Return one table of a seed, by its place."""
    random = np.random.default_rng(seed_of("drawn table", seed, place))
    shape = drawn_shape(random)
    law = list(LAWS)[int(random.integers(len(LAWS)))]
    ordered = tuple(bool(one) for one in random.random(len(shape)) < 0.5)
    rows = round(10 ** random.uniform(*np.log10(ROW_RANGE)))
    weights = LAWS[law](shape, random).reshape(-1)
    exact_counts = random.multinomial(rows, weights / weights.sum()).reshape(shape).astype(np.int64)
    domain = coded_domain(shape, ordered, tuple(f"a{axis}" for axis in range(len(shape))))
    kinds = "x".join(f"{size}{'' if is_ordered else 'g'}" for size, is_ordered in zip(shape, ordered, strict=True))
    return PublicTable("drawn", f"drawn {seed}.{place}: {law} {kinds}, {rows:,} rows", domain, exact_counts)


def drawn_shape(random: np.random.Generator) -> tuple[int, ...]:
    """Return the sides of a cube: its number of cells is spread over the powers of ten, each side over what is left."""
    attributes = int(random.integers(1, MAX_DRAWN_ATTRIBUTES + 1))
    cells = 10 ** random.uniform(np.log10(max(CELL_RANGE[0], LEAST_SIDE**attributes)), np.log10(CELL_RANGE[1]))
    cells = min(cells, 10.0 ** (2 + attributes))  # nobody has an attribute of 100,000 values
    parts = random.dirichlet(np.full(attributes, 3.0))
    sides = np.maximum(np.rint(cells**parts), LEAST_SIDE).astype(int)
    while sides.prod() > CELL_RANGE[1]:
        sides[sides.argmax()] -= max(1, sides.max() // 20)
    while sides.prod() < CELL_RANGE[0]:
        sides[sides.argmin()] += 1
    return tuple(int(side) for side in sides)


def uneven(shape: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Return independent gamma weights: cells without any pattern, the emptier the smaller the shape drawn."""
    return random.gamma(random.choice([0.1, 0.3, 0.7, 2.0]), 1.0, shape)


def classes(shape: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Return a mixture of latent classes, in each of which attributes are independent and have Zipf's law."""
    density = np.zeros(shape)
    for part in random.dirichlet(np.full(int(random.integers(1, 8)), 1.5)):
        sides = [random.permutation(np.arange(1.0, n + 1) ** -random.uniform(0.3, 2.0)) for n in shape]
        together = _product(sides)
        density += part * together / together.sum()
    return density


def hills(shape: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Return a few round hills of different widths over a plain."""
    place = np.stack([(axis + 0.5) / n for axis, n in zip(np.indices(shape), shape, strict=True)], axis=-1)
    density = np.full(shape, random.choice([0.0, 1e-3, 0.05]) / np.prod(shape))
    for part in random.dirichlet(np.ones(int(random.integers(1, 6)))):
        width = 10 ** random.uniform(-1.5, -0.3)
        hill = np.exp(-((place - random.random(len(shape))) ** 2).sum(axis=-1) / (2 * width**2)) + 1e-300
        density += part * hill / hill.sum()
    return density


def spikes(shape: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Return Zipf's law over cells at random."""
    return random.permutation(np.arange(1.0, np.prod(shape) + 1) ** -random.uniform(0.7, 1.5)).reshape(shape)


def departures(shape: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Return independent attributes, times a random factor for every cell of every pair of them."""
    log = np.log(_product([random.dirichlet(np.full(n, 0.8)) + 1e-9 for n in shape]))
    strength = random.choice([0.2, 0.5, 1.0])
    for first in range(len(shape)):
        for second in range(first):
            sides = [n if axis in (first, second) else 1 for axis, n in enumerate(shape)]
            log = log + random.normal(0, strength, sides)
    return np.asarray(np.exp(log - log.max()), np.float64)


def even_or_striped(shape: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Return the even law, or stripes across one axis."""
    axis, period = int(random.integers(len(shape))), int(random.integers(1, 4))
    return np.asarray(np.indices(shape)[axis] % period == 0, np.float64)


LAWS: dict[str, TableLaw] = {
    "uneven": uneven,
    "classes": classes,
    "hills": hills,
    "spikes": spikes,
    "departures": departures,
    "even": even_or_striped,
}


def _product(sides: list[Floats]) -> Floats:
    product = sides[0]
    for side in sides[1:]:
        product = np.multiply.outer(product, side)
    return product


SIDES: dict[int, tuple[int, ...]] = {
    1: (4096,),
    2: (128, 128),
    3: (32, 32, 16),
    4: (16, 16, 8, 8),
    5: (8, 8, 8, 8, 4),
    6: (8, 8, 4, 4, 4, 4),
}
"""The sides of a cube by its number of dimensions: DPBench's in 1-D and 2-D, and as many cells from there on."""
MAX_SHAPE_CELLS = 2**24
FULL_PART = 0.02  # of the cells of a sparse shape
CLUMPS, CLUMP_WIDTHS = 10, (0.01, 0.05)  # widths as parts of an axis
HILLS, HILL_WIDTHS = 3, (0.15, 0.4)
STRIPE = 4  # cells from one stripe to the next


def shape_shares(law: str, sides: tuple[int, ...], *, seed: int) -> Floats:
    """Return the share of the rows in each cell of a simulated table.

    >>> shape_shares("uniform", (2, 2), seed=0).tolist()
    [[0.25, 0.25], [0.25, 0.25]]
    """
    if law not in SHAPE_LAWS:
        msg = f"there is no shape '{law}'; there are {listing(list(SHAPE_LAWS))}"
        raise InputError(msg)
    if not 1 <= len(sides) <= max(SIDES) or min(sides) < 2 or math.prod(sides) > MAX_SHAPE_CELLS:
        msg = f"a shape has 1 to {max(SIDES)} sides of 2 cells or more, {MAX_SHAPE_CELLS:,} cells at most, got {sides}"
        raise InputError(msg)
    weights = SHAPE_LAWS[law](sides, np.random.default_rng(seed_of("shape", law, sides, seed)))
    return np.asarray(weights / weights.sum())


def _sparse(sides: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Return a few full cells at random, uneven, and nothing elsewhere."""
    cells = math.prod(sides)
    weights = np.zeros(cells)
    full = random.choice(cells, max(1, round(FULL_PART * cells)), replace=False)
    weights[full] = random.gamma(1.0, 1.0, len(full)) + 1e-9
    return weights.reshape(sides)


def _clumped(sides: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Return narrow clumps with next to nothing between them."""
    return _gaussians(sides, random, CLUMPS, CLUMP_WIDTHS)


def _smooth(sides: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Return a few wide hills that run into each other."""
    return _gaussians(sides, random, HILLS, HILL_WIDTHS)


def _spiky(sides: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Return Zipf's law over cells in random order: no cell is empty, and a few have most rows."""
    return random.permutation(np.arange(1.0, math.prod(sides) + 1) ** -1.1).reshape(sides)


def _striped(sides: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Return stripes across the first axis, each of a weight of its own and even along the others."""
    heights = np.where(np.arange(sides[0]) % STRIPE == 0, random.gamma(2.0, 1.0, sides[0]) + 1e-9, 0.0)
    return np.broadcast_to(heights.reshape(-1, *[1] * (len(sides) - 1)), sides).copy()


def _uniform(sides: tuple[int, ...], random: np.random.Generator) -> Floats:  # noqa: ARG001 (nothing to draw)
    return np.ones(sides)


def _gaussians(sides: tuple[int, ...], random: np.random.Generator, number: int, widths: tuple[float, float]) -> Floats:
    """Return round hills of random places and weights, of widths between the two."""
    density = np.zeros(sides)
    for part in random.dirichlet(np.ones(number)):
        centre, width = random.random(len(sides)), random.uniform(*widths)
        hill = np.ones(sides)
        for axis, side in enumerate(sides):
            away = np.exp(-(((np.arange(side) + 0.5) / side - centre[axis]) ** 2) / (2 * width**2)) + 1e-30
            hill *= (away / away.sum()).reshape([side if one == axis else 1 for one in range(len(sides))])
        density += part * hill
    return density


SHAPE_LAWS: dict[str, TableLaw] = {
    "sparse": _sparse,
    "clumped": _clumped,
    "spiky": _spiky,
    "smooth": _smooth,
    "striped": _striped,
    "uniform": _uniform,
}
