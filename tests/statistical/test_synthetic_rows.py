"""Synthetic rows against the release they are drawn from: exact laws, false alarms at 1e-6, and sabotage twins."""

from collections.abc import Sequence
from datetime import date
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from checks import ALARM, association, two_sided, union
from numpy.typing import NDArray
from scipy import stats

from dpcube import Domain, Release, datasets, evaluate
from dpcube.core.arrays import Floats
from dpcube.core.domain import Date, Float, Integer
from dpcube.curator.publishing import count
from dpcube.models.cell_sums import non_negative
from dpcube.release.synthesize import synthetic_rows
from dpcube.testing import SeededNoise
from given_cells import given_cells

SHAPE = (24, 31)
ROWS = 1500


def estimated() -> Floats:
    """A noisy cube with negative cells."""
    counts = np.random.default_rng(2).poisson(np.linspace(0, 6, 24)[:, None] * np.linspace(1, 0, 31))
    cells = evaluate.experiment(counts, epsilon="0.3", strategy="cells", noise=SeededNoise(3)).cells()
    assert (cells < 0).mean() > 0.2
    return cells


def drawn(cells: Floats, rows: int = ROWS, *, seed: int) -> Floats:
    """How many synthetic rows fall in each cell."""
    table = synthetic_rows(Domain.of_shape(cells.shape), given_cells(cells), rows, seed).read_all()
    counts = np.zeros(cells.shape)
    np.add.at(counts, tuple(column.to_numpy() for column in table.columns), 1)
    return counts


def law_of_a_range(shares: Floats, inside: NDArray[np.bool_], tables: int) -> Floats:
    """The law of how many rows of several tables fall in some cells: one independent draw for each stratum."""
    ends = np.concatenate([[0.0], np.cumsum(shares)])
    covered = np.concatenate([[0.0], np.cumsum(np.where(inside, shares, 0.0))])
    chance = np.clip(np.diff(np.interp(np.arange(ROWS + 1), ends, covered)), 0, 1)
    law = np.ones(1)
    for p in chance[chance > 1e-12]:
        law = np.convolve(law, [1 - p, p])
    together = law
    for _ in range(tables - 1):
        together = np.convolve(together, law)
    return together


def agreement(seen: Sequence[Floats], cells: Floats, ranges: NDArray[np.bool_]) -> float:
    """The p-value of how many rows of several tables are in each range, a row of booleans over the cells."""
    shares = non_negative(cells)
    shares = shares * (ROWS / shares.sum())
    together = np.sum(seen, axis=0).reshape(-1)
    p_values = []
    for inside in ranges:
        law, rows = law_of_a_range(shares, inside, len(seen)), int(together[inside].sum())
        p_values.append(2 * min(law[: rows + 1].sum(), law[rows:].sum()))
    return union(np.array(p_values))


def test_ranges_agree_with_the_release_within_sampling_error() -> None:
    cells, ranges = estimated(), evaluate.random_ranges(SHAPE, 40, seed=1).matrix().astype(bool)
    assert agreement([drawn(cells, seed=seed) for seed in range(4)], cells, ranges) > ALARM


@pytest.mark.parametrize("sabotage", ["clipped alone", "tilted", "uniform"])
def test_rows_of_another_cube_are_rejected(sabotage: str) -> None:
    cells, ranges = estimated(), evaluate.random_ranges(SHAPE, 40, seed=1).matrix().astype(bool)
    other = {
        "clipped alone": np.maximum(cells, 0),
        "tilted": non_negative(cells).reshape(SHAPE) * np.linspace(0.95, 1.05, 24)[:, None],
        "uniform": np.ones(SHAPE),
    }[sabotage]
    assert agreement([drawn(other, seed=seed) for seed in range(4)], cells, ranges) < ALARM


@pytest.fixture(scope="module")
def adult() -> Release:
    domain = Domain.load(datasets.adult_domain())
    made = evaluate.experiment(count(datasets.adult_table(), domain), epsilon="0.5", noise=SeededNoise(1))
    return Release(domain, made.transcript, made.provenance)


def marginals(shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """The cells of each bin of each axis."""
    places = np.indices(shape).reshape(len(shape), -1)
    return np.concatenate([places[axis] == np.arange(size)[:, None] for axis, size in enumerate(shape)])


def test_marginals_of_the_bundled_table_agree_with_its_release_and_others_do_not(adult: Release) -> None:
    cells, sets = adult.cells(), marginals(adult.domain.shape)
    tables = [adult.synthesize(ROWS, seed) for seed in range(4)]
    seen = [count(table, adult.domain).astype(np.float64) for table in tables]
    assert agreement(seen, cells, sets) > ALARM
    tilted = cells * np.linspace(0.9, 1.1, cells.shape[0])[:, None, None, None, None]
    assert agreement([drawn(tilted, seed=seed) for seed in range(4)], cells, sets) < ALARM
    swapped = cells[..., ::-1]  # the two incomes for one another
    assert agreement([drawn(swapped, seed=seed) for seed in range(4)], cells, sets) < ALARM


def test_ranges_vary_no_more_than_with_independent_rows() -> None:
    """At these seeds; rows drawn independently would be as far off as the multinomial says."""
    cells = estimated()
    shares = non_negative(cells).reshape(SHAPE)
    shares = shares / shares.sum()
    tables = np.stack([drawn(cells, seed=seed) for seed in range(300)])
    for window in (np.s_[:, 3:17], np.s_[5:20, :], np.s_[4:15, 6:21]):
        p = shares[window].sum()
        errors = tables[(slice(None), *window)].sum(axis=(1, 2)) - ROWS * p
        assert (errors**2).mean() < ROWS * p * (1 - p)


# --- inside bins -------------------------------------------------------------------------------------------------

BINNED = Domain(
    (
        Integer(name="n", edges=(0, 3, 10)),
        Float(name="x", edges=(-1, 0.5, 8)),
        Date(name="d", start=date(2024, 2, 1), end=date(2024, 3, 31), every="month"),
    )
)


def uniformity(table: pa.Table) -> float:
    """Whole numbers and days are equally likely within each bin, and reals in each eighth of it."""
    numbers, days = table["n"].to_numpy(), table["d"].to_numpy().astype("datetime64[D]").astype(np.int64)
    reals = table["x"].to_numpy()
    first = np.array(["2024-02-01", "2024-03-01", "2024-04-01"], "datetime64[D]").astype(np.int64)
    p_values: list[NDArray[np.float64] | float] = []
    for values, edges, parts in ((numbers, (0, 3, 10), None), (days, first, None), (reals, (-1, 0.5, 8), 8)):
        for low, high in pairwise(edges):
            inside = values[(values >= low) & (values < high)]
            pieces = parts or int(high - low)
            seen = np.bincount(((inside - low) / (high - low) * pieces + 1e-9).astype(int), minlength=pieces)
            p_values.append(two_sided(stats.binom(len(inside), 1 / pieces), seen))
    return union(*p_values)


def test_values_are_uniform_within_bins() -> None:
    table = synthetic_rows(BINNED, given_cells(np.arange(1.0, 9.0).reshape(2, 2, 2)), 60_000, 5).read_all()
    assert uniformity(table) > ALARM


@pytest.mark.parametrize("name", ["n", "x", "d"])
def test_values_that_lean_within_bins_are_rejected(name: str) -> None:
    table = synthetic_rows(BINNED, given_cells(np.arange(1.0, 9.0).reshape(2, 2, 2)), 60_000, 5).read_all()
    column = table[name].to_numpy()
    if name == "x":  # leans towards the lower edge
        column = np.where(column < 0.5, -1 + (column + 1) ** 1.2 / 1.5**0.2, column)
    else:  # one in a hundred values is the last of its bin
        last: Any = {"n": 9, "d": np.datetime64("2024-03-31")}[name]
        column = np.where(np.arange(len(column)) % 100 == 0, last, column)
    spoilt = table.set_column(table.schema.get_field_index(name), name, pa.array(column))
    assert uniformity(spoilt) < ALARM


# --- order -------------------------------------------------------------------------------------------------------


def order(table: pa.Table) -> float:
    """Of one batch: which rows come first, and which follow which, tells nothing about their cells."""
    cell = table["axis0"].to_numpy() * SHAPE[1] + table["axis1"].to_numpy()
    high = cell > np.median(cell)
    half = np.arange(len(cell)) < len(cell) // 2
    return union(association(half, high), association(high[0::2][: len(cell) // 2], high[1::2]))


@pytest.mark.parametrize("seed", range(3))
def test_rows_come_in_random_order(seed: int) -> None:
    assert order(synthetic_rows(Domain.of_shape(SHAPE), given_cells(estimated()), 5000, seed).read_all()) > ALARM


def test_sorted_rows_are_rejected() -> None:
    table = synthetic_rows(Domain.of_shape(SHAPE), given_cells(estimated()), 5000, 0).read_all()
    assert order(table.sort_by([("axis0", "ascending"), ("axis1", "ascending")])) < ALARM
    runs = table.take(pa.array(np.lexsort((np.arange(5000) // 50, table["axis0"].to_numpy() // 12))))
    assert order(runs) < ALARM
