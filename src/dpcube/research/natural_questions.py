"""Natural questions about a public table with their true answers: its total, and all 1-way and 2-way marginals."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from dpcube import datasets
from dpcube.core.arrays import Bools, Floats, Ints
from dpcube.core.domain import Domain
from dpcube.curator.publishing import count
from dpcube.queries import CountingQueries, CountingQuery, query
from dpcube.queries.counting import cut_queries
from dpcube.research.tables import PublicTable

ALL_ROWS = "all rows"
OF_THE_BUNDLED = (
    *datasets.ADULT_QUESTIONS,
    "age < 20",
    "age >= 65 and income = '>50K'",
    "hours-per-week = 40",
    "age between 18 and 22 and marital-status = 'Never-married'",
    "age >= 62 and hours-per-week < 24",
)
"""The last three cut bins."""


@dataclass(frozen=True, slots=True, eq=False)
class Questions:
    """Questions in words and as counting queries, their true answers, and which of them cut bins."""

    words: tuple[str, ...]
    queries: CountingQueries
    truths: Floats
    cut: Bools

    def __len__(self) -> int:
        return len(self.words)


def natural_questions(
    table: PublicTable, expressions: Sequence[str] = (), truths: Sequence[float] | None = None
) -> Questions:
    """Return the total, each bar of each attribute, each cell of each pair of attributes, and the expressions.

    The truths of expressions must be given where some cut bins: they do not follow from the counts of a cube.
    """
    domain, exact_counts = table.domain, table.exact_counts
    words, chosen, exact = [ALL_ROWS], [np.zeros((1, exact_counts.ndim), np.int64)], [np.array([exact_counts.sum()])]
    for axes in _few(exact_counts.ndim):
        words += _words(domain, axes)
        chosen.append(_chosen(exact_counts.shape, axes))
        exact.append(_marginal(exact_counts, axes).reshape(-1))
    asked = [query(domain, expression) for expression in expressions]
    if truths is None:
        truths = [float((exact_counts * one.dense()).sum()) for one in asked]
    queries = _with(domain, np.concatenate(chosen), asked)
    cuts, cut = cut_queries(domain, queries), np.zeros(len(queries), np.bool_)
    if cuts is not None:
        cut[cuts.at] = True
    return Questions((*words, *expressions), queries, np.concatenate([*exact, truths]).astype(np.float64), cut)


def bundled_questions(table: PublicTable) -> Questions:
    """Return the natural questions of the demo's cube, the demo's own and some that cut bins among them."""
    finest = Domain.load(datasets.adult_domain(full=True)).project(table.domain.names)
    exact_counts = count(datasets.adult_table(), finest)
    truths = [float((exact_counts * query(finest, asked).dense()).sum()) for asked in OF_THE_BUNDLED]
    return natural_questions(table, OF_THE_BUNDLED, truths)


def _few(axes: int) -> list[tuple[int, ...]]:
    """Return every axis, then every pair of axes."""
    return [chosen for number in (1, 2) for chosen in combinations(range(axes), number)]


def _words(domain: Domain, axes: tuple[int, ...]) -> list[str]:
    named = [[f"{domain.names[axis]} = {label}" for label in domain.attributes[axis].labels()] for axis in axes]
    return [", ".join(cell) for cell in product(*named)]


def _marginal(exact_counts: Ints, axes: tuple[int, ...]) -> Ints:
    others = tuple(axis for axis in range(exact_counts.ndim) if axis not in axes)
    return np.asarray(exact_counts.sum(axis=others), np.int64)


def _chosen(shape: tuple[int, ...], axes: tuple[int, ...]) -> Ints:
    """Return rows of weights: on each axis 0 takes everything, and 1 + k takes cell k."""
    cells = np.indices([shape[axis] for axis in axes]).reshape(len(axes), -1).T
    chosen = np.zeros((len(cells), len(shape)), np.int64)
    chosen[:, axes] = cells + 1
    return chosen


def _with(domain: Domain, chosen: Ints, asked: Sequence[CountingQuery]) -> CountingQueries:
    """Return the cells that are chosen, and some queries more with weights of their own."""
    own = np.arange(len(asked), dtype=np.int64)[:, None] + 1 + np.array(domain.shape)
    weights = tuple(
        np.concatenate([np.ones((1, size)), np.eye(size), *(one.weights[axis][None] for one in asked)])
        for axis, size in enumerate(domain.shape)
    )
    parts = tuple(
        np.concatenate([np.zeros((1 + size, size), np.bool_), *(one.parts[axis][None] for one in asked)])
        for axis, size in enumerate(domain.shape)
    )
    return CountingQueries(weights, np.concatenate([chosen, own]), parts)
