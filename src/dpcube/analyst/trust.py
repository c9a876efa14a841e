"""How far the answers of a release can be trusted, by kind of question: from the release alone."""

from dataclasses import dataclass

import numpy as np

from dpcube.analyst.answer import Answers
from dpcube.analyst.plots.axis import axis_of, printable
from dpcube.analyst.release import Release
from dpcube.query import Workload

ASKED = 2000
KINDS = {"ranges": "random ranges", "marginals": "groups of one attribute", "cells": "single cells"}
COVERAGE = {
    "posterior": {"ranges": 98, "marginals": 95, "cells": 99},
    "consistent": {"ranges": 97, "marginals": 97, "cells": 99},
    "cells": {"ranges": 98, "marginals": 96, "cells": 99},
}
"""Percent of 95% intervals that held the truth on the demo's cube with epsilon 1: `python -m dpcube.evaluate.trust`."""


@dataclass(frozen=True, slots=True)
class Trust:
    """A kind of question, its median answer, and the median half of its 95% interval."""

    question: str
    answer: float
    reach: float


def trust(release: Release) -> list[Trust]:
    """Return the rows of the table: the total, each attribute's groups, single cells."""
    shape = release.domain.shape
    whole = Workload(shape, np.zeros((1, len(shape)), np.int64), np.array([shape]))
    found = [_told("all rows", release.answer(whole))]
    for at, attribute in enumerate(release.domain.attributes):
        axis = axis_of(attribute, most=ASKED)
        lower, upper = np.repeat(whole.lower, len(axis), axis=0), np.repeat(whole.upper, len(axis), axis=0)
        lower[:, at], upper[:, at] = axis.starts, axis.stops
        found.append(_told(f"one value of {printable(attribute.name)}", release.answer(Workload(shape, lower, upper))))
    return [*found, _told("a single cell", release.answer(_cells(shape)))]


def _told(question: str, answers: Answers) -> Trust:
    return Trust(question, float(np.median(answers.values)), float(np.median(answers.reach(0.95))))


def _cells(shape: tuple[int, ...]) -> Workload:
    """Return every cell, or of many some evenly spaced ones."""
    size = int(np.prod(shape, dtype=np.int64))
    chosen = np.unique(np.linspace(0, size - 1, min(size, ASKED)).astype(np.int64))
    lower = np.stack(np.unravel_index(chosen, shape), axis=1)
    return Workload(shape, lower, lower + 1)
