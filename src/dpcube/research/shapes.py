"""Made-up public tables like those of DPBench, so that anybody can check claims without its arrays.

Enters: the name of a law, the sides of a cube and a seed. Leaves: the share of the rows that each cell has. Which cells
are full, where clumps lie and how high spikes are follows from the seed alone.
"""

import math

import numpy as np

from dpcube.core.arrays import Floats
from dpcube.core.domain.attribute import listing
from dpcube.core.errors import InputError
from dpcube.research.drawn_tables import TableLaw
from dpcube.research.seeds import seed_of

SIDES: dict[int, tuple[int, ...]] = {
    1: (4096,),
    2: (128, 128),
    3: (32, 32, 16),
    4: (16, 16, 8, 8),
    5: (8, 8, 8, 8, 4),
    6: (8, 8, 4, 4, 4, 4),
}
"""The sides of a cube of so many dimensions: DPBench's in 1-D and 2-D, and as many cells from there on."""
MOST_SHAPE_CELLS = 2**24
FULL_PART = 0.02  # of the cells of a sparse shape
CLUMPS, CLUMP_WIDTHS = 10, (0.01, 0.05)  # widths as parts of an axis
HILLS, HILL_WIDTHS = 3, (0.15, 0.4)
STRIPE = 4  # cells from one stripe to the next


def shape_shares(law: str, sides: tuple[int, ...], *, seed: int) -> Floats:
    """Return the share of the rows in each cell of a made-up table.

    >>> shape_shares("uniform", (2, 2), seed=0).tolist()
    [[0.25, 0.25], [0.25, 0.25]]
    """
    if law not in SHAPE_LAWS:
        msg = f"there is no shape '{law}'; there are {listing(list(SHAPE_LAWS))}"
        raise InputError(msg)
    if not 1 <= len(sides) <= max(SIDES) or min(sides) < 2 or math.prod(sides) > MOST_SHAPE_CELLS:
        msg = f"a shape has 1 to {max(SIDES)} sides of 2 cells or more, {MOST_SHAPE_CELLS:,} cells at most, got {sides}"
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
    """Return Zipf's law over cells at random: no cell is empty, and a few hold most rows."""
    return random.permutation(np.arange(1.0, math.prod(sides) + 1) ** -1.1).reshape(sides)


def _striped(sides: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Return stripes across the first axis, each of a weight of its own and even along the others."""
    heights = np.where(np.arange(sides[0]) % STRIPE == 0, random.gamma(2.0, 1.0, sides[0]) + 1e-9, 0.0)
    return np.broadcast_to(heights.reshape(-1, *[1] * (len(sides) - 1)), sides).copy()


def _uniform(sides: tuple[int, ...], random: np.random.Generator) -> Floats:  # noqa: ARG001 (nothing to draw)
    return np.ones(sides)


def _gaussians(sides: tuple[int, ...], random: np.random.Generator, number: int, widths: tuple[float, float]) -> Floats:
    """Return so many round hills: places and parts at random, widths between the two."""
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
