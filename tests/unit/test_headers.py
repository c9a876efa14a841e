"""Files of text without a header: the first row is a row, and no message or draft shows it."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpcube.cli import commands
from dpcube.core.domain import Category, Domain, Integer
from dpcube.core.errors import DpcubeError, SourceError
from dpcube.core.sources import CsvDialect, open_rows
from dpcube.curator import explain, publish
from dpcube.curator.check import check
from dpcube.curator.draft import draft

SECRET = "Zebulon"
DOMAIN = Domain((Category(name="ward", values=("north", "south")), Integer(name="age", min=0, max=99, width=10)))
ROWS = [
    f"{SECRET},41,north",  # a number
    f"{SECRET},41.5,north",
    f"{SECRET},-1e-3,north",
    f"{SECRET},2026-03-01,north",  # dates and times
    f"{SECRET},2026-03-01T08:30:00Z,north",
    f"{SECRET},1.3.2026,north",
    f"{SECRET},3 Mar 2026,north",
    f'{SECRET},"March 3, 2026",north',
    f"{SECRET},08:30,north",
    f"{SECRET},8:30 am,north",
    f"{SECRET},$5.00,north",  # an amount
    f"{SECRET},<=50K,north",
    f"{SECRET},TRUE,north",
    f"{SECRET},,north",  # nothing, or a word for it
    f"{SECRET},NA,north",
    f"{SECRET},?,north",
    f"{SECRET},nan,north",
    f"{SECRET}, Not in universe, Not in universe",  # twice
    f"{SECRET},{SECRET}",
    f"{SECRET}, {SECRET}",
    f"{SECRET}@example.org,north",
    f"{SECRET},9b2f6d5e-8c1a-4e57-9d54-0f6f0c3b7a11,north",
    f"{SECRET};41;north",  # by another delimiter
    f"{SECRET}\t2026-03-01\tnorth",
]
NAMES = [
    "ward,age",
    "ward, age,q1,x2,V1,#,%,2019 Q1,p(2024),year_2020,P0001",
    ",ward,age",  # pandas's index
    "ward,age,",  # a delimiter after the last
    "Größe,Età,年齢,возраст,may,date,null_text,e5,N",
    "ward;age",
]


def everything(table: Path) -> list[Callable[[], object]]:
    return [
        lambda: open_rows(table),
        lambda: draft(table),
        lambda: draft(table, columns=["ward"]),
        lambda: draft(table, from_data=True),
        lambda: explain(table, DOMAIN),
        lambda: explain(table, DOMAIN, unit="patient"),
        lambda: check(table, DOMAIN),
        lambda: publish(table, DOMAIN, epsilon=1, period=("seen", 1, 2), ledger=None),
    ]


@pytest.mark.parametrize("row", ROWS)
def test_a_first_line_that_may_be_a_row_is_refused_and_not_shown(tmp_path: Path, row: str) -> None:
    (tmp_path / "t.csv").write_text(f"{row}\n{row}\n")
    for ask in everything(tmp_path / "t.csv"):
        with pytest.raises(SourceError, match=r"does not look like column names: .*--names a,b,c") as raised:
            ask()
        assert not any(value in str(raised.value) for value in (SECRET, "north", "2026", "41", "universe"))


@pytest.mark.parametrize("names", NAMES)
def test_a_line_of_names_is_read_as_one(tmp_path: Path, names: str) -> None:
    (tmp_path / "t.csv").write_text(f"{names}\nnorth,41\n", encoding="utf-8")
    assert open_rows(tmp_path / "t.csv").columns == tuple(names.split(","))


def test_each_file_of_a_table_is_looked_at_and_names_that_are_given_are_taken(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ward,age\nnorth,41\n")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(f"{SECRET},41\n".encode()))
    with pytest.raises(SourceError, match=r"first line of .*b\.csv\.gz does not look like") as raised:
        open_rows(tmp_path)
    assert SECRET not in str(raised.value)
    for header, rows in ((False, 1), (True, 0)):
        dialect = CsvDialect(header=header, columns=("ward", "age"))
        assert open_rows(tmp_path / "b.csv.gz", csv=dialect).count() == rows


def test_a_row_of_words_is_not_shown_where_a_column_is_missing(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"{SECRET},wards,north\n")
    asked = everything(tmp_path / "t.csv")
    for ask in (asked[2], *asked[4:]):
        with pytest.raises(
            SourceError, match=r"first line is not shown because it may be a row: .*--names a,b,c"
        ) as raised:
            ask()
        assert not any(value in str(raised.value) for value in (SECRET, "wards", "north"))


def test_a_line_with_a_name_that_was_asked_for_is_a_header_and_is_shown(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("ward,years,sex\nnorth,41,f\n")
    with pytest.raises(SourceError, match="no column 'age'; its columns are 'ward', 'years', 'sex'"):
        explain(tmp_path / "t.csv", DOMAIN)


def test_one_column_is_told_of_its_delimiter_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"{SECRET};north\nsouth;north\n")
    with pytest.raises(DpcubeError, match="the table has one column; if its fields are separated by ';'") as raised:
        draft(tmp_path / "t.csv")
    assert SECRET not in str(raised.value)


def test_the_commands_show_nothing_of_it_either(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"{SECRET},41\nnorth,12\n")
    (tmp_path / "d.toml").write_text(DOMAIN.dumps())
    table, domain = str(tmp_path / "t.csv"), str(tmp_path / "d.toml")
    for words in (["domain", table], ["release", table, "--domain", domain, "--epsilon", "1", "-o", f"{table}.dpcube"]):
        failed = CliRunner().invoke(commands, words)
        assert isinstance(failed.exception, SourceError)
        assert "--names" in str(failed.exception)
        assert SECRET not in str(failed.exception) + failed.output
