"""An error that is not known is never shown as 0, and a release that tells nothing is never praised."""

import itertools
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dpcube import Domain, Integer, Release, evaluate
from dpcube.cli import commands
from dpcube.core.boxes import Boxes
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter
from dpcube.measurements import BoxCounts, Transcript
from dpcube.release.answer import Answers
from dpcube.release.explain import account
from dpcube.release.plots.interactive import figure
from dpcube.release.plots.picture import picture
from dpcube.release.plots.static import draw_picture
from dpcube.release.report import report
from dpcube.release.trust import trust
from dpcube.strategies.strategy import Parameter
from dpcube.testing import SeededNoise
from dpcube.trees.tree import BoxTree

SIDE, STEP = 12, 4
WINDING = (((0, 0), (4, 8)), ((0, 8), (8, 12)), ((4, 4), (8, 8)), ((4, 0), (12, 4)), ((8, 4), (12, 12)))


@dataclass(frozen=True, slots=True)
class Grid:
    """A strategy of one's own: a grid of boxes below five that wind around one another.

    No straight cut parts the five, so there is no posterior, and no cells tell how uneven the boxes are.
    """

    name: str = "grid"
    with_total: bool = False

    def parameters(self) -> dict[str, Parameter]:
        return {}

    def peak_bytes(self, shape: tuple[int, ...]) -> int:
        return 64 * math.prod(shape)

    def run(self, counter: NoisyCounter) -> Transcript:
        rows = [((0, 0), (SIDE, SIDE), -1)]
        for low, high in WINDING:
            rows.append((low, high, 0))
            boxes = list(itertools.product(*(range(a, b, STEP) for a, b in zip(low, high, strict=True))))
            if len(boxes) > 1:
                around = len(rows) - 1
                rows += [((x, y), (x + STEP, y + STEP), around) for x, y in boxes]
        lower, upper, parent = (np.array(column) for column in zip(*rows, strict=True))
        tree = BoxTree(counter.shape, lower, upper, parent)
        node = np.concatenate([[0], tree.leaves]) if self.with_total else tree.leaves
        units = np.full(len(node), BUDGET_UNITS // 2)
        noisy = counter.boxes(Boxes(counter.shape, lower[node], upper[node]), units)
        return Transcript(counter.shape, counter.epsilon_per_unit, (BoxCounts(tree, node, noisy, units),))


def gridded(*, with_total: bool = False) -> Release:
    counts = np.random.default_rng(2).poisson(np.outer(np.arange(SIDE), np.arange(SIDE)))
    made = evaluate.experiment(counts, epsilon=1, strategy=Grid(with_total=with_total), noise=SeededNoise(1))
    domain = Domain(tuple(Integer(name=name, min=0, max=SIDE - 1) for name in "xy"))
    return Release(domain, made.transcript, made.provenance)


@pytest.fixture(scope="module")
def grid() -> Release:
    return gridded()


def test_whole_boxes_have_an_error_and_parts_of_them_an_unknown_one(grid: Release) -> None:
    for estimate in ("consistent", "uniform"):
        whole, part = (grid.count(x=(4, end), y=(0, 3), estimate=estimate) for end in (7, 6))
        assert (whole.nonuniformity, part.stderr > 0) == (0, True)
        assert whole.low < whole.value < whole.high
        assert np.isnan([part.nonuniformity, part.low, part.high]).all()
        assert "0.95 interval unknown" in str(part)
        assert "nonuniformity unknown" in str(part)


def test_nothing_is_known_of_the_noise_of_counts_inside_one_another() -> None:
    release = gridded(with_total=True)
    for asked in ({}, {"x": (4, 7), "y": (0, 3)}, {"x": 2}):
        answer = release.count(asked, estimate="consistent")
        assert np.isnan([answer.stderr, answer.low, answer.high]).all()
    known = release.count(x=(4, 7), y=(0, 3), estimate="uniform")
    assert known.low < known.value < known.high


def test_another_estimate_of_an_adaptive_release_states_no_error() -> None:
    """`--estimate consistent` gave the noise of `uniform` and no error within boxes: none of 60 intervals held."""
    counts = np.random.default_rng(3).poisson(np.outer(np.arange(16), np.arange(16)))
    release = evaluate.experiment(counts, epsilon="1/2", strategy="adaptive", noise=SeededNoise(1))
    assert np.isnan(release.count(axis0=3, estimate="consistent").low)
    assert release.count(axis0=3).interval != "unknown"  # the default states what it did


def test_every_way_of_asking_says_unknown(grid: Release) -> None:
    (row,) = grid.sql("SELECT count(*) AS n FROM cube WHERE x = 2", error=True).to_pylist()
    assert np.isnan([row["n_nonuniformity"], row["n_low"], row["n_high"]]).all()
    table = grid.group_by("x").table()
    assert np.isnan(table["low"].to_numpy()).all()
    simultaneous = Answers(np.ones(2), np.ones(2), np.array([0.0, np.nan])).interval(simultaneous=True)
    assert np.isnan(simultaneous)[:, 1].all()
    assert np.isfinite(simultaneous)[:, 0].all()
    (row,) = grid.sql("SELECT min(x) AS low, count(*) AS n FROM cube").to_pylist()
    assert row["low"] is None or row["low"] >= 0  # presence needs an error that is known


def test_the_command_prints_unknown_and_null(grid: Release, tmp_path: Path) -> None:
    path = tmp_path / "grid.dpcube"
    grid.save(path)
    run = CliRunner()
    text = run.invoke(commands, ["count", str(path), "x = 2", "x <= 3"]).output.splitlines()
    assert text[1].split()[-2:] == ["unknown", "unknown"]
    assert " to " in text[2]
    answers = json.loads(run.invoke(commands, ["count", str(path), "x = 2", "--json"]).output)
    assert answers[0] | {"nonuniformity": None, "low": None, "high": None} == answers[0]
    query = "SELECT count(*) AS n FROM cube WHERE x = 2"
    assert "unknown" in run.invoke(commands, ["sql", str(path), query, "--error"]).output
    (row,) = json.loads(run.invoke(commands, ["sql", str(path), query, "--error", "--json"]).output)
    assert (row["n_low"], row["n_nonuniformity"]) == (None, None)
    info = run.invoke(commands, ["info", str(path)]).output
    assert "one cell: unknown" in info
    assert json.loads(run.invoke(commands, ["info", str(path), "--json"]).output)["standard_errors"][-1]["most"] is None


@pytest.mark.slow
def test_pictures_and_reports_are_drawn_without_errors(grid: Release) -> None:
    pytest.importorskip("matplotlib")
    assert b"<svg" in draw_picture(picture(grid, "x"), "svg")
    pytest.importorskip("plotly")
    assert "unknown" in figure(picture(grid, "x")).to_json()
    page = report(grid)
    assert re.search('<td class=n data-label="95% interval, [^"]*">unknown<', page)


# --- no praise --------------------------------------------------------------------------------------------------

FEW = "The total is not above its error: this release shows only that there are few rows."


def of_few_rows(rows: int, strategy: str, seed: int) -> Release:
    counts = np.zeros((6, 8), np.int64)
    counts[0, :rows] = 1
    return evaluate.experiment(counts, epsilon="0.1", strategy=strategy, noise=SeededNoise(seed))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["adaptive", "dpcube", "cells"])
@pytest.mark.parametrize("rows", [0, 5])
def test_a_release_of_next_to_no_rows_is_not_praised(strategy: str, rows: int) -> None:
    doubted = 0
    for seed in range(12):
        release = of_few_rows(rows, strategy, seed)
        total, told = trust(release)[0], account(release)
        doubtful = not total.answer > total.half_width
        assert told.doubts == (FEW if doubtful else "")
        words = " ".join(release.explain().split())
        assert (FEW in words) == doubtful
        assert ("It supports" in words) != doubtful
        assert told.as_dict()["doubts"] == told.doubts
        doubted += doubtful
    assert doubted >= 9  # one in twenty is above its error by chance


@pytest.mark.slow
def test_the_report_of_next_to_no_rows_says_so() -> None:
    seed = next(s for s in range(20) if account(of_few_rows(0, "adaptive", s)).doubts)
    page = report(of_few_rows(0, "adaptive", seed))
    assert f'<p class="stamp">{FEW}</p>' in page
    assert "On a public table" not in page


def test_a_release_of_unknown_errors_is_not_praised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Release, "estimates", ("consistent", "uniform"))  # it prefers the one that states its noise
    words = " ".join(gridded(with_total=True).explain().split())
    assert "The errors of its answers are unknown" in words
    assert "It supports" not in words
