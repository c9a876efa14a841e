"""Nothing but noise tells two tables apart that differ in one row.

Every verb of the command is run on both, in directories that look alike, with a clock that stands still and with a gate
whose noisy counts are replaced by the same numbers: given what the noise hides, all else must be the same to the byte.
That covers standard output and error, JSON, exit codes, messages of errors, names, sizes and contents of all files,
and so every number of rows read or dropped, of cells occupied, of units, and every duration. One pair is then run for
real, in processes of their own with real noise on a terminal, where only digests and times may differ.
"""

import json
import os
import re
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcube import Domain
from dpcube.cli import main
from dpcube.core.errors import DpcubeError
from dpcube.core.gate import Gate
from dpcube.core.ledger import ledger as ledger_module
from dpcube.core.ledger.ledger import Ledger
from dpcube.core.sources import Rows
from dpcube.curator import publish
from dpcube.strategies import Cells
from forked import dpcube

DOMAIN = """
format = 1
[[attribute]]
name = "age"
type = "integer"
min = 0
max = 19
null = "cell"
[[attribute]]
name = "ward"
type = "category"
values = ["north", "south", "east"]
"""
HEADER = "who,age,ward,day"
LINES = [f"p{i % 97},{i % 13},{('north', 'south', 'west')[i % 3]},2026-{1 + i % 3:02}-11" for i in range(1237)]
SECRETS = ("1237", "1238", "Zebulon")
MANY = 2_000_000

ROWS: dict[str, bytes] = {
    "typical": b"p1,5,north,2026-01-10",
    "first of its cell": b"p1,19,east,2026-01-20",
    "first of its unit": b"Zebulon,5,north,2026-01-10",
    "first of its day": b"p1,5,north,2026-01-01",
    "outlier": b"p1,999999999999999999999999,north,2026-01-11",
    "out of domain": b"p1,5,Zebulon,2026-01-12",
    "out of the period": b"p1,5,north,9999-12-31",
    "null": b"p1,,,",
    "null unit": b",5,north,2026-01-10",
    "all null": b",,,",
    "not a number": b"Zebulon,Zebulon,north,Zebulon",
    "too few fields": b"Zebulon,5",
    "too many fields": b"Zebulon,5,north,2026-01-10,7,7,7",
    "open quote": b'"Zebulon,5,north,2026-01-10',
    "not utf-8": b"\xff\xfe,5,north,2026-01-10",
    "nul": b"Zebulon\0,5,north,2026-01-10",
    "empty": b"",
    "long": b"Zebulon" * (MANY // 7) + b",5,north,2026-01-10",
}

STOPPED = ("release", "t.csv", "--domain", "d.toml")  # for the noise here says that the total is -4
RELEASE = (*STOPPED, "--even-if-empty")
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("domain", "t.csv"),
    ("domain", "t.csv", "--columns", "age,day", "-o", "draft.toml"),
    ("domain", "t.csv", "--columns", "height"),
    (*RELEASE, "--epsilon", "1/2", "--strategy", "cells", "--total", "2", "--purpose", "spring", "-o", "cells.dpcube"),
    (*RELEASE, "--epsilon", "1/2", "-o", "boxes.dpcube", "--json"),
    (*RELEASE, "--epsilon", "1/2", "--period", "day", "2026-01-01", "2026-01-31", "-o", "january.dpcube"),
    (*RELEASE, "--epsilon", "1", "--unit", "who", "--max-rows", "2", "--ledger", "who.ledger", "-o", "who.dpcube"),
    (*RELEASE, "--epsilon", "1", "--no-ledger", "-o", "loose.dpcube"),
    (*RELEASE, "--epsilon", "1", "--unit", "who", "--null-unit", "each", "--no-ledger", "--json", "-o", "n.dpcube"),
    # Refused, each for a reason of its own:
    (*STOPPED, "--epsilon", "1", "--no-ledger", "-o", "never.dpcube"),
    (*STOPPED, "--epsilon", "1", "--unit", "who", "--ledger", "stopped.ledger", "-o", "never.dpcube"),
    ("ledger", "stopped.ledger"),
    (*RELEASE, "--epsilon", "50", "-o", "never.dpcube"),
    (*RELEASE, "--epsilon", "1/2", "-o", "cells.dpcube"),
    (*RELEASE, "--epsilon", "1/2", "--unit", "who", "-o", "never.dpcube"),
    (*RELEASE, "--epsilon", "1/2", "--unit", "nobody", "--no-ledger", "-o", "never.dpcube"),
    (*RELEASE, "--epsilon", "1/2", "--period", "day", "1", "2026-01-31", "-o", "never.dpcube"),
    (*RELEASE, "--epsilon", "1/2", "--names", "a,b,c,d", "-o", "never.dpcube"),
    (*RELEASE, "--epsilon", "1/2", "--ledger", "t.csv", "-o", "never.dpcube"),
    (*RELEASE, "--epsilon", "1/2", "--strategy", "guess", "-o", "never.dpcube"),
    ("ledger", "t.ledger"),
    ("ledger", "t.ledger", "--json"),
    ("ledger", "raise", "t.ledger", "--total", "3", "--purpose", "more"),
    ("ledger", "who.ledger"),
    ("ledger", "t.csv"),
    *(("info", f"{name}.dpcube", *json) for name in ("cells", "boxes", "january", "who") for json in ((), ("--json",))),
    ("info", "t.csv"),
    ("count", "boxes.dpcube", "age < 5", "ward = 'north'"),
    ("count", "cells.dpcube", "--json"),
    ("count", "cells.dpcube", "height > 3"),
)

Told = dict[str, Any]


class StandingStill(datetime):
    """A clock whose hands do not move."""

    @classmethod
    def now(cls, tz: Any = None) -> Any:  # noqa: ARG003
        return datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
def same_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the gate charge and draw as ever, and put the same numbers in place of what it says."""

    def replaced(honest: Callable[..., Any]) -> Callable[..., Any]:
        def said(gate: Gate, *asked: Any) -> Any:
            shape = honest(gate, *asked).shape
            return (np.arange(np.prod(shape)) * 7 % 31 - 4).reshape(shape)

        return said

    monkeypatch.setattr(Gate, "boxes", replaced(Gate.boxes))
    monkeypatch.setattr(Gate, "marginal", replaced(Gate.marginal))
    select = Gate.select
    monkeypatch.setattr(Gate, "select", lambda gate, *asked: 0 * select(gate, *asked))
    monkeypatch.setattr(ledger_module, "datetime", StandingStill)


@pytest.fixture
def tell(
    same_noise: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[[bytes], Told]:
    """Return everything that the commands let out about a table: printed, returned or written."""
    directories = (tmp_path / f"directory{turn:03}" for turn in range(100))

    def told(table: bytes) -> Told:
        directory = next(directories)
        directory.mkdir()
        monkeypatch.chdir(directory)
        Path("t.csv").write_bytes(table)
        Path("d.toml").write_text(DOMAIN)
        outcome: Told = {}
        for turn, arguments in enumerate(COMMANDS):
            monkeypatch.setattr(sys, "argv", ["dpcube", *arguments])
            with pytest.raises(SystemExit) as stopped:
                main()
            printed = [text.replace(str(directory), "<here>") for text in capfd.readouterr()]
            outcome[f"{turn}: {' '.join(arguments)}"] = (stopped.value.code, *printed)
        for path in sorted(directory.rglob("*")):
            if path.name != "t.csv":
                outcome[path.name] = path.read_bytes()
        return outcome

    return told


ONCE: list[Told] = []


@pytest.fixture
def base(tell: Callable[[bytes], Told]) -> Told:
    """What is told of the table itself, asked once: it is the same each time."""
    if not ONCE:
        ONCE.append(tell(csv(LINES)))
    return ONCE[0]


def csv(lines: list[str], *more: bytes) -> bytes:
    return b"\n".join([HEADER.encode(), *(line.encode() for line in lines), *more]) + b"\n"


def differences(one: Told, other: Told) -> list[str]:
    return [name for name in {**one, **other} if one.get(name) != other.get(name)]


def test_the_commands_do_what_they_are_meant_to(base: Told) -> None:
    """Otherwise the comparisons below would compare failures with failures."""
    codes = [outcome[0] for outcome in base.values() if isinstance(outcome, tuple)]
    refused = [turn for turn, code in enumerate(codes) if code]
    assert refused == [2, 9, 10, *range(12, 20), 24, 33, 36]
    assert {code for code in codes if code} == {1, 2}
    files = {name for name, content in base.items() if isinstance(content, bytes)}
    releases = {"cells.dpcube", "boxes.dpcube", "january.dpcube", "who.dpcube", "loose.dpcube", "n.dpcube"}
    assert files == releases | {"d.toml", "draft.toml", "t.ledger", "who.ledger", "stopped.ledger"}
    for code, out, error in (outcome for outcome in base.values() if isinstance(outcome, tuple)):
        assert not any(secret in masked(out + error) for secret in SECRETS)
        assert "internal error" not in error
        assert error.count("\n") == (1 if code else 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ROWS)
def test_one_row_more_changes_nothing_that_the_noise_does_not_hide(
    kind: str, base: Told, tell: Callable[[bytes], Told]
) -> None:
    at = 600 if len(kind) % 2 else len(LINES)
    rest = (line.encode() for line in LINES[at:])
    assert differences(base, tell(csv(LINES[:at], ROWS[kind], *rest))) == []


def test_a_quick_pair_changes_nothing_that_the_noise_does_not_hide(base: Told, tell: Callable[[bytes], Told]) -> None:
    assert differences(base, tell(csv(LINES, ROWS["outlier"], ROWS["too few fields"]))) == []


def test_no_rows_and_one_row_are_told_apart_by_nothing_but_noise(tell: Callable[[bytes], Told]) -> None:
    empty = tell(csv([]))
    assert differences(empty, tell(csv(LINES[:1]))) == []
    assert differences(empty, tell(csv([], ROWS["open quote"]))) == []


def test_how_long_the_counting_took_is_told_nowhere(
    base: Told, tell: Callable[[bytes], Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Rows.count_cells

    def slow(rows: Rows, domain: Domain) -> Any:
        time.sleep(0.1)
        return honest(rows, domain)

    monkeypatch.setattr(Rows, "count_cells", slow)
    assert differences(base, tell(csv(LINES))) == []


# The comparison must be able to fail: each of these tells something of the rows, in another place.

MODULE = sys.modules["dpcube.curator.publishing"]


def _print_rows(exact: Any) -> None:
    print(f"{exact.sum()} rows", file=sys.stderr)


def _print_occupied(exact: Any) -> None:
    print(f"{np.count_nonzero(exact)} cells")


def _write_log(exact: Any) -> None:
    with Path("log").open("a") as log:  # releases by unit, which come last, may keep as many rows of both tables
        log.write("x" * int(exact.sum()))


def _fail(exact: Any) -> None:
    if exact[19, 2]:
        msg = "a row that should not be"
        raise DpcubeError(msg)


CHARGE, PARAMETERS = Ledger.charge_parts, Cells.parameters


def _note(exact: Any) -> None:
    def charge(ledger: Ledger, parts: Any, **more: Any) -> list[int]:
        return CHARGE(ledger, parts, **{**more, "purpose": f"{exact.sum()}"})

    Ledger.charge_parts = charge  # type: ignore[method-assign,assignment]


def _parameter(exact: Any) -> None:
    Cells.parameters = lambda _: {"rows": int(exact.sum())}  # type: ignore[method-assign,assignment]


LEAKS: dict[str, tuple[Callable[[Any], None], str]] = {
    "rows counted, on the terminal": (_print_rows, "release"),
    "cells occupied, in the output": (_print_occupied, "release"),
    "rows counted, as the size of a file": (_write_log, "log"),
    "a run that fails for its rows": (_fail, "release"),
    "rows counted, in the ledger": (_note, "t.ledger"),
    "rows counted, in the release": (_parameter, "cells.dpcube"),
}


@pytest.fixture
def restored() -> Iterator[None]:
    yield
    Ledger.charge_parts, Cells.parameters = CHARGE, PARAMETERS  # type: ignore[method-assign]


@pytest.mark.slow
@pytest.mark.parametrize("leak", LEAKS)
def test_sabotage_a_leak_is_caught(
    leak: str, restored: None, tell: Callable[[bytes], Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    let_out, where = LEAKS[leak]
    honest = MODULE.count

    def count(*given: Any, **more: Any) -> Any:
        exact = honest(*given, **more)
        let_out(exact)
        return exact

    monkeypatch.setattr(MODULE, "count", count)
    found = differences(tell(csv(LINES)), tell(csv(LINES, ROWS["first of its cell"])))
    assert any(where in name for name in found)


# Parquet, and the messages of the library.

TABLE = pa.table({"age": pa.array([i % 13 for i in range(1237)], pa.float64()), "ward": ["north"] * 1237})
OF_DATES = """
format = 1
[[attribute]]
name = "age"
type = "date"
start = 2026-01-01
end = 2026-12-31
every = "day"
"""
VALUES = [5.0, None, float("nan"), float("inf"), 1e300, -1.0, 0.5]


def outcomes(table: pa.Table, directory: Path) -> list[object]:
    """What a library's user is told: releases, errors and the file of each, under names that are the same."""
    told: list[object] = []
    directory.mkdir()
    pq.write_table(table, directory / "t.parquet")
    os.chdir(directory)
    domain = Domain.loads(DOMAIN)
    asked: list[dict[str, Any]] = [
        {"domain": domain, "epsilon": 1, "save_to": "r.dpcube"},
        {"domain": domain, "epsilon": 1},
        {"domain": Domain.loads(DOMAIN.replace("age", "height")), "epsilon": 1},
        {"domain": Domain.loads(OF_DATES), "epsilon": 1},
        {"domain": domain, "epsilon": 1, "unit": "ward", "max_rows": 3, "ledger": None},
        {"domain": domain, "epsilon": 1, "period": ("ward", 1, 2), "ledger": None},
        {"domain": domain, "epsilon": 1, "period": ("age", 1, 2), "ledger": None},
        {"domain": domain, "epsilon": 1, "ledger": "t.parquet"},
    ]
    for request in asked:
        try:
            made = publish("t.parquet", **request)
            told.append((repr(made), made.digest, made.provenance))
        except DpcubeError as error:
            told.append((type(error), str(error).replace(str(directory), ""), error.__cause__, repr(error.__context__)))
    told += [(path.name, path.read_bytes()) for path in sorted(directory.iterdir()) if path.name != "t.parquet"]
    return told


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_a_row_more_of_a_parquet_file_changes_nothing_either(
    value: float | None, same_noise: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    more = pa.concat_tables([TABLE, pa.table({"age": pa.array([value], pa.float64()), "ward": ["south"]})])
    one, other = (outcomes(table, tmp_path / name) for table, name in ((TABLE, "one"), (more, "two")))
    assert one == other
    assert sum(isinstance(told, tuple) and isinstance(told[0], type) for told in one) == 4


# For real.


def ran(directory: Path, *arguments: str) -> tuple[int, str, str]:
    """Run the command with real noise; standard error is a terminal."""
    terminal, theirs = os.openpty()
    process = dpcube(*arguments, cwd=directory, err=os.ttyname(theirs))
    os.close(theirs)
    os.set_blocking(terminal, False)
    try:
        shown = os.read(terminal, 10_000).decode()
    except (BlockingIOError, OSError):
        shown = ""
    os.close(terminal)
    return process.returncode, masked(process.stdout), masked(shown)


def masked(text: str) -> str:
    """What only digests and the widths of arrays, which are of noisy counts, and the clock may change."""
    text = re.sub(r'"type": "[|<]i[1248]"', '"type": "<integers>"', text)
    text = re.sub(r"\r\x1b\[K[a-z ]+ \.\.\. \d+ s", "", text)  # how long a stage has taken so far
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:+]+", "<time>", re.sub(r"\b[0-9a-f]{16}(?:[0-9a-f]{48})?\b", "<digest>", text))


ARRAY = {"sha256": str, "type": str, "shape": list}
MANIFEST = {
    "format": int,
    "library": str,
    "private": bool,
    "strategy": {"name": str, "parameters": dict},
    "privacy": {
        "epsilon": str,
        "neighbours": str,
        "unit": type(None),
        "max_rows": int,
        "period": type(None),
        "reading": type(None),
        "ledger": bool,
        "spent": {"cells": str},
    },
    "noise": {"epsilon_per_unit": str, "laws": {"marginal": str}},
    "plan": type(None),
    "layout": str,
    "groups": list,
    "measurements": list,
    "members": {"domain.toml": {"sha256": str}, "1.counts.npy": ARRAY},
}


def matches(found: Any, expected: Any) -> bool:
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(matches(found[key], expected[key]) for key in expected)
    return type(found) is expected


@pytest.mark.slow
def test_for_real_only_digests_and_times_differ(tmp_path: Path) -> None:
    told = []
    for name, table in (("one", csv(LINES)), ("two", csv(LINES, ROWS["first of its cell"], ROWS["open quote"]))):
        directory = tmp_path / name
        directory.mkdir()
        (directory / "t.csv").write_bytes(table)
        (directory / "d.toml").write_text(DOMAIN)
        release = (*RELEASE, "--epsilon", "1/2", "--strategy", "cells", "-o")
        printed = [
            ran(directory, *release, "r.dpcube", "--total", "1"),
            ran(directory, *release, "again.dpcube", "--epsilon", "2"),
            ran(directory, "ledger", "t.ledger", "--json"),
            ran(directory, "info", "r.dpcube"),
        ]
        here = str(directory)
        printed = [(code, out.replace(here, "."), err.replace(here, ".")) for code, out, err in printed]
        with zipfile.ZipFile(directory / "r.dpcube") as archive:
            manifest = json.loads(archive.read("manifest.json"))
            members = {name: archive.getinfo(name).date_time for name in archive.namelist()}
        assert matches(manifest, MANIFEST)
        told.append((printed, masked(json.dumps(manifest)), members, sorted(path.name for path in directory.iterdir())))
    assert told[0] == told[1]
    (first, second, *_), *_ = told[0]
    assert first[0] == 0
    assert "counting the rows ..." in first[2]
    assert not re.search(r"\d", first[2].replace("\x1b[K", ""))
    assert second[0] == 1
    assert not any(secret in str(told) for secret in SECRETS)
