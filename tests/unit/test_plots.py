"""Pictures: the numbers behind them against the release, what is drawn against the numbers, and hostile names."""

import json
import math
import re
import sys
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcube import Category, Domain, Float, Integer, Release
from dpcube.core.domain import Attribute
from dpcube.core.errors import DomainError, InputError, QueryError
from dpcube.core.gate import Gate
from dpcube.demo import beside_truth
from dpcube.measurements import Provenance
from dpcube.release.plots import HeatMap, picture, save
from dpcube.release.plots.axis import LONGEST_LABEL, axis_of, distinct, short_numbers
from dpcube.release.plots.interactive import figure
from dpcube.release.plots.interactive import plotly_page as plotly_page
from dpcube.release.plots.outlines import STRENGTHS, frontier, outlines
from dpcube.release.plots.picture import marginal, stages_of
from dpcube.release.plots.static import draw_picture
from dpcube.release.plots.style import RAMP, scale_ticks
from dpcube.release.report import report
from dpcube.release.trust import COVERAGE, trust
from dpcube.research.trust import coverage, default_estimate
from dpcube.strategies import BY_NAME, strategy_of
from dpcube.testing import SeededNoise
from forge import make_release
from random_trees import random_tree

DOMAIN = Domain(
    (
        Integer(name="age", min=20, max=79, null="cell"),
        Category(name="in$ome", values=("<=50K", ">50K", "<script>alert(1)</script>")),
        Integer(name="hours", min=0, max=7),
    )
)
EXACT = np.random.default_rng(3).poisson(np.linspace(0, 40, DOMAIN.size)).reshape(DOMAIN.shape)


def release_of(strategy: str = "adaptive", domain: Domain = DOMAIN, exact: np.ndarray = EXACT) -> Release:
    chosen = strategy_of(strategy, domain)
    transcript = chosen.run(Gate(exact, Fraction(1), noise=SeededNoise(2)))
    return Release(domain, transcript, Provenance(chosen.name, Fraction(1), "dpcube test", chosen.parameters()))


RELEASE = release_of()


def lightness(colour: str) -> float:
    """CIE L* of a colour, which is what a grey-scale print and every kind of colour-blindness leave."""
    levels = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    linear = np.where(levels <= 0.04045, levels / 12.92, ((levels + 0.055) / 1.055) ** 2.4)
    return float(116 * np.cbrt(linear @ [0.2126, 0.7152, 0.0722]) - 16)


def test_colours_darken_in_even_steps() -> None:
    steps = -np.diff([lightness(colour) for colour in RAMP])
    assert steps.min() > 0.9 * steps.mean()
    assert steps.max() < 1.1 * steps.mean()
    assert steps.sum() > 75


# --- what is drawn, as numbers -----------------------------------------------------------------------------------

attributes = st.builds(
    lambda low, count, width, null: Integer(name="n", min=low, max=low + count, width=width, null=null),
    st.integers(-50, 50),
    st.integers(1, 500),
    st.integers(1, 60),
    st.sampled_from(["drop", "cell"]),
) | st.builds(
    lambda count, null: Category(name="c", values=tuple(f"v{k}" for k in range(count)), null=null),
    st.integers(1, 90),
    st.sampled_from(["drop", "cell"]),
)


@given(attributes, st.integers(2, 60))
def test_drawn_bins_are_all_cells_in_order(attribute: Attribute, most: int) -> None:
    axis = axis_of(attribute, most=most)
    assert len(axis) <= most
    assert axis.edges[0] == 0
    assert axis.edges[-1] == attribute.size
    assert (axis.starts < axis.stops).all()
    assert (axis.stops[:-1] == axis.starts[1:]).all()
    assert len(axis.labels) == len(set(axis.labels))
    assert max(map(len, axis.labels)) <= LONGEST_LABEL
    if attribute.size <= most:
        assert list(axis.labels) == attribute.labels()
    for own in attribute.own_cells:  # never merged with a bin
        k = axis.labels.index(f"({own})")
        assert axis.stops[k] - axis.starts[k] == 1
    at, labels = axis.ticks(7)
    assert len(at) <= 7
    assert {f"({own})" for own in attribute.own_cells} <= set(labels)
    assert [axis.labels[round(k)] for k in at] == labels
    assert all(k == round(k) for k in at)


@pytest.mark.parametrize("most", [50, 4])  # of a few drawn bins, boxes end inside
@pytest.mark.parametrize("shape", [(9, 14), (6, 5, 4)])
def test_outlines_are_the_share_of_cells_at_which_a_box_ends(shape: tuple[int, ...], most: int) -> None:
    generator = np.random.default_rng()
    domain = Domain.of_shape(shape)
    for _ in range(20):
        tree = random_tree(shape, generator, stop=0.15)
        labels = tree.partitioning().labels.reshape(*shape[:2], -1)
        x, y = (axis_of(domain.attributes[j], most=most) for j in (0, 1))
        found = outlines(tree, (0, x), (1, y))
        edges = [(np.arange(len(axis) + 1), axis.edges) for axis in (x, y)]
        drawn = np.zeros((len(STRENGTHS), 2, *shape[:2]))
        for strength, lines in enumerate(found.lines):
            cells = [np.interp(lines[:, k], *edges[k % 2]) for k in range(4)]
            for x0, y0, x1, y1 in np.rint(np.stack(cells, axis=1)).astype(int).tolist():
                if x0 == x1:
                    drawn[strength, 0, x0, y0:y1] = 1
                else:
                    drawn[strength, 1, x0:x1, y0] = 1
        shares = np.zeros((2, *shape[:2]))
        shares[0, 1:] = (labels[1:] != labels[:-1]).mean(axis=2)
        shares[1, :, 1:] = (labels[:, 1:] != labels[:, :-1]).mean(axis=2)
        bounds = (*STRENGTHS, np.inf)
        expected = [(shares >= bounds[k]) & (shares < bounds[k + 1]) for k in range(len(STRENGTHS))]
        assert np.array_equal(drawn, np.array(expected))
        assert found.boxes == found.of == len(tree.leaves)


def test_of_many_boxes_those_of_a_higher_level_are_drawn() -> None:
    tree = random_tree((30, 40), np.random.default_rng(), stop=0.02)
    for most in (1, 7, 60, 10_000):
        nodes = frontier(tree, most)
        assert len(nodes) <= most
        assert tree.sizes[nodes].sum() == tree.sizes[0]  # disjoint, for no node is below another
        assert not {*tree.parent[nodes].tolist()} & {*nodes.tolist()}
    assert np.array_equal(frontier(tree, len(tree.leaves)), tree.leaves)


@pytest.mark.parametrize("strategy", BY_NAME)
@pytest.mark.parametrize("where", [None, "hours between 2 and 5 and age < 50"])
def test_bars_are_answers(strategy: str, where: str | None) -> None:
    release = release_of(strategy)
    shown = marginal(release, "in$ome", where=where, confidence=0.8)
    for k, value in enumerate(DOMAIN["in$ome"].labels()):
        question = f"`in$ome` = '{value}'" + (f" and {where}" if where else "")
        answer = release.count(question, confidence=0.8)
        assert shown.values[k] == pytest.approx(answer.value)
        if strategy == "cells":  # the law of a single answer is known, and many are bounded from outside
            assert answer.low - 0.1 * answer.stderr < shown.low[k] <= answer.low
            assert answer.high <= shown.high[k] < answer.high + 0.1 * answer.stderr
        else:
            assert shown.low[k] == pytest.approx(answer.low)
            assert shown.high[k] == pytest.approx(answer.high)
    merged = marginal(release, "age")
    assert len(merged.axis) < DOMAIN["age"].size
    assert merged.values.sum() == pytest.approx(release.count().value)


@pytest.mark.parametrize("strategy", BY_NAME)
@pytest.mark.parametrize("names", [("age", "hours"), ("hours", "age")])
def test_maps_are_sums_of_cells(strategy: str, names: tuple[str, str]) -> None:
    release = release_of(strategy)
    for estimate in release.estimates:
        shown = picture(release, *names, estimate=estimate).panels[0]
        assert isinstance(shown, HeatMap)
        sums = release.cells(estimate).sum(axis=1)
        assert shown.values == pytest.approx(sums if names[0] == "age" else sums.T)
    where = "`in$ome` in ('<=50K', '>50K') and hours >= 4"
    shown = picture(release, *names, where=where).panels[0]
    sums = release.cells()[:, :2].sum(axis=1)
    sums[:, :4] = 0
    assert shown.values == pytest.approx(sums if names[0] == "age" else sums.T)


def test_wide_maps_have_neighbours_merged() -> None:
    domain, exact = Domain.of_shape((250, 3)), np.arange(750).reshape(250, 3)
    release = release_of("cells", domain, exact)
    shown = picture(release, "axis0", "axis1").panels[0]
    assert isinstance(shown, HeatMap)
    assert shown.values.shape == (84, 3)
    assert shown.values == pytest.approx(np.add.reduceat(release.cells(), np.arange(0, 250, 3), axis=0))
    assert shown.x.labels[:2] == ("0-2", "3-5")


def test_stages_show_how_a_release_came_about() -> None:
    assert list(stages_of(release_of("cells")).values()) == ["cells"]
    assert list(stages_of(release_of("dpcube")).values()) == ["cells", "uniform", "consistent"]
    assert list(stages_of(RELEASE).values()) == ["uniform", "balanced"]
    shown = picture(release_of("dpcube"), "age", "hours", stages=True)
    assert [getattr(panel, "outlines", None) is None for panel in shown.panels] == [True, False, True]
    assert shown.top == max(panel.values.max() for panel in shown.panels)


def test_the_truth_is_beside_a_release_only_when_it_is_given() -> None:
    shown = beside_truth(release_of("dpcube"), EXACT, "hours", "age")
    assert shown.panels[0].values == pytest.approx(EXACT.sum(axis=1).T)
    assert [panel.title for panel in shown.panels] == [
        "the table (never released)",
        "noisy cells",
        "noisy boxes, spread evenly",
        "estimate: consistent",
    ]


@pytest.mark.parametrize(
    ("names", "options", "error", "message"),
    [
        (("income",), {}, DomainError, "there is no attribute 'income'; the attributes are 'age', 'in$ome', 'hours'"),
        (("age", "age"), {}, QueryError, "one attribute, two different ones, or all"),
        (("age", "hours", "in$ome"), {}, QueryError, "one attribute, two different ones, or all"),
        (("age",), {"stages": True}, QueryError, "two attributes, got 1; name two of 'age', 'in$ome', 'hours'"),
        (("age",), {"confidence": 1.5}, QueryError, "confidence must be between 0 and 1"),
        (("age",), {"where": "hours >"}, QueryError, "found the end"),
        (("age",), {"estimate": "best"}, QueryError, "there is no estimate 'best'"),
    ],
)
def test_what_cannot_be_drawn(names: tuple[str, ...], options: dict[str, object], error: type, message: str) -> None:
    with pytest.raises(error, match=re.escape(message)) as caught:
        RELEASE.plot(*names, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


# --- what is drawn ----------------------------------------------------------------------------------------------


def test_a_plotly_figure_shows_the_numbers() -> None:
    shown = picture(RELEASE, "age", "hours")
    heat, *lines = RELEASE.plot("age", "hours").data
    assert np.square(heat.z) == pytest.approx(np.clip(shown.panels[0].values, 0, None).T)
    assert heat.text[2][5].startswith("age 25<br>hours 2<br>")
    assert [line.mode for line in lines] == ["lines"] * 2 * len(STRENGTHS)  # each dark, with a light one under it
    bars = RELEASE.plot("in$ome").data[0]
    answers = marginal(RELEASE, "in$ome")
    assert bars.orientation == "h"  # values with names and no order
    assert bars.x == pytest.approx(answers.values)
    assert np.add(bars.x, bars.error_x.array) == pytest.approx(answers.high)
    assert len(RELEASE.plot().data) == 3


def test_a_plotly_page_stands_alone_and_shows_names_as_they_are() -> None:
    shown = picture(RELEASE, "in$ome")
    assert figure(shown).layout.yaxis.ticktext[0] == "&lt;=50K"  # or Plotly would take it for markup
    page = plotly_page(shown).decode()
    assert not re.search(r"<(script|link|img)[^>]*(src|href)=", page)
    assert "<script>alert(1)" not in page
    assert '"showSendToCloud": false' in page
    assert len(page) < 6_000_000


@pytest.mark.slow
def test_a_drawing_is_repeatable_small_and_keeps_its_text() -> None:
    shown = picture(RELEASE, "age", "hours")
    svg = draw_picture(shown, "svg")
    assert svg == draw_picture(shown, "svg")
    assert draw_picture(shown, "png").startswith(b"\x89PNG")
    texts = {element.text for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")}
    assert {"Rows by age and hours", "age", "hours", "rows", "0 or less"} <= texts
    assert len(svg) < 60_000
    assert b"in$ome" in draw_picture(picture(RELEASE, "in$ome"), "svg")  # a dollar sign begins no formula
    assert "1.0" not in texts  # counts are whole


@given(st.floats(0.5, 1e12))
def test_the_scale_of_colours_names_its_darkest(top: float) -> None:
    ticks = scale_ticks(top)
    assert ticks[0] == 0
    assert ticks[-1] == top
    assert 2 <= len(ticks) <= 14
    assert (np.diff(np.sqrt(ticks)) > 0.05 * math.sqrt(top)).all()


HOSTILE = (
    "\x00\x1b[2J",
    "</svg><script>alert(1)</script>",
    "&amp;",
    "$x_{$",
    "\u202e",
    "\U0001f9ea字",
    "a" * 500,
    "\\N",
)


STEERING = "a\x1b]0;x\x07\u202e\u2066b\u200f"


@pytest.mark.slow
@pytest.mark.parametrize("asked", [(STEERING,), ("c", STEERING), ()], ids=["one", "two", "all"])
def test_names_that_would_steer_a_terminal_or_turn_text_around_are_shown_without_it(asked: tuple[str, ...]) -> None:
    domain = Domain((Category(name=STEERING, values=("x", "y")), Category(name="c", values=("u", "v", "w"))))
    release = release_of("cells", domain, np.arange(6).reshape(2, 3))
    shown = picture(release, *asked, where=f"`{STEERING}` = 'x'")
    said = [shown.title, shown.note, *(panel.title for panel in shown.panels)]
    assert all(text.isprintable() for text in said)
    assert not set("".join(said)) & set(STEERING) - set("abx]0;")
    for content in (draw_picture(shown, "svg").decode(), report(release, title=STEERING * 9)):
        assert not set(content) & {"\x1b", "\x07", "\u202e", "\u2066", "\u200f"}


def of_one_attribute() -> Release:
    """A release whose report has one picture."""
    return release_of("cells", Domain.of_shape((3,)), np.arange(3))


def test_a_title_is_shown_whole() -> None:
    title = "A private cube of the Adult census, spring"
    assert f"<h1>{title}</h1>" in report(of_one_attribute(), title=title)


def test_a_title_that_is_no_text_can_be_written() -> None:
    """A shell hands over bytes that are no UTF-8 as halves of surrogate pairs, which no file can hold."""
    assert "<title>\ufffd &amp; co</title>" in report(of_one_attribute(), title="\udcff & co").encode().decode()


@given(st.lists(st.text("ab", min_size=1, max_size=30), min_size=1, max_size=40), st.integers(8, 20))
def test_different_names_look_different_and_equal_ones_equal(names: list[str], longest: int) -> None:
    names = list(dict.fromkeys(names))
    shown = distinct(names, longest=longest)
    assert len(set(shown)) == len(names)
    assert max(map(len, shown)) <= longest


def test_values_that_begin_alike_are_told_apart() -> None:
    wards = [f"Department of internal medicine and for diseases of {part}" for part in ("hearts", "hands")]
    axis = axis_of(Category("ward", wards), most=80)
    assert axis.labels == ("Department of intern… diseases of hearts", "Department of intern…r diseases of hands")


@given(
    st.floats(-1e4, 1e4, allow_subnormal=False),
    st.floats(1e-3, 1e3),
    st.integers(2, 12),
)
def test_numbers_on_an_axis_are_told_apart_by_few_digits(start: float, step: float, count: int) -> None:
    values = [start + step * k for k in range(count)]
    shown = short_numbers(values)
    read = [float(text.replace(",", "")) for text in shown]
    assert read == sorted(set(read))
    assert max(abs(a - b) for a, b in zip(read, values, strict=True)) <= step / 20
    assert max(map(len, shown)) <= 14


def test_real_numbers_are_marked_at_the_edges_of_bins() -> None:
    axis = axis_of(Float("longitude", 13.08834, 13.76116, width=0.0672820, null="cell"), most=40)
    at, labels = axis.ticks(8)
    assert at[:3] == [-0.5, 1.5, 3.5]
    assert labels == ["13.088", "13.223", "13.357", "13.492", "13.627", "(null)"]
    whole = axis_of(Float("share", 0, 1, width=0.25), most=40)
    assert whole.ticks(10) == ([-0.5, 0.5, 1.5, 2.5, 3.5], ["0.00", "0.25", "0.50", "0.75", "1.00"])
    assert whole.labels == ("[0, 0.25)", "[0.25, 0.5)", "[0.5, 0.75)", "[0.75, 1]")


LONG = "department that the patient was first admitted to"


@pytest.mark.slow
def test_long_names_are_shown_whole() -> None:
    domain = Domain(Category(LONG, ["north", "south"]), Integer("longitude of the place of residence", 0, 3))
    release = release_of("cells", domain, np.arange(8).reshape(2, 4))
    for shown in (picture(release), picture(release, *domain.names)):
        svg = re.sub(r"<[^>]*>|\s+", " ", draw_picture(shown, "svg").decode())
        page = plotly_page(shown).decode()
        for name in domain.names:
            assert all(word in svg for word in name.split())
            assert name in page
        assert "\N{HORIZONTAL ELLIPSIS}" not in svg


def test_figures_are_as_wide_as_their_place() -> None:
    for asked in ((), ("age",), ("age", "hours")):
        made = figure(picture(RELEASE, *asked))
        assert (made.layout.width, made.layout.autosize) == (None, True)
        for part in plotly_page(picture(RELEASE, *asked)).decode().split("Plotly.newPlot(")[1:]:
            layout, _ = json.JSONDecoder().raw_decode(part[part.index('{"template"') :])
            assert "xaxis" in layout
            assert not {"width", "height"} & set(layout)


@pytest.mark.slow
def test_hostile_names_are_only_text() -> None:
    domain = Domain((Category(name='"><script>x</script>\n', values=HOSTILE), Integer(name="$\\frac$", min=0, max=3)))
    release = release_of("dpcube", domain, np.arange(32).reshape(8, 4))
    for shown in (picture(release), picture(release, *domain.names)):
        ElementTree.fromstring(draw_picture(shown, "svg"))
        of_panels = plotly_page(shown).split(b"Plotly.newPlot", 1)[1].replace(b'<script type="text/javascript">', b"")
        assert b"<script>" not in re.sub(rb"<script>\s*window\.PLOTLYENV", b"", of_panels)  # Plotly's, of each panel
    page = report(release, title="<script>t</script>")
    assert "<script" not in page
    assert "\x00" not in page


def test_files_are_new_and_of_a_known_kind(tmp_path: Path) -> None:
    shown = picture(RELEASE, "hours")
    for ending in ("svg", "png", "HTML"):
        save(shown, tmp_path / f"hours.{ending}")
        assert (tmp_path / f"hours.{ending}").stat().st_size > 5000
    with pytest.raises(InputError, match=r"hours\.svg exists, and is not replaced; choose another name"):
        save(shown, tmp_path / "hours.svg")
    with pytest.raises(InputError, match=r"the extension of hours\.gif must be one of \.html, \.svg, \.png"):
        save(shown, tmp_path / "hours.gif")
    with pytest.raises(InputError, match=r"there is no directory .*none for hours\.svg"):
        save(shown, tmp_path / "none" / "hours.svg")


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "plotly.subplots", None)
    with pytest.raises(InputError, match=r"need plotly, which is not installed; pip install 'dpcube\[plot\]'"):
        RELEASE.plot("age")
    with pytest.raises(InputError, match=r"need matplotlib, which is not installed; pip install 'dpcube\[plot\]'"):
        draw_picture(picture(RELEASE, "age"), "svg")
    page = report(RELEASE)
    assert "Left out: pictures need matplotlib" in page
    assert "<svg" not in page


# --- the report -------------------------------------------------------------------------------------------------


class Tags(HTMLParser):
    """Every element of a page, and whether they close in order."""

    EMPTY = ("meta", "th", "td", "use", "path", "image", "rect")  # those that may stay open, or close themselves

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        assert not {
            name
            for name, value in attrs
            if name.endswith(("src", "href")) and not (value or "").startswith(("#", "data:"))
        }
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.EMPTY:
            assert self.open.pop() == tag


@pytest.mark.slow
def test_a_report_tells_what_was_released_spent_and_can_be_trusted() -> None:
    page = report(RELEASE)
    tags = Tags(page)
    assert tags.open == []
    assert tags.seen.count("svg") == len(DOMAIN.names) + 2  # each attribute; boxes and estimate of one pair
    headings = re.findall("<h2>(.*?)</h2>", page)
    assert headings[:2] == ["Headline numbers", "Pictures"]
    assert headings[-2:] == ["How it was made", "What was spent"]
    for said in ("1,464 cells", "epsilon 1.", "at most 2.72 times as likely", "protects one row", RELEASE.digest):
        assert said in page
    for row in trust(RELEASE):
        assert f"<td>{row.question.replace('<', '&lt;')}" in page
    assert "NOT PRIVATE" not in page
    assert "http" not in page.replace("http://www.w3.org/", "")
    assert len(page) < 300_000
    assert "NOT PRIVATE" in report(make_release())


def test_trust_is_that_of_answers() -> None:
    told = {row.question: row for row in trust(RELEASE)}
    total = RELEASE.count()
    assert told["all rows"].answer == pytest.approx(total.value)
    assert told["all rows"].half_width == pytest.approx(total.high - total.value)
    by_hours = [RELEASE.count(hours=k) for k in range(8)]
    assert told["one value of hours"].answer == pytest.approx(np.median([a.value for a in by_hours]))
    assert told["one value of hours"].half_width == pytest.approx(np.median([a.high - a.value for a in by_hours]))
    kinds = [f"one value of {name}" for name in DOMAIN.names]
    assert list(told) == ["all rows", "a range at random", *kinds, "one cell"]


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "estimate"), COVERAGE)
def test_reports_quote_the_coverage_that_is_measured(strategy: str, estimate: str) -> None:
    """Runs differ by a few points; a change of the intervals moves it by more, and the table must follow.

    The default of `adaptive` became `balanced`, and its coverage stood under `posterior`, where no report found it.
    """
    assert default_estimate(strategy) == estimate
    assert abs(coverage(strategy, "marginals", runs=4) - COVERAGE[strategy, estimate]["marginals"]) < 8
    assert abs(coverage(strategy, "ranges", runs=4) - COVERAGE[strategy, estimate]["ranges"]) < 8
