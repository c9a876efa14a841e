"""The rows of a file are charged to one ledger, whatever name of the file or of a directory above it is given."""

import os
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpcube.core.domain import Domain, Integer
from dpcube.core.errors import BudgetError, InputError, LedgerError
from dpcube.core.files import PART
from dpcube.core.ledger.ledger import Ledger
from dpcube.core.request import LedgerLocation, ledger_path
from dpcube.core.sources import open_rows
from dpcube.curator import publish

AGES = Domain((Integer(name="age", min=0, max=9),))


def write(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("age\n3\n")
    return path


def release(source: Any, **more: Any) -> None:
    publish(source, AGES, epsilon=1, strategy="cells", **more)


def refused(source: Any, match: str) -> None:
    with pytest.raises(InputError, match=match) as raised:
        release(source)
    assert "(ledger, --ledger FILE)" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name in ("a.csv", "b.csv", "2026/a.csv", "2026/b.csv"):
        write(tmp_path / "data" / name)
    return tmp_path / "data"


def test_a_hard_link_gives_no_fresh_budget(data: Path) -> None:
    release(data / "a.csv")
    (data.parent / "other.csv").hardlink_to(data / "a.csv")
    for source in (data.parent / "other.csv", data / "a.csv", f"{data}/*.csv", f"{data}/a*"):
        refused(source, "has a name elsewhere \\(a hard link\\), where it could have another ledger")
    assert not (data.parent / "other.ledger").exists()
    release(data.parent / "other.csv", ledger=data.parent / "named.ledger")
    release(data / "b.csv")
    with pytest.raises(BudgetError):
        release(data / "b.csv")


def test_hard_links_in_one_directory_have_its_ledger(data: Path) -> None:
    (data / "c.csv").hardlink_to(data / "a.csv")
    release(f"{data}/*.csv")
    assert Ledger(data.with_name("data.ledger")).statement().remaining == 0
    refused(data / "a.csv", "a hard link")
    refused(data / "b.csv", r"data has the ledger .*/data\.ledger, and this release would be charged to .*/b\.ledger")


@pytest.mark.parametrize("link", ["data/z.csv", "data/2027"])
def test_a_link_that_leads_out_of_a_directory_needs_a_named_ledger(data: Path, link: str) -> None:
    write(data.parent / "other" / "x.csv")
    link_to = data.parent / link
    link_to.symlink_to("../other/x.csv" if link.endswith(".csv") else "../other")
    pattern = f"{data}/**/*.csv"
    refused(pattern, "data leads to .*/other/x.csv outside it, which could have a ledger of its own")
    release(pattern, ledger=data.parent / "named.ledger")
    release(f"{data}/2026/*.csv")  # without the link
    file = link_to if link.endswith(".csv") else link_to / "x.csv"
    release(file)  # by itself, it has the ledger of what it leads to
    assert (data.parent / "other" / "x.ledger").exists()


def test_a_directory_that_is_reached_by_a_link_has_its_own_ledger(data: Path) -> None:
    (data.parent / "current").symlink_to(data / "2026")
    release(data.parent / "current")
    assert (data / "2026.ledger").exists()
    for source in (
        data / "2026",
        f"{data}/2026/",
        f"{data}/2026/.",
        f"{data}/2026/../2026",
        f"{data.parent}/current/*.csv",
    ):
        with pytest.raises(BudgetError):
            release(source)
    refused(f"{data.parent}/cur*/*.csv", "has the ledger .*/data/2026.ledger")


CHARGED_ELSEWHERE = [
    ("data/2026/a.csv", "data/2026/*.csv"),
    ("data/2026/a.csv", "data/**/*.csv"),
    ("data/2026", "data/**/*.csv"),
    ("data/2026/*.csv", "data/*/a.csv"),
    ("dat*/a.csv", "data/a.csv"),
]


@pytest.mark.parametrize(("one", "other"), [*CHARGED_ELSEWHERE, *((b, a) for a, b in CHARGED_ELSEWHERE)])
def test_a_file_and_its_directories_have_one_ledger_or_a_named_one(data: Path, one: str, other: str) -> None:
    others = set(data.parent.parent.rglob("*.ledger"))
    release(f"{data.parent}/{one}")
    before = set(data.parent.parent.rglob("*.ledger"))
    refused(f"{data.parent}/{other}", "has the ledger .*, and this release would be charged to")
    with pytest.raises(InputError, match="has the ledger"):
        release(f"{data.parent}/{other}", ledger=data.parent / "named.ledger")
    assert set(data.parent.parent.rglob("*.ledger")) == before
    (charged,) = before - others
    Ledger(charged).raise_total(Fraction(2), purpose="the same rows again")
    release(f"{data.parent}/{other}", ledger=charged)
    assert Ledger(charged).statement().spent == 2


def test_ledgers_of_other_files_are_nobodys_business(data: Path) -> None:
    release(data / "a.csv")
    release(f"{data}/2026/b*.csv")
    release(f"{data.parent}/data/b.csv")
    (data / "2026.ledger").unlink()
    (data / "b.ledger").unlink()
    release(f"{data}/b*.csv")  # a.csv is not among them
    for name in ("x.csv", "x.tsv"):  # the same stem, one ledger
        write(data.parent / "odd" / name)
    release(data.parent / "odd" / "x.csv")
    with pytest.raises(BudgetError):
        release(data.parent / "odd" / "x.tsv")


def test_ledgers_that_are_links_to_one_are_one(data: Path) -> None:
    release(data / "a.csv", total=2)
    data.with_name("data.ledger").symlink_to(data / "a.ledger")
    release(f"{data}/*.csv")
    assert Ledger(data / "a.ledger").statement().remaining == 0
    with pytest.raises(BudgetError):
        release(data / "a.csv")


def test_the_check_comes_before_a_row_is_read_and_again_before_the_charge(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two first releases at once: each makes its ledger, then looks for the other's."""

    release(data / "a.csv")
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules[publish.__module__], "count", lambda *_, **__: pytest.fail("rows were read"))
        refused(f"{data}/*.csv", "has the ledger")
    (data / "a.ledger").unlink()
    honest = open_rows

    def meanwhile(*given: Any, **more: Any) -> Any:
        Ledger.create(data / "a.ledger", total=Fraction(1))
        return honest(*given, **more)

    monkeypatch.setattr(sys.modules[publish.__module__], "open_rows", meanwhile)
    refused(f"{data}/*.csv", "has the ledger")
    assert Ledger(data.with_name("data.ledger")).statement().charges == ()


def test_any_kind_of_path_has_a_ledger(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with os.scandir(data) as entries:
        (entry,) = (entry for entry in entries if entry.name == "a.csv")
    release(entry)
    monkeypatch.chdir(data)
    for source in ("a.csv", "./a.csv", "2026/../a.csv", data / "a.csv", f"{data}/a.csv"):
        with pytest.raises(BudgetError):
            release(source)


def test_a_file_that_has_no_name_any_more_needs_a_named_ledger(data: Path) -> None:
    with (data / "a.csv").open() as file:
        (data / "gone.csv").symlink_to(f"/proc/self/fd/{file.fileno()}")
        assert ledger_path(LedgerLocation.BESIDE_TABLE, data / "gone.csv") == data / "a.ledger"
        (data / "a.csv").unlink()
        if (data / "gone.csv").is_file():  # where there is /proc
            refused(data / "gone.csv", "has a name elsewhere")


# Names of the ledger itself.


def test_a_ledger_of_two_names_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "t.ledger"
    ledger = Ledger.create(place, total=Fraction(1))
    (tmp_path / "u.ledger").hardlink_to(place)
    for name in ("t", "u"):
        with pytest.raises(LedgerError, match=r"has a second name \(a hard link\), under which it could be overspent"):
            Ledger(tmp_path / f"{name}.ledger")
    with pytest.raises(LedgerError, match="has a second name"):
        ledger.charge(Fraction(1), strategy="cells", domain="d")
    (tmp_path / "u.ledger").unlink()
    (tmp_path / PART.format("00")).hardlink_to(place)  # what a crash left while the ledger was made
    assert Ledger(place).statement().remaining == 1
    (tmp_path / PART.format("01")).write_text("of another")
    assert Ledger(place).statement().remaining == 1
    (tmp_path / "u.ledger").hardlink_to(place)
    with pytest.raises(LedgerError, match="has a second name"):
        Ledger(place)


def test_a_link_to_a_ledger_shares_its_journal(tmp_path: Path) -> None:
    """SQLite follows links before it names the journal, so each name sees what a crash left under another."""
    Ledger.create(tmp_path / "t.ledger", total=Fraction(1))
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "u.ledger").symlink_to(tmp_path / "t.ledger")
    with Ledger(tmp_path / "d" / "u.ledger")._transaction() as connection:
        connection.execute("INSERT INTO entry (time, kind, epsilon, seal) VALUES ('', 'charge', '1', '')")
        assert (tmp_path / "t.ledger-journal").exists()
        connection.execute("ROLLBACK")
        connection.execute("BEGIN")
