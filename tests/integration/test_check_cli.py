"""`dpcube check`: private, on a terminal only, rough, and without a trace."""

import os
import pty
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dpcube.core.domain import Category, Date, Domain, Float, Integer
from dpcube.core.errors import DpcubeError
from dpcube.curator import publish
from dpcube.curator.check import ENDS, check
from forked import dpcube

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal")

DOMAIN = Domain(
    Integer("age", 0, 99, outside="clip"),
    Float("dose", 0, 10, null="cell"),
    Category("sex", ["f", "m"], unknown="cell"),
    Date("day", "2026-01-01", "2026-12-31"),
)


def rows(n: int) -> list[str]:
    good = [f"{i % 90},1.5,f,2026-03-01" for i in range(n - 20)]
    return [*good, *["120,1.5,f,2026-03-01"] * 5, *["5,,m,2026-03-01"] * 5, *['7,"1,5",x,01.03.2026'] * 9, "1,2,3"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text("\n".join(["age,dose,sex,day", *rows(1000)]) + "\n", encoding="utf-8")
    DOMAIN.save(tmp_path / "d.toml")
    return tmp_path / "t.csv"


def on_terminal(*arguments: str, cwd: Path) -> str:
    """What the command shows on a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "dpcube", *arguments]
    shown = b""
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE, cwd=cwd) as process:
        os.close(theirs)
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # the other end was closed
                break
            if not piece:
                break
            shown += piece
        assert process.stderr is not None
        error = process.stderr.read().decode()
    os.close(ours)
    assert process.returncode == 0, error
    return shown.decode().replace("\r\n", "\n")


def test_shares_are_told_in_words(table: Path) -> None:
    found = check(table, DOMAIN)
    told = {look.attribute: dict(zip(ENDS, look.shares, strict=True)) for look in found.looks}
    assert told["age"] == dict(zip(ENDS, ("most", "under 1%", "none", "none", "none"), strict=True))
    assert told["dose"] == dict(zip(ENDS, ("most", "none", "under 1%", "under 1%", "under 1%"), strict=True))
    assert told["sex"] == dict(zip(ENDS, ("most", "none", "none", "under 1%", "none"), strict=True))
    assert told["day"] == dict(zip(ENDS, ("most", "none", "none", "under 1%", "under 1%"), strict=True))
    assert (found.counted, found.broken_lines) == ("most", "under 1%")
    assert not any(look.examples for look in found.looks)
    shown = {look.attribute: look.examples for look in check(table, DOMAIN, show_values=True).looks}
    assert shown == {"age": (), "dose": ("1,5",), "sex": (), "day": ("01.03.2026",)}  # 120 is clipped, x has a cell


def test_values_that_count_are_not_listed_and_what_becomes_of_them_is_said(table: Path) -> None:
    """120 was clipped and x had a cell of its own, and both were listed as texts that are not taken."""
    shown = on_terminal("check", "t.csv", "--domain", "d.toml", "--show-values", cwd=table.parent)
    listed = shown.partition("some texts of rows that are not counted")[2]
    assert "  dose: '1,5'\n" in listed
    assert "'120'" not in shown
    assert "'x'" not in shown
    kept = listed.partition("not listed, because these values are counted:\n")[2].splitlines()
    assert kept[:3] == [
        "  age: outside: in the nearest bin",
        "  dose: null: in a cell of their own",
        "  sex: unknown: in a cell of their own",
    ]


def test_a_column_by_another_name_shows_its_own_texts(table: Path) -> None:
    renamed = Domain(Float("age", 0, 10, column="dose"), Integer("dose", 0, 99, column="age"))
    shown = {look.attribute: look.examples for look in check(table, renamed, show_values=True).looks}
    assert shown == {"age": ("1,5",), "dose": ("120",)}


def test_nothing_and_everything(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("day\n01.03.2026\n02.03.2026\n", encoding="utf-8")
    wrong, right = (Domain(Date("day", "2026-01-01", "2026-12-31", format=f)) for f in ((), "%d.%m.%Y"))
    assert check(tmp_path / "t.csv", wrong).looks[0].shares == ("none", "none", "none", "all", "all")
    assert check(tmp_path / "t.csv", right).looks[0].shares == ("all", "none", "none", "none", "none")
    (tmp_path / "t.csv").write_text("day\n", encoding="utf-8")
    assert check(tmp_path / "t.csv", right).counted == "none"


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """1,000 rows: 300 of January, of which 100 name no patient, 100 are one patient's and 100 are of one each."""
    named = [*[""] * 100, *["p"] * 100, *(f"q{i}" for i in range(100))]
    january = [f"{i % 90},{name},15.01.2026" for i, name in enumerate(named)]
    others = [f"{i % 90},r{i},15.02.2026" for i in range(695)] + ["500,z,15.01.2026"] * 5
    (tmp_path / "v.csv").write_text("\n".join(["age,patient,day", *january, *others]) + "\n", encoding="utf-8")
    return tmp_path / "v.csv"


AGES = Domain(Integer("age", 0, 99), Date("day", "2026-01-01", "2026-12-31", every="year", format="%d.%m.%Y"))


def test_units_and_periods_are_those_of_a_release(visits: Path) -> None:
    """The shares in words, and that each is the share of what a release would count."""
    plain = check(visits, AGES)
    assert (plain.counted, plain.in_period, plain.named, plain.kept) == ("most", None, None, None)
    chosen: Any = {"unit": "patient", "max_rows": 2, "period": ("day", "2026-01-01", "2026-01-31")}
    found = check(visits, AGES, **chosen)
    assert (found.in_period, found.counted, found.named, found.kept) == ("under half", "most", "most", "most")
    counted = publish(visits, AGES, epsilon=50, strategy="cells", ledger=None, **chosen).cells().sum()
    assert round(counted) == 102  # of p two rows, one of each q; z has an age that is dropped
    each = check(visits, AGES, null_unit="each", **chosen)
    assert (each.named, each.kept) == ("all", "most")
    assert check(visits, AGES, **chosen | {"max_rows": 100}).kept == "all"
    assert check(visits, AGES, **chosen | {"max_rows": 99}).kept == "most"
    assert check(visits, AGES, period=("day", "2026-02-01", "2026-02-28")).looks[0].shares[0] == "all"
    assert check(visits, AGES, period=("day", "2026-03-01", "2026-03-28")).in_period == "none"


@pytest.mark.parametrize(
    "wrong", [{"unit": "nobody"}, {"max_rows": 2}, {"period": ("day", "a", "b")}, {"period": ("nothing", 1, 2)}]
)
def test_what_a_release_would_refuse_is_refused_here_in_the_same_words(visits: Path, wrong: Any) -> None:
    told = []
    for verb in (check, partial(publish, epsilon=1, ledger=None)):
        with pytest.raises(DpcubeError) as caught:
            verb(visits, AGES, **wrong)
        told.append(str(caught.value))
    assert told[0] == told[1]


def test_the_command_tells_of_units_and_of_drafts(visits: Path) -> None:
    replace(AGES, drafted_from_data=True).save(visits.parent / "d.toml")
    rows = ("--unit", "patient", "--max-rows", "2", "--period", "day", "2026-01-01", "2026-01-31")
    shown = on_terminal("check", "v.csv", "--domain", "d.toml", *rows, cwd=visits.parent)
    assert "share of rows in the period: under half; the rest of this output is about them\n" in shown
    assert "of these, rows with a privacy unit in 'patient' (others are dropped): most\n" in shown
    assert "of these, rows kept, at most 2 of each unit: most\n" in shown
    assert "A release would be refused: this domain was drafted from the private data" in shown


def test_it_is_shown_on_a_terminal_and_leaves_no_trace(table: Path) -> None:
    before = {path: path.read_bytes() for path in table.parent.iterdir()}
    shown = on_terminal("check", "t.csv", "--domain", "d.toml", cwd=table.parent)
    assert shown.startswith("PRIVATE: ")
    assert "share of rows counted, by all attributes together: most\n" in shown
    assert not any(text in shown for text in ("01.03.2026", "120", "1,5", "1000", "99"))
    assert {path: path.read_bytes() for path in table.parent.iterdir()} == before


def test_values_are_shown_only_when_asked_for_and_cannot_steer_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('age\n"\x1b[2J\u202ered"\n' + "9" * 500 + "\n", encoding="utf-8")
    Domain(Integer("age", 0, 99)).save(tmp_path / "d.toml")
    shown = on_terminal("check", "t.csv", "--domain", "d.toml", "--show-values", cwd=tmp_path)
    assert "\x1b" not in shown.partition("PRIVATE")[2]
    assert "'\\x1b[2J\\u202ered'" in shown
    assert "9" * 60 in shown
    assert "9" * 61 not in shown


@pytest.mark.parametrize("more", [[], ["--show-values"]])
def test_a_pipe_or_a_file_gets_nothing(table: Path, more: list[str]) -> None:
    done = dpcube("check", "t.csv", "--domain", "d.toml", *more, cwd=table.parent)
    assert (done.returncode, done.stdout) == (2, "")
    assert "on a terminal only" in done.stderr


def test_there_is_no_json(table: Path) -> None:
    done = dpcube("check", "t.csv", "--domain", "d.toml", "--json", cwd=table.parent)
    assert (done.returncode, done.stdout) == (2, "")
