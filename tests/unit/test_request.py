"""What a curator asks for, checked before any row is read: units, periods, and the one place of a ledger."""

from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpcube import Category, Date, Domain, Integer
from dpcube.cli.curator.release import TableAddress
from dpcube.core.errors import BudgetError, InputError, SourceError
from dpcube.core.ledger.ledger import Ledger
from dpcube.core.period import Period
from dpcube.core.request import (
    MAX_READING_LENGTH,
    MAX_UNIT_ROWS,
    LedgerLocation,
    PrivacyUnit,
    Range,
    check_left,
    ledger_path,
    open_ledger,
    read_lines,
)
from dpcube.core.sources import CsvDialect, open_rows
from dpcube.core.sources.open import ADDRESSED, QUERIED, is_address

BESIDE = LedgerLocation.BESIDE_TABLE
DOMAIN = Domain((Integer(name="visits", min=0, max=9), Date(name="seen", start="2026-01-01", end="2026-12-31")))


# Whom a release protects.


@pytest.mark.parametrize(
    "unit",
    [
        {},
        {"column": "p"},
        {"column": "p", "max_rows": MAX_UNIT_ROWS},
        {"column": "p", "max_rows": 2, "null": "each"},
    ],
)
def test_a_unit_is_a_row_or_a_column_with_so_many_rows(unit: dict[str, Any]) -> None:
    made = PrivacyUnit(**unit)
    expected = {"column": None, "max_rows": 1, "null": "drop"} | unit
    assert {key: getattr(made, key) for key in expected} == expected


@pytest.mark.parametrize("max_rows", [0, -1, MAX_UNIT_ROWS + 1, 2.0, 1.5, "2", None])
def test_a_unit_has_a_whole_number_of_rows(max_rows: Any) -> None:
    with pytest.raises(InputError, match=f"max_rows must be a whole number from 1 to {MAX_UNIT_ROWS}"):
        PrivacyUnit("p", max_rows)


@pytest.mark.parametrize("more", [{"max_rows": 2}, {"null": "each"}, {"max_rows": 2, "null": "each"}])
def test_what_goes_with_a_unit_needs_one(more: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="go with a unit"):
        PrivacyUnit(None, **more)


def test_rows_without_a_unit_are_dropped_or_each_their_own() -> None:
    with pytest.raises(InputError, match="null_unit must be 'drop' or 'each', got 'keep'"):
        PrivacyUnit("p", null="keep")  # type: ignore[arg-type]


# Which rows.


def asked(first: Any, last: Any, column: str = "visits") -> Range:
    made = Range.from_request((column, first, last), DOMAIN, None)
    assert made is not None
    return made


@pytest.mark.parametrize(("first", "last"), [(3, 7), ("3", "+7"), (3, "7")])
def test_a_period_of_whole_numbers_holds_both_ends(first: Any, last: Any) -> None:
    assert asked(first, last).period() == Period("visits", "integer", 3, 8)
    assert asked(first, last).attribute().bin_edges().tolist() == [3, 8]


def test_a_period_of_one_number_may_be_below_zero() -> None:
    assert asked("-3", "-3").period() == Period("visits", "integer", -3, -2)


@pytest.mark.parametrize(("first", "last"), [("2025-12-30", "2027-01-02"), (date(2025, 12, 30), "2027-01-02")])
def test_a_period_of_days_holds_both_ends_and_every_day_between(first: Any, last: Any) -> None:
    made = asked(first, last, "seen")
    period = made.period()
    assert (period.kind, period.start) == ("date", date(2025, 12, 30).toordinal())
    assert period.stop == date(2027, 1, 2).toordinal() + 1
    assert made.attribute().bins == 3  # a few bins hold any number of days: of years


@pytest.mark.parametrize(
    ("first", "last"), [(7, 3), (date(2026, 1, 1), 7), (7, date(2026, 1, 1)), (0, date(2026, 1, 1)), (1.5, 2), (1, 2.5)]
)
def test_a_period_goes_from_one_to_a_later_one_of_the_same_kind(first: Any, last: Any) -> None:
    with pytest.raises(InputError, match="a period of 'visits' goes from one date or whole number to a later one"):
        asked(first, last).attribute()


@pytest.mark.parametrize("end", ["soon", "", "1.5", "2026-02-30", "\u00b2"])
def test_a_bound_that_is_no_bound_is_refused(end: str) -> None:
    with pytest.raises(InputError, match="is bounded by dates"):
        asked(end, end).attribute()


def test_a_column_that_is_no_attribute_is_read_plainly_and_one_that_is_as_declared() -> None:
    assert Range.from_request(None, DOMAIN, None) is None
    other = asked(1, 2, "elsewhere")
    assert (other.like, other.period().reading) == (None, "")
    nulls = Domain((Integer(name="n", column="Nr", min=0, max=9, null_text=("9",), thousands=","),))
    made = Range.from_request(("n", 1, 9), nulls, None)
    assert made is not None
    attribute = made.attribute()
    assert isinstance(attribute, Integer)
    assert (attribute.source_column, attribute.null_text, attribute.thousands) == ("Nr", ("9",), ",")
    assert made.period().column == "Nr"
    days = Range.from_request(("n", "2026-01-01", "2026-01-02"), nulls, None)  # thousands are no affair of dates
    assert days is not None
    assert isinstance(days.attribute(), Date)


def test_a_reading_is_one_text_whatever_its_order_and_a_digest_if_it_is_long() -> None:
    assert MAX_READING_LENGTH == 1000  # as in ledgers that were written: with another, old periods would be others
    assert Range._text({}) == ""
    assert Range._text({"b": 1, "a": 2}) == Range._text({"a": 2, "b": 1}) == '{"a": 2, "b": 1}'
    around = len(Range._text({"a": ""}))
    longest, longer = (dict[str, object]({"a": "x" * (MAX_READING_LENGTH - around + more)}) for more in (0, 1))
    assert Range._text(longest).startswith('{"a"')
    assert len(Range._text(longest)) == MAX_READING_LENGTH
    assert Range._text(longer).startswith("sha256 ")
    assert len(Range._text(longer)) == len("sha256 ") + 64


def test_lines_are_cut_as_the_caller_and_the_domain_say() -> None:
    semicolons = CsvDialect(delimiter=";")
    assert read_lines(DOMAIN, None) is None
    assert read_lines(DOMAIN, semicolons) is semicolons
    lines = Domain((Category(name="c", values=("a", "b")),), multiline=True)
    assert read_lines(lines, None) == CsvDialect(multiline=True)
    assert read_lines(lines, semicolons) == CsvDialect(delimiter=";", multiline=True)


# Where the ledger is.


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A directory with a table of a file, one compressed, and one of files in directories whose names have dots."""
    for name in ("t.csv", "t2.csv.gz", "v1.2/a.csv", "v1.2/b.csv", "d.parquet/a.parquet", "e.csv/a.csv", "we[ir]d.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("visits\n1\n")
    return tmp_path.resolve()


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("t.csv", "t.ledger"),
        ("t2.csv.gz", "t2.ledger"),
        ("t3.csv.zst", "t3.ledger"),
        ("e.csv", "e.ledger"),
        ("f.tsv", "f.ledger"),
        ("v1.2", "v1.2.ledger"),
        ("v1.2/*.csv", "v1.2.ledger"),
        ("v1.2/[ab].csv", "v1.2.ledger"),
        ("d.parquet", "d.ledger"),
        ("we[ir]d.csv", "we[ir]d.ledger"),  # a file that is there is no pattern
        ("not there.csv", "not there.ledger"),
        ("not there.v2", "not there.ledger"),  # no directory
        pytest.param(f"{'x' * 300}.v2", f"{'x' * 300}.ledger", id="no file can have this name"),
    ],
)
def test_a_table_has_its_ledger_beside_it(source: str, place: str, here: Path) -> None:
    assert ledger_path(BESIDE, here / source) == here / place
    assert ledger_path(BESIDE, str(here / source)) == here / place


def test_a_ledger_that_is_named_is_the_callers_word(here: Path) -> None:
    assert ledger_path("x.ledger", here / "t.csv") == Path("x.ledger")
    assert ledger_path(None, here / "t.csv") is None
    assert ledger_path("x.ledger", object()) == Path("x.ledger")
    for source in ("postgresql://x#t", "/", object()):
        with pytest.raises(InputError, match="no place for a ledger beside it"):
            ledger_path(BESIDE, source)


@pytest.mark.parametrize("first", ["v1.2/a.csv", "v1.2", "v1.2/*.csv"])
@pytest.mark.parametrize("second", ["v1.2/a.csv", "v1.2", "v1.2/*.csv"])
def test_rows_of_one_ledger_are_not_charged_to_another(first: str, second: str, here: Path) -> None:
    place = ledger_path(BESIDE, here / first)
    assert place is not None
    Ledger.create(place, total=Fraction(1))
    if (first == "v1.2/a.csv") == (second == "v1.2/a.csv"):
        assert ledger_path(BESIDE, here / second) == place
    else:
        with pytest.raises(InputError, match=r"has the ledger .*, and this release would be charged to"):
            ledger_path(BESIDE, here / second)


def test_a_link_out_of_a_table_and_a_second_name_of_a_file_are_refused(here: Path) -> None:
    (here / "v1.2" / "c.csv").symlink_to(here / "t.csv")
    with pytest.raises(InputError, match=r"leads to .*t\.csv outside it"):
        ledger_path(BESIDE, here / "v1.2")
    (here / "v1.2" / "c.csv").unlink()
    (here / "again.csv").hardlink_to(here / "t.csv")
    with pytest.raises(InputError, match=r"has a name elsewhere \(a hard link\)"):
        ledger_path(BESIDE, here / "t.csv")


# What is left in it.


def test_a_release_is_checked_against_the_ledger_it_would_be_charged_to(tmp_path: Path) -> None:
    place, half, one = tmp_path / "t.ledger", Fraction(1, 2), Fraction(1)
    for total in (one, None):
        check_left(place, one, total=total, unit=None, period=None)
    with pytest.raises(BudgetError, match=r"asks for epsilon 1, and the new ledger .* would allow 1/2"):
        check_left(place, one, total=half, unit=None, period=None)
    assert not place.exists()
    book = open_ledger(place, half / 2, total=half, unit="p")
    [(_, total, purpose)] = book.statement().totals
    assert (total, purpose) == (half, "made by the first release")
    for total in (half, None):
        assert open_ledger(place, one, total=total, unit="p").statement().total == half
        check_left(place, half, total=total, unit="p", period=None)
        with pytest.raises(BudgetError):
            check_left(place, one, total=total, unit="p", period=None)
    for other in ("other", None):
        with pytest.raises(BudgetError, match="protects one 'p', not"):
            check_left(place, half, total=None, unit=other, period=None)
    assert book.statement().spent == 0


def test_a_new_ledger_allows_the_total_or_else_the_epsilon(tmp_path: Path) -> None:
    for number, (total, allowed) in enumerate([(None, Fraction(1, 2)), (Fraction(3), Fraction(3))]):
        book = open_ledger(tmp_path / f"{number}.ledger", Fraction(1, 2), total=total, unit=None)
        assert book.statement().total == allowed


def test_a_total_that_the_ledger_does_not_have_is_refused_and_not_ignored(tmp_path: Path) -> None:
    place, one = tmp_path / "my t.ledger", Fraction(1)
    Ledger.create(place, total=one)
    for total, remedy in (
        (2 * one, f"dpcube ledger raise '{place}' --total 2 --purpose WHY"),
        (one / 2, "leave --total out$"),
    ):
        words = rf"allows 1 in all, and the total {total} was asked for; .*{remedy}"
        with pytest.raises(InputError, match=words):
            check_left(place, one / 4, total=total, unit=None, period=None)
        with pytest.raises(InputError, match=words):
            open_ledger(place, one / 4, total=total, unit=None)
    assert [total for _, total, _ in Ledger(place).statement().totals] == [1]


def test_a_named_ledger_is_refused_while_the_table_has_another(here: Path) -> None:
    for table in ("t.csv", "v1.2/a.csv"):
        beside = ledger_path(BESIDE, here / table)
        assert beside is not None
        Ledger.create(beside, total=Fraction(1))
        with pytest.raises(
            InputError, match=r"has the ledger .*, and .* would be charged to .*other\.ledger; name the one"
        ):
            ledger_path(here / "other.ledger", here / table)
        assert ledger_path(beside, here / table) == beside
        (here / "link.ledger").unlink(missing_ok=True)
        (here / "link.ledger").symlink_to(beside)
        assert ledger_path(here / "link.ledger", here / table) == here / "link.ledger"
    with pytest.raises(InputError, match=r"a\.csv has the ledger .*a\.ledger, and this release would be charged to"):
        ledger_path(here / "other.ledger", here / "v1.2" / "*.csv")
    (here / "v1.2" / "a.ledger").rename(here / "away")
    assert ledger_path(here / "other.ledger", here / "v1.2" / "*.csv") == here / "other.ledger"


def test_a_named_ledger_for_another_unit_may_stand_beside_that_of_the_table(here: Path) -> None:
    """The ledger beside the table could not be charged: it counts epsilon for another unit."""
    Ledger.create(here / "t.ledger", total=Fraction(1))
    assert ledger_path(here / "p.ledger", here / "t.csv", unit="patient") == here / "p.ledger"
    with pytest.raises(InputError, match="name the one ledger"):
        ledger_path(here / "p.ledger", here / "t.csv")


@pytest.mark.parametrize("scheme", [*QUERIED, *ADDRESSED])
def test_a_command_takes_every_address_as_text(scheme: str) -> None:
    address = f"{scheme}//host/database#table"  # a path would lose a slash
    assert is_address(address)
    assert TableAddress().convert(address, None, None) == address
    assert TableAddress().convert("table.csv", None, None) == Path("table.csv")


@pytest.mark.parametrize("scheme", ADDRESSED)
def test_a_query_needs_a_database_that_takes_one(scheme: str) -> None:
    with pytest.raises(SourceError, match="query needs the address of a PostgreSQL database"):
        open_rows(f"{scheme}table", query="SELECT 1")
