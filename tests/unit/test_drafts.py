"""Drafts of domain files: what names suggest, what values do, and what is told of a wrong delimiter."""

import re
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dpcube import Domain
from dpcube.core.domain import Date, Float, Integer
from dpcube.core.domain.number import Number
from dpcube.core.errors import DomainError, InputError, SourceError
from dpcube.core.sources import CsvDialect, open_rows
from dpcube.curator.draft import draft
from dpcube.curator.guess import Guess, by_name, read_by
from dpcube.curator.publishing import count

DAYS = [date(2026, 1, 1) + timedelta(days=3 * i) for i in range(40)]


def looked_at(values: list[Any], name: str = "x") -> str:
    return of_attribute(draft(pa.table({name: values}), from_data=True))


def of_attribute(text: str) -> str:
    return text.partition("[[attribute]]")[2] or text.rpartition("\n\n")[2]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, "identifier") for name in ("id", "patient_id", "PatientID", "E-mail", "customer key", "SSN")),
        *((name, "date") for name in ("date", "Adm. Date", "admittedAt", "dob", "birth_date", "created_on")),
        *((name, "integer") for name in ("age", "Age (years)", "n_children", "hours-per-week")),
        *((name, "float") for name in ("Dose", "unit price", "weight_kg", "lat")),
        *((name, "boolean") for name in ("isSmoker", "has_insurance", "flag")),
        *((name, "category") for name in ("ward", "sex", "", "größe", "idea", "candidate")),
    ],
)
def test_what_a_name_suggests(name: str, kind: str) -> None:
    assert by_name(name).kind == kind


def test_names_alone_suggest_types_with_templates_and_a_unit(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("patient_id,Adm. Date,age,dose,isSmoker,ward\n7,x,x,x,x,secret\n", encoding="utf-8")
    text = draft(tmp_path / "t.csv")
    assert re.findall(r'^type = "(\w+)"', text, re.MULTILINE) == ["date", "integer", "float", "category", "category"]
    assert 'name = "patient_id"' not in text
    assert '--unit "patient_id" --max-rows K' in text
    assert "secret" not in text
    assert not re.search(r"\d", text.replace("format = 1", ""))
    for kind in ("integer", "float", "category", "date"):
        assert f'"{kind}"' in text.partition("format = 1")[0]
    with pytest.raises(DomainError):  # it is to be filled in
        Domain.loads(text)


COLUMNS: list[tuple[list[Any], list[str]]] = [
    ([f"{day:%d.%m.%Y}" for day in DAYS] * 2, ["start = 2026-01-01", 'format = "%d.%m.%Y"']),
    ([f"{day:%m/%d/%Y} 9:30 PM" for day in DAYS] * 2, ['format = "%m/%d/%Y %I:%M %p"']),
    ([f"$1,{i}00.50" for i in range(1, 10)] * 3, ['type = "float"', 'thousands = ","', 'prefix = "$"']),
    ([f"{i}%" for i in range(30)] * 2, ['type = "integer"', 'suffix = "%"']),
    ([f"1.{i}00,5 \u20ac" for i in range(1, 10)] * 3, ['decimal = ","', 'thousands = "."', 'suffix = "\u20ac"']),
    ([f"{day:%m/%d/%Y}" for day in DAYS] * 2, ['format = "%m/%d/%Y"']),
    ([f"{day}T08:30:00Z" for day in DAYS] * 2, ['type = "date"', "start = 2026-01-01"]),
    ([f"{i},5" for i in range(40)] * 2, ['type = "float"', "min = 0.5", 'decimal = ","']),
    ([f"{i}.234,5" for i in range(1, 40)] * 2, ["max = 39234.5", 'decimal = ","', 'thousands = "."']),
    ([f" {i} " for i in range(40)] * 2, ['type = "integer"', "min = 0", "max = 39", "trim = true"]),
    ([f"{i}.5" for i in range(40)] * 2, ['type = "float"', "max = 39.5"]),
    (["Ja", "nein", "", "JA"] * 9, ['values = ["false", "true"]', 'true = ["ja"]', 'case = "ignore"']),
    (["a", "b ", "c", ""] * 9, ['values = ["a", "b", "c"]', "trim = true"]),
    (["1.234,5", "12,5", "3,25"] * 9, ["min = 3.25", "max = 1234.5", 'thousands = "."']),
    ([3, 4, 5] * 9, ['type = "integer"', "max = 5"]),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "lines"), [*COLUMNS[:5], *(pytest.param(*column, marks=pytest.mark.slow) for column in COLUMNS[5:])]
)
def test_values_tell_numbers_dates_and_words(values: list[Any], lines: list[str]) -> None:
    text = draft(pa.table({"x": values}), from_data=True)
    assert set(lines) <= set(of_attribute(text).splitlines())
    assert "drafted_from_data = true" in text


@pytest.mark.slow
def test_no_mark_is_proposed_that_no_text_needs() -> None:
    assert "thousands" not in looked_at([f"{i},5" for i in range(40)] * 2)
    assert "trim" not in looked_at(["a", "b"] * 9)


@pytest.mark.parametrize(
    ("values", "other"),
    [
        ([f"0{i % 9 + 1}/0{i % 7 + 1}/2026" for i in range(40)], 'format = "%m/%d/%Y"'),
        ([f"{i % 9 + 1}.234" for i in range(40)], 'decimal = ",", thousands = "."'),
    ],
)
def test_a_reading_that_fits_as_well_is_told(values: list[str], other: str) -> None:
    assert f"# or, which fits as well: {other}" in looked_at(values).splitlines()


@pytest.mark.parametrize("texts", [["1", "1", "1", " 1 ", "A", "a", "", None, None, "2,5", "2.5", "2.5", "1e400"], []])
def test_a_text_that_many_rows_have_is_read_once_and_counts_as_often(texts: list[str | None]) -> None:
    """As if each row were read, as `fates` does; whichever other column there is, and in part of the rows."""
    table = pa.table({"x": pa.array(texts, pa.string()), "n": pa.array(range(len(texts)), pa.int64())})
    tried = [read_by("x", Guess(kind)) for kind in ("float", "integer", "date")]
    part = Integer(name="n", min=0, max=99)
    for rows in (open_rows(table), open_rows(table).restrict(part, [0, 1, 4, 7, 10])):
        found = rows.read_as(tried)
        assert found == [rows.outcomes(Domain((attribute,)))[0][0] for attribute in tried]
        assert sum(found[0].values()) == rows.count()
    assert open_rows(table).read_as(tried)[0]["kept"] == 6 * bool(texts)


def test_values_that_are_all_different_name_rows_and_are_no_attribute() -> None:
    text = draft(pa.table({"code": [f"x{i}" for i in range(30)], "n": [1, 2] * 15}), from_data=True)
    assert 'column "code" looks like an identifier' in text
    assert "x7" not in text
    assert re.findall(r'^name = "(.*)"', text, re.MULTILINE) == ["n"]


@pytest.mark.parametrize(("mark", "shown"), [(";", ";"), ("\t", "\\t"), ("|", "|")])
def test_a_wrong_delimiter_is_told(mark: str, shown: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"age{mark}ward\n5{mark}a\n", encoding="utf-8")
    with pytest.raises(SourceError) as caught:
        draft(tmp_path / "t.csv")
    assert f"declare it: --delimiter '{shown}'" in str(caught.value)
    assert "[[attribute]]" in draft(tmp_path / "t.csv", csv=CsvDialect(delimiter=mark))
    with pytest.raises(SourceError) as counted:
        count(tmp_path / "t.csv", Domain(Integer("age", 0, 9)))
    assert f"declare it: --delimiter '{shown}'" in str(counted.value)


def test_a_signed_draft_of_messy_values_is_a_domain() -> None:
    table = pa.table({"day": [f"{day:%d.%m.%Y}" for day in DAYS] * 2, "dose": [f"{i},5" for i in range(40)] * 2})
    text = draft(table, from_data=True).replace('# signed_public_by = "?"', 'signed_public_by = "me"')
    domain = Domain.loads(text)
    assert isinstance(domain["day"], Date)
    assert isinstance(domain["dose"], Float)


# Bins by their number, and by quarters.


def test_so_many_bins_in_a_file() -> None:
    axis = '[[attribute]]\nname = "x"\ntype = "{}"\nmin = {}\nmax = {}\nbins = {}\n'
    assert Domain.loads(axis.format("float", 0.0, 1.0, 10)) == Domain(Float("x", 0.0, 1.0, width=0.1))
    assert Domain.loads(axis.format("integer", 0, 99, 10)) == Domain(Integer("x", 0, 99, width=10))
    assert Domain.loads(axis.format("integer", 0, 99, 30))["x"].bins == 25  # of 4 each: whole numbers do not split
    for wrong in (
        axis.format("integer", 0, 9, 0),
        axis.format("integer", 0, 9, "2.5"),
        axis.format("float", 0, 9, "true"),
    ):
        with pytest.raises(DomainError, match="bins must be a whole number above 0"):
            Domain.loads(wrong)
    with pytest.raises(DomainError, match="without width or edges"):
        Domain.loads(axis.format("integer", 0, 9, 3) + "width = 2\n")


def test_quarters() -> None:
    axis = Date("d", "2025-11-15", "2026-07-01", every="quarter")
    assert axis.labels() == ["2025-Q4", "2026-Q1", "2026-Q2", "2026-Q3"]
    assert [level.name for level in axis.levels()] == ["quarter", "year"]
    assert axis.weights(axis.range("2026-01-01", "2026-03-31")).tolist() == [0, 1, 0, 0]


@pytest.mark.slow
def test_a_draft_says_how_many_cells_it_has_and_keeps_the_delimiter(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "age;ward\n" + "".join(f"{i};{'ab'[i % 2]}\n" for i in range(50)) * 2, encoding="utf-8"
    )
    text = draft(tmp_path / "t.csv", from_data=True, csv=CsvDialect(delimiter=";"))
    assert "\n# As drafted: 50 x 2 = 100 cells. Fewer than rows is a good start.\n" in text
    assert count(tmp_path / "t.csv", Domain.loads(text)).sum() == 100
    assert "As drafted" not in draft(tmp_path / "t.csv", csv=CsvDialect(delimiter=";"))


def test_quantiles_are_for_data_that_somebody_says_is_public() -> None:
    table = pa.table(
        {"n": [*range(100), *[50] * 100], "x": [i / 8 for i in range(200)], "b": [i % 2 == 0 for i in range(200)]}
    )
    for from_data in (False, True):
        with pytest.raises(InputError, match="they are for a table that is public itself"):
            draft(table, quantiles=4, from_data=from_data)
    with pytest.raises(InputError, match="needs nobody to say"):
        draft(table, public="me")
    for wrong in (1, 1001, 2.5):
        with pytest.raises(InputError, match="whole number of bins from 2 to 1000"):
            draft(table, quantiles=wrong, public="me", from_data=True)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="signs by a name"):
        draft(table, public=" ", from_data=True)
    text = draft(table, quantiles=4, public='A. "B"', from_data=True)
    domain = Domain.loads(text)
    assert (domain.drafted_from_data, domain.signed_public_by) == (True, 'A. "B"')
    assert [Number.bin_edges(axis).tolist() for axis in domain.attributes[:2]] == [  # type: ignore[arg-type]
        [0, 50, 100],  # half of the rows are 50
        [0, 6.25, 12.5, 18.75, 24.875],
    ]
    assert count(table, domain.project(("x",))).tolist() == [50] * 4
