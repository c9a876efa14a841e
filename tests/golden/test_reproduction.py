"""The figures of `dpcube reproduce`: their numbers against `golden.json`, and the documentation's against theirs."""

import csv
import io
import json
import math
import re
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden_file import GOLDEN

from dpcube import theory
from dpcube.core.errors import InputError
from dpcube.noise.law import DiscreteLaplace
from dpcube.research.reproduce import Figure, Maps, figure_groups, make_figures, recorded_figures
from dpcube.research.reproduce.draw import (
    MAX_CURVES,
    REFERENCES,
    draw_figure,
    figure_digest,
    keep_apart,
    reproduction_page,
    uncrowded,
)
from dpcube.research.reproduce.theory import even_error_given_eta
from dpcube.research.reproduce.variance import SHARE, mean_errors
from dpcube.strategies import TwoPhase

pytestmark = pytest.mark.slow

FIGURES = GOLDEN["figures"]
DOCS = Path(__file__).parents[2] / "docs" / "research"
NAMES = figure_groups()["theory"][1]
MAPS = figure_groups()["histograms"][1]


@cache
def made() -> dict[str, Figure]:
    """The simulation figures, made when a test asks for them and not when tests are collected."""
    return {figure.name: figure for figure in make_figures(["theory"]) if isinstance(figure, Figure)}


@cache
def maps() -> dict[str, Maps]:
    """The histograms, made when a test asks for them and not when tests are collected."""
    return {figure.name: figure for figure in make_figures(["histograms"]) if isinstance(figure, Maps)}


# The golden table behind each panel, and where its columns have other names.
TABLES: dict[tuple[str, str], tuple[str, dict[str, str]]] = {
    ("query-size", "a"): ("fig_s_(n_p=11,a1=.05,a2=.15,gamma=5,eta=5)", {}),
    ("query-size", "b"): ("fig_s_(n_p=11,a1=.05,a2=.15,gamma=5,eta=5)", {}),
    ("budget-split", "a"): ("fig_alpha1_(total=.2,n_p=11,s=5,gamma=5,eta=5)", {}),
    ("budget-split", "b"): ("fig_alpha1_(total=.2,n_p=11,s=5,gamma=5,eta=5)", {}),
    ("box-size-and-smoothness", "a"): ("fig_np_(a1=.05,a2=.15,gamma=5,s=floor(n_p/2))", {}),
    ("box-size-and-smoothness", "b"): ("fig_gamma_(n_p=11,s=5,a2=.15)", {}),
    ("box-size-and-smoothness", "c"): ("fig_np_fixed_s5", {}),
    ("inconsistency", "a"): ("fig_eta_(s=5,a1=.05)", {"EH": "EH_eta"}),
    ("inconsistency", "b"): ("fig_eta_(s=5,a1=.05)", {"EH": "EH_eta"}),
}


@pytest.mark.parametrize(("figure", "panel"), TABLES)
def test_the_curves_are_the_golden_ones(figure: str, panel: str) -> None:
    name, renamed = TABLES[figure, panel]
    drawn, compared = made()[figure].panel(panel), 0
    curves = {curve.name for curve in drawn.curves}
    for key, row in FIGURES[name].items():
        if not np.isclose(drawn.at, float(key)).any():
            continue
        for column, value in row.items():
            curve = renamed.get(column, column)
            if curve in curves:
                assert drawn.value(curve, float(key)) == pytest.approx(value, rel=5e-9), (key, column)
                compared += 1
    assert compared >= 12


def test_every_panel_is_checked_and_shows_the_curve_the_paper_leaves_out() -> None:
    assert {(figure.name, panel.name) for figure in made().values() for panel in figure.panels} == set(TABLES)
    varying = {("query-size", "a"): lambda at: at, ("query-size", "b"): lambda at: at}
    varying["box-size-and-smoothness", "a"] = lambda at: at // 2
    for figure in made().values():
        for panel in figure.panels:
            s = varying.get((figure.name, panel.name), lambda at: np.full_like(at, 5))(panel.at)
            assert panel["E_cell_full_budget"] == pytest.approx(theory.cells_error(s, 0.2), rel=1e-12)


# The numbers of the verdicts in section 4.8 of the specification, as it prints them.
SPEC = {
    "query-size": ("37.196", "28.636", "13.722", "74.11", "6.80", "13.58", "15.21", "13.67", "49.39", "up to 10"),
    "budget-split": ("0.144 (72%)", "15.21", "19.05", "25% more", "83%", "33%", "27.39", "70.45", "s up to 8"),
    "box-size-and-smoothness": ("n_p = 21 on", "28.03", "8.33", "4.49", "12.30"),
    "inconsistency": ("49.22", "49.90", "37.05", "49.34", "E26"),
}


@pytest.mark.parametrize("name", SPEC)
def test_the_verdicts_hold_the_numbers_of_the_specification(name: str) -> None:
    text = reproduction_page([made()[name]])
    for number in SPEC[name]:
        assert number in text, number


def test_error_of_the_uniform_estimate_given_eta_averages_to_its_error() -> None:
    c, ends = 5 / 11 / 0.15, np.arange(0.0, 501, 5)
    golden = GOLDEN["uniform_estimation"]["eq_random_validity_s5_bias0"]
    # |eta| is above 500 with a probability below 1e-7.
    likely = -np.diff(theory.error_sf(ends, [c, 20.0], [1, 5]))
    assert likely @ even_error_given_eta(ends[1:] - 2.5) == pytest.approx(golden["true_EH"], rel=1e-5)
    assert even_error_given_eta(np.array([5.0]))[0] == pytest.approx(golden["true_EH_given_eta_near_5"], rel=0.02)


def numbers(text: str) -> dict[tuple[str, ...], float]:
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0] == ["panel", "axis", "at", "curve", "value"]
    return {tuple(row[:4]): float(row[4]) for row in rows[1:]}


@pytest.mark.parametrize("name", NAMES)
def test_the_numbers_of_the_documentation_are_those_of_the_command(name: str) -> None:
    kept = (DOCS / "reproduction" / f"{name}.csv").read_text()
    recorded, computed = numbers(kept), numbers(made()[name].csv())
    assert recorded.keys() == computed.keys()
    assert all(math.isclose(recorded[key], computed[key], rel_tol=1e-8) for key in computed)


@pytest.mark.parametrize("name", [*NAMES, *MAPS])
def test_the_pictures_of_the_documentation_were_drawn_from_these_numbers(name: str) -> None:
    figure = made()[name] if name in NAMES else maps()[name]
    assert (DOCS / "reproduction" / f"{figure.name}.csv").stat().st_size < 160_000
    picture = (DOCS / "reproduction" / f"{figure.name}.svg").read_text()
    stamped = re.search(r"numbers sha256 (\w+)", picture)
    assert stamped is not None
    assert stamped[1] == figure_digest(figure)  # the picture was drawn from these numbers
    assert len(picture) < 100_000


def test_the_text_of_the_documentation_is_that_of_the_command() -> None:
    measured = recorded_figures(DOCS / "reproduction")
    assert (
        (DOCS / "reproduction.md")
        .read_text()
        .endswith("\n" + reproduction_page([*made().values(), *maps().values(), *measured], pictures="reproduction/"))
    )


def test_a_picture_is_drawn_twice_the_same_and_without_a_reference_elsewhere() -> None:
    figure = made()["inconsistency"]
    first, second = draw_figure(figure), draw_figure(figure)
    assert first == second
    assert first["png"].startswith(b"\x89PNG")
    assert not re.search(rb'(?:href|src)="(?!#)', first["svg"])
    assert b"<script" not in first["svg"]
    assert b"<text" not in first["svg"]  # outlines: no font is needed


def test_labels_keep_their_order_and_their_distance() -> None:
    generator = np.random.default_rng()
    for _ in range(50):
        places = generator.uniform(0, 0.4, generator.integers(1, 7))
        apart = keep_apart(places)
        assert (np.diff(np.sort(apart)) >= 0.072 - 1e-12).all()
        assert (np.argsort(apart, kind="stable") == np.argsort(places, kind="stable")).all()
        assert apart.mean() == pytest.approx(places.mean())


def test_names_of_figures() -> None:
    listed = figure_groups()
    assert list(listed) == ["theory", "histograms", "variance", "query-error", "comparison", "classifiers", "blocking"]
    assert listed["theory"][1] == tuple(made())
    assert listed["histograms"][1] == tuple(maps())
    assert [figure.name for figure in make_figures(["histograms", "theory"])] == [*NAMES, *MAPS]
    with pytest.raises(
        InputError, match=r"there is no figure 'histogram'; give query-size, .* theory, histograms, .* or all"
    ) as caught:
        make_figures(["theory", "histogram"])
    assert "\n" not in str(caught.value)


def test_json_holds_every_number_and_verdict() -> None:
    for figure in made().values():
        told: dict[str, Any] = json.loads(json.dumps(figure.as_dict()))
        assert sum(len(panel["at"]) * len(panel["curves"]) for panel in told["panels"]) == len(numbers(figure.csv()))
        assert all(verdict[part] for verdict in told["verdicts"] for part in ("claim", "holds", "fails"))
        assert "ells with the whole budget" in told["left_out_by_the_paper"]


@pytest.mark.parametrize("name", MAPS)
def test_the_original_histogram_is_that_of_the_first_rows(name: str) -> None:
    original, cells, boxes, both = (panel.values for panel in maps()[name].maps.values())
    assert original.sum() == 10_000
    if name == "histograms-fine":  # the numbers of the specification's section 5
        assert (original.size, (original > 0).sum(), original.max()) == (7326, 1568, 149)
        assert original.var() == pytest.approx(74.4928, rel=1e-6)
    for released in (cells, boxes, both):
        assert released.shape == original.shape
        assert not np.array_equal(released, original)


def test_the_released_histograms_are_the_papers() -> None:
    """Noise of alpha1 in cells; boxes are flat; least squares moves the cells of a box by one amount (H+)."""
    for figure in maps().values():
        original, cells, boxes, both = figure.maps.values()
        noise = cells.values - original.values
        assert np.array_equal(noise, np.round(noise))
        assert boxes.outlines is not None
        assert cells.outlines is None
        assert len(np.unique(np.round(boxes.values, 6))) <= boxes.outlines.boxes
        moved = both.values - cells.values
        assert len(np.unique(np.round(moved, 6))) <= boxes.outlines.boxes
    wrong = maps()["histograms-fine"].maps["b"].values - maps()["histograms-fine"].maps["a"].values
    assert (wrong**2).mean() == pytest.approx(DiscreteLaplace(Fraction(1, 20)).variance, rel=0.15)


def test_the_verdicts_on_the_histograms_are_about_them() -> None:
    errors = mean_errors("fine", TwoPhase(share=SHARE))
    text = reproduction_page([maps()["histograms-fine"]])
    for pair in errors.values():
        assert f"{pair[0]:.1f}" in text
        assert f"{pair[1]:.0f}" in text
    assert errors["uniform"][0] < errors["cells"][0] / 5  # 74 x 99 cells: phase I is noise, boxes are not
    assert "Not on this grid." in text


def test_letters_have_the_size_that_their_places_are_made_for() -> None:
    """Outlines of letters are scaled by 1/64: cut to two decimals, they stood apart."""
    svg = draw_figure(made()["inconsistency"])["svg"].decode()
    outlines = set(re.findall(r'" transform="scale\(([^)]+)\)"/>', svg))
    assert outlines == {"0.015625"}
    sizes = {float(size) for size in re.findall(r"scale\((0\.\d+) -0\.\d+\)", svg)}
    assert sizes == {0.08, 0.09, 0.095}


def test_a_crowded_panel_is_drawn_in_parts_that_hold_every_curve_once() -> None:
    figures = {figure.name: figure for figure in recorded_figures(DOCS / "reproduction")}
    for panel in (panel for figure in figures.values() for panel in figure.panels):
        parts = uncrowded(panel)
        assert all(len(part.curves) <= MAX_CURVES for part in parts)
        others = [curve.name for part in parts for curve in part.curves if curve.role not in REFERENCES]
        assert sorted(others) == sorted(curve.name for curve in panel.curves if curve.role not in REFERENCES)
        shown = [[curve.name for curve in part.curves if curve.role in REFERENCES] for part in parts]
        assert all(names == shown[0] for names in shown)
    assert len(uncrowded(figures["comparison-fine"].panel("c"))) == 2
    assert len(uncrowded(figures["variance-fine"].panels[0])) == 1
