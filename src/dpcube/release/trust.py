"""Typical confidence intervals of a release by kind of question, from the release alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpcube.models.errors import evenly_placed_ranges
from dpcube.queries import Workload
from dpcube.release.answer import Answers

if TYPE_CHECKING:
    from dpcube.release.release import Release

MAX_TRUST_QUERIES = 200
"""Ranges, cells and values of one attribute over which typical errors are computed, always the same ones."""
ONE_CELL = "one cell"
INTERVAL_KINDS = {"ranges": "random ranges", "marginals": "groups of one attribute", "cells": "single cells"}
COVERAGE = {
    ("adaptive", "balanced"): {"ranges": 99, "marginals": 98, "cells": 100},
    ("dpcube", "consistent"): {"ranges": 97, "marginals": 98, "cells": 98},
    ("cells", "cells"): {"ranges": 96, "marginals": 95, "cells": 99},
}
"""By strategy and its default estimate, percent of 95% intervals with the truth inside on the demo's cube, epsilon 1.

`python -m dpcube.research.trust` measures it and prints these lines; external strategies were not measured.
A test compares the keys with the default estimates of releases: under another key a report would not quote its line.
"""


@dataclass(frozen=True, slots=True)
class Trust:
    """A kind of question: its median answer, the median half-width of its 95% interval, and its standard errors.

    `middle` is the median standard error, noise and non-uniformity error together, and `most` its 90th percentile.
    `modelled` is the share of these answers that are a model's (docs/guides/wide-tables.md).
    """

    question: str
    answer: float
    half_width: float
    middle: float
    most: float
    modelled: float = 0.0


def doubts(kinds: Sequence[Trust]) -> str:
    """Return a warning if no answer of a release can be used, or nothing; the first kind of question is its total."""
    total = kinds[0]
    if np.isnan(total.half_width):
        return "The errors of its answers are unknown: do not use the answers as they stand."
    if not total.answer > total.half_width:
        return "The total is not above its error: this release shows only that there are few rows."
    return ""


def trust(release: "Release", attributes: Sequence[str] | None = None) -> list[Trust]:
    """Return the typical errors of the total, of ranges, of the values of each attribute, and of single cells."""
    named = release.domain.names if attributes is None else attributes
    return [_trust_of(question, release.answer(asked)) for question, asked in _questions(release, named)]


def _questions(release: "Release", attributes: Sequence[str]) -> Iterator[tuple[str, Workload]]:
    shape = release.domain.shape
    yield "all rows", Workload(shape, np.zeros((1, len(shape)), np.int64), np.array([shape]))
    ranges = evenly_placed_ranges(shape)
    yield "a range at random", Workload(shape, ranges.lower[:MAX_TRUST_QUERIES], ranges.upper[:MAX_TRUST_QUERIES])
    for name in attributes:
        yield f"one value of {name}", _values_of(release.domain.axis(name), shape)
    if release.transcript.is_wide:
        return  # of a wide table hardly any cell has a row, and none was counted
    cells = np.stack(np.unravel_index(_spaced(release.domain.size), shape), axis=1)
    yield ONE_CELL, Workload(shape, cells, cells + 1)


def _values_of(axis: int, shape: tuple[int, ...]) -> Workload:
    """Return the ranges of one cell of an axis and all cells of the others."""
    places = _spaced(shape[axis])
    lower, upper = np.zeros((len(places), len(shape)), np.int64), np.tile(shape, (len(places), 1))
    lower[:, axis], upper[:, axis] = places, places + 1
    return Workload(shape, lower, upper)


def _spaced(cells: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return every cell, or of many a regular sample."""
    return np.unique(np.linspace(0, cells - 1, min(cells, MAX_TRUST_QUERIES)).astype(np.int64))


def _trust_of(question: str, answers: Answers) -> Trust:
    middle, most = np.quantile(np.hypot(answers.stderrs, answers.nonuniformities), (0.5, 0.9))
    value, half_width = np.median(answers.values), np.median(answers.half_width(0.95))
    modelled = 0.0 if answers.modelled is None else float(answers.modelled.mean())
    return Trust(question, float(value), float(half_width), float(middle), float(most), modelled)
