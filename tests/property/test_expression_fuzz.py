"""Random expressions: against SQL's three-valued logic by brute force, and random text against crashes."""

import time
from contextlib import suppress
from datetime import date

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpcube.core.domain import Category, Date, Domain, Float, Integer
from dpcube.core.errors import QueryError
from dpcube.queries import query
from dpcube.queries.expression import MAX_EXPRESSION, parse

LOW, HIGH = -3, 6
X = Domain((Integer(name="x", min=LOW, max=HIGH, null="cell", outside="cell"),))
ROWS = [*range(LOW, HIGH + 1), None, "outside"]  # one row in each cell

MANY = Domain(
    (
        Integer(name="age", min=0, max=99, width=5, null="cell"),
        Integer(name="hours-per-week", min=0, max=9),
        Float(name="dose", min=0.0, max=4.0, width=1.0),
        Category(name="sex", values=("Female", "Male")),
        Category(name="grade", values=("low", "mid", "high"), ordered=True),
        Date(name="visit", start=date(2024, 1, 1), end=date(2024, 12, 31), every="month"),
        Integer(name="größe", min=0, max=1),
    )
)

# A condition is its text, and its truth for each of ROWS: True, False or None for unknown.
Condition = tuple[str, list[bool | None]]
SIGNS = {"=": "__eq__", "!=": "__ne__", "<>": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}
inner = st.integers(LOW + 1, HIGH - 1)


def of_numbers(text: str, holds: object) -> Condition:
    assert callable(holds)
    return text, [bool(holds(row)) if isinstance(row, int) else None for row in ROWS]


def compared(sign: str, value: int) -> Condition:
    return of_numbers(f"x {sign} {value}", lambda row: getattr(row, SIGNS[sign])(value))


def between(ends: tuple[int, int], word: str) -> Condition:
    low, high = sorted(ends)
    text = f"x {word}between {low} and {high}"
    return of_numbers(text, lambda row: (low <= row <= high) != bool(word))


def among(values: list[int], word: str) -> Condition:
    return of_numbers(f"x {word}in ({', '.join(map(str, values))})", lambda row: (row in values) != bool(word))


negation = st.sampled_from(["", "not "])
leaves = st.one_of(
    st.builds(compared, st.sampled_from(sorted(SIGNS)), inner),
    st.builds(between, st.tuples(inner, inner), negation),
    st.builds(among, st.lists(inner, min_size=1, max_size=4), negation),
    st.just(("x is null", [row is None for row in ROWS])),
    st.just(("X IS NOT NULL".replace("X", "x"), [row is not None for row in ROWS])),
)


def negated(condition: Condition) -> Condition:
    text, truth = condition
    return f"not ({text})", [None if t is None else not t for t in truth]


def both(left: Condition, right: Condition) -> Condition:
    truth = [False if False in pair else None if None in pair else True for pair in zip(left[1], right[1], strict=True)]
    return f"({left[0]}) AND ({right[0]})", truth


def either(left: Condition, right: Condition) -> Condition:
    truth = [True if True in pair else None if None in pair else False for pair in zip(left[1], right[1], strict=True)]
    return f"({left[0]}) or ({right[0]})", truth


conditions = st.recursive(
    leaves,
    lambda inside: st.one_of(
        st.builds(negated, inside), st.builds(both, inside, inside), st.builds(either, inside, inside)
    ),
    max_leaves=12,
)


@settings(max_examples=300)
@given(conditions)
def test_a_condition_counts_the_rows_that_sql_would_count(condition: Condition) -> None:
    text, truth = condition
    assert query(X, text).weights[0].tolist() == [float(t is True) for t in truth]


@given(conditions, conditions, conditions)
def test_without_parentheses_and_binds_before_or(a: Condition, b: Condition, c: Condition) -> None:
    plain = f"not ({a[0]}) and ({b[0]}) or ({c[0]})"
    _, truth = either(both(negated(a), b), c)
    assert query(X, plain).weights[0].tolist() == [float(t is True) for t in truth]


@given(conditions, st.sampled_from(["sex = 'Male'", "y > 1"]), st.booleans())
def test_and_joins_attributes_in_any_order(condition: Condition, other: str, first: bool) -> None:  # noqa: FBT001
    domain = Domain((*X.attributes, Category(name="sex", values=("Female", "Male")), Integer(name="y", min=0, max=3)))
    parts = (f"({condition[0]})", other) if first else (other, f"({condition[0]})")
    joined, alone = parse(" and ".join(parts), domain), parse(other, domain)
    assert joined == {"x": parse(condition[0], domain)["x"], **alone}


# --- text that nobody meant --------------------------------------------------------------------------------------

PIECES = r"""
age hours-per-week dose sex visit größe "age" `sex` and OR not between in is null ( ) , = != <> < <= > >= ==
'Male' '2024-02-30' '(null)' '' ' " ` 5 -1 1e400 1e-400 2.5 . - ٣ 0x1 ² -- ; * /*
"""
words = st.sampled_from([*PIECES.split(), "\x00", "\n", "\ufb01"])
soup = st.lists(words, max_size=60).map(" ".join) | st.lists(words, max_size=60).map("".join)


@settings(max_examples=400)
@given(soup | st.text(max_size=80))
@example("age = ²")
@example("age in (٣, 4)")
@example("visit = '10000-01-01'")
@example("visit = '2024-W01-1'")
def test_any_text_is_read_or_refused_in_a_line(text: str) -> None:
    with suppress(QueryError):
        for name, selection in parse(text, MANY).items():
            weights = MANY[name].weights(selection)
            assert ((weights >= 0) & (weights <= 1)).all()


@settings(max_examples=40, deadline=None)
@given(st.lists(soup, min_size=1, max_size=4), st.integers(1, MAX_EXPRESSION))
def test_long_text_is_read_or_refused_soon(parts: list[str], length: int) -> None:
    text = (" and ".join(parts) + " ") * (1 + length // (sum(map(len, parts)) + 1))
    start = time.process_time()
    with suppress(QueryError):
        parse(text[:length], MANY)
    assert time.process_time() - start < 2


@given(st.text(min_size=1, max_size=30).filter(lambda name: name.strip()), st.integers(0, 4))
def test_any_name_can_be_asked_for_in_double_quotes(name: str, value: int) -> None:
    domain = Domain((Integer(name=name, min=0, max=4),))
    quoted = '"' + name.replace('"', '""') + '"'
    assert np.flatnonzero(query(domain, f"{quoted} = {value}").weights[0]).tolist() == [value]


@given(st.lists(st.text(max_size=20), min_size=1, max_size=5, unique=True), st.data())
def test_any_value_can_be_asked_for_in_single_quotes(values: list[str], data: st.DataObject) -> None:
    domain = Domain((Category(name="c", values=tuple(values)),))
    value = data.draw(st.sampled_from(values))
    quoted = "'" + value.replace("'", "''") + "'"
    assert np.flatnonzero(query(domain, f"c = {quoted}").weights[0]).tolist() == [values.index(value)]
