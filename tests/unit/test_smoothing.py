"""Noisy counts along one attribute, made smooth where nothing but noise differs."""

import numpy as np
import pytest

from dpcube.core.arrays import Floats
from dpcube.models.cuboids.shares import shares_of_cells, smoothed


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 64, 100, 1000])
def test_what_is_even_stays_and_nothing_is_lost_in_length(size: int) -> None:
    np.testing.assert_allclose(smoothed(np.full(size, 7.0), 100.0), 7.0)


@pytest.mark.parametrize("size", [4, 5, 37, 100])
def test_without_noise_nothing_changes(size: int) -> None:
    counts = np.random.default_rng(size).gamma(0.5, 100.0, size)
    np.testing.assert_allclose(smoothed(counts, 0.0), counts)


def test_both_directions_are_alike() -> None:
    counts = np.random.default_rng(3).gamma(0.5, 100.0, 41)
    np.testing.assert_allclose(smoothed(counts[::-1], 2500.0)[::-1], smoothed(counts, 2500.0))


def _errors(exact: Floats, scale: float) -> tuple[float, float]:
    generator = np.random.default_rng(11)
    before = after = 0.0
    for _ in range(20):
        noisy = exact + generator.laplace(scale=scale, size=len(exact))
        before += float(np.abs(noisy - exact).mean())
        after += float(np.abs(smoothed(noisy, 2 * scale**2) - exact).mean())
    return before, after


def test_noise_goes_where_counts_are_even_and_spikes_stay() -> None:
    flat = np.full(96, 50.0)
    before, after = _errors(flat, 30.0)
    assert after < before / 3
    spiky = flat.copy()
    spiky[[20, 40, 41]] = 2000.0
    before, after = _errors(spiky, 30.0)
    assert after < before / 2


def test_cells_of_a_group_share_what_the_model_gives_it() -> None:
    counts, groups = np.array([100.0, 0.0, 0.0, 0.0, 60.0, 40.0]), np.array([0, 0, 0, 0, 1, 1])
    np.testing.assert_allclose(
        shares_of_cells(counts, 1.0, groups, np.array([100.0, 100.0])), [1, 0, 0, 0, 0.6, 0.4], atol=0.02
    )
    # A group of which the model says less than was counted loses its smallest cells first.
    fewer = shares_of_cells(counts, 1.0, groups, np.array([100.0, 20.0]))
    np.testing.assert_allclose(fewer[4:], [1, 0], atol=0.03)
    # What noise makes different is spread evenly where cells have no order, and nearly so among neighbours.
    for order, close in ((groups, 0.11), (1 - groups, 1e-9)):
        even = shares_of_cells(counts, 1e6, order, np.array([100.0, 100.0]))
        np.testing.assert_allclose(even, [0.25] * 4 + [0.5] * 2, atol=close)
    np.testing.assert_allclose(shares_of_cells(counts, 1.0, groups, np.zeros(2))[4:].sum(), 1)
