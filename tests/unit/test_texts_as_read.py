"""Texts in declared forms, one at a time: the label of the cell that each has."""

from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from dpcube.core.domain import Attribute, Category, Date, Domain, Integer
from dpcube.core.limits import MAX_PARSED_TEXT, MAX_TEXT
from dpcube.core.sources import open_rows
from dpcube.core.sources.reading import in_any_case

OWN: dict[str, Any] = {"null": "cell", "unknown": "cell"}


def label_of(attribute: Attribute, text: str) -> str:
    counts = open_rows(pa.table({"x": [text]})).count_cells(Domain(attribute))
    assert counts.sum() == 1
    return str(attribute.labels()[int(counts.argmax())])


def days(*formats: str, zone: str | None = None) -> Date:
    return Date("x", "2026-01-01", "2026-12-31", format=[*formats], zone=zone, **OWN)


@pytest.mark.parametrize(
    ("attribute", "text", "label"),
    [
        (days("%Y%m%d"), "20260131.0", "2026-01-31"),
        (days("%Y%m%d"), "20260131", "2026-01-31"),
        (days("%d.%m.%y"), "31.12.26", "2026-12-31"),
        (days("%d.%m.%y"), "31.12.68", "(unknown)"),
        (days("%d.%m.%Y"), "1.2.2026", "2026-02-01"),
        (days("%Y.%m%d"), "2026.1101", "2026-11-01"),
        (days("%Y.%m%d"), "2026.111", "(unknown)"),
        (days("%m%d %Y"), "1101 2026", "2026-11-01"),
        (days("%m%d %Y"), "111 2026", "(unknown)"),
        (days("%d%b%Y"), "1feb2026", "2026-02-01"),
        (days("%d.%m.%Y"), " 2026-02-01 ", "2026-02-01"),
        (days("%d.%m.%Y"), "2026-02-01T08:30", "2026-02-01"),
        (days(), "2026-01-31 18:15:00+00:00", "2026-01-31"),
        (days(zone="Asia/Kathmandu"), "2026-01-31 18:14:59Z", "2026-01-31"),
        (days(zone="Asia/Kathmandu"), "2026-01-31 18:15:00Z", "2026-02-01"),
        (days(zone="Asia/Kathmandu"), "2026-02-01 00:00:00+05:45", "2026-02-01"),
        (days(zone="Asia/Kathmandu"), "2026-01-31 23:59:59+05:45", "2026-01-31"),
        (days(zone="UTC"), "2026-01-31 20:29:59-03:30", "2026-01-31"),
        (days(zone="UTC"), "2026-01-31 20:30:00-03:30", "2026-02-01"),
        (days(zone="UTC"), "2026-02-01 00:00:00+0001", "2026-01-31"),
    ],
)
def test_days_in_declared_forms(attribute: Date, text: str, label: str) -> None:
    if label == "(unknown)" and text == "31.12.68":  # a day, of a year outside
        assert open_rows(pa.table({"x": [text]})).outcomes(Domain(attribute))[0][0]["outside"] == 1
    else:
        assert label_of(attribute, text) == label


def number(**how: Any) -> Integer:
    return Integer("x", -20, 20, outside="cell", **OWN, **how)


@pytest.mark.parametrize(
    ("attribute", "text", "label"),
    [
        (number(prefix="$"), "$5", "5"),
        (number(prefix="$"), "-$5", "-5"),
        (number(prefix="$"), "5", "5"),
        (number(suffix="%"), "5 %", "5"),
        (number(suffix="%"), "$5", "(unknown)"),
        (number(prefix="EUR", case="ignore"), "eur 5", "5"),
        (number(prefix="EUR"), "eur 5", "(unknown)"),
        (number(prefix="EUR"), "EUR 5", "5"),
        (number(prefix="kg."), "kg.5", "5"),
        (number(prefix="kg.", case="ignore"), "KG.5", "5"),
        (number(prefix="kg.", case="ignore"), "KGx5", "(unknown)"),
        (number(suffix="é", case="ignore"), "5é", "5"),
        (number(decimal=","), "5,0", "5"),
        (number(decimal=","), "TRUE", "1"),
        (number(), "true", "1"),
        (number(), "False", "0"),
        (number(), "tru", "(unknown)"),
        (number(), "5".zfill(MAX_PARSED_TEXT), "5"),
        (number(), "5".zfill(MAX_PARSED_TEXT + 1), "(unknown)"),
        (number(thousands=","), "0,005", "5"),
        (number(thousands=","), "0,05", "(unknown)"),
        (number(null_text=["-9"]), "-9", "(null)"),
        (number(null_text=["n/a"]), "N/A", "(unknown)"),
        (number(null_text=["n/a"], case="ignore"), "N/A", "(null)"),
        (Category("x", ["A", "b"], trim=True, **OWN), " A ", "A"),
        (Category("x", ["A", "b"], trim=True, **OWN), "a", "(unknown)"),
        (Category("x", ["A", "b"], case="ignore", **OWN), "a", "A"),
        (Category("x", ["A"], null_text=["NA"], **OWN), "NA", "(null)"),
        (Category("x", ["A"], null_text=["NA"], **OWN), "na", "(unknown)"),
    ],
)
def test_numbers_and_values_in_declared_forms(attribute: Attribute, text: str, label: str) -> None:
    assert label_of(attribute, text) == label


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_midnight_is_its_day_and_no_other_moment_is(unit: str) -> None:
    day, moments = Category("x", ["2026-01-31"], **OWN), [datetime(2026, 1, 31), datetime(2026, 1, 31, 0, 0, 1), None]
    counts = open_rows(pa.table({"x": pa.array(moments, pa.timestamp(unit))})).count_cells(Domain(day))
    assert counts.tolist() == [1, 1, 1]


@pytest.mark.parametrize("cells", [2**16 - 1, 2**16, 2**16 + 1])
def test_a_row_without_a_cell_is_left_out_of_domains_of_any_size(cells: int) -> None:
    rows = open_rows(pa.table({"x": [0, cells - 1, cells, None]}))
    counts = rows.count_cells(Domain(Integer("x", 0, cells - 1)))
    assert (counts[0], counts[-1], counts.sum()) == (1, 1, 2)


def test_a_text_too_long_to_be_read_whole_is_not_trimmed() -> None:
    value = Category("x", ["A"], trim=True, **OWN)
    assert label_of(value, "A".ljust(MAX_TEXT - 1)) == "A"
    assert label_of(value, "A".ljust(MAX_TEXT)) == "(unknown)"


def test_a_pattern_of_either_case_has_no_other_characters() -> None:
    assert in_any_case("aZ. é1(") == r"[aA][zZ]\. é1\("
