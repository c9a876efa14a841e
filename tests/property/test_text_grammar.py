"""Text is read as a number or a date by one grammar, by every engine, and by no more than it."""

import math
import re
from datetime import date
from typing import Any

import duckdb
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpcube.core.domain.grammar import DATE, NUMBER
from dpcube.core.domain.reading import BLANKS
from dpcube.core.limits import MAX_PARSED_TEXT
from dpcube.core.sources.dialect import DUCKDB, POSTGRESQL, Dialect

pytestmark = pytest.mark.slow

EPOCH = date(1970, 1, 1).toordinal()
FEW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

PIECES = ["0", "1", "9", "12", "007", ".", "-", "+", "e", "E", "e5", "e-0300", "e308", "e99999", "_", " ", "\t", "\n"]
PIECES += [
    "inf",
    "INFINITY",
    "nan",
    "(",
    ")",
    "x",
    "\r",
    "\u00a0",
    "\u0661",
    "\x1f",
    "d",
    "f",
    "0x",
    ",",
    "'",
    "1e-320",
]
pieces = st.sampled_from([*PIECES, "5" * 300])
numbers = st.lists(pieces, max_size=6).map("".join) | st.floats().map(repr) | st.integers().map(str)
digits = st.text("0123456789", min_size=4, max_size=4)
months, days = (st.integers(0, most).map("{:02}".format) for most in (13, 32))
dates = st.builds(
    "{}{}-{}-{}{}".format, st.sampled_from(["", " ", "\t"]), digits, months, days, st.sampled_from(["", "\n"])
)
dates |= st.text("0123-", max_size=11) | st.dates().map(str)


def number_by_hand(text: str) -> float | None:
    fits = len(text) <= MAX_PARSED_TEXT and re.fullmatch(NUMBER, text) is not None
    return float(text.strip(BLANKS)) if fits else None


def day_by_hand(text: str) -> int | None:
    try:
        day = (
            date.fromisoformat(text.strip(BLANKS))
            if len(text) <= MAX_PARSED_TEXT and re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text.strip(BLANKS))
            else None
        )
    except ValueError:
        return None
    return None if day is None else day.toordinal() - EPOCH


def same(one: Any, other: Any) -> bool:
    return one == other or (one is not None and other is not None and math.isnan(one) and math.isnan(other))


def check(dialect: Dialect, texts: list[str], ask: Any) -> None:
    for word, by_hand in ((dialect.number, number_by_hand), (dialect.day, day_by_hand)):
        for text, got in zip(texts, ask(word("x"), texts), strict=True):
            assert same(got, by_hand(text)), (word, text)


def ask_duckdb(expression: str, texts: list[str]) -> list[Any]:
    with duckdb.connect() as connection:
        return [
            row[0]
            for row in connection.execute(f"SELECT {expression} FROM (SELECT unnest(?) AS x)", [texts]).fetchall()
        ]


@FEW
@given(texts=st.lists(numbers | dates, min_size=1, max_size=200))
def test_duckdb_reads_what_the_grammar_does(texts: list[str]) -> None:
    check(DUCKDB, texts, ask_duckdb)


@pytest.mark.slow
@FEW
@given(texts=st.lists(numbers | dates, min_size=1, max_size=200))
def test_postgres_reads_what_the_grammar_does(texts: list[str], postgres: str) -> None:
    with psycopg.connect(postgres) as connection:

        def ask(expression: str, texts: list[str]) -> list[Any]:
            values = psycopg.sql.Literal(texts).as_string(connection)
            return [
                row[0]
                for row in connection.execute(f"SELECT {expression} FROM unnest({values}::text[]) AS x").fetchall()
            ]

        check(POSTGRESQL, texts, ask)


def test_the_pattern_of_dates_is_the_calendar() -> None:
    """Every month and day of 400 years, which is when the calendar repeats; the year 0 is left out elsewhere."""
    texts = [f"{y:04}-{m:02}-{d:02}" for y in range(1900, 2300) for m in range(14) for d in range(33)]
    for text in texts:
        assert (re.fullmatch(DATE, text) is not None) == (day_by_hand(text) is not None), text


def test_every_text_of_two_bytes() -> None:
    """Which DuckDB is let read by itself."""
    ascii_ = [chr(i) for i in range(128)]
    texts = [*ascii_, *(a + b for a in ascii_ for b in ascii_), *(chr(i) for i in range(128, 2**11))]
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE texts AS SELECT unnest($1) AS t", [texts])
        read = connection.execute(f"SELECT t, {DUCKDB.number('t')} FROM texts").fetchall()
    assert len(read) == len(texts)
    for text, number in read:
        assert number == number_by_hand(text), text
