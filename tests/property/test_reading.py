"""Reading options mean one thing in every engine: each text's cell, compared with a reading in plain Python.

The reference uses none of the library's patterns: it takes texts apart character by character.
"""

import csv
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from dpcube.core.domain import Attribute, Category, Date, Domain, Float, Integer
from dpcube.core.domain.reading import pieces
from dpcube.core.errors import SourceError
from dpcube.core.sources import CsvDialect, open_rows
from nightly import examples, only_first

RELAXED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
BLANKS = " \t\n\v\f\r"
EPOCH = date(1970, 1, 1).toordinal()
MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
FORMATS = ["%d.%m.%Y", "%m/%d/%Y", "%Y%m%d", "%d-%b-%y", "%d%b%Y", "iso", "%Y-%m-%d %H:%M:%S", "%d.%m.%Y %H:%M:%S.%f%z"]
FORMATS += ["%H:%M %d/%m/%y", "%Y-%d-%m", "100%% %Y %m %d", "%Y-%m-%dT%H%M%z"]
FORMATS += ["%m/%d/%Y %I:%M:%S %p", "%d %B %Y", "%A, %B %d, %Y %I %p %z", "%a%b%d%Y", "%d%m%Y%I%M%p%z", "%B%Y%d"]
Read = Callable[[str], Any]


def small(text: str) -> str:
    return "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in text)


def reference(attribute: Any, text: str | None) -> int | None:
    """The cell of a text, None if it is dropped."""
    if text is None:
        return own(attribute, "null")
    if attribute.trim and len(text.encode()) < 2**20:
        text = text.strip(BLANKS)
    fold = small if attribute.case == "ignore" else str
    if fold(text) in map(fold, attribute.null_text):
        return own(attribute, "null")
    if isinstance(attribute, Category):
        word = fold(text)
        for value in ("true", "false"):
            word = value if word in map(fold, getattr(attribute, value)) else word
        values = [fold(value) for value in attribute.values]
        return values.index(word) if word in values else by_value(attribute, text)
    found = None if len(text.encode()) > 1000 else read_number_or_day(attribute, text)
    if found is None:
        return own(attribute, "unknown")
    nulls = {str(read_number_or_day(attribute, null)) for null in attribute.null_text}
    return own(attribute, "null") if str(found) in nulls else binned(attribute, found)


def read_number_or_day(attribute: Any, text: str) -> float | None:
    return day_of(attribute, text) if isinstance(attribute, Date) else number_of(attribute, text)


PLAIN = Integer("x", 0, 1)


def by_value(attribute: Category, text: str) -> int | None:
    """The cell of a text that is not listed: that of the listed text that writes the same number or boolean."""
    meanings: dict[Any, set[Any]] = {}
    words = [(word, value) for value in ("true", "false") for word in getattr(attribute, value)]
    listed = [(value, value) for value in attribute.values] + words + [(null, None) for null in attribute.null_text]
    for other, value in listed:
        meanings.setdefault(value_of(other), set()).add(value)
    found = meanings.get(value_of(text), set()) if value_of(text) is not None else set()
    if len(found) != 1:
        return own(attribute, "unknown")
    (value,) = found
    return own(attribute, "null") if value is None else attribute.values.index(value)


def value_of(text: str) -> Any:
    if small(text) in ("true", "false"):
        return small(text)
    number = number_of(PLAIN, text) if len(text) <= 1000 else None
    return None if number is None else "nan" if number != number else float(number) + 0.0


def own(attribute: Attribute, kind: str) -> int | None:
    return attribute.bins + attribute.own_cells.index(kind) if kind in attribute.own_cells else None


def binned(attribute: Attribute, value: float) -> int | None:
    if value != value:
        return own(attribute, "nan")
    if abs(value) == float("inf"):
        return own(attribute, "infinite")
    edges = attribute.bin_edges()
    top = value <= edges[-1] if attribute.is_continuous else value < edges[-1]
    if not edges[0] <= value or not top:
        return own(attribute, "outside")
    return min(int(np.searchsorted(edges, value, side="right")) - 1, attribute.bins - 1)


def number_of(attribute: Any, text: str) -> float | None:
    if small(text) in ("true", "false"):
        return float(small(text) == "true")
    found = [bare_number(attribute, bare) for bare in without_signs(attribute, text.strip(BLANKS))]
    numbers = [number for number in found if number is not None]
    assert len({str(number) for number in numbers}) <= 1, "a text is a number in one way"
    return next(iter(numbers), None)


def bare_number(attribute: Any, bare: str) -> float | None:
    sign, rest = (bare[:1], bare[1:]) if bare[:1] in ("+", "-") else ("", bare)
    if small(rest) in ("inf", "infinity", "nan"):
        return float(sign + rest)
    mantissa, mark, exponent = small(rest).partition("e")
    digits = exponent[1:] if exponent[:1] in ("+", "-") else exponent
    if mark and not (1 <= len(digits) <= 4 and plain_digits(digits)):
        return None
    point = attribute.decimal if attribute.thousands == "." or "." not in mantissa else "."
    whole, _, decimals = mantissa.partition(point)
    groups = whole.split(attribute.thousands) if attribute.thousands else [whole]
    if len(groups) > 1:
        lengths = [len(group) for group in groups]
        if not (1 <= lengths[0] <= 3 and set(lengths[1:]) == {3}):
            return None
    joined = "".join(groups)
    if not (plain_digits(joined + decimals) and joined + decimals) or (not joined and not decimals):
        return None
    return float(f"{sign}{joined or '0'}.{decimals or '0'}{mark}{exponent}")


def without_signs(attribute: Any, bare: str) -> list[str]:
    """A text as it is, and without what may stand beside its number; the sign before that stays."""
    fold = small if attribute.case == "ignore" else str
    before, after = fold(attribute.prefix or ""), fold(attribute.suffix or "")
    made = [bare]
    for lead in ("", "+", "-"):
        if before and fold(bare).startswith(lead + before):
            made.append(lead + bare[len(lead + before) :].lstrip(BLANKS))
    return made + [text[: -len(after)].rstrip(BLANKS) for text in made if after and fold(text).endswith(after)]


def plain_digits(text: str) -> bool:
    return all(c in "0123456789" for c in text)


def day_of(attribute: Date, text: str) -> float | None:
    bare = text.strip(BLANKS)
    whole, point, zeros = bare.partition(".")
    if point and whole and plain_digits(whole) and set(zeros) <= {"0"}:  # of a number, for formats of digits
        bare = whole if {"%Y%m%d", "%d%m%Y"} & set(attribute.format) else bare
    for form in (*attribute.format, "iso"):
        found = iso(bare) if form == "iso" else formed(bare, pieces(form))
        if found is not None:
            return None if found.get("year") == 0 else ordinal(attribute, found)
    return None


def ordinal(attribute: Date, found: dict[str, int]) -> float | None:
    try:
        day = date(found["year"], found["month"], found["day"])
    except ValueError:
        return None
    if "offset" not in found:
        return day.toordinal()
    clock = timedelta(hours=found["hour"], minutes=found.get("minute", 0), seconds=found.get("second", 0))
    moment = timedelta(days=day.toordinal() - EPOCH) + clock - timedelta(minutes=found["offset"])
    with suppress(OverflowError):
        at = datetime(1970, 1, 1, tzinfo=UTC) + moment
        near = attribute.start - timedelta(2) < at.date() < attribute.end + timedelta(2)
        return (at.astimezone(ZoneInfo(attribute.zone)) if attribute.zone and near else at).date().toordinal()
    return moment.days + EPOCH


def offset(text: str) -> int | None:
    if text in ("Z", "z"):
        return 0
    digits = text[1:].replace(":", "", 1) if len(text) == 6 and text[3:4] == ":" else text[1:]
    if text[:1] not in ("+", "-") or len(digits) not in (2, 4) or not plain_digits(digits):
        return None
    hours, minutes = int(digits[:2]), int(digits[2:] or 0)
    sign = -1 if text[0] == "-" else 1
    return sign * (60 * hours + minutes) if hours < 24 and minutes < 60 else None


def iso(text: str) -> dict[str, int] | None:
    found = formed(text[:10], pieces("%Y-%m-%d"), strict=True)
    if found is None or len(text) == 10:
        return found
    if text[10] not in "tT ":
        return None
    clock, zone = text[11:], ""
    for i, c in enumerate(clock):
        if c in "+-zZ":
            clock, zone = clock[:i], clock[i:]
            break
    for form in ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%H:%M:%S,%f"):
        if (time := formed(clock, pieces(form), strict=True)) is not None:
            break
    else:
        return None
    if zone:
        if (apart := offset(zone)) is None:
            return None
        time["offset"] = apart
    return found | time


LIMITS = {
    "m": (1, 12, "month"),
    "d": (1, 31, "day"),
    "H": (0, 23, "hour"),
    "I": (1, 12, "hour"),
    "M": (0, 59, "minute"),
    "S": (0, 59, "second"),
}


def formed(text: str, form: tuple[str, ...], *, strict: bool = False) -> dict[str, int] | None:
    """The parts of a text that has a form; one digit will do for a number that stands alone, unless strict."""
    found: dict[str, int] = {}
    digit = [(len(p) == 2 and p[1] not in "bBaApz") or p.isdigit() for p in form]
    for i, piece in enumerate(form):
        if len(piece) == 1:
            if text[:1] != piece:
                return None
            text = text[1:]
            continue
        what = piece[1]
        if what == "z":
            apart, text = offset(text), ""
            if apart is None:
                return None
            found["offset"] = apart
        elif what in "bBaA":
            names = [name if what in "AB" else name[:3] for name in (MONTHS if what in "bB" else DAYS)]
            name = next((name for name in names if small(text).startswith(name)), None)
            if name is None:
                return None
            found["month" if what in "bB" else "name"], text = names.index(name) + 1, text[len(name) :]
        elif what == "p":
            if small(text[:2]) not in ("am", "pm"):
                return None
            found["half"], text = int(small(text[:2]) == "pm"), text[2:]
        elif what == "f":
            taken = next((j for j, c in enumerate(text) if c not in "0123456789"), len(text))
            if not 1 <= taken <= 9:
                return None
            text = text[taken:]
        else:
            wide = 4 if what == "Y" else 2
            alone = not strict and what not in "Yy" and not any(digit[max(0, i - 1) : i] + digit[i + 1 : i + 2])
            taken = 1 if alone and not plain_digits(text[1:2] or "x") else wide
            number, text = text[:taken], text[taken:]
            if len(number) < taken or not plain_digits(number):
                return None
            if what in "Yy":
                found["year"] = int(number) + (0 if what == "Y" else 1900 if int(number) >= 69 else 2000)
            else:
                low, high, name = LIMITS[what]
                if not low <= int(number) <= high:
                    return None
                found[name] = int(number)
    if "half" in found:
        found["hour"] = found["hour"] % 12 + 12 * found["half"]
    return found if text == "" else None


# Texts and attributes at random.

NOT_NUL = st.characters(exclude_categories=["Cs"], exclude_characters="\0\r")
junk = st.text(NOT_NUL, max_size=5)
blanks = st.text(" \t\n", max_size=2)
here = st.sampled_from(["drop", "cell"])
nulls = st.lists(
    st.sampled_from(["", "NA", "n/a", "-", "?", "Null", "NULL", "\u00c4", "-9", "99"]), max_size=3, unique=True
)
NULLISH = st.sampled_from(["", "NA", "na", "n/a", "N/A", "-", "?", "null", "Null", "NULL", "\u00c4", "\u00e4", "-9"])
WORDS = [
    "true",
    "false",
    "True",
    "TRUE",
    "yes",
    "Yes",
    "YES",
    "no",
    "y",
    "0",
    "1",
    "ja",
    "\u00c4rger",
    "\u00e4rger",
    "\u0130",
    "i",
    "I",
    "\u212a",
    "k",
    "K",
]
options = st.fixed_dictionaries(
    {
        "trim": st.booleans(),
        "case": st.sampled_from(["exact", "ignore"]),
        "null_text": nulls,
        "null": here,
        "unknown": here,
    }
)


def around(texts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds("{}{}{}".format, st.just("") | blanks, texts, st.just("") | blanks)


@st.composite
def category_cases(draw: st.DrawFn) -> tuple[Any, list[str | None]]:
    given_: Any = draw(options)
    fold = small if given_["case"] == "ignore" else str
    values = ["false", "true"]
    taken = {fold(text) for text in (*values, *given_["null_text"])}
    words: Any = {"true": [], "false": []}
    for word in draw(st.lists(st.sampled_from(WORDS), max_size=8)):
        if fold(word) not in taken:
            taken.add(fold(word))
            draw(st.sampled_from([values, words["true"], words["false"]])).append(word)
    texts = around(st.sampled_from(WORDS) | NULLISH | junk)
    return Category("x", values, **words, **given_), draw(st.lists(st.none() | texts, min_size=1, max_size=40))


NUMBERS = st.sampled_from(
    ["0", "7", "12", "1234", "1.5", "1,5", "1.234", "1,234", "1.234.567,8", "1,234,567.8", "1'234", "1 234"]
)
NUMBERS |= st.sampled_from(
    [
        "-1.5",
        "+1,5",
        ",5",
        ".5",
        "5,",
        "5.",
        "1e3",
        "1,5E-2",
        "inf",
        "-nan",
        "1..5",
        "1,2,3",
        "12.34",
        "1_000",
        "1.23.456",
        "1.2345",
        "1,2345",
        "1.234.5678",
    ]
)
NUMBERS |= st.text("0123456789.,' _-+eE", max_size=10)
NUMBERS |= st.sampled_from(
    ["0" * 999 + "1", "0" * 1000 + "1", "1" + ".000" * 249, "1" + ".000" * 250, "\u0661", "1\u00a0234"]
)


@st.composite
def number_cases(draw: st.DrawFn) -> tuple[Any, list[str | None]]:
    given_: Any = draw(options) | {"nan": draw(here), "infinite": draw(here), "outside": draw(here)}
    decimal = draw(st.sampled_from([".", ","]))
    thousands = draw(st.sampled_from([None, *(mark for mark in (".", ",", "'", " ", "_") if mark != decimal)]))
    kind = draw(
        st.sampled_from([lambda **k: Float("x", -10, 2000, width=0.5, **k), lambda **k: Integer("x", -10, 2000, **k)])
    )
    signs = st.sampled_from(
        [
            None,
            None,
            "$",
            "%",
            "\u20ac",
            "EUR",
            "Rs.",
            "in",
            ".^",
            "e",
            "US $",
            "m\u00b2",
            "\u00a0\u20ac",
            "[a]*",
            "\\",
        ]
    )
    prefix, suffix = draw(signs), draw(signs)
    beside = (
        st.sampled_from(["", "", "-", "+"]),
        st.sampled_from([prefix or "", prefix or "", "", "$", "eur", " "]),
        blanks,
    )
    signed = st.builds(
        "{}{}{}{}{}{}".format, *beside, NUMBERS, blanks, st.sampled_from([suffix or "", suffix or "", "", "%"])
    )
    texts = around(signed | NUMBERS | NULLISH | junk)
    made = kind(decimal=decimal, thousands=thousands, prefix=prefix, suffix=suffix, **given_)
    return made, draw(st.lists(st.none() | texts, min_size=1, max_size=40))


@st.composite
def date_cases(draw: st.DrawFn) -> tuple[Any, list[str | None]]:
    given_: Any = draw(options) | {"outside": draw(here)}
    formats = draw(st.lists(st.sampled_from(FORMATS), max_size=3, unique=True))
    zone = draw(st.sampled_from([None, "Europe/Berlin", "America/St_Johns", "Pacific/Apia"]))
    made = Date("x", "2025-12-20", "2026-04-10", format=formats, zone=zone, **given_)
    times = st.datetimes(datetime(2025, 12, 18), datetime(2026, 4, 12)) | st.datetimes(datetime(1, 1, 1))
    zones = st.sampled_from(["Z", "z", "+01", "-0330", "+14:00", "-12:00", "+24:00", "+1", ""])
    spoilt = st.integers(0, 30), st.sampled_from(["", "", "", "0", "x", ".", " ", "-"])

    def written(form: str, at: datetime, apart: str, place: int, put: str) -> str:
        form = "%Y-%m-%dT%H:%M:%S%z" if form == "iso" else form
        year = f"{at.year:04}"
        text = at.strftime(form.replace("%Y", year).replace("%y", year[2:]).replace("%z", apart))
        return text[:place] + put + text[place:]

    texts = st.builds(written, st.sampled_from(FORMATS), times, zones, *spoilt)
    texts |= st.builds(lambda t: t.replace("/0", "/").lstrip("0"), texts)
    texts |= st.sampled_from(
        ["30.02.2026", "29.02.2024", "31.04.2026", "2026-02-30T10:00Z", "20260231", "0000-01-01", "01.01.0000"]
    )
    texts |= st.sampled_from(
        ["2026-03-01 24:00", "2026-03-01T23:59:60Z", "2026-03-01", " " * 990 + "2026-03-01", " " * 991 + "2026-03-01"]
    )
    return made, draw(st.lists(st.none() | around(texts | NULLISH | junk), min_size=1, max_size=40))


cases = st.one_of(category_cases(), number_cases(), date_cases())


# Engines.


def told_apart(attribute: Any) -> bool:
    """Say whether a column of any type tells the values that an attribute lists apart."""
    if not isinstance(attribute, Category):
        return isinstance(attribute, Date) or attribute.thousands != "."
    words = [(word, value) for value in ("true", "false") for word in getattr(attribute, value)]
    listed = [(value, value) for value in attribute.values] + words + [(null, None) for null in attribute.null_text]
    meanings: dict[Any, set[Any]] = {}
    for text, value in listed:
        meanings.setdefault(value_of(text), set()).add(value)
    return all(len(meant) == 1 for value, meant in meanings.items() if value is not None)


def cells(source: Any, attribute: Attribute, rows: int, dialect: CsvDialect | None = None) -> list[int | None]:
    """The cell of each row, by a table whose other column numbers the rows."""
    domain = Domain(Integer("row", 0, rows - 1), replace(attribute, name="value", column="x"))
    counts = open_rows(source, csv=dialect).count_cells(domain)
    assert counts.max() <= 1
    return [int(np.argmax(row)) if row.any() else None for row in counts]


def table_of(texts: list[str | None]) -> pa.Table:
    return pa.table({"x": pa.array(texts, pa.string()), "row": pa.array(range(len(texts)), pa.int32())})


def in_process(table: pa.Table, folder: Path) -> Iterator[tuple[Any, CsvDialect | None]]:
    yield table, None
    pq.write_table(table, folder / "t.parquet")
    yield folder / "t.parquet", None
    yield table.to_pandas(), None
    yield table.to_pandas().astype({"x": "category"}), None
    yield pl.from_arrow(table), None
    with (folder / "t.csv").open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(table.column_names)
        for row in table.to_pylist():
            writer.writerow(["@null" if row["x"] is None else row["x"], row["row"]])
    yield folder / "t.csv", CsvDialect(multiline=True, null_text=("@null",))


@pytest.mark.slow
@settings(max_examples=8, deadline=None, suppress_health_check=RELAXED)
@given(case=cases)
def test_files_and_frames_read_as_the_reference_does(case: tuple[Any, list[str | None]], tmp_path: Path) -> None:
    agree_in_process(case, tmp_path)


@pytest.mark.slow
@settings(max_examples=examples(60, nightly=200), deadline=None, suppress_health_check=RELAXED)
@given(case=cases, another=st.integers(1, 5))
def test_files_and_frames_read_as_the_reference_does_at_length(
    case: tuple[Any, Any], another: int, tmp_path: Path
) -> None:
    """All are read by one SQL, so each example is an Arrow table's and that of one more source in turn."""
    agree_in_process(case, tmp_path, {0, another})


def agree_in_process(case: tuple[Any, list[str | None]], folder: Path, chosen: Collection[int] = range(6)) -> None:
    attribute, texts = case
    expected = [reference(attribute, text) for text in texts]
    for number, (source, dialect) in enumerate(in_process(table_of(texts), folder)):
        if number in chosen:
            check(source, attribute, expected, dialect)


def check(source: Any, attribute: Attribute, expected: list[int | None], dialect: CsvDialect | None = None) -> None:
    """Check the cells of a source; one whose types may be inferred refuses what not all types tell apart."""
    if dialect is None and not told_apart(attribute):
        with pytest.raises(SourceError, match="whose type a library inferred from its rows"):
            cells(source, attribute, len(expected))
    else:
        assert cells(source, attribute, len(expected), dialect) == expected, type(source)


@pytest.mark.slow
@pytest.mark.parametrize("family", only_first(2, range(5)))
def test_postgres_reads_as_the_reference_does(family: int, postgres: str) -> None:
    with psycopg.connect(postgres, autocommit=True) as connection:

        @seed(family)
        @settings(max_examples=40, deadline=None, suppress_health_check=RELAXED, database=None)
        @given(case=cases)
        def agree(case: tuple[Any, list[str | None]]) -> None:
            attribute, texts = case
            connection.execute('DROP TABLE IF EXISTS reading; CREATE TABLE reading ("row" integer, x text)')
            with connection.cursor() as cursor:
                cursor.executemany("INSERT INTO reading VALUES (%s, %s)", list(enumerate(texts)))
            expected = [reference(attribute, text) for text in texts]
            assert cells(f"{postgres}#reading", attribute, len(texts)) == expected

        agree()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # PySpark leaves its sockets to be collected
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("family", only_first(2, range(4)))
def test_spark_reads_as_the_reference_does(family: int, spark: Any, tmp_path: Path) -> None:
    @seed(family)
    @settings(max_examples=8, deadline=None, suppress_health_check=RELAXED, database=None)
    @given(case=cases)
    def agree(case: tuple[Any, list[str | None]]) -> None:
        attribute, texts = case
        pq.write_table(table_of(texts), tmp_path / "t.parquet")
        expected = [reference(attribute, text) for text in texts]
        check(spark.read.parquet(str(tmp_path / "t.parquet")), attribute, expected)

    spark.conf.set("spark.sql.ansi.enabled", str(family % 2 == 0).lower())
    agree()


EXAMPLES: dict[str, tuple[Any, dict[str | None, int | None]]] = {
    "marks": (
        Integer("x", 0, 2000, decimal=",", thousands=".", trim=True, null_text=["-"], unknown="cell"),
        {
            "1.234": 1234,
            "12,5": 12,
            "1.5": 2001,
            "12.34": 2001,
            "1.234,9": 1234,
            "-": None,
            " - ": None,
            "7": 7,
            "1.2345": 2001,
        },
    ),
    "two digits of a year": (
        Date("x", "1969-01-01", "2068-12-31", every="year", format="%d.%m.%y", unknown="cell"),
        {"1.1.69": 0, "31.12.68": 99, "01.02.70": 1, "1.1.2070": 100, "30.02.26": 100, "2026-05-01": 57},
    ),
    "a moment in a zone": (
        Date("x", "2026-01-01", "2026-01-03", format="iso", zone="Europe/Berlin"),
        {"2025-12-31T23:00Z": 0, "2025-12-31T22:59:59Z": None, "2026-01-01 00:30+02": None, "2026-01-01 00:30": 0},
    ),
    "no digit beside": (
        Date("x", "2026-01-01", "2026-12-31", every="month", format=["%Y%m%d", "%b %d %Y"]),
        {"20260301": 2, "2026311": None, "MAR 1 2026": 2, "Mar 01 2026": 2, "M\u00c4R 1 2026": None},
    ),
    "signs": (
        Float("x", -10, 2000, width=1, decimal=",", thousands=".", prefix="US $", suffix="%", unknown="cell"),
        {
            "US $5": 15,
            "-US $ 5": 5,
            "US $-5,5 %": 4,
            "5%": 15,
            "5": 15,
            " +US $1.234,50 %\t": 1244,
            "us $5": 2010,
            "-US $-5": 2010,
            "US$5": 2010,
            "5%%": 2010,
            "5 US $": 2010,
            "US $": 2010,
            "%": 2010,
            "1.5%": 2010,
        },
    ),
    "names and halves of days": (
        Date("x", "2026-03-01", "2026-03-04", format=["%A, %d %B %Y", "%d %b %Y %I:%M %p %z", "%m/%d/%y %I%p"]),
        {
            "sunday, 1 MARCH 2026": 0,
            "Monday, 1 March 2026": 0,
            "1 Mar 2026": None,
            "1 MAR 2026 11:59 pm +0000": 0,
            "1 mar 2026 12:30 AM +01": None,
            "1 mar 2026 12:30 PM +01": 0,
            "4 Mar 2026 12:00 am -01": 3,
            "3 Mar 2026 11:30 PM -0030": 3,
            "1 Mar 2026 13:00 PM Z": None,
            "1 Mar 2026 0:00 AM Z": None,
            "03/02/26 9AM": 1,
            "3/2/26 12pm": 1,
            "3/2/26 9": None,
            "1 M\u00e4rz 2026": None,
        },
    ),
    "words": (
        Category("x", ["false", "true"], true=["Ja"], false=["nein"], case="ignore", trim=True, unknown="cell"),
        {"JA ": 1, "\tNein": 0, "TRUE": 1, "j\u00c4": 2, "": 2, None: None},
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_option_by_example(name: str, tmp_path: Path) -> None:
    """By hand, so that the reference has a reference."""
    attribute, meant = EXAMPLES[name]
    texts = list(meant)
    assert [reference(attribute, text) for text in texts] == list(meant.values())
    *_, (csv_file, dialect) = in_process(table_of(texts), tmp_path)
    assert cells(csv_file, attribute, len(texts), dialect) == list(meant.values())


def test_text_of_a_mebibyte_is_not_trimmed_whatever_cuts_it(tmp_path: Path) -> None:
    texts = [" " * (2**20 - 2) + "a", " " * (2**20 - 1) + "a", " " * 2**20 + "a", "a"]
    attribute = Category("x", ["a"], trim=True, unknown="cell")
    table = table_of(list(texts))
    pq.write_table(table, tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.parquet", table.to_pandas()):
        assert cells(source, attribute, 4) == [0, 1, 1, 0]


def test_whole_numbers_are_read_by_a_format_of_digits() -> None:
    table = pa.table({"x": pa.array([20260301, 20260230, None, -1], pa.int64()), "row": range(4)})
    attribute = Date("x", "2026-01-01", "2026-12-31", every="month", format="%Y%m%d", unknown="cell")
    assert cells(table, attribute, 4) == [2, 12, None, 12]


def test_options_never_touch_the_unit() -> None:
    """Units that trimming or folding would make one are two."""
    table = pa.table({"id": ["a", "A", " a", "a "] * 3, "x": ["1"] * 12})
    domain = Domain(Category("id", ["a"], trim=True, case="ignore"), Integer("x", 0, 3, trim=True))
    assert open_rows(table).limit("id", max_rows=1).count_cells(domain).sum() == 4


def test_the_frame_of_dates_is_read_as_its_text_is() -> None:
    days = [date(2026, 3, 1), date(2026, 3, 2), None]
    frame = pd.DataFrame({"x": pd.Series(days, dtype=object), "row": range(3)})
    attribute = Date("x", "2026-03-01", "2026-03-05", format="%d.%m.%Y")
    assert cells(frame, attribute, 3) == [0, 1, None]
