"""The exact audit of a whole release whose total was drawn first, and for each way to break it a twin that fails.

The auditor is that of `auditor.py`, and what it audits is `publish`: everything that a release says, the total in
its transcript and whether it went on at all included.
"""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from auditor import EPSILON, INFINITE, Job, Said, worst
from checks import Values

import dpcube
from dpcube import Domain
from dpcube.core.errors import EmptyTotalError, ReleaseFileError
from dpcube.core.exact import DenseCounts
from dpcube.core.feasible import TOTAL_SHARE
from dpcube.core.noise import Noise
from dpcube.curator import publish, publishing, total_first
from dpcube.curator.account import LedgerAccount
from dpcube.measurements import BoxCounts, Marginal, Transcript
from dpcube.strategies import Cells, Cuboids, TwoPhase

FULL, NEAR = np.array([[40, 0, 3], [1, 2, 0]]), np.array([[13, 0, 6], [0, 1, 0]])
"""A table that is released whatever the noise of the audit is, and one that it stops now and then."""
STRATEGIES: dict[str, Any] = {
    "cells": Cells(),
    "dpcube": TwoPhase(share=Fraction(1, 2), slack=0),
    "cuboids": Cuboids(cuboids=(("axis0", "axis1"),)),
}
Sabotage = Callable[[pytest.MonkeyPatch], None]


def released(counts: Values, strategy: Any, noise: Noise) -> dpcube.Release:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpcube.core.gate.ExactNoise", lambda: noise)
        patch.setattr("dpcube.core.gate.ExactNoise", lambda: noise)
        domain = Domain.of_shape(counts.shape)
        return publish(counts, domain, epsilon=EPSILON, strategy=strategy, ledger=None, even_if_empty=False)


def said_by(transcript: Transcript) -> Said:
    """Every noisy count, in the order in which they were drawn, then what was chosen by them."""
    counts = [one.counts.reshape(-1) for one in transcript.totals]
    for kept in transcript.measurements[len(counts) :]:
        if isinstance(kept, Marginal | BoxCounts):
            counts.append(kept.counts.reshape(-1))
    chosen = [] if transcript.groups is None else list(transcript.groups.of_axis)
    if transcript.boxes is not None:
        chosen.append(np.concatenate([transcript.boxes.tree.lower, transcript.boxes.tree.upper]).reshape(-1))
    return counts + chosen


def whole_release(strategy: Any) -> Job:
    def run(exact: Values, noise: Noise) -> Said:
        try:
            return said_by(released(exact, strategy, noise).transcript)
        except EmptyTotalError as stopped:
            return [np.array([int(str(stopped).split("about ")[1].split()[0])])]

    return run


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_release_with_its_total_loses_its_epsilon_and_no_more(strategy: str) -> None:
    assert worst(whole_release(STRATEGIES[strategy]), FULL) == EPSILON


def test_a_release_that_stops_now_and_then_loses_no_more() -> None:
    assert worst(whole_release(Cells()), NEAR) == EPSILON


def not_charged(patch: pytest.MonkeyPatch) -> None:
    """The strategy has the whole epsilon besides the total."""
    honest = publishing._charged

    def charged(account: LedgerAccount, exact: Any, amount: Fraction, **more: Any) -> tuple[Fraction, int | None]:
        return amount, honest(account, exact, amount, **more)[1]

    patch.setattr(publishing, "_charged", charged)


def drawn_by_all_of_it(patch: pytest.MonkeyPatch) -> None:
    """The total is drawn with the release's epsilon, not with its share."""
    honest = total_first.draw_total
    patch.setattr(publishing, "draw_total", lambda exact, epsilon, **more: honest(exact, epsilon / TOTAL_SHARE, **more))


def without_noise(patch: pytest.MonkeyPatch) -> None:
    """The exact total is kept."""

    def draw_total(exact: DenseCounts, epsilon: Fraction, *, max_rows: int) -> int:
        total_first.draw_total(exact, epsilon, max_rows=max_rows)
        return int(exact.total().reveal()[0])

    patch.setattr(publishing, "draw_total", draw_total)


SABOTAGES: dict[Sabotage, Fraction] = {
    not_charged: EPSILON * (1 + TOTAL_SHARE),
    drawn_by_all_of_it: EPSILON * (2 - TOTAL_SHARE),
    without_noise: INFINITE,
}


@pytest.mark.parametrize("sabotage", SABOTAGES, ids=lambda sabotage: sabotage.__name__)
def test_sabotage_loses_more(sabotage: Sabotage, monkeypatch: pytest.MonkeyPatch) -> None:
    sabotage(monkeypatch)
    assert worst(whole_release(Cells()), FULL) == SABOTAGES[sabotage] > EPSILON


def test_a_file_of_a_total_that_was_not_charged_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    domain = Domain.of_shape(FULL.shape)
    for number, sabotage in enumerate([lambda _: None, not_charged]):
        sabotage(monkeypatch)
        path = tmp_path / f"{number}.dpcube"
        publish(FULL, domain, epsilon=8, strategy="cells", ledger=None, even_if_empty=False, save_to=path)
    assert dpcube.open(tmp_path / "0.dpcube").transcript.totals
    with pytest.raises(ReleaseFileError, match="costs more than the epsilon 8 it claims"):
        dpcube.open(tmp_path / "1.dpcube")
