import doctest
import time
from contextlib import suppress
from datetime import date

import numpy as np
import pytest

from dpcube.core.domain import Category, Date, Domain, Float, Integer, ValueSet
from dpcube.core.errors import QueryError
from dpcube.queries import CountingQuery, Workload, expression, query
from dpcube.queries.expression import GRAMMAR, MAX_EXPRESSION, parse

DOMAIN = Domain(
    (
        Integer(name="age", min=0, max=9),
        Integer(name="binned", min=15, max=94, width=5),
        Integer(name="hours-per-week", min=0, max=9),
        Float(name="dose", min=0.0, max=4.0, width=1.0),
        Category(name="sex", values=("Female", "Male", "it's", "and"), null="cell", unknown="cell"),
        Category(name="grade", values=("low", "mid", "high"), ordered=True),
        Date(name="visit", start=date(2024, 1, 1), end=date(2024, 12, 31), every="month"),
        Integer(name="n", min=-5, max=5, null="cell", outside="cell"),
        Integer(name='odd "name"', min=0, max=1),
        Integer(name="not", min=0, max=1),
        Integer(name="größe", min=0, max=1),
        Integer(name='tick""s', min=0, max=1),
    )
)


def picked(text: str, name: str = "age") -> list[int]:
    """Cells of an attribute that an expression selects whole."""
    selected = parse(text, DOMAIN)
    assert list(selected) == [name]
    weights = DOMAIN[name].weights(selected[name])
    assert set(weights.tolist()) <= {0.0, 1.0}
    return np.flatnonzero(weights).tolist()


def failure(text: str) -> str:
    with pytest.raises(QueryError) as caught:
        parse(text, DOMAIN)
    return str(caught.value)


def test_examples_in_docstrings() -> None:
    assert doctest.testmod(expression).failed == 0


# --- comparisons -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("age = 3", [3]),
        ("age == 3", [3]),
        ("age=3", [3]),
        ("age = +3", [3]),
        ("age = 3.0", [3]),
        ("age = 3e0", [3]),
        ("age = .3e1", [3]),
        ("age != 3", [0, 1, 2, 4, 5, 6, 7, 8, 9]),
        ("age <> 3", [0, 1, 2, 4, 5, 6, 7, 8, 9]),
        ("age < 3", [0, 1, 2]),
        ("age <= 3", [0, 1, 2, 3]),
        ("age > 7", [8, 9]),
        ("age >= 7", [7, 8, 9]),
        ("age >= -100", list(range(10))),
        ("age < 1e300", list(range(10))),
        ("age between 3 and 5", [3, 4, 5]),
        ("age between 5 and 5", [5]),
        ("age not between 3 and 5", [0, 1, 2, 6, 7, 8, 9]),
        ("age in (3)", [3]),
        ("age in (3, 5,8)", [3, 5, 8]),
        ("age not in (3, 5,8)", [0, 1, 2, 4, 6, 7, 9]),
        ("age is not null", list(range(10))),
        ("  age\n=\t3  ", [3]),
        ("(age = 3)", [3]),
        ("((age = 3))", [3]),
    ],
)
def test_comparisons(text: str, cells: list[int]) -> None:
    assert picked(text) == cells


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("not age = 3 and age < 5", [0, 1, 2, 4]),  # not binds before and
        ("not (age = 3 and age < 5)", [0, 1, 2, 4, 5, 6, 7, 8, 9]),
        ("age = 1 or age = 2 and age = 3", [1]),  # and binds before or
        ("(age = 1 or age = 2) and age = 2", [2]),
        ("age = 1 and age = 2", []),
        ("age between 1 and 3 and age between 2 and 5", [2, 3]),  # the first and belongs to between
        ("age < 2 or age > 8", [0, 1, 9]),
        ("age < 2 or age > 8 or age = 5", [0, 1, 5, 9]),
        ("not age < 2 and not age > 8", [2, 3, 4, 5, 6, 7, 8]),
        ("not not age = 3", [3]),
        ("not (age < 2 or age > 8)", [2, 3, 4, 5, 6, 7, 8]),
    ],
)
def test_precedence(text: str, cells: list[int]) -> None:
    assert picked(text) == cells


@pytest.mark.parametrize(
    "text",
    [
        "AGE between 3 and 5 or Age = 7",
        "age Between 3 AND 5 Or age = 7",
        "NOT age NOT IN (3, 4, 5, 7)",
        "(age BETWEEN 3 aNd 5) oR age In (7)",
    ],
)
def test_keywords_and_names_are_read_in_any_case(text: str) -> None:
    """Names as in SQL: exactly, else by the only one that differs in case alone."""
    assert picked(text) == [3, 4, 5, 7]
    assert failure("AGE_ = 1").startswith("there is no attribute 'AGE_'; the attributes are 'age', ")


def test_text_in_single_quotes() -> None:
    assert picked("sex = 'Female'", "sex") == [0]
    assert picked("sex in ('Male', 'Female')", "sex") == [0, 1]
    assert picked("sex = 'it''s'", "sex") == [2]
    assert picked("sex = 'and'", "sex") == [3]
    assert picked("grade >= 'mid'", "grade") == [1, 2]
    assert picked("grade between 'low' and 'mid'", "grade") == [0, 1]


def test_dates_are_text() -> None:
    assert picked("visit between '2024-02-01' and '2024-03-31'", "visit") == [1, 2]
    assert picked("visit < '2024-02-01'", "visit") == [0]
    weights = query(DOMAIN, "visit = '2024-02-29'").weights[6]
    assert weights.tolist() == [0, 1 / 29, *([0] * 10)]


def test_odd_names() -> None:
    assert picked("hours-per-week>=8", "hours-per-week") == [8, 9]
    assert picked("hours-per-week>=-8", "hours-per-week") == list(range(10))
    assert picked('"hours-per-week" = 8', "hours-per-week") == [8]
    assert picked('"odd ""name""" = 1', 'odd "name"') == [1]
    assert picked('`odd "name"` = 1', 'odd "name"') == [1]
    assert picked('`tick""s` = 1', 'tick""s') == [1]
    assert picked('"not" = 1', "not") == [1]
    assert picked("not `not` = 1", "not") == [0]
    assert picked("größe = 1", "größe") == [1]


# --- one attribute, several conditions ---------------------------------------------------------------------------


def share(text: str) -> float:
    """Share of the bin 30-34 that an expression selects."""
    return float(DOMAIN["binned"].weights(parse(text, DOMAIN)["binned"])[3])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("binned >= 31 and binned <= 33", 3 / 5),
        ("binned > 30 and binned < 34", 3 / 5),
        ("binned between 30 and 32 and binned between 32 and 34", 1 / 5),
        ("binned in (30, 31, 33) and binned in (31, 33, 34)", 2 / 5),
        ("binned != 31 and binned != 33", 3 / 5),
        ("not binned between 31 and 33", 2 / 5),
        ("binned < 32 or binned > 32", 4 / 5),
        ("binned = 30 or binned = 30", 1 / 5),
        ("binned <= 31 and binned >= 33", 0),
        ("binned <= 32 or binned >= 32", 1),
    ],
)
def test_conditions_on_one_attribute_meet_inside_a_bin(text: str, expected: float) -> None:
    assert share(text) == pytest.approx(expected, abs=1e-15)


def test_an_expression_and_a_condition_meet_inside_a_bin() -> None:
    asked = query(DOMAIN, "binned >= 31", binned=(None, 33), age=[1, 2])
    assert asked.weights[1].tolist() == [0, 0, 0, 3 / 5, *([0] * 12)]
    assert np.flatnonzero(asked.weights[0]).tolist() == [1, 2]


def test_ranges_of_real_numbers_meet_too() -> None:
    weights = DOMAIN["dose"].weights(parse("dose > 0.5 and dose < 2.25", DOMAIN)["dose"])
    assert weights.tolist() == [0.5, 1, 0.25, 0]


def test_conditions_on_several_attributes_are_kept_apart() -> None:
    selected = parse("age = 3 and (sex = 'Male' and grade >= 'mid') and age < 5", DOMAIN)
    assert selected == {
        "age": ValueSet(((3.0, 4.0),)),
        "sex": ValueSet(((1.0, 2.0),)),
        "grade": ValueSet(((1.0, 3.0),)),
    }


# --- cells of their own, as SQL has nulls ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "cells"),
    [  # n has the bins -5 to 5 (cells 0 to 10), then (null) and (outside)
        ("n is null", [11]),
        ("n is not null", [*range(11), 12]),
        ("not n is null", [*range(11), 12]),
        ("not n is not null", [11]),
        ("not not n is null", [11]),
        ("n = '(null)'", [11]),
        ("n = '(outside)'", [12]),
        ("n = 0 or n is null", [5, 11]),
        ("n in (0, '(null)')", [5, 11]),
        ("n != 0", [0, 1, 2, 3, 4, 6, 7, 8, 9, 10]),
        ("not n = 0", [0, 1, 2, 3, 4, 6, 7, 8, 9, 10]),
        ("n not in (0, '(null)')", [0, 1, 2, 3, 4, 6, 7, 8, 9, 10]),
        ("n >= -5", list(range(11))),
        ("n is null and n = 0", []),
        ("not (n is null and n = 0)", [*range(11), 12]),
        ("not (n is null or n = 0)", [0, 1, 2, 3, 4, 6, 7, 8, 9, 10]),
    ],
)
def test_nulls_are_neither_equal_nor_unequal_to_a_value(text: str, cells: list[int]) -> None:
    assert picked(text, "n") == cells


def test_a_question_about_another_attribute_counts_every_own_cell() -> None:
    assert query(DOMAIN, "age = 3").weights[7].tolist() == [1.0] * 13
    assert query(DOMAIN).weights[7].tolist() == [1.0] * 13


# --- mistakes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the name of an attribute, found the end; "),
        ("   ", "expected the name of an attribute, found the end; "),
        ("age", "expected a comparison, found the end; "),
        ("age 3", "expected a comparison, found '3'; "),
        ("age ,", "expected a comparison, found ','; "),
        ("age >", "expected a number, or text in single quotes, found the end; "),
        ("age = sex", "expected a number, or text in single quotes, found 'sex'; "),
        ('sex = "Male"', "double quotes and backticks are for names of attributes; write text in single quotes, found"),
        ("sex = Male", "expected a number, or text in single quotes, found 'Male'; "),
        ("3 = age", "expected the name of an attribute, found '3'; "),
        ("age = 3 and", "expected the name of an attribute, found the end; "),
        ("and age = 3", "there is no attribute 'and'; the attributes are 'age', "),
        ("age = 3 age = 4", "expected 'and' or the end, found 'age'; "),
        ("age = 3)", "expected 'and' or the end, found ')'; "),
        ("(age = 3", "expected ')', found the end; "),
        ("age between 3", "expected 'and', found the end; "),
        (
            "visit between 2024-03-01 and 2024-03-31",
            "expected 'and', found '-03'; a date is written in quotes, such as ",
        ),
        ("age between 3 or 4", "expected 'and', found 'or'; "),
        ("age in 3", "expected '(', found '3'; "),
        ("age in ()", "expected a number, or text in single quotes, found ')'; "),
        ("age in (3", "expected ')', found the end; "),
        ("age in (3 4)", "expected ')', found '4'; "),
        ("age not = 3", "expected 'between' or 'in' after 'not', found '='; "),
        ("n not is null", "expected 'between' or 'in' after 'not', found 'is'; "),
        ("age is 3", "expected 'null', found '3'; "),
        ("age ! 3", "cannot read the expression at '! 3'; "),
        ("age = 3; drop table", "cannot read the expression at '; drop table'; "),
        ("age = 3abc", "cannot read the expression at '3abc'; "),
        ("age = 0x10", "cannot read the expression at '0x10'; "),
        ("sex = 'Male", 'cannot read the expression at "\'Male"; '),
        ('"" = 1', "cannot read the expression at '\"\" = 1'; "),
    ],
)
def test_what_cannot_be_read_says_what_was_expected(text: str, message: str) -> None:
    said = failure(text)
    assert said.startswith(message)
    if message.endswith("; "):
        assert said == message + GRAMMAR


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("income = 1", "there is no attribute 'income'; the attributes are 'age', 'binned', 'hours-per-week', "),
        ("age = 10", "attribute 'age' has no values at 10; its domain is 0 to 9"),
        ("age > 9", "attribute 'age' has no values above 9; its domain is 0 to 9"),
        ("age < 0", "attribute 'age' has no values below 0; its domain is 0 to 9"),
        ("age between 5 and 3", "attribute 'age': the range from 5 to 3 is empty; put the lower end first"),
        ("age = 1e999", "attribute 'age' takes numbers (0 to 9), got inf"),
        ("age = '30'", "attribute 'age' takes numbers (0 to 9), got '30'"),
        ("age >= 2.5", "attribute 'age' takes whole numbers (0 to 9), got 2.5"),
        ("dose > 4", "attribute 'dose' has no values above 4; its domain is 0 to 4"),
        ("sex > 'Male'", "attribute 'sex' has no order, so ranges are not possible; list the values instead"),
        (
            "sex = 'male'",
            "attribute 'sex' has no value 'male'; its values are 'Female', 'Male', 'it's', 'and', '(null)', ",
        ),
        (
            "visit = '2023-01-01'",
            "attribute 'visit' has no values at '2023-01-01'; its domain is 2024-01-01 to 2024-12-31",
        ),
        ("age is null", "nulls of 'age' were dropped by the domain, so they cannot be counted"),
        ("age = 3 or sex = 'Male'", "'or' must be of one attribute, here it is of age, sex; ask two questions"),
        ("not (age = 3 and n = 1)", "'not' must be of one attribute, here it is of age, n; ask two questions"),
        (
            "(age = 3 and n = 1) or age = 2",
            "'or' must be of one attribute, here it is of age, n; ask two questions",
        ),
        ("x" * (MAX_EXPRESSION + 1), "the expression has 10001 characters; at most 10000 are read"),
        ("(" * 51 + "age = 1", "the expression nests parentheses and 'not' more than 50 deep; write it with fewer"),
        ("not " * 51 + "age = 1", "the expression nests parentheses and 'not' more than 50 deep; write it with fewer"),
    ],
)
def test_what_cannot_be_asked_says_why(text: str, message: str) -> None:
    assert failure(text).startswith(message)


def test_fifty_deep_is_read() -> None:
    assert picked("(" * 50 + "age = 1" + ")" * 50) == [1]
    assert picked("not " * 50 + "age = 1") == [1]


@pytest.mark.parametrize(
    "text",
    [
        "(" * 9_999,
        "not " * 2_499,
        "not(" * 2_499,
        "1" * 9_999 + "a",
        "." * 9_999,
        "'" * 9_999,
        '"' * 9_998,
        "`" * 9_999,
        "a-" * 4_999,
        "age=" * 2_500,
        "age = " + "1" * 9_000,
        "age = " + "1" * 9_000 + "e",
        "age in (" + "1," * 4_995,
        "age in (" + ",".join(str(i % 10) for i in range(4_995)) + ")",
        " and ".join(["age != 5"] * 760),
        " or ".join(["(not (age in (1,3,5,7)))"] * 350),
        " " * 10_000,
        "\x00" * 10_000,
        "age" + " " * 9_996,
    ],
    ids=lambda text: text[:12],
)
def test_the_longest_expressions_take_a_moment(text: str) -> None:
    assert 9_000 <= len(text) <= MAX_EXPRESSION
    start = time.process_time()
    with suppress(QueryError):
        parse(text, DOMAIN)
    assert time.process_time() - start < 1  # each takes under 0.1 s; one that was quadratic took 3 s


# --- queries and workloads ---------------------------------------------------------------------------------------


def test_conditions_by_keyword() -> None:
    asked = query(DOMAIN, age=(3, None), sex=["Male", "(null)"])
    assert asked.shape == DOMAIN.shape
    assert np.flatnonzero(asked.weights[0]).tolist() == [3, 4, 5, 6, 7, 8, 9]
    assert asked.weights[4].tolist() == [0, 1, 0, 0, 1, 0]
    assert asked.weights[1].tolist() == [1.0] * 16


def test_an_unknown_name_is_a_mistake_in_the_question_however_it_is_asked() -> None:
    names = "the attributes are 'age', 'binned', "
    with pytest.raises(QueryError, match=f"there is no attribute 'income'; {names}"):
        query(DOMAIN, income=3)
    with pytest.raises(QueryError, match=f"there is no attribute 'income'; {names}"):
        query(DOMAIN, "income = 3")


def test_attributes_may_be_called_like_the_arguments() -> None:
    domain = Domain((Integer(name="domain", min=0, max=1), Integer(name="expression", min=0, max=1)))
    asked = query(domain, "domain = 0", expression=1)
    assert [weights.tolist() for weights in asked.weights] == [[1, 0], [0, 1]]


def test_the_dense_row_is_the_product_of_the_weights() -> None:
    asked = CountingQuery((np.array([1.0, 0.5]), np.array([0.0, 1.0, 0.2])))
    assert asked.dense().tolist() == [[0, 1, 0.2], [0, 0.5, 0.1]]
    assert asked.shape == (2, 3)
    with pytest.raises(ValueError, match="read-only"):
        asked.weights[0][0] = 0


def test_workload_from_bounds_that_include_both_ends() -> None:
    workload = Workload.inclusive((4, 5), [[0, 1], [3, 4]], [[3, 1], [3, 4]])
    assert len(workload) == 2
    assert workload.upper.tolist() == [[4, 2], [4, 5]]
    assert workload.sizes.tolist() == [4, 1]
    assert workload.matrix().sum(axis=1).tolist() == [4, 1]
    assert workload.matrix()[0].reshape(4, 5)[:, 1].tolist() == [1, 1, 1, 1]


def test_a_workload_is_a_read_only_copy_and_a_single_query_is_one_row() -> None:
    lower, upper = np.array([0, 1]), np.array([2, 3])
    workload = Workload([2, 3], lower, upper)  # type: ignore[arg-type]
    lower[0] = 1
    assert workload.lower.tolist() == [[0, 1]]
    assert workload.shape == (2, 3)
    with pytest.raises(ValueError, match="read-only"):
        workload.lower[0, 0] = 1


def test_an_empty_workload() -> None:
    workload = Workload((2, 3), np.zeros((0, 2), np.int64), np.zeros((0, 2), np.int64))
    assert len(workload) == 0
    assert workload.sizes.shape == (0,)
    assert workload.matrix().shape == (0, 6)


@pytest.mark.parametrize(
    ("lower", "upper", "message"),
    [
        ([[0, 0]], [[0, 1]], "every query of a workload must be a non-empty range of cells inside the shape (2, 3)"),
        ([[0, 0]], [[2, 4]], "every query of a workload must be a non-empty range of cells inside the shape (2, 3)"),
        ([[-1, 0]], [[2, 3]], "every query of a workload must be a non-empty range of cells inside the shape (2, 3)"),
        ([[0]], [[1]], "a workload on 2 axes needs two arrays (queries, 2) of one shape"),
        ([[0, 0]], [[1, 1], [2, 2]], "a workload on 2 axes needs two arrays (queries, 2) of one shape"),
        ([[[0, 0]]], [[[1, 1]]], "a workload on 2 axes needs two arrays (queries, 2) of one shape"),
        ([[[0, 0], [0, 0]]], [[[1, 1], [1, 1]]], "a workload on 2 axes needs two arrays (queries, 2) of one shape"),
        ([], [], "a workload on 2 axes needs two arrays (queries, 2) of one shape"),
        ([[0.5, 0]], [[1, 1]], "the lower bounds of a workload are whole numbers, the indices of cells, got float64"),
        ([[0, 0]], [["a", "b"]], "the upper bounds of a workload are whole numbers, the indices of cells, got <U1"),
        (
            [[True, 0]],
            [[True, np.nan]],
            "the upper bounds of a workload are whole numbers, the indices of cells, got float",
        ),
    ],
)
def test_a_workload_that_cannot_be(lower: object, upper: object, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        Workload((2, 3), lower, upper)  # type: ignore[arg-type]
    assert str(caught.value).startswith(message)
