"""How far the answers of a release can be trusted, by kind of question: from the release alone."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcube.analyst.answer import Answers, error_quantile
from dpcube.analyst.plots.axis import axis_of, printable
from dpcube.analyst.release import Release
from dpcube.query import Workload

ASKED = 2000
COVERAGE = {
    "posterior": "58 in 100 random ranges, 74 in 100 groups of one attribute, 97 in 100 cells, so trust ranges less",
    "consistent": "95 in 100 random ranges, 95 in 100 groups of one attribute, more of single cells",
    "cells": "97 in 100 random ranges, 96 in 100 groups of one attribute, 98 in 100 cells",
}
"""Intervals of 95% on the bundled table's cube at epsilon 1, 10 runs each (tools/measure_coverage.py)."""


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
    reach: NDArray[np.float64] = error_quantile(0.95) * np.hypot(answers.stderrs, answers.withins)
    return Trust(question, float(np.median(answers.values)), float(np.median(reach)))


def _cells(shape: tuple[int, ...]) -> Workload:
    """Return every cell, or of many some evenly spaced ones."""
    size = int(np.prod(shape, dtype=np.int64))
    chosen = np.unique(np.linspace(0, size - 1, min(size, ASKED)).astype(np.int64))
    lower = np.stack(np.unravel_index(chosen, shape), axis=1)
    return Workload(shape, lower, lower + 1)
