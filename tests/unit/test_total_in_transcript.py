"""The total that is drawn first is a measurement: in the file, in the account, and in every estimate."""

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import dpcube
from dpcube import Domain
from dpcube.core.arrays import Floats, Ints
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.exact import SparseRows
from dpcube.core.feasible import TOTAL_SHARE
from dpcube.core.gate import Gate
from dpcube.curator import publish
from dpcube.measurements import Marginal, Provenance, Transcript
from dpcube.measurements.manifest import spent
from dpcube.measurements.transcript import TOTAL_UNITS
from dpcube.models.estimators import ESTIMATORS
from dpcube.models.marginals import BalancedEstimate
from dpcube.models.posterior import PosteriorEstimate, Whole, whole_count
from dpcube.noise import noise_variances
from dpcube.queries import Workload
from dpcube.release import Release
from dpcube.release.periods import merged
from dpcube.strategies import Adaptive, Cells, Cuboids, FineGrid, Strategy, TwoPhase
from dpcube.testing import SeededNoise, SilentNoise

SHAPE = (6, 5, 4)
DOMAIN = Domain.of_shape(SHAPE)
TABLE: Ints = np.random.default_rng(4).poisson(40 * np.random.default_rng(5).gamma(0.5, 2.0, SHAPE))
ROWS = int(TABLE.sum())
EPSILON = Fraction(1)
KINDS = {
    "cells": ("cells",),
    "dpcube": ("consistent", "uniform", "least_squares", "weighted_least_squares", "cells"),
    "adaptive": ("balanced", "posterior", "tree_least_squares", "consistent"),
    "fine_grid": ("grid", "tree_least_squares"),
    "cuboids": ("cuboids",),
}
DEFAULTS = ["cells", "adaptive", "fine_grid", "cuboids"]


def measured(kind: str, *, seed: int | None, epsilon: Fraction = EPSILON) -> Transcript:
    noise = SilentNoise() if seed is None else SeededNoise(seed)
    rest, occupied = epsilon * (1 - TOTAL_SHARE), np.nonzero(TABLE)
    if kind == "fine_grid":
        return FineGrid().run(Gate(SparseRows(SHAPE, occupied, TABLE[occupied]), rest, noise=noise))
    if kind == "cuboids":
        return Cuboids().run(Gate(SparseRows(SHAPE, occupied, TABLE[occupied]), rest, noise=noise))
    dense: dict[str, Strategy] = {"cells": Cells(), "dpcube": TwoPhase(), "adaptive": Adaptive()}
    return dense[kind].run(Gate(TABLE, rest, noise=noise))


def release(kind: str, transcript: Transcript, period: str | None = None) -> Release:
    return Release(DOMAIN, transcript, Provenance(kind, EPSILON, "test", period=period, private=False))


def test_the_total_s_part_is_whole_units_of_the_rest() -> None:
    assert TOTAL_UNITS == 2**36
    assert Fraction(TOTAL_UNITS, BUDGET_UNITS) * (1 - TOTAL_SHARE) == TOTAL_SHARE


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_saved_opened_and_accounted_for(kind: str, tmp_path: Path) -> None:
    made = release(kind, measured(kind, seed=1).after_total(ROWS + 7))
    made.save(tmp_path / "r.dpcube")
    back = dpcube.open(tmp_path / "r.dpcube")
    assert back.digest == made.digest
    first = back.transcript.measurements[0]
    assert isinstance(first, Marginal)
    assert (first.axes, int(first.counts), first.units) == ((), ROWS + 7, TOTAL_UNITS)
    parts = spent(back.transcript, back.provenance)
    assert parts["total"] == "1/17"
    assert sum(map(Fraction, parts.values())) <= 1
    assert "the whole: 1 count, each with 5.88% of epsilon" in back.explain()


@pytest.mark.parametrize(("kind", "estimate"), [(kind, name) for kind, names in KINDS.items() for name in names])
def test_every_estimate_uses_it(kind: str, estimate: str) -> None:
    """Of exact counts and a total that is off, the answer is off by the part that precision gives to the total."""
    honest, off = (measured(kind, seed=None).after_total(ROWS + more) for more in (0, 40))
    before, after = (release(kind, transcript).count(estimate=estimate) for transcript in (honest, off))
    assert before.value == pytest.approx(ROWS, rel=1e-3)
    assert 1 < after.value - before.value < 40
    without = release(kind, measured(kind, seed=None)).count(estimate=estimate)
    assert not before.stderr > without.stderr * (1 + 1e-9)  # or both are not known


def test_every_estimator_is_among_these() -> None:
    assert {one.name for one in ESTIMATORS} == {name for names in KINDS.values() for name in names}


def test_cells_with_a_total_are_least_squares_of_both() -> None:
    transcript = measured("cells", seed=3).after_total(ROWS + 30)
    assert transcript.cells is not None
    size, noise = TABLE.size, noise_variances(np.array([BUDGET_UNITS, TOTAL_UNITS]), transcript.epsilon_per_unit)
    design = np.vstack([np.eye(size), np.ones(size)])
    weights = 1 / np.append(np.full(size, noise[0]), noise[1])
    covariance = np.linalg.inv(design.T @ (weights[:, None] * design))
    expected = covariance @ design.T @ (weights * np.append(transcript.cells.counts.reshape(-1), ROWS + 30))
    made = release("cells", transcript)
    np.testing.assert_allclose(made.cells().reshape(-1), expected)
    asked = Workload(SHAPE, np.array([[0, 0, 0], [1, 0, 2], [3, 2, 1]]), np.array([[6, 5, 4], [5, 5, 3], [4, 3, 2]]))
    rows = np.zeros((3, *SHAPE))
    for row, low, high in zip(rows, asked.lower, asked.upper, strict=True):
        row[tuple(map(slice, low, high))] = 1
    flat = rows.reshape(3, -1)
    variances = made.estimate().errors(asked).noise_variances
    np.testing.assert_allclose(variances, np.einsum("qi,ij,qj->q", flat, covariance, flat))


def squares(kind: str, *, runs: int, epsilon: Fraction = EPSILON) -> tuple[Floats, Floats]:
    """The squared errors of `count(*)` in units of what is stated, and half-widths, over releases."""
    errors, widths = [], []
    share = epsilon * TOTAL_SHARE
    for seed in range(runs):
        noisy = ROWS + int(SeededNoise(1000 + seed).draw(share, 1)[0])
        found = release(kind, measured(kind, seed=seed, epsilon=epsilon).after_total(noisy)).count()
        errors.append((found.value - ROWS) ** 2 / (found.stderr**2 + found.nonuniformity**2))
        widths.append((found.high - found.low) / 2)
    return np.array(errors), np.array(widths)


@pytest.mark.slow
@pytest.mark.parametrize("kind", DEFAULTS)
def test_the_stated_error_of_all_rows_is_that_of_what_was_drawn(kind: str) -> None:
    """The mean of 60 squares of Laplace noise is above 1.9 with a chance below 1e-3; counts used twice state half."""
    errors, widths = squares(kind, runs=60)
    assert errors.mean() < 1.9
    assert widths.max() <= 65


@pytest.mark.parametrize("kind", ["cells", "adaptive"])
def test_totals_of_periods_stay_with_their_periods(kind: str, tmp_path: Path) -> None:
    months = ["seen from 2026-01-01 to 2026-01-31", "seen from 2026-02-01 to 2026-02-28"]
    parts = [
        release(kind, measured(kind, seed=k).after_total(ROWS + 5 * k), period=month) for k, month in enumerate(months)
    ]
    whole, without = (
        merged(
            [release(kind, one.transcript if keep else without_total(one.transcript), month) for one, month in parts]
        )
        for keep, parts in (
            (True, list(zip(parts, months, strict=True))),
            (False, list(zip(parts, months, strict=True))),
        )
    )
    assert whole.transcript.layout == "periods"
    assert whole.count().stderr < without.count().stderr
    stderr = math.hypot(*(one.count().stderr for one in parts))
    assert whole.count().stderr == pytest.approx(stderr, rel=0.02)
    assert whole.count().value == pytest.approx(sum(one.count().value for one in parts), rel=0.02)
    whole.save(tmp_path / "all.dpcube")
    again = dpcube.open(tmp_path / "all.dpcube")
    assert again.count() == whole.count()
    assert sum(map(Fraction, spent(again.transcript, again.provenance).values())) <= again.provenance.epsilon


def without_total(transcript: Transcript) -> Transcript:
    return Transcript(transcript.shape, transcript.epsilon_per_unit, transcript.measurements[1:], transcript.plan)


def test_of_a_unit_in_all_periods_parts_add_up_to_the_sum_of_the_epsilons() -> None:
    made = [
        Release(
            DOMAIN,
            measured("adaptive", seed=k).after_total(ROWS),
            Provenance("adaptive", EPSILON, "test", unit="patient", period=f"seen from {k} to {k}", private=False),
        )
        for k in range(3)
    ]
    whole = merged(made)
    assert whole.provenance.epsilon == 3
    assert sum(map(Fraction, spent(whole.transcript, whole.provenance).values())) == 3


def test_publish_keeps_it_unless_it_goes_on_even_if_empty() -> None:
    for even_if_empty in (False, True):
        made = publish(TABLE, DOMAIN, epsilon=1, strategy="cells", ledger=None, even_if_empty=even_if_empty)
        assert len(made.transcript.totals) == (not even_if_empty)


def test_the_total_of_a_table_measured_apart_is_weighed_once() -> None:
    of_tree, table = measured("adaptive", seed=1), Marginal((0,), TABLE.sum(axis=(1, 2)) + 9, BUDGET_UNITS // 8)
    transcript = replace(of_tree, measurements=(table, *of_tree.measurements)).after_total(ROWS)
    found, boxes = release("adaptive", transcript).estimate(), transcript.boxes_with_totals
    tree = found.tree if isinstance(found, BalancedEstimate) else found
    assert isinstance(tree, PosteriorEstimate)
    assert boxes is not None
    alone = whole_count(boxes, transcript.epsilon_per_unit)
    assert alone is not None
    variance = 6 * float(noise_variances(np.array([table.units]), transcript.epsilon_per_unit)[0])
    assert tree.whole == pytest.approx(alone.pooled_with(Whole(ROWS + 54.0, variance)))
    answer = release("adaptive", transcript).count()
    assert (answer.value, answer.stderr**2) == pytest.approx(tree.whole)


def test_counts_of_the_whole_are_pooled_by_precision() -> None:
    assert Whole(10.0, 1.0).pooled_with(Whole(20.0, 4.0)) == pytest.approx((12.0, 0.8))
