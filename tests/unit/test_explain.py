"""An account of a release says what was measured and how far off answers are, on one screen."""

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcube import Release, evaluate
from dpcube.core.counter import BUDGET_UNITS
from dpcube.measurements import BoxCounts, Provenance, Transcript
from dpcube.release.explain import account
from dpcube.release.trust import trust
from dpcube.testing import SeededNoise

COUNTS: NDArray[np.int64] = np.random.default_rng(8).poisson(np.outer(np.arange(16), np.arange(1, 33)))


def released(strategy: str) -> Release:
    return evaluate.experiment(COUNTS, epsilon="1/2", strategy=strategy, noise=SeededNoise(3))


@pytest.mark.parametrize("strategy", ["adaptive", "dpcube", "cells"])
def test_an_account_fits_one_screen(strategy: str) -> None:
    lines = released(strategy).explain().splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith("NOT PRIVATE")
    by = {"adaptive": "adaptive (plan: cells)"}.get(strategy, strategy)
    assert lines[1] == f"A cube of axis0, axis1: 16 x 32 = 512 cells, by {by}."
    assert "exp(1/2)" in lines[2]


def test_what_was_measured_is_told_by_what_was_spent() -> None:
    cells = account(released("cells")).measured
    assert [(row.what, row.counts, row.share) for row in cells] == [("every cell", 512, 1.0)]
    assert cells[0].noise == pytest.approx(np.sqrt(2) / 0.5, rel=0.02)
    boxes = account(released("dpcube")).measured
    assert [row.share for row in boxes] == [0.5, 0.5]
    adaptive, transcript = account(released("adaptive")).measured, released("adaptive").transcript
    assert transcript.boxes is not None
    assert adaptive[0].what == "the whole"
    assert adaptive[0].counts == 1
    assert adaptive[0].share == pytest.approx(0.01)  # by which, with a look, its plan is chosen
    assert sum(row.counts for row in adaptive) == len(transcript.boxes.node)


def test_many_kinds_of_counts_are_told_together() -> None:
    release = released("adaptive")
    boxes = release.transcript.boxes
    assert boxes is not None
    units = np.arange(1, len(boxes.node) + 1, dtype=np.int64) * (BUDGET_UNITS // (10 * len(boxes.node)))
    transcript = Transcript(
        (16, 32), release.transcript.epsilon_per_unit, (BoxCounts(boxes.tree, boxes.node, boxes.counts, units),)
    )
    rows = account(Release(release.domain, transcript, release.provenance)).measured
    assert len(rows) == 9
    assert rows[-1].what.startswith("other boxes")
    assert sum(row.counts for row in rows) == len(boxes.node)


def test_typical_errors_are_those_of_answers() -> None:
    release = released("cells")
    everything, ranges, first, second, cell = trust(release)
    one, total = release.count(axis0=(3, 3), axis1=(5, 5)), release.count()
    noise = one.stderr
    assert (everything.answer, everything.middle) == pytest.approx((total.value, total.stderr))
    assert everything.half_width == pytest.approx(total.high - total.value)
    assert (cell.middle, cell.most) == pytest.approx((noise, noise))
    assert first.middle == pytest.approx(noise * np.sqrt(32))
    assert second.middle == pytest.approx(noise * np.sqrt(16))
    assert cell.middle < ranges.middle < ranges.most
    assert cell.half_width == pytest.approx(one.high - one.value)
    told = account(release)
    assert told.errors == (everything, ranges, first, second, cell)
    assert f"A single cell below about {cell.half_width:.2g} rows" in str(told)


def test_a_private_release_bears_no_stamp_and_says_whom_it_protects() -> None:
    release = released("cells")
    made = release.provenance
    mine = Provenance("cells", made.epsilon, made.library, {}, private=True, unit="patient", max_rows=3)
    text = Release(release.domain, release.transcript, mine).explain()
    assert "NOT PRIVATE" not in text
    assert "all rows of one patient (3 counted at most)" in text
