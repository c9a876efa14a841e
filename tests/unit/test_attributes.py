import doctest
import math
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from types import ModuleType
from typing import Literal, TypedDict

import numpy as np
import pytest

from dpcube.core.domain import (
    Attribute,
    Category,
    Date,
    Destination,
    Domain,
    Float,
    Integer,
    ValueSet,
    attribute,
    calendar,
    category,
)
from dpcube.core.domain import domain as domain_module
from dpcube.core.domain import number as number_module
from dpcube.core.domain import value_set as selection_module
from dpcube.core.errors import DomainError, QueryError
from dpcube.queries.counting import Condition, select

Every = Literal["day", "week", "month", "year"]


class Irregular(TypedDict):
    null: Destination
    nan: Destination
    infinite: Destination
    unknown: Destination
    outside: Destination


AGE = Integer(name="age", min=17, max=90, width=10)
DOSE = Float(name="dose", min=0.0, max=2.0, width=0.5)
GRADE = Category(name="grade", values=("low", "mid", "high"), ordered=True)
SEX = Category(name="sex", values=("Female", "Male"))
VISIT = Date(name="visit", start=date(2024, 1, 15), end=date(2024, 4, 2), every="month")
EVERY_KIND: Irregular = {"null": "cell", "nan": "cell", "infinite": "cell", "unknown": "cell", "outside": "cell"}


def shares(declared: Attribute, condition: Condition) -> list[float]:
    return [float(share) for share in declared.weights(select(declared, condition))]


@pytest.mark.parametrize(
    "module",
    [attribute, calendar, category, domain_module, number_module, selection_module],
    ids=lambda module: module.__name__,
)
def test_examples_in_docstrings(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


# --- bins, edges, labels -----------------------------------------------------------------------------------------


def test_integer_bins_hold_both_ends_and_the_last_may_be_narrower() -> None:
    assert AGE.bins == AGE.size == 8
    assert AGE.bin_edges().tolist() == [17, 27, 37, 47, 57, 67, 77, 87, 91]
    assert AGE.labels() == ["17-26", "27-36", "37-46", "47-56", "57-66", "67-76", "77-86", "87-90"]
    assert AGE.extent() == "17 to 90"


def test_integer_bins_of_width_one_are_named_by_their_value() -> None:
    assert Integer(name="n", min=-2, max=1).labels() == ["-2", "-1", "0", "1"]
    assert Integer(name="n", min=5, max=5).bins == 1


@pytest.mark.parametrize(
    ("low", "high", "width", "bins"), [(0, 9, 10, 1), (0, 10, 10, 2), (0, 9, 11, 1), (-7, 7, 4, 4), (-8, -1, 4, 2)]
)
def test_number_of_integer_bins(low: int, high: int, width: int, bins: int) -> None:
    declared = Integer(name="n", min=low, max=high, width=width)
    assert declared.bins == bins == len(declared.bin_edges()) - 1
    assert declared.bin_edges()[-1] == high + 1


def test_integer_edges_hold_their_lower_end_only() -> None:
    declared = Integer(name="age", edges=(0, 18, 19, 65))
    assert declared.labels() == ["0-17", "18", "19-64"]
    assert declared.extent() == "0 to 64"
    assert shares(declared, 18) == [0, 1, 0]


def test_the_largest_whole_numbers_are_exact() -> None:
    top = 2**53 - 1
    assert np.diff(Integer(name="n", min=top - 2, max=top).bin_edges()).tolist() == [1, 1, 1]
    width = 2**52 + 1  # three widths are no double, though every edge is one
    wide = Integer(name="n", min=-top, max=top, width=width)
    assert [int(edge) for edge in wide.bin_edges()] == [*(-top + k * width for k in range(4)), top + 1]


def test_float_edges_are_min_plus_k_widths_as_people_write_them() -> None:
    declared = Float(name="x", min=0.1, max=1.0, width=0.1)
    edges = declared.bin_edges()
    assert declared.bins == 9
    assert edges.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]  # and not 0.1 + 2 * 0.1
    assert Float(name="x", min=0, max=1, width=0.3).bin_edges().tolist() == [0, 0.3, 0.6, 0.9, 1]


def test_float_labels_close_the_last_bin() -> None:
    assert DOSE.labels() == ["[0, 0.5)", "[0.5, 1)", "[1, 1.5)", "[1.5, 2]"]
    assert Float(name="x", edges=(0.0, 0.25, 9)).labels() == ["[0, 0.25)", "[0.25, 9]"]
    assert DOSE.extent() == "0 to 2"


@pytest.mark.slow
@pytest.mark.parametrize("low", [0.0, 0.1, -0.3, 1.0, 1000.7])
@pytest.mark.parametrize("width", [0.1, 0.2, 0.05, 0.3, 0.7, 1.1])
def test_rounding_never_makes_a_bin_of_nothing(low: float, width: float) -> None:
    for count in range(1, 600):
        high = float(Fraction(str(low)) + count * Fraction(str(width)))  # what a user would type as the max
        declared = Float(name="x", min=low, max=high, width=width)
        assert declared.bins == count
        assert np.diff(declared.bin_edges()).min() > 0.99 * width


@pytest.mark.parametrize(
    ("every", "labels", "starts"),
    [
        (
            "month",
            ["2024-01", "2024-02", "2024-03", "2024-04"],
            ["2024-01-15", "2024-02-01", "2024-03-01", "2024-04-01"],
        ),
        ("year", ["2024"], ["2024-01-15"]),
    ],
)
def test_calendar_bins(every: Every, labels: list[str], starts: list[str]) -> None:
    declared = Date(name="visit", start=VISIT.start, end=VISIT.end, every=every)
    edges = [date.fromordinal(int(edge)).isoformat() for edge in declared.bin_edges()]
    assert declared.labels() == labels
    assert edges == [*starts, "2024-04-03"]
    assert declared.extent() == "2024-01-15 to 2024-04-02"


def test_days_and_weeks() -> None:
    days = Date(name="d", start=date(2024, 2, 27), end=date(2024, 3, 2))
    assert days.labels() == ["2024-02-27", "2024-02-28", "2024-02-29", "2024-03-01", "2024-03-02"]
    weeks = Date(name="d", start=date(2024, 2, 27), end=date(2024, 3, 12), every="week")
    assert weeks.labels() == ["2024-02-27", "2024-03-05", "2024-03-12"]
    assert np.diff(weeks.bin_edges()).tolist() == [7, 7, 1]


@pytest.mark.parametrize(("year", "days"), [(2024, 29), (2023, 28), (1900, 28), (2000, 29)])
def test_february_is_as_long_as_it_was(year: int, days: int) -> None:
    declared = Date(name="d", start=date(year, 1, 1), end=date(year, 12, 31), every="month")
    assert np.diff(declared.bin_edges())[1] == days
    assert np.diff(declared.bin_edges()).sum() == 337 + days


@pytest.mark.parametrize("every", ["day", "week", "month", "year"])
def test_the_ends_of_the_calendar(every: Every) -> None:
    first = Date(name="d", start=date(1, 1, 1), end=date(1, 1, 31), every=every)
    last = Date(name="d", start=date(9999, 12, 1), end=date(9999, 12, 31), every=every)
    assert first.bin_edges()[0] == 1
    assert last.bin_edges()[-1] == date.max.toordinal() + 1
    assert first.labels()[0].startswith("0001")
    assert last.labels()[-1].startswith("9999")
    assert np.diff(first.bin_edges()).sum() == np.diff(last.bin_edges()).sum() == 31
    assert last.weights(last.equal("9999-12-31")).sum() == pytest.approx(1 / np.diff(last.bin_edges())[-1])


def test_the_whole_calendar() -> None:
    declared = Date(name="d", start=date.min, end=date.max, every="year")
    assert declared.bins == 9999
    assert np.unique(np.diff(declared.bin_edges())).tolist() == [365, 366]
    assert declared.weights(declared.range(date.min, date.max)).tolist() == [1.0] * 9999


def test_category_labels_are_its_values() -> None:
    assert SEX.labels() == ["Female", "Male"]
    assert SEX.extent() == "'Female', 'Male'"
    assert SEX.bin_edges().tolist() == [0, 1, 2]


# --- cells of their own ------------------------------------------------------------------------------------------


def test_own_cells_come_after_the_bins_in_one_order() -> None:
    declared = Float(name="x", min=0, max=1, width=0.5, outside="cell", nan="cell", null="cell")
    assert declared.own_cells == ("null", "nan", "outside")
    assert (declared.bins, declared.size) == (2, 5)
    assert declared.labels()[2:] == ["(null)", "(nan)", "(outside)"]


@pytest.mark.parametrize(
    ("declared", "own"),
    [
        (Integer(name="x", min=0, max=1, **EVERY_KIND), ("null", "nan", "infinite", "unknown", "outside")),
        (Float(name="x", min=0, max=1, **EVERY_KIND), ("null", "nan", "infinite", "unknown", "outside")),
        (Category(name="x", values=("a", "b"), null="cell", unknown="cell"), ("null", "unknown")),
        (
            Date(name="x", start=date.min, end=date.max, null="cell", unknown="cell", outside="cell"),
            ("null", "unknown", "outside"),
        ),
        (Integer(name="x", min=0, max=1, outside="clip", infinite="clip"), ()),
    ],
)
def test_every_type_has_its_irregular_kinds(declared: Attribute, own: tuple[str, ...]) -> None:
    assert declared.own_cells == own
    assert declared.size == declared.bins + len(own)


def test_an_own_cell_is_selected_by_its_label_alone() -> None:
    declared = Integer(name="x", min=0, max=1, null="cell", outside="cell")
    assert shares(declared, "(null)") == [0, 0, 1, 0]
    assert shares(declared, "(outside)") == [0, 0, 0, 1]
    assert shares(declared, ["(null)", 1]) == [0, 1, 1, 0]
    assert shares(declared, (0, 1)) == [1, 1, 0, 0]
    assert declared.weights(declared.everything()).tolist() == [1, 1, 1, 1]
    assert declared.weights(declared.complement(declared.equal(0))).tolist() == [0, 1, 0, 0]


def test_a_cell_that_was_not_declared_cannot_be_asked_for() -> None:
    with pytest.raises(QueryError, match=r"attribute 'age' takes numbers \(17 to 90\), got '\(null\)'"):
        AGE.equal("(null)")
    with pytest.raises(QueryError, match=r"'sex' has no value '\(null\)'; its values are 'Female', 'Male'"):
        SEX.equal("(null)")


def test_the_values_of_a_category_with_own_cells_are_listed_with_them() -> None:
    declared = Category(name="sex", values=("F",), null="cell")
    with pytest.raises(QueryError, match=r"no value 'x'; its values are 'F', '\(null\)'"):
        declared.equal("x")


# --- selections --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ((17, 26), [1, 0, 0, 0, 0, 0, 0, 0]),
        ((26, 27), [1 / 10, 1 / 10, 0, 0, 0, 0, 0, 0]),
        ((30, 39), [0, 7 / 10, 3 / 10, 0, 0, 0, 0, 0]),
        ((90, 90), [0, 0, 0, 0, 0, 0, 0, 1 / 4]),
        ((88, None), [0, 0, 0, 0, 0, 0, 0, 3 / 4]),
        ((None, 18), [2 / 10, 0, 0, 0, 0, 0, 0, 0]),
        ((None, None), [1] * 8),
        ((-1000, 1000), [1] * 8),
        ((0, 17), [1 / 10, 0, 0, 0, 0, 0, 0, 0]),
        (27, [0, 1 / 10, 0, 0, 0, 0, 0, 0]),
        ([17, 18, 19, 40], [3 / 10, 0, 1 / 10, 0, 0, 0, 0, 0]),
        ([17, 17], [1 / 10, 0, 0, 0, 0, 0, 0, 0]),
        ({90}, [0, 0, 0, 0, 0, 0, 0, 1 / 4]),
        (frozenset({90, 89, 88, 87}), [0, 0, 0, 0, 0, 0, 0, 1]),
        (np.int64(27), [0, 1 / 10, 0, 0, 0, 0, 0, 0]),
        ((np.int32(17), np.float64(26.0)), [1, 0, 0, 0, 0, 0, 0, 0]),
    ],
)
def test_shares_of_integer_bins_are_exact(condition: Condition, expected: list[float]) -> None:
    assert shares(AGE, condition) == expected


def test_open_ranges_of_whole_numbers_leave_their_ends_out() -> None:
    whole = Integer(name="n", min=0, max=9)
    assert np.flatnonzero(whole.weights(whole.range(3, 6, low_open=True, high_open=True))).tolist() == [4, 5]
    assert np.flatnonzero(whole.weights(whole.range(3, 6, low_open=True))).tolist() == [4, 5, 6]
    assert np.flatnonzero(whole.weights(whole.range(3, 6, high_open=True))).tolist() == [3, 4, 5]
    assert np.flatnonzero(whole.weights(whole.range(None, 2, high_open=True))).tolist() == [0, 1]
    assert np.flatnonzero(whole.weights(whole.range(7, None, low_open=True))).tolist() == [8, 9]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ((0.0, 2.0), [1, 1, 1, 1]),
        ((0.25, 0.5), [0.5, 0, 0, 0]),
        ((0.25, 1.125), [0.5, 1, 0.25, 0]),
        ((1.75, None), [0, 0, 0, 0.5]),
        ((None, 0.125), [0.25, 0, 0, 0]),
        ((1, 2), [0, 0, 1, 1]),
        (1.0, [0, 0, 0, 0]),
        ((2.0, 3.0), [0, 0, 0, 0]),
        ([0.25, 0.5], [0, 0, 0, 0]),
    ],
)
def test_shares_of_float_bins(condition: Condition, expected: list[float]) -> None:
    assert shares(DOSE, condition) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ((0.0, 2.0), []),
        ((0.25, 0.5), [0, 1]),
        ((None, 1.0), [2]),
        ((None, math.nextafter(1.0, 0)), []),
        ((1.0, None), []),
        ((math.nextafter(1.0, 2), None), [2]),
        (1.0, [2]),
        ((1.0, 1.0), [2]),
        ((2.0, None), [3]),
        ((0.0, 0.0), [0]),
        (-0.0, [0]),
        ([0.25, 0.5], [0, 1]),
        ((None, 1.999), [3]),
    ],
)
def test_a_closed_end_takes_a_part_of_the_bin_that_begins_there(condition: Condition, expected: list[int]) -> None:
    selection = select(DOSE, condition)
    assert np.flatnonzero(DOSE.parts(selection)).tolist() == expected
    assert np.flatnonzero(DOSE.parts(DOSE.complement(selection))).tolist() == expected
    own = replace(DOSE, null="cell")
    assert own.parts(own.everything()).tolist() == [False] * 5


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("2024-02-29", [0, 1 / 29, 0, 0]),
        (date(2024, 1, 15), [1 / 17, 0, 0, 0]),
        (("2024-01-31", "2024-02-01"), [1 / 17, 1 / 29, 0, 0]),
        ((None, date(2024, 1, 31)), [1, 0, 0, 0]),
        ((date(2024, 4, 1), None), [0, 0, 0, 1]),
        (("2020-01-01", "2030-01-01"), [1, 1, 1, 1]),
        (["2024-02-01", "2024-02-03"], [0, 2 / 29, 0, 0]),
    ],
)
def test_shares_of_months(condition: Condition, expected: list[float]) -> None:
    assert shares(VISIT, condition) == expected


def test_categories_are_selected_by_value_list_or_declared_order() -> None:
    assert shares(SEX, "Male") == [0, 1]
    assert shares(SEX, ["Male", "Female"]) == [1, 1]
    assert shares(GRADE, ("mid", "high")) == [0, 1, 1]
    assert shares(GRADE, ("mid", None)) == [0, 1, 1]
    assert shares(GRADE, (None, "low")) == [1, 0, 0]
    assert GRADE.weights(GRADE.range("low", None, low_open=True)).tolist() == [0, 1, 1]


def test_a_number_selects_the_category_that_is_written_as_it() -> None:
    treated = Category("treated", ["0", "1", "01", "2.0", "n/k"], unknown="cell", null_text=("9",))
    assert treated.weights(treated.equal(0)).tolist() == [1, 0, 0, 0, 0, 0]
    assert treated.weights(treated.equal(2)).tolist() == [0, 0, 0, 1, 0, 0]
    for value in (1, 9, True, 0.5):  # two values are 1; 9 is null
        with pytest.raises(QueryError, match=f"has no value {value}; its values are"):
            treated.equal(value)


def test_a_label_of_a_bin_or_a_group_selects_its_cells() -> None:
    assert shares(VISIT, "2024-02") == [0, 1, 0, 0]
    assert shares(VISIT, "2024") == [1, 1, 1, 1]
    assert shares(VISIT, ["2024-01", "2024-04"]) == [1, 0, 0, 1]
    assert VISIT.group_named("2024-05") is None
    age = Integer("age", min=0, max=99, width=10, null="cell")
    assert shares(age, "40-49") == [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    land = Category("land", ["fr", "it", "cn"], hierarchy={"continent": {"Europe": ["fr", "it"], "cn": ["cn"]}})
    assert shares(land, "Europe") == [1, 1, 0]
    with pytest.raises(QueryError, match="has no value 'Asia'"):
        land.equal("Asia")
    weeks = Date("seen", "2024-01-01", "2024-01-14", every="week")
    assert shares(weeks, "2024-01-08") == [0, 1 / 7]  # a value before a label


def test_the_selection_of_the_complement_covers_the_rest_of_the_bins() -> None:
    half, after = DOSE.range(0.25, 0.75), np.nextafter([0.75, 2.0], np.inf).tolist()  # both ends are held
    assert DOSE.complement(half) == ValueSet(((0.0, 0.25), (after[0], after[1])))
    assert DOSE.complement(DOSE.complement(half)) == half
    assert AGE.complement(AGE.everything()) == ValueSet()


def test_ranges_that_meet_or_hold_one_another_are_one() -> None:
    below, above = DOSE.range(None, 0.75, high_open=True), DOSE.range(0.75, None)
    assert (below | above).intervals == DOSE.everything().intervals
    assert not DOSE.parts(below | above).any()  # and not with its number missing
    assert (DOSE.range(0.0, 2.0) | DOSE.range(0.25, 0.5)).intervals == DOSE.everything().intervals
    rest = DOSE.complement(DOSE.range(None, 0.25))
    assert DOSE.weights(rest).tolist() == [0.5, 1, 1, 1]  # as it was said, to the last digit


def test_rounding_never_selects_more_than_the_whole_bin() -> None:
    cuts = (-0.012770326689636374, 0.12422683460716419, 0.12939643462177405)
    low, high = -0.16659299645723083, 1.229789455277151
    starts = (low, *(math.nextafter(cut, math.inf) for cut in cuts))
    nearly_all = ValueSet(tuple(zip(starts, (*cuts, high), strict=True)))
    assert Float(name="x", edges=(low, high)).weights(nearly_all).tolist() == [1.0]


# --- what cannot be asked ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "condition", "message"),
    [
        (AGE, 16, "attribute 'age' has no values at 16; its domain is 17 to 90"),
        (AGE, 91, "attribute 'age' has no values at 91; its domain is 17 to 90"),
        (AGE, (91, None), "attribute 'age' has no values from 91; its domain is 17 to 90"),
        (AGE, (None, 16), "attribute 'age' has no values up to 16; its domain is 17 to 90"),
        (AGE, (100, 200), "attribute 'age' has no values from 100 up to 200; its domain is 17 to 90"),
        (AGE, np.int64(5), "attribute 'age' has no values at 5; its domain is 17 to 90"),
        (AGE, (39, 30), "attribute 'age': the range from 39 to 30 is empty; put the lower end first"),
        (AGE, 30.5, "attribute 'age' takes whole numbers (17 to 90), got 30.5"),
        (AGE, (30.5, 40), "attribute 'age' takes whole numbers (17 to 90), got 30.5"),
        (AGE, "30", "attribute 'age' takes numbers (17 to 90), got '30'"),
        (AGE, True, "attribute 'age' takes numbers (17 to 90), got True"),
        (AGE, math.nan, "attribute 'age' takes numbers (17 to 90), got nan"),
        (AGE, (math.inf, None), "attribute 'age' takes numbers (17 to 90), got inf"),
        (AGE, 10**400, f"attribute 'age' takes numbers (17 to 90), got {10**400}"),
        (AGE, 1 + 0j, "attribute 'age' takes numbers (17 to 90), got (1+0j)"),
        (AGE, np.complex128(1), "attribute 'age' takes numbers (17 to 90), got np.complex128(1+0j)"),
        (AGE, date(2024, 1, 1), "attribute 'age' takes numbers (17 to 90), got datetime.date(2024, 1, 1)"),
        (AGE, (30,), "attribute 'age': a range is a pair (low, high), got (30,); values go in a list"),
        (AGE, (1, 2, 3), "attribute 'age': a range is a pair (low, high), got (1, 2, 3); values go in a list"),
        (AGE, [], "attribute 'age': the list of values is empty; leave the attribute out to count all"),
        (AGE, None, "attribute 'age' cannot equal None; use '(null)' if nulls have a cell of their own"),
        (AGE, [30, 5], "attribute 'age' has no values at 5; its domain is 17 to 90"),
        (DOSE, 2.5, "attribute 'dose' has no values at 2.5; its domain is 0 to 2"),
        (DOSE, (2.5, 3.0), "attribute 'dose' has no values from 2.5 up to 3.0; its domain is 0 to 2"),
        (
            SEX,
            "female",
            "attribute 'sex' has no value 'female'; its values are 'Female', 'Male'; did you mean 'Female'?",
        ),
        (SEX, 1, "attribute 'sex' has no value 1; its values are 'Female', 'Male'"),
        (SEX, ("Female", "Male"), "attribute 'sex' has no order, so ranges are not possible; list the values instead"),
        (GRADE, ("high", "low"), "attribute 'grade': the range from 'high' to 'low' is empty; put the lower end first"),
        (
            VISIT,
            "2024-02-30",
            "attribute 'visit' takes dates (2024-01-15 to 2024-04-02) such as 2026-01-31, got '2024-02-30'",
        ),
        (VISIT, 20240201, "attribute 'visit' takes dates (2024-01-15 to 2024-04-02) such as 2026-01-31, got 20240201"),
        (
            VISIT,
            date(2024, 1, 14),
            "attribute 'visit' has no values at 2024-01-14; its domain is 2024-01-15 to 2024-04-02",
        ),
        (
            VISIT,
            (date(2025, 1, 1), None),
            "attribute 'visit' has no values from 2025-01-01; its domain is 2024-01-15 to 2024-04-02",
        ),
    ],
)
def test_a_question_that_cannot_be_asked_says_why(declared: Attribute, condition: object, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        select(declared, condition)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_open_bounds_outside_the_domain_say_which_side() -> None:
    with pytest.raises(QueryError, match="'age' has no values above 90; its domain is 17 to 90"):
        AGE.range(90, None, low_open=True)
    with pytest.raises(QueryError, match="'age' has no values below 17; its domain is 17 to 90"):
        AGE.range(None, 17, high_open=True)


def test_long_lists_of_values_are_cut() -> None:
    many = Category(name="code", values=tuple(f"c{i}" for i in range(30)))
    with pytest.raises(QueryError, match=r"its values are 'c0', .*'c11' and 18 more$"):
        many.equal("other")


# --- what cannot be declared -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (Integer, {}, "attribute 'x' needs min and max (and a width), or edges; take them from public knowledge"),
        (Integer, {"min": 0}, "attribute 'x' needs min and max"),
        (Float, {"max": 1.0}, "attribute 'x' needs min and max"),
        (Integer, {"min": 0, "max": 9, "width": 0}, "attribute 'x': width must be above 0, got 0"),
        (Integer, {"min": 0, "max": 9, "width": -5}, "attribute 'x': width must be above 0, got -5"),
        (Integer, {"min": 9, "max": 8}, "attribute 'x': max 8 must be above min 9"),
        (Float, {"min": 1.0, "max": 1.0}, "attribute 'x': max 1.0 must be above min 1.0"),
        (
            Integer,
            {"min": 0.5, "max": 9},
            "attribute 'x': min must be a whole number, got 0.5; or declare it as a float",
        ),
        (Integer, {"min": 0, "max": 9, "width": 2.0}, "attribute 'x': width must be a whole number, got 2.0"),
        (Integer, {"edges": (0, 0.5, 2)}, "attribute 'x': edges must be a whole number, got 0.5"),
        (Integer, {"min": 0, "max": True}, "attribute 'x': max must be a number between -2^53 and 2^53, got True"),
        (Integer, {"min": "0", "max": 9}, "attribute 'x': min must be a number between -2^53 and 2^53, got '0'"),
        (
            Integer,
            {"min": 0, "max": 2**53},
            "attribute 'x': max must be a number between -2^53 and 2^53, got 900719925",
        ),
        (Float, {"min": math.nan, "max": 1}, "attribute 'x': min must be a number between -2^53 and 2^53, got nan"),
        (Float, {"min": 0, "max": math.inf}, "attribute 'x': max must be a number between -2^53 and 2^53, got inf"),
        (Float, {"min": 0, "max": 1, "width": math.nan}, "attribute 'x': width must be a number between"),
        (Float, {"edges": (0, math.inf)}, "attribute 'x': edges must be a number between -2^53 and 2^53, got inf"),
        (Integer, {"min": 0, "max": 2**40}, "attribute 'x' would have more than 2^31 bins; use a larger width than 1"),
        (Float, {"min": 0, "max": 1, "width": 1e-320}, "attribute 'x' would have more than 2^31 bins"),
        (
            Float,
            {"min": 1e15, "max": 1e15 + 1, "width": 0.01},
            "attribute 'x': width must be well above the rounding of doubles from 1e+15",
        ),
        (Integer, {"edges": (1,)}, "attribute 'x': edges must be at least two numbers in increasing order"),
        (Integer, {"edges": ()}, "attribute 'x': edges must be at least two numbers in increasing order"),
        (Float, {"edges": (0, 2, 1)}, "attribute 'x': edges must be at least two numbers in increasing order"),
        (Float, {"edges": (0, 0)}, "attribute 'x': edges must be at least two numbers in increasing order"),
        (Integer, {"edges": (0, 9), "min": 0}, "attribute 'x' has edges as well as min, max or width; keep one"),
        (Integer, {"edges": (0, 9), "width": 5}, "attribute 'x' has edges as well as min, max or width; keep one"),
        (
            Integer,
            {"min": 0, "max": 9, "null": "clip"},
            "attribute 'x': null must be one of \"drop\", \"cell\", got 'clip'",
        ),
        (Float, {"min": 0, "max": 9, "outside": "x"}, 'attribute \'x\': outside must be one of "drop", "clip", "cell"'),
        (Float, {"min": 0, "max": 9, "nan": None}, 'attribute \'x\': nan must be one of "drop", "cell", got None'),
        (Category, {"values": ()}, "attribute 'x' needs values, a list of at least one text"),
        (Category, {"values": "ab"}, "attribute 'x': values must be a list of texts, got a single text 'ab'"),
        (Category, {"values": ("a", 1)}, "attribute 'x': values must be texts in quotes, got 1"),
        (Category, {"values": ("a", "\ud800")}, "attribute 'x': values must be texts in quotes, got '\\ud800'"),
        (Category, {"values": ("a", "b", "a")}, "attribute 'x' lists the value 'a' twice; list each value once"),
        (
            Category,
            {"values": ("(null)",), "null": "cell"},
            "attribute 'x' lists the value '(null)', which is the label of its",
        ),
        (Category, {"values": ("a",), "ordered": 1}, "attribute 'x': ordered must be true or false, got 1"),
        (Category, {"values": ("a",), "unknown": "clip"}, "attribute 'x': unknown must be one of"),
        (
            Date,
            {"start": date(2024, 1, 2), "end": date(2024, 1, 1)},
            "attribute 'x': end must not be before start 2024-01-02, got",
        ),
        (
            Date,
            {"start": "2024-01-32", "end": date.max},
            "attribute 'x': start must be a date written YYYY-MM-DD such as '2026-01-31', got '2024-01-32'",
        ),
        (Date, {"start": date.min, "end": datetime(2024, 1, 1)}, "attribute 'x': end must be a date such as"),  # noqa: DTZ001, RUF100
        (
            Date,
            {"start": date.min, "end": date.max, "every": "hour"},
            "attribute 'x': every must be day, week, month, quarter or",
        ),
    ],
)
def test_a_declaration_that_cannot_be_says_why(
    kind: Callable[..., Attribute], given: dict[str, object], message: str
) -> None:
    with pytest.raises(DomainError) as caught:
        kind(name="x", **given)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("name", ["", " ", "\t\n", None, 5, "\udfff"])
def test_a_name_must_be_text(name: object) -> None:
    with pytest.raises(DomainError, match="the name of an attribute must be text that is not blank, got "):
        Integer(name=name, min=0, max=1)  # type: ignore[arg-type]


def test_a_value_in_brackets_is_only_refused_when_it_is_a_cell() -> None:
    assert Category(name="x", values=("(null)", "(odd)"), unknown="cell").labels() == ["(null)", "(odd)", "(unknown)"]


# --- values as users have them -----------------------------------------------------------------------------------


def test_lists_and_numpy_numbers_become_plain_values() -> None:
    from_numpy = Float(name="x", edges=np.linspace(0, 1, 3))  # type: ignore[arg-type]
    assert from_numpy == Float(name="x", edges=(0.0, 0.5, 1.0))
    assert [type(edge) for edge in from_numpy.edges or ()] == [float, float, float]
    whole = Integer(name="x", min=np.int64(0), max=np.int32(9), width=np.int8(5))  # type: ignore[arg-type]
    assert whole == Integer(name="x", min=0, max=9, width=5)
    assert Category(name="x", values=["a", "b"]) == Category(name="x", values=("a", "b"))
    assert hash(Category(name="x", values=["a"])) == hash(Category(name="x", values=("a",)))


def test_attributes_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        AGE.min = 0  # type: ignore[misc]


# --- domains -----------------------------------------------------------------------------------------------------


def test_a_domain_lays_its_attributes_out_in_order() -> None:
    domain = Domain((AGE, SEX, DOSE))
    assert domain.names == ("age", "sex", "dose")
    assert domain.shape == (8, 2, 4)
    assert domain.size == 64
    assert domain.axis("dose") == 2
    assert domain["sex"] is SEX
    assert domain.project(("dose", "age")).names == ("dose", "age")
    assert Domain([AGE, SEX]) == Domain((AGE, SEX))


def test_a_domain_of_a_bare_array() -> None:
    domain = Domain.of_shape((3, 1, 4))
    assert domain.shape == (3, 1, 4)
    assert domain.names == ("axis0", "axis1", "axis2")
    assert domain["axis2"].labels() == ["0", "1", "2", "3"]


def test_the_size_of_a_huge_domain_is_exact() -> None:
    huge = Domain(tuple(Integer(name=f"x{i}", min=0, max=2**31 - 1) for i in range(5)))
    assert huge.size == 2**155


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ((), "a domain needs at least one attribute"),
        ((AGE, SEX, AGE), "the domain declares the attribute 'age' twice; give each attribute a unique name"),
        ((AGE, "sex"), "a domain consists of attributes such as Integer(name='age', min=0, max=99), got 'sex'"),
    ],
)
def test_a_domain_that_cannot_be(attributes: tuple[object, ...], message: str) -> None:
    with pytest.raises(DomainError) as caught:
        Domain(attributes)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_an_attribute_that_is_not_there() -> None:
    with pytest.raises(DomainError, match="there is no attribute 'Age'; the attributes are 'age', 'sex'"):
        Domain((AGE, SEX))["Age"]
    with pytest.raises(DomainError, match="there is no attribute 'income'"):
        Domain((AGE, SEX)).project(("income",))


def test_projecting_keeps_the_stamp() -> None:
    stamped = Domain((AGE, SEX), drafted_from_data=True, signed_public_by="me")
    assert stamped.project(("sex",)) == Domain((SEX,), drafted_from_data=True, signed_public_by="me")
