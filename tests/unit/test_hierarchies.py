"""Hierarchies: declared in a domain, checked, kept by files, and turned into groups of cells."""

import re
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcube import Domain, Release
from dpcube.core.domain import Attribute, Category, Date, Float, Integer
from dpcube.core.errors import DomainError, ReleaseFileError
from dpcube.research import experiment
from dpcube.testing import SilentNoise

COUNTRIES = ("France", "Japan", "Italy", "Chad")
REGIONS = {"Europe": ["France", "Italy"], "Africa": ["Chad"], "Asia": ["Japan"]}
DOMAIN = """\
format = 1

[[attribute]]
name = "country"
type = "category"
values = ["France", "Japan", "Italy", "Chad"]
null = "cell"

[attribute.hierarchy."region"]
"Europe" = ["France", "Italy"]
"Africa" = ["Chad"]
"Asia" = ["Japan"]

[attribute.hierarchy."old or new"]
"old" = ["Africa", "Europe", "Asia"]

[[attribute]]
name = "age"
type = "integer"
min = 0
max = 24
width = 5
outside = "cell"

[attribute.hierarchy]
"decade" = [0, 10, 20, 25]
"majority" = [0, 20, 25]

[[attribute]]
name = "seen"
type = "date"
start = 2025-11-29
end = 2026-04-01
hierarchy = ["month", "quarter", "year"]
"""


def shown(attribute: Attribute) -> dict[str, dict[str, list[int]]]:
    """The cells of each group of each level."""
    return {
        level.name: {label: np.flatnonzero(level.group == number).tolist() for number, label in enumerate(level.labels)}
        for level in attribute.levels()
    }


def test_a_domain_file_declares_hierarchies_and_reads_back() -> None:
    domain = Domain.loads(DOMAIN)
    assert domain.dumps() == DOMAIN
    assert Domain.loads(domain.dumps()) == domain
    assert hash(domain) == hash(Domain.loads(DOMAIN))
    assert domain["country"] == Category(
        name="country",
        values=COUNTRIES,
        null="cell",
        hierarchy={"region": REGIONS, "old or new": {"old": ["Africa", "Europe", "Asia"]}},
    )


def test_what_people_write_by_hand() -> None:
    by_hand = DOMAIN.replace('"region"', "region").replace('"Europe" =', "Europe =").replace('"decade"', "decade")
    assert Domain.loads(by_hand) == Domain.loads(DOMAIN)


def test_levels_of_categories_follow_the_declaration_and_keep_cells_of_their_own_apart() -> None:
    assert shown(Domain.loads(DOMAIN)["country"]) == {
        "country": {"France": [0], "Japan": [1], "Italy": [2], "Chad": [3], "(null)": [4]},
        "region": {"Europe": [0, 2], "Africa": [3], "Asia": [1], "(null)": [4]},
        "old or new": {"old": [0, 1, 2, 3], "(null)": [4]},
    }


def test_levels_of_numbers_are_coarser_bins() -> None:
    assert shown(Domain.loads(DOMAIN)["age"]) == {
        "age": {"0-4": [0], "5-9": [1], "10-14": [2], "15-19": [3], "20-24": [4], "(outside)": [5]},
        "decade": {"0-9": [0, 1], "10-19": [2, 3], "20-24": [4], "(outside)": [5]},
        "majority": {"0-19": [0, 1, 2, 3], "20-24": [4], "(outside)": [5]},
    }


def test_edges_of_levels_may_be_written_as_people_write_them() -> None:
    dose = Float(name="dose", min=0, max=1, width=0.1, hierarchy={"half": [0, 0.3, 1]})  # 3 * 0.1 is not 0.3
    assert shown(dose)["half"] == {"[0, 0.3)": [0, 1, 2], "[0.3, 1]": [3, 4, 5, 6, 7, 8, 9]}


def test_levels_of_dates_are_the_calendar() -> None:
    levels = shown(Domain.loads(DOMAIN)["seen"])
    assert list(levels) == ["day", "month", "quarter", "year"]
    assert {name: len(cells) for name, cells in levels["month"].items()} == {
        "2025-11": 2, "2025-12": 31, "2026-01": 31, "2026-02": 28, "2026-03": 31, "2026-04": 1,
    }  # fmt: skip
    assert {name: len(cells) for name, cells in levels["quarter"].items()} == {
        "2025-Q4": 33,
        "2026-Q1": 90,
        "2026-Q2": 1,
    }
    assert {name: len(cells) for name, cells in levels["year"].items()} == {"2025": 33, "2026": 91}


@pytest.mark.parametrize(
    ("every", "levels"),
    [("day", ["day", "month", "year"]), ("week", ["week"]), ("month", ["month", "year"]), ("year", ["year"])],
)
def test_dates_have_the_calendar_without_declaring_it(
    every: Literal["day", "week", "month", "year"], levels: list[str]
) -> None:
    """As do dates in files from before there were hierarchies."""
    seen = Date(name="seen", start=date(2025, 1, 1), end=date(2026, 12, 31), every=every)
    assert [level.name for level in seen.levels()] == levels
    assert "hierarchy" not in Domain((seen,)).dumps()


def test_weeks_begin_with_the_first_day() -> None:
    seen = Date(name="seen", start=date(2026, 1, 7), end=date(2026, 1, 22), hierarchy=("week",))
    assert shown(seen)["week"] == {
        "2026-01-07": list(range(7)), "2026-01-14": list(range(7, 14)), "2026-01-21": [14, 15],
    }  # fmt: skip


@given(st.dates(date(1, 1, 1), date(9990, 1, 1)), st.integers(0, 900), st.sampled_from(["day", "month"]))
def test_calendar_levels_put_each_day_where_its_label_says(start: date, days: int, every: Any) -> None:
    seen = Date(name="seen", start=start, end=start + timedelta(days), every=every, hierarchy=("quarter", "year"))
    _, quarters, years = seen.levels()
    for cell, ordinal in enumerate(seen.bin_edges()[:-1]):
        day = date.fromordinal(int(ordinal))
        assert quarters.labels[quarters.group[cell]] == f"{day.year:04}-Q{(day.month + 2) // 3}"
        assert years.labels[years.group[cell]] == f"{day.year:04}"


words = st.text(max_size=6).filter(lambda text: text.encode(errors="ignore").decode() == text)


@given(
    st.lists(words, min_size=1, max_size=6, unique=True), st.lists(words, min_size=1, max_size=6, unique=True), words
)
def test_odd_names_of_levels_groups_and_members_survive(values: list[str], groups: list[str], level: str) -> None:
    groups = groups[: len(values)]
    held = {group: values[number :: len(groups)] for number, group in enumerate(groups)}
    hierarchy = {f"x{level}": held, f"y{level}": {"": list(held)}}
    domain = Domain((Category(name="name", values=tuple(values), hierarchy=hierarchy),))
    assert Domain.loads(domain.dumps()) == domain
    read = shown(Domain.loads(domain.dumps())["name"])
    assert read[f"x{level}"] == {group: [values.index(value) for value in members] for group, members in held.items()}


def category(hierarchy: object) -> Category:
    return Category(name="country", values=COUNTRIES, null="cell", hierarchy=hierarchy)  # type: ignore[arg-type]


def integer(hierarchy: object) -> Integer:
    return Integer(name="age", min=0, max=19, width=5, hierarchy=hierarchy)  # type: ignore[arg-type]


def dates(hierarchy: object, every: Any = "day") -> Date:
    return Date(name="seen", start=date(2026, 1, 1), end=date(2026, 2, 1), every=every, hierarchy=hierarchy)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "hierarchy", "message"),
    [
        (category, 5, "hierarchy must be a table of levels, got 5"),
        (category, ["region"], "hierarchy must be a table of levels, got ['region']"),
        (category, {"region": 5}, "must map names of groups to lists of members"),
        (category, {"region": {"Europe": "France"}}, "group 'Europe' must have a unique name and a list"),
        (category, {"region": {"Europe": []}}, "group 'Europe' must have a unique name and a list"),
        (category, {"region": {"Europe": [["France"]]}}, "group 'Europe' must have a unique name and a list"),
        (category, {"region": {"(null)": list(COUNTRIES)}}, "group '(null)' must have a unique name"),
        (category, (("region", (("a", COUNTRIES[:2]), ("a", COUNTRIES[2:]))),), "group 'a' must have a unique name"),
        (category, {"region": {"Europe": ["France", "Italy"]}}, "'Japan' is in 0 groups; list each member"),
        (category, {"region": {"a": COUNTRIES, "b": ["Chad"]}}, "'Chad' is in 2 groups"),
        (category, {"region": {"a": [*COUNTRIES, "Peru"]}}, "'Peru' is not a member of the level below"),
        (category, {"region": REGIONS, "world": {"all": ["France"]}}, "'Europe' is in 0 groups"),
        (category, {"country": REGIONS}, "needs a unique name, not blank, not 'all' and not that of the attribute"),
        (category, {"all": REGIONS}, "got 'all'"),
        (category, {" ": REGIONS}, "got ' '"),
        (category, {"\ud800": REGIONS}, "needs a unique name"),
        (integer, {"decade": "0-9"}, "must be increasing edges of the level below, from 0 to 20, got '0-9'"),
        (integer, {"decade": [0, 7, 20]}, "got [0, 7, 20]"),
        (integer, {"decade": [0, 10]}, "got [0, 10]"),
        (integer, {"decade": [20, 10, 0]}, "got [20, 10, 0]"),
        (integer, {"decade": [0, 10, 10, 20]}, "got [0, 10, 10, 20]"),
        (integer, {"decade": [0, True, 20]}, "got [0, True, 20]"),
        (integer, {"decade": [0, 10**400, 20]}, "must be increasing edges"),
        (integer, {"decade": [0, float("nan"), 20]}, "must be increasing edges"),
        (integer, {"decade": [0, 10, 20], "odd": [0, 5, 20]}, "level 'odd'"),
        (dates, ["year", "month"], "must be week alone, or some of month, quarter, year in this order"),
        (dates, ["week", "month"], "week alone"),
        (dates, ["day"], "got ['day']"),
        (dates, "month", "got 'month'"),
        (dates, [["month"]], "got [['month']]"),
        (lambda h: dates(h, "week"), ["month"], "hierarchy of dates by week must be left out"),
        (lambda h: dates(h, "month"), ["month"], "hierarchy of dates by month must be some of quarter, year"),
    ],
)  # fmt: skip
def test_a_hierarchy_that_cannot_be_is_refused(make: Any, hierarchy: object, message: str) -> None:
    with pytest.raises(DomainError, match=re.escape(message)) as caught:
        make(hierarchy)
    assert len(str(caught.value).splitlines()) == 1


def test_a_hierarchy_over_too_many_bins_is_refused_before_they_are_laid_out() -> None:
    with pytest.raises(DomainError, match="a hierarchy allows at most"):
        Integer(name="n", min=0, max=2**31 - 1, hierarchy={"half": [0, 2**30, 2**31]})


@pytest.mark.parametrize("line", ["hierarchy = 3", "hierarchy = [1]", "hierarchy = {x = 3}", 'hierarchy = ["month"]'])
def test_a_file_with_a_wrong_hierarchy_is_refused_in_one_line(line: str) -> None:
    for kind in (
        'type = "integer"\nmin = 0\nmax = 9',
        'type = "date"\nstart = 2026-01-01\nend = 2026-01-02\nevery = "year"',
    ):
        with pytest.raises(DomainError):
            Domain.loads(f'[[attribute]]\nname = "a"\n{kind}\n{line}\n')


def test_a_release_keeps_its_hierarchies(tmp_path: Path) -> None:
    domain = Domain.loads(DOMAIN)
    made = experiment(np.ones(domain.shape, np.int64), epsilon=1, noise=SilentNoise())
    release = Release(domain, made.transcript, made.provenance)
    release.save(tmp_path / "r.dpcube")
    opened = Release.open(tmp_path / "r.dpcube")
    assert opened.domain == domain
    assert opened.digest == release.digest
    assert opened.domain.dumps() == DOMAIN
    bare = Domain.loads(re.sub(r"\n\[attribute\.hierarchy.*?(?=\n\[\[|\Z)", "", DOMAIN, flags=re.DOTALL))
    assert Release(bare, made.transcript, made.provenance).digest != release.digest  # what it says is part of it
    with pytest.raises(ReleaseFileError):
        release.save(tmp_path / "r.dpcube")
