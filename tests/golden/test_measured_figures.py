"""The figures of sections 6.2 and 6.3 that are measured: the page follows from the recorded numbers, and they recur."""

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcube.core.boxes import Partitioning
from dpcube.core.errors import InputError
from dpcube.research import reproduce
from dpcube.research.reproduce import GROUPS, MEASURED, Figure, make_figures, recorded_figures
from dpcube.research.reproduce.against_rivals import ADDED, PAPERS, queries_by_size
from dpcube.research.reproduce.draw import CURVE_STYLES, draw_figure, figure_digest, reproduction_page
from dpcube.research.reproduce.measured import (
    WIDTHS,
    CurveLook,
    PanelPlan,
    clearly_below,
    exact_counts,
    measured_panels,
    places,
    recorded_panels,
    trend,
)
from dpcube.research.reproduce.query_error import errors_of_estimates, queries
from dpcube.research.reproduce.variance import exact_boxes, part_of_one_box, released_boxes, with_threshold
from dpcube.research.rivals import LISTED
from dpcube.strategies import TwoPhase
from dpcube.strategies.cells import Cells
from nightly import at_night

RECORDED = Path(__file__).parents[2] / "docs" / "research" / "reproduction"
NAMES = [f"{kind}-{grid}" for kind in MEASURED for grid in WIDTHS]


def recorded(name: str) -> Figure:
    return {figure.name: figure for figure in recorded_figures(RECORDED)}[name]


@pytest.mark.parametrize("name", [*NAMES, "classification", "blocking"])
def test_the_page_and_the_picture_follow_from_the_recorded_numbers(name: str) -> None:
    figure = recorded(name)
    assert figure.csv() == (RECORDED / f"{name}.csv").read_text(encoding="utf-8")
    page = (RECORDED.parent / "reproduction.md").read_text(encoding="utf-8")
    assert reproduction_page([figure], pictures="reproduction/") in page
    picture = (RECORDED / f"{name}.svg").read_text(encoding="utf-8")
    assert f"numbers sha256 {figure_digest(figure)}" in picture
    assert len(picture) < 300_000


@pytest.mark.parametrize("name", NAMES)
def test_every_panel_of_errors_shows_cells_with_the_whole_budget_and_its_chance(name: str) -> None:
    for panel in recorded(name).panels:
        looks = {curve.role: curve for curve in panel.curves}
        assert "cells" in looks
        assert looks.keys() <= CURVE_STYLES.keys()
        for curve in panel.curves:
            assert curve.reach is not None
            assert (curve.reach >= 0).all()
            assert curve.draws >= 20


def test_every_system_is_drawn() -> None:
    """The paper's own under names of their variants, all others as they are listed."""
    variants = {"hierarchical": "consistency_boxes", "median_tree": "kd_tree"}
    assert {variants.get(name, name) for name in LISTED} <= {*PAPERS, *ADDED}


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["variance", "query-error"])
def test_the_recorded_numbers_are_measured_again_alike(kind: str) -> None:
    old = recorded(f"{kind}-coarse")
    (new,) = make_figures([f"{kind}-coarse"], draws=old.panels[0].curves[0].draws)
    assert isinstance(new, Figure)
    for was, now in zip(old.panels, new.panels, strict=True):
        for curve in was.curves:
            assert now[curve.name] == pytest.approx(curve.values, rel=1e-6)
    assert reproduction_page([new]) == reproduction_page([old])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["variance", at_night("query-error"), at_night("comparison")])
def test_what_is_said_is_read_back_from_the_numbers(kind: str) -> None:
    (made,) = make_figures([f"{kind}-coarse"], draws=2)
    read = MEASURED[kind].read("coarse", made.csv())
    assert read.csv() == made.csv()
    assert reproduction_page([read]) == reproduction_page([made])
    if kind == "variance":
        assert draw_figure(read)["svg"] == draw_figure(made)["svg"]


def test_variance_of_boxes_by_hand() -> None:
    counts = exact_counts("coarse")
    whole = Partitioning(counts.shape, np.zeros((1, 2), np.int64), np.array([counts.shape]))
    assert part_of_one_box("coarse", whole) == part_of_one_box("coarse", whole, by_rows=True) == 1
    half = np.array([4, counts.shape[1]])
    cut = Partitioning(counts.shape, np.array([[0, 0], [4, 0]]), np.array([half, counts.shape]))
    inside = sum(part.size * part.var() for part in (counts[:4], counts[4:]))
    by_rows = sum(part.sum() * part.var() for part in (counts[:4], counts[4:]))
    assert part_of_one_box("coarse", cut) == pytest.approx(inside / (counts.size * counts.var()))
    assert part_of_one_box("coarse", cut, by_rows=True) == pytest.approx(by_rows / (counts.sum() * counts.var()))
    assert part_of_one_box("coarse", exact_boxes("coarse", 0)) == 0
    assert len(released_boxes("coarse", with_threshold(Fraction(1, 4), 1e6), 0)) == 1
    assert with_threshold(Fraction(1, 4), 2.0).threshold == 1600  # 2/alpha1^2 is 800


def test_query_errors_by_hand() -> None:
    """The error of plain cells is that of the noise alone: its variance is known."""
    variance = 2 * np.exp(-0.2) / (1 - np.exp(-0.2)) ** 2
    sizes = (queries("coarse").upper - queries("coarse").lower).prod(axis=1)
    found = [
        errors_of_estimates("coarse", Cells(), ["auto"], epsilon=Fraction(1, 5), seed=seed)[0] for seed in range(40)
    ]
    expected = float(np.sqrt(2 / np.pi * sizes * variance).mean())  # sums of many are nearly normal
    assert np.mean(found) == pytest.approx(expected, rel=0.15)
    uniform, cells = errors_of_estimates(
        "coarse", TwoPhase(share=Fraction(1, 4)), ["uniform", "cells"], epsilon=Fraction(1, 5), seed=0
    )
    assert uniform != cells


@pytest.mark.parametrize("grid", WIDTHS)
def test_queries_by_size_have_their_sizes(grid: str) -> None:
    asked, power = queries_by_size(grid)
    sizes = (asked.upper - asked.lower).prod(axis=1)
    assert ((2**power <= sizes) & (sizes < 2 ** (power + 1))).all()
    assert set(power) == set(range(int(np.log2(exact_counts(grid).size)) + 1))
    assert np.bincount(power).min() >= 50


def small_panel(**curves: tuple[list[float], list[float]]) -> Any:
    looks = {name: CurveLook(name, "cells") for name in curves}
    draws = {
        ("a", name): {
            float(x): [value - reach, value, value + reach] for x, (value, reach) in enumerate(zip(*of, strict=True))
        }
        for name, of in curves.items()
    }
    (panel,) = measured_panels([PanelPlan("a", "t", "x", "x", looks)], draws)
    return panel


def test_clearly_is_beyond_the_interval_of_a_difference() -> None:
    panel = small_panel(low=([1.0, 1.0, 1.0], [0.1] * 3), high=([2.0, 1.3, 0.9], [0.1] * 3))
    student = 4.302652729911275 * 0.1 / np.sqrt(3)  # two degrees of freedom, deviation 0.1
    assert panel.curves[0].reach == pytest.approx(student, rel=1e-8)
    assert clearly_below(panel, "low", "high").tolist() == [True, False, False]  # 0.3 is below 0.248 sqrt(2)
    assert clearly_below(panel, "high", "low").tolist() == [False, False, False]
    assert (trend(panel, "low"), trend(panel, "high")) == ("does not change beyond chance", "falls")
    assert places(panel, np.array([True, False, True])) == "at 0, 2"


def test_numbers_of_another_figure_are_refused() -> None:
    plan = MEASURED["variance"].plans
    text = (RECORDED / "query-error-coarse.csv").read_text(encoding="utf-8")
    for other in (text, "", "panel,axis,at,curve,value\n"):
        with pytest.raises(InputError, match="are not of this figure's curves"):
            recorded_panels(plan, other)


def test_measured_figures_are_told_how_many_draws_and_whom_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def stub(name: str) -> Callable[..., Figure]:
        def make(*, draws: int, progress: Callable[[str], None]) -> Figure:
            progress(name)
            asked.append((name, draws))
            return Figure(name, "", "", "", (), (), "")

        return make

    stubbed = {
        key: group._replace(figures={name: stub(name) for name in group.figures})
        for key, group in GROUPS.items()
        if group.measured
    }
    monkeypatch.setattr(reproduce, "GROUPS", stubbed)
    said: list[str] = []
    every = [*NAMES, "classification", "blocking"]
    assert [figure.name for figure in make_figures(["all"], draws=7, progress=said.append)] == every
    assert asked == [(name, 7) for name in every]
    assert said == every


def test_no_path_of_this_machine_is_in_a_picture() -> None:
    for name in NAMES:
        assert not re.search(r"/(?:tmp|work|home)/", (RECORDED / f"{name}.svg").read_text(encoding="utf-8"))
