"""What a notebook shows: plain tables, everything escaped, few rows, and no error that is not known shown as 0."""

import math
from html.parser import HTMLParser

import numpy as np
import pytest

from dpcube import Answer, Answers, Category, Domain, Integer, Release, View, Workload, evaluate
from dpcube.core.errors import MemoryLimitError
from dpcube.curator import publish
from dpcube.queries import CountingQueries
from dpcube.release.view import AxisGroups, first_places
from dpcube.testing import SeededNoise

HOSTILE = "<script>alert('x')</script>&\"\u202e"
TAGS = {"div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td"}


class Page(HTMLParser):
    """The rows of a fragment and its other text; tags and attributes that a notebook's table has no need of fail."""

    def __init__(self, fragment: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.words = ""
        self._open: list[str] = []
        self.feed(fragment)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS
        assert {name for name, _ in attrs} <= {"style"}
        self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1] in ("td", "th"):
            self.rows[-1][-1] += data
        else:
            self.words += data


def shown(thing: Release | Answer | Answers | View) -> Page:
    return Page(thing._repr_html_())


def made(domain: Domain, *, strategy: str = "cells", private: bool = False) -> Release:
    counts = np.random.default_rng(1).poisson(30, domain.shape)
    if private:
        return publish(counts, domain, epsilon=1, ledger=None, strategy=strategy)
    run = evaluate.experiment(counts, epsilon=1, strategy=strategy, noise=SeededNoise(1))
    return Release(domain, run.transcript, run.provenance)


CLINIC = Domain(Integer("age", 0, 99, width=5), Category("sex", ["f", "m"]))


def test_a_release_shows_its_attributes() -> None:
    page = shown(made(CLINIC, private=True))
    assert page.words == "Release: 20 x 2 = 40 cells, epsilon 1 for one row, by cells; 2 attributes"
    assert page.rows == [
        ["attribute", "type", "from ... to", "cells"],
        ["age", "integer", "0 to 99", "20"],
        ["sex", "category", "'f', 'm'", "2"],
    ]


def test_what_is_not_private_says_so_first() -> None:
    release = made(CLINIC)
    for stamped in (release, release.group_by("sex")):
        assert shown(stamped).words.startswith("NOT PRIVATE: ")
    private = made(CLINIC, private=True)
    assert not any("NOT PRIVATE" in shown(clean).words for clean in (private, private.group_by("sex")))


def test_an_answer_shows_its_interval() -> None:
    answer = Answer(1234.56, 3.0, 0.5, 1228.0, 1241.04, 0.9)
    assert shown(answer).rows == [
        ["count", "90% interval", "noise", "nonuniformity"],
        ["1,234.6", "1,228.0 to 1,241.0", "3.0", "0.5"],
    ]


def test_an_error_that_is_not_known_is_said_to_be_unknown() -> None:
    assert shown(Answer(5.0, math.nan, math.nan, math.nan, math.nan, 0.95)).rows[1] == ["5.0", *["unknown"] * 3]
    answers = made(CLINIC).answer(Workload(CLINIC.shape, np.array([[0, 0]]), np.array([[3, 2]])))
    object.__setattr__(answers, "nonuniformities", np.array([math.nan]))
    object.__setattr__(answers, "noises", None)
    (row,) = shown(answers).rows[1:]
    assert row[2] == row[4] == "unknown"
    assert row[3] != "unknown"


def test_a_cut_bin_is_named() -> None:
    release = made(CLINIC)
    answer = release.count(age=(31, 39))
    assert shown(answer).rows[0][-1] == "note"
    assert shown(answer).rows[1][-1] == "cuts the bin 30-34 of age"
    rows = shown(release.dice(age=(31, 39)).group_by("age")).rows
    assert [row[-1] for row in rows] == ["note", "cuts the bin 30-34 of age", ""]
    low, high = rows[1][2].split(" to ")
    assert float(low) == 0  # from none of the rows of the bin that is cut
    assert float(high) > float(rows[1][1])


def test_a_view_shows_the_first_rows_of_its_table() -> None:
    view = made(CLINIC, strategy="dpcube").view()
    page, table = shown(view), view.table().slice(0, 20).to_pylist()
    assert page.words.endswith("View of age by age, sex by sex: the first 20 of 40 rows")
    assert page.rows[0] == ["age", "sex", "count", "95% interval", "noise", "nonuniformity"]
    expected = [
        [r["age"], r["sex"], f"{r['value']:,.1f}", f"{r['low']:,.1f} to {r['high']:,.1f}", f"{r['stderr']:,.1f}"]
        for r in table
    ]
    assert [row[:5] for row in page.rows[1:]] == expected
    assert shown(view.group_by()).words.endswith("View of the total: 1 row")
    assert len(shown(view.group_by()).rows) == 2
    assert len(shown(view.dice("age < 5 and age >= 5")).rows) == 1


def test_a_view_that_cannot_be_answered_still_shows_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        msg = "too large"
        raise MemoryLimitError(msg)

    view = made(CLINIC).group_by("sex")
    monkeypatch.setattr(Release, "estimate", refused)
    assert shown(view).words.endswith("View of sex by sex: too large")


def test_answers_show_the_first_of_many() -> None:
    release = made(CLINIC, strategy="dpcube")
    upper = np.stack([np.arange(1000) % 20 + 1, np.full(1000, 2)], axis=1)
    answers = release.answer(Workload(CLINIC.shape, np.zeros_like(upper), upper))
    page = shown(answers)
    assert page.words == "the first 20 of 1,000 answers"
    low, high = answers.interval()
    assert [row[:3] for row in page.rows[1:]] == [
        [str(k), f"{answers.values[k]:,.1f}", f"{low[k]:,.1f} to {high[k]:,.1f}"] for k in range(20)
    ]


def test_answers_that_cut_bins_are_shown_with_their_own_words() -> None:
    release = made(CLINIC)
    weights = np.zeros((30, 20))
    for query in range(30):
        weights[query, query % 20] = 0.5 if query % 3 == 0 else 1
    chosen = np.stack([np.arange(30), np.zeros(30, np.int64)], axis=1)
    answers = Answers.asked(CLINIC, release.estimate(), CountingQueries((weights, np.ones((1, 2))), chosen))
    rows, (low, high) = shown(answers).rows[1:], answers.interval()
    assert [row[-1] for row in rows] == answers.cut_words()[:20]
    assert [bool(row[-1]) for row in rows] == [query % 3 == 0 for query in range(20)]
    assert [row[2] for row in rows] == [f"{low[k]:,.1f} to {high[k]:,.1f}" for k in range(20)]


def test_hostile_names_and_values_are_text() -> None:
    domain = Domain(Category(HOSTILE, [HOSTILE, "b" * 10_000]), Integer("a<b>" * 5_000, 0, 9, width=5))
    release = made(domain)
    view = release.view()
    cut = release.count({"a<b>" * 5_000: (1, 3)})
    for thing in (release, view, cut, release.slice({HOSTILE: HOSTILE})):
        fragment = thing._repr_html_()
        assert "<script" not in fragment
        assert "\u202e" not in fragment  # which would turn the text around it
        assert len(fragment) < 20_000
        shown(thing)
    assert HOSTILE[:-1] in shown(view).rows[0][0]
    assert HOSTILE[:-1] in shown(view).rows[1][0]


def test_a_wide_release_stays_small() -> None:
    release = made(Domain([Integer(f"x{i}", 0, 0) for i in range(32)]))
    page = shown(release)
    assert len(page.rows) == 21
    assert page.words.endswith("the first 20 of 32 attributes")
    assert shown(made(Domain(Integer("x", 0, 4)))).words.endswith(
        "5 cells, epsilon 1 for one row, by cells; 1 attribute"
    )


def test_the_first_places_are_those_of_all_rows_in_order() -> None:
    domain = Domain(Integer("a", 0, 2), Integer("b", 0, 3), Integer("c", 0, 1))
    axes = [AxisGroups(a, a.levels()[0], np.ones(a.size), np.zeros(a.size, np.bool_)) for a in domain.attributes]
    every = np.stack(np.unravel_index(np.arange(24), (3, 4, 2)), axis=1)
    for most in (0, 1, 7, 24, 100):
        assert (first_places(axes, most) == every[:most]).all()
    many = [
        AxisGroups(a, a.levels()[0], np.ones(a.size), np.zeros(a.size, np.bool_))
        for a in Domain.of_shape((1000,) * 30).attributes
    ]
    assert first_places(many, 1001)[-1].tolist() == [0] * 28 + [1, 0]
    nothing = [axes[0], AxisGroups(axes[1].attribute, axes[1].level, np.zeros(4), np.zeros(4, np.bool_))]
    assert first_places(nothing, 5).shape == (0, 2)
