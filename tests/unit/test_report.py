"""The report's headline numbers are answers of the release, and what is not known is not said."""

import re
from fractions import Fraction
from html import unescape

import numpy as np
import pytest

from dpcube import Domain
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.domain import Category, Integer
from dpcube.measurements import Marginal, Provenance, Transcript
from dpcube.release import Release
from dpcube.release.plots import picture
from dpcube.release.report import html_table, picture_html, report

WARDS = Category(name="ward", values=("heart", "hand", "head", "hip"))


def release_of(counts: object, *attributes: Category | Integer) -> Release:
    domain = Domain(attributes)
    cells = Marginal.from_cells(np.array(counts).reshape(domain.shape), BUDGET_UNITS)
    transcript = Transcript(domain.shape, Fraction(1, BUDGET_UNITS), (cells,))
    return Release(domain, transcript, Provenance("cells", Fraction(1), "dpcube test", {}))


def rows_of(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading."""
    section = page.partition(f"<h2>{heading}</h2>")[2].partition("</section>")[0]
    return [[unescape(c) for c in re.findall("<td[^>]*>(.*?)</td>", row)] for row in section.split("</tr>")[1:-1]]


@pytest.fixture(autouse=True)
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)


def test_headlines_are_answers_of_the_release() -> None:
    release = release_of([[900, 30], [500, 20], [20, 10], [30, 5]], WARDS, Integer(name="age", min=0, max=1))
    page = report(release)
    total, heart = release.count(), release.count(ward="heart")
    assert f"<strong>{total.value:,.0f}</strong> rows in all, ± {total.high - total.value:,.0f}" in page
    ward, age = rows_of(page, "Headline numbers")
    share = 100 * heart.value / total.value
    assert ward == ["ward", "heart", f"{heart.value:,.0f}", f"{heart.high - heart.value:,.0f}", f"{share:.2g}%"]
    assert age[:2] == ["age", "0"]


@pytest.mark.slow
def test_groups_that_may_be_as_large_are_named_and_many_of_them_are_none() -> None:
    for rival in (899, 896):  # whose interval reaches the other's count, or only its interval
        (near,) = rows_of(report(release_of([900, rival, 20, 30], WARDS)), "Headline numbers")
        assert near[:2] == ["ward", "heart or hand"]
    (clear,) = rows_of(report(release_of([900, 880, 20, 30], WARDS)), "Headline numbers")
    assert clear[:2] == ["ward", "heart"]
    (even,) = rows_of(report(release_of([900, 899, 900, 901], WARDS)), "Headline numbers")
    assert even == ["ward", "none stands out", "", "", ""]


def test_next_to_no_rows_have_no_headlines_but_the_total() -> None:
    page = report(release_of([1, 0, -1, 1], WARDS))
    assert page.count("The total is not above its error") == 1
    assert rows_of(page, "Headline numbers") == []


def test_what_was_spent_adds_up() -> None:
    (cells,) = rows_of(report(release_of([9, 8, 7, 6], WARDS)), "What was spent")
    assert cells[:3] == ["every cell", "4", "100.00%"]


def test_titles_are_whole_and_many_attributes_are_counted() -> None:
    long = Category(
        name="how satisfied are you with the care that you were given, all in all, this year", values=("a", "b")
    )
    page = report(release_of([5, 6], long))
    assert page.count(long.name) >= 3  # heading, title and headline
    several = [Category(name=f"c{k}", values=("x", "y")) for k in range(8)]
    assert "<h1>A private cube of c0, c1, c2, c3, c4 and 3 other attributes</h1>" in report(
        release_of(np.full(256, 9), *several)
    )


def test_a_long_word_in_a_table_may_be_broken_and_others_stay_whole() -> None:
    made = html_table(("a", "b"), [("W" * 25, "1"), ("W" * 24, "2")], numbers=1)
    assert made.count("class=w") == 1
    assert 'data-label="b"' in made
    assert 'data-label="a"' not in made  # the first names its row


@pytest.mark.slow
def test_names_inside_the_drawings_of_a_page_are_different(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    release = release_of(np.arange(16) + 90, WARDS, Integer(name="age", min=0, max=3))
    drawn = picture_html(picture(release)) + picture_html(picture(release, "ward", "age"))
    names = re.findall(r' id="([^"]*)"', drawn)
    assert len(names) == len(set(names))
    for used in re.findall(r'"#([^"]*)"', drawn):
        assert used in names
