"""Reading options in a domain: what is refused, what is written, what is left alone. What they mean: test_reading."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dpcube.core.domain import Category, Date, Domain, Float, Integer
from dpcube.core.domain.reading import declared
from dpcube.core.errors import DomainError, InputError, SourceError
from dpcube.core.sources import CsvDialect, open_rows
from dpcube.curator.publishing import count

DAYS: Any = {"name": "d", "start": "2026-01-01", "end": "2026-12-31"}


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ("%d.%m", "it needs one year, %Y or %y"),
        ("%d.%m.%Y %y", "it needs one year, %Y or %y"),
        ("%Y-%m", "it needs one day, %d"),
        ("%m %b %d %Y", "it needs one month, %m or %b or %B"),
        (
            "%Y-%m-%d%",
            "unknown directive %; use %Y, %y, %m, %b, %B, %d, %a, %A, %H, %I, %p, %M, %S, %f, %z and %%",
        ),
        (
            "%Y-%m-%d %U",
            "unknown directive %U; use %Y, %y, %m, %b, %B, %d, %a, %A, %H, %I, %p, %M, %S, %f, %z and %%",
        ),
        ("%Y-%m-%d %M", "%M needs %H or %I"),
        ("%Y-%m-%d %z", "%z needs %H or %I"),
        ("%Y-%m-%d %I", "%I needs %p"),
        ("%Y-%m-%d %H %p", "%p needs %I"),
        ("%Y-%m-%d %H %I %p", "each part of a time is written once"),
        ("%a %A %Y-%m-%d", "each part of a time is written once"),
        ("%b %B %d %Y", "it needs one month, %m or %b or %B"),
        ("%Y-%m-%d %H:%M:%H", "each part of a time is written once"),
        ("%Y-%m-%d %H:%M:%S.%f0", "no digit may follow %f"),
        ("%H:%M:%S.%f%d %m %Y", "no digit may follow %f"),
        ("%H%z %Y-%m-%d", "nothing may follow %z"),
        ("%Y-%m-%d\u00a0", "a format has at most 100 printable ASCII characters"),
        ("%Y-%m-%d" + " " * 100, "a format has at most 100 printable ASCII characters"),
    ],
)
def test_a_format_that_engines_could_read_in_two_ways_is_refused(form: str, why: str) -> None:
    with pytest.raises(DomainError) as caught:
        Date(**DAYS, format=form)
    assert str(caught.value) == f"attribute 'd': the format {form!r} cannot be read: {why}"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Integer("x", 0, 9, decimal=";"), "decimal must be one of"),
        (lambda: Integer("x", 0, 9, thousands="x"), "thousands must be one of"),
        (lambda: Float("x", 0, 9, thousands="."), "decimal and thousands must differ, got '.' for both"),
        (lambda: Float("x", 0, 9, prefix=""), "prefix, such as"),
        (lambda: Float("x", 0, 9, prefix="x" * 21), "is a text of 1 to 20 characters"),
        (lambda: Float("x", 0, 9, prefix=5), "is a text of 1 to 20 characters"),  # type: ignore[arg-type]
        (lambda: Float("x", 0, 9, prefix="$\n$"), "is a text of 1 to 20 characters"),
        (lambda: Float("x", 0, 9, suffix=" %"), "has no blanks around it, no digit, + or -"),
        (lambda: Float("x", 0, 9, suffix="x-y"), "has no blanks around it, no digit, + or -"),
        (lambda: Float("x", 0, 9, suffix="e5"), "has no blanks around it, no digit, + or -"),
        (lambda: Float("x", 0, 9, prefix="."), "is more than the marks inside numbers"),
        (lambda: Integer("x", 0, 9, trim="yes"), "trim must be true or false"),  # type: ignore[arg-type]
        (lambda: Integer("x", 0, 9, case="lower"), "case must be"),  # type: ignore[arg-type]
        (lambda: Integer("x", 0, 9, column=7), "column must be the name"),  # type: ignore[arg-type]
        (lambda: Integer("x", 0, 9, null_text=[1]), "null_text must be a list of texts"),  # type: ignore[list-item]
        (lambda: Integer("x", 0, 9, null_text=[" "], trim=True), "trim takes blanks off"),
        (lambda: Category("x", ["a "], trim=True), "values has 'a ', and trim takes blanks off"),
        (lambda: Category("x", ["a", "A"], case="ignore"), "the text 'A' denotes two different values"),
        (lambda: Category("x", ["a", "NA"], null_text=["NA"]), "the text 'NA' denotes two different values"),
        (lambda: Category("x", ["no", "yes"], true=["ja"]), "synonyms for 'true', which is not among its values"),
        (
            lambda: Category("x", ["false", "true"], true=["1"], false=["1"]),
            "the text '1' denotes two different values",
        ),
    ],
)
def test_each_mistake(make: Any, why: str) -> None:
    with pytest.raises(DomainError, match=r"^attribute 'x'") as caught:
        make()
    assert why in str(caught.value)


def test_a_word_may_be_its_own_value_and_a_text_alone_is_a_list() -> None:
    one = Category("x", ["false", "true"], true=["true", "yes", "Yes"], case="ignore", null_text="NA")
    assert one.null_text == ("NA",)
    assert Date(**DAYS, format="iso").format == ("iso",)


def test_options_are_written_and_read_back_and_defaults_are_not_written() -> None:
    domain = Domain(
        Date(**DAYS, format=["%d.%m.%Y", "iso"], column="Adm. Date", zone="Europe/Berlin", trim=True),
        Float(
            "dose",
            0,
            9,
            decimal=",",
            thousands=".",
            prefix="$",
            suffix="\u00a0%",
            null_text=["-", "n/a"],
            case="ignore",
        ),
        Category("alive", ["false", "true"], true=["y"], false=["n"]),
        multiline=True,
        delimiter="\t",
    )
    text = domain.dumps()
    assert Domain.loads(text) == domain
    assert 'format = ["%d.%m.%Y", "iso"]' in text
    assert '\nmultiline = true\ndelimiter = "\\t"\n' in text
    assert (
        Domain(Integer("age", 0, 9)).dumps()
        == 'format = 1\n\n[[attribute]]\nname = "age"\ntype = "integer"\nmin = 0\nmax = 9\n'
    )
    assert declared(domain["d"]) == {"trim": True, "format": ("%d.%m.%Y", "iso"), "zone": "Europe/Berlin"}
    with pytest.raises(DomainError, match="multiline must be true or false, got 'yes'"):
        Domain.loads(text.replace("multiline = true", "multiline = 'yes'"))


@pytest.mark.parametrize("column", [[1, -9], [1.0, -9.0], ["1", "-9"], ["1.0", "-9.0"], ["1", "n/k"], [1, None]])
def test_a_null_text_means_null_in_columns_of_every_type(column: list[object]) -> None:
    """Otherwise one row "n/k" would decide whether the others are null."""
    table = pa.table({"x": column})
    attributes = [Integer("x", -10, 10, null_text=("-9", "n/k"), null="cell")]
    attributes.append(Category("x", ["1", "-8"], null_text=["-9", "n/k"], null="cell"))  # type: ignore[arg-type]
    for attribute in attributes:
        counts = open_rows(table).count_cells(Domain(attribute))
        assert (counts.sum(), counts[-1]) == (2, 1)


def test_an_attribute_may_have_another_name_than_its_column() -> None:
    table = pa.table({"Age (years)": [3, 4, 4]})
    domain = Domain(Integer("age", 0, 9, column="Age (years)"), Integer("twice", 4, 5, column="Age (years)"))
    assert open_rows(table).count_cells(domain)[4].tolist() == [2, 0]
    with pytest.raises(SourceError, match=r'name each attribute after its column, or add column = "..." to it'):
        open_rows(table).count_cells(Domain(Integer("age", 0, 9)))


def test_quoted_line_breaks_need_the_domain_to_say_so(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('x,note\n1,"two\nlines"\n2,plain\n', encoding="utf-8")
    axis = Integer("x", 0, 9)
    assert count(tmp_path / "t.csv", Domain(axis)).sum() == 1
    assert count(tmp_path / "t.csv", Domain(axis, multiline=True)).sum() == 2
    assert count(tmp_path / "t.csv", Domain(axis, multiline=True), csv=CsvDialect(null_text=("2",))).sum() == 1


def test_the_delimiter_of_a_file_may_stand_in_the_domain(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x;y\n1;2\n3;4\n", encoding="utf-8")
    divided = Domain(Integer("x", 0, 9), delimiter=";")
    assert count(tmp_path / "t.csv", divided).sum() == 2
    assert count(tmp_path / "t.csv", divided, csv=CsvDialect(delimiter=";")).sum() == 2
    assert count(pa.table({"x": [1]}), divided).sum() == 1
    with pytest.raises(InputError, match=r"the domain says delimiter = ';', and the command .* ','; say it once"):
        count(tmp_path / "t.csv", divided, csv=CsvDialect(delimiter=","))
    for wrong in (";;", "", "\n", '"', "\u00a7", 7, True):
        with pytest.raises(DomainError, match="delimiter must be one ASCII character"):
            Domain(Integer("x", 0, 9), delimiter=wrong)  # type: ignore[arg-type]
        with pytest.raises(DomainError, match="delimiter must be"):
            Domain.loads(divided.dumps().replace('";"', json.dumps(wrong)))
