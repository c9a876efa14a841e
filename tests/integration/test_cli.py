"""The `dpcube` command as a user runs it: real processes, real files, real noise.

At epsilon 50 a cell's noise is not zero with probability 4e-22, so answers of `--strategy cells` there are exact.
"""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from dpcube import __version__, datasets
from dpcube.cli.verbs import VERBS
from forked import dpcube

EXACT = ("--epsilon", "50", "--strategy", "cells", "--no-ledger", "--even-if-empty")
CLINIC = {
    "ward": ["north-wing", "north-wing", "south-wing", None, "east-wing", "north-wing", "south-wing"],
    "age": [31, 34, 47, 58, 31, 203, 22],
    "dose": [0.125, 0.75, 1.875, 0.625, 1.125, 0.375, 1.625],
    "seen": [date(2025, 3, day) for day in (1, 2, 3, 4, 5, 6, 7)],
}
DOMAIN = """
format = 1

[[attribute]]
name = "ward"
type = "category"
values = ["north-wing", "south-wing"]
null = "cell"

[[attribute]]
name = "age"
type = "integer"
min = 20
max = 59
width = 10
outside = "clip"
"""
AGES = '[[attribute]]\nname = "age"\ntype = "integer"\nmin = 0\nmax = 99\n'


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str
    changed: tuple[str, ...] = ()

    def json(self) -> object:
        assert (self.code, self.err) == (0, "")
        return json.loads(self.out)


def run(*arguments: object, cwd: Path, command: tuple[str, ...] = (sys.executable, "-m", "dpcube")) -> Outcome:
    """Run one command in a process of its own."""
    done = subprocess.run([*command, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=600)
    return Outcome(done.returncode, done.stdout, done.stderr)


def run_all(*commands: tuple[object, ...], cwd: Path) -> list[Outcome]:
    """Run commands one after the other, and look which files each makes or changes."""
    return [looked_after(arguments, cwd) for arguments in commands]


def looked_after(arguments: tuple[object, ...], cwd: Path) -> Outcome:
    before = files_in(cwd)
    done, after = dpcube(*arguments, cwd=cwd), files_in(cwd)
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    return Outcome(done.returncode, done.stdout, done.stderr, tuple(changed))


def files_in(place: Path) -> dict[str, int]:
    """When each file was last changed."""
    return {str(path.relative_to(place)): path.stat().st_mtime_ns for path in place.rglob("*") if path.is_file()}


def answers(outcome: Outcome) -> dict[str, float]:
    """Counts by question, of `count --json`."""
    counted = outcome.json()
    assert isinstance(counted, list)
    return {answer["question"]: round(answer["value"], 6) for answer in counted}


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a private table in three forms, its domain, and things that are none."""
    where: Path = tmp_path_factory.mktemp("clinic")
    table = pa.table(CLINIC)
    pq.write_table(table, where / "clinic.parquet")
    pacsv.write_csv(table, where / "clinic.csv")
    (where / "clinic.toml").write_text(DOMAIN)
    (where / "ages.toml").write_text(AGES)
    (where / "garbage.parquet").write_bytes(b"PAR1 but not really")
    (where / "cut.parquet").write_bytes((where / "clinic.parquet").read_bytes()[:-100])
    (where / "clinic.txt").write_text("age\n31\n")
    (where / "directory.parquet").mkdir()
    return where


@pytest.fixture(scope="module")
def released(clinic: Path) -> Path:
    """The table as a released cube, made by the command in a process of its own."""
    made = run("release", "clinic.parquet", "--domain", "clinic.toml", *EXACT, "-o", "clinic.dpcube", cwd=clinic)
    assert (made.code, made.err) == (0, "")
    assert re.search(r"^wrote clinic\.dpcube: 12 cells at epsilon 50, digest [0-9a-f]{12,}$", made.out, re.MULTILINE)
    return clinic / "clinic.dpcube"


# --- starting ----------------------------------------------------------------------------------------------------


def test_the_command_starts_without_its_heavy_libraries() -> None:
    code = "import sys, dpcube.cli; print(sorted({m.partition('.')[0] for m in sys.modules}))"
    loaded = run(cwd=Path(), command=(sys.executable, "-c", code)).out
    assert "'dpcube'" in loaded
    for heavy in (
        "numpy",
        "numba",
        "pyarrow",
        "duckdb",
        "scipy",
        "sqlglot",
        "cryptography",
        "matplotlib",
        "plotly",
        "pandas",
    ):
        assert f"'{heavy}'" not in loaded


def test_help(tmp_path: Path) -> None:
    script = (str(Path(sys.executable).with_name("dpcube")),)
    shown = run("--help", cwd=tmp_path, command=script)
    assert (shown.code, shown.err) == (0, "")
    assert re.findall(r"^  (\w+)  +\w", shown.out.partition("Commands:")[2], re.MULTILINE) == sorted(VERBS)
    assert "\n  Try it:        dpcube demo\n" in shown.out  # not rewrapped
    assert "\\b" not in shown.out
    assert "\x08" not in shown.out
    alike = run_all((), ("-h",), *((verb, "--help") for verb in VERBS), cwd=tmp_path)
    assert [outcome.code for outcome in alike] == [0] * (2 + len(VERBS))
    assert [outcome.err for outcome in alike] == [""] * (2 + len(VERBS))
    assert alike[0].out == alike[1].out == shown.out
    assert [outcome.out.split()[:3] for outcome in alike[2:]] == [["Usage:", "dpcube", verb] for verb in VERBS]
    assert max(len(line) for outcome in alike for line in outcome.out.splitlines()) <= 100


def test_version(tmp_path: Path) -> None:
    assert run("--version", cwd=tmp_path).out == f"dpcube, version {__version__}\n"


# --- demo --------------------------------------------------------------------------------------------------------


def test_demo(tmp_path: Path) -> None:
    shown = run("demo", cwd=tmp_path)
    assert (shown.code, shown.err) == (0, "")
    assert re.search(r"^age between 30 and 39 +12,929 +1[23],\d{3} ", shown.out, re.MULTILINE)
    assert "dpcube count dpcube-demo/adult.dpcube" in shown.out
    again, asked = run_all(
        ("demo", "--json", "--epsilon", "2", "--strategy", "cells"),
        ("count", "dpcube-demo/adult-2.dpcube", "--json"),
        cwd=tmp_path,
    )
    told = again.json()
    assert isinstance(told, dict)
    assert told.keys() >= {"release", "report", "answers"}
    assert told["release"] == "dpcube-demo/adult-2.dpcube"  # a release never overwrites another
    truths = {answer["question"]: answer["truth"] for answer in told["answers"]}
    assert truths["age between 30 and 39"] == 12_929
    assert truths["age between 30 and 39 and sex = 'Female'"] == 3_853
    for answer in told["answers"]:
        assert answer["low"] <= answer["value"] <= answer["high"]
        assert answer["stderr"] > 0
        assert abs(answer["value"] - answer["truth"]) < 2_000
    assert abs(answers(asked)[""] - 48_842) < 2_000
    pages = sorted(path.name for path in (tmp_path / "dpcube-demo").iterdir())
    assert pages == ["adult-2.dpcube", "adult-2.html", "adult.dpcube", "adult.html"]
    page = (tmp_path / "dpcube-demo" / "adult.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "12,929" in page
    assert "http" not in page.replace("http://www.w3.org/", "")  # it stands alone


# --- drafting a domain -------------------------------------------------------------------------------------------


def values_in(draft: str, table: pa.Table) -> set[str]:
    """Values of the table that can be read in a draft: texts as they are, and any number but the format's."""
    texts = {
        value
        for column in table.columns
        if pa.types.is_string(column.type)
        for value in column.unique().to_pylist()
        if value
    }
    return {text for text in texts if text in draft} | set(re.findall(r"\d+", draft.replace("format = 1", "")))


def test_a_draft_of_the_bundled_table_holds_none_of_its_values(tmp_path: Path) -> None:
    table = datasets.adult_table()
    plain, looked = run_all(("domain", table), ("domain", table, "--from-data", "-o", "looked.toml"), cwd=tmp_path)
    assert (plain.code, plain.err) == (0, "")
    names = re.findall(r'^name = "(.*)"$', plain.out, re.MULTILINE)
    assert names == pq.read_schema(table).names
    assert values_in(plain.out, pq.read_table(table)) == set()
    # The check can fail: a draft that looked at the values is full of them, and says so.
    assert (looked.code, looked.changed) == (0, ("looked.toml",))
    drafted = (tmp_path / "looked.toml").read_text(encoding="utf-8")
    assert {"Never-married", "17", "90"} <= values_in(drafted, pq.read_table(table))
    assert "\ndrafted_from_data = true\n" in drafted


def test_a_draft_is_filled_in_and_released(clinic: Path) -> None:
    drafted, unfilled, looked, unsigned = run_all(
        ("domain", "clinic.csv", "-o", "draft.toml", "--columns", "ward, age"),
        ("release", "clinic.csv", "--domain", "draft.toml", *EXACT, "-o", "draft.dpcube"),
        ("domain", "clinic.csv", "-o", "looked.toml", "--from-data", "--columns", "ward"),
        ("release", "clinic.csv", "--domain", "looked.toml", *EXACT, "-o", "looked.dpcube"),
        cwd=clinic,
    )
    assert (drafted.code, drafted.err) == (0, "")
    assert drafted.out.startswith(
        "wrote draft.toml; edit it, then run: dpcube check clinic.csv --domain draft.toml (private"
    )
    assert drafted.out.endswith(", dpcube release clinic.csv --domain draft.toml --epsilon E -o R.dpcube\n")
    draft = (clinic / "draft.toml").read_text()
    assert values_in(draft, pq.read_table(clinic / "clinic.parquet")) == set()
    assert unfilled.err == "dpcube: draft.toml: attribute 'ward' of type category needs 'values'\n"
    assert (looked.code, unsigned.code) == (0, 2)
    assert "drafted from the private data" in unsigned.err
    assert 'signed_public_by = "your name"' in unsigned.err
    assert "wing" not in unsigned.err
    draft = draft.replace('# values = ["?", "?"]', 'values = ["north-wing"]')
    (clinic / "filled.toml").write_text(draft.replace("# min = ?", "min = 31").replace("# max = ?", "max = 99"))
    signed = (clinic / "looked.toml").read_text().replace('# signed_public_by = "?"', 'signed_public_by = "me"')
    (clinic / "signed.toml").write_text(signed)
    filled, by_hand, allowed, by_look = run_all(
        ("release", "clinic.csv", "--domain", "filled.toml", *EXACT, "-o", "filled.dpcube"),
        ("count", "filled.dpcube", "ward = 'north-wing' and age = 31", "--json"),
        ("release", "clinic.csv", "--domain", "signed.toml", *EXACT, "-o", "signed.dpcube"),
        ("count", "signed.dpcube", "ward = 'east-wing'", "ward = 'north-wing'", "--json"),
        cwd=clinic,
    )
    assert (filled.code, allowed.code) == (0, 0)
    assert list(answers(by_hand).values()) == [1]
    assert list(answers(by_look).values()) == [1, 3]


# --- release, info, count ----------------------------------------------------------------------------------------


def test_a_faulty_question_does_not_lose_the_others(clinic: Path, released: Path) -> None:
    questions = ("ward = 'north-wing'", "ward = 'nroth-wing'", "age = '30-39'", "agee > 3")
    in_words, as_json = run_all(("count", released, *questions), ("count", released, *questions, "--json"), cwd=clinic)
    assert [row.split("  ")[0] for row in in_words.out.splitlines()[1:]] == [questions[0], questions[2]]
    for ran in (in_words, as_json):
        assert ran.code == 2
        assert re.search("has no value 'nroth-wing'.*; there is no attribute 'agee'", ran.err)
        assert ran.err.count("\n") == 1
    told = json.loads(as_json.out)
    assert [sorted(set(each) & {"value", "error"}) for each in told] == [["value"], ["error"], ["value"], ["error"]]


def test_a_released_cube_answers(clinic: Path, released: Path) -> None:
    questions = ("", "ward = 'north-wing'", "ward is null", "age >= 50", "age between 30 and 39 and ward is not null")
    in_words, counted, told, facts = run_all(
        ("count", released, *questions[1:], "--confidence", "0.5"),
        ("count", released, *questions, "--json"),
        ("info", released),
        ("info", released, "--json"),
        cwd=clinic,
    )
    assert answers(counted) == dict(zip(questions, (6, 3, 1, 2, 2), strict=True))  # the row of "east-wing" is dropped
    shown = counted.json()
    assert isinstance(shown, list)
    fields = {"question": str, "value": float, "stderr": float, "nonuniformity": float, "low": float, "high": float}
    assert [{name: type(field) for name, field in answer.items()} for answer in shown] == [
        {**fields, "confidence": float, "cut": str, "modelled": bool}
    ] * 5
    assert {answer["cut"] for answer in shown} == {""}
    assert {answer["confidence"] for answer in shown} == {0.95}
    assert (in_words.code, in_words.err) == (0, "")
    header, *rows = in_words.out.splitlines()
    assert header.split() == ["question", "count", "noise", "nonuniformity", "50%", "interval"]
    assert [row.split("  ")[0] for row in rows] == list(questions[1:])
    assert re.search(r"3\.0  .* 3\.0 to 3\.0$", rows[0])
    about = facts.json()
    assert isinstance(about, dict)
    assert (about["private"], about["epsilon"], about["cells"], about["strategy"]) == (True, "50", 12, "cells")
    assert about["ledger"] is False
    assert re.fullmatch("[0-9a-f]{64}", about["digest"])
    assert about["attributes"] == [
        {
            "attribute": "ward",
            "type": "category",
            "cells": 3,
            "domain": "'north-wing', 'south-wing'",
            "irregular values": "null own cell, others dropped",
            "levels": ["ward"],
        },
        {
            "attribute": "age",
            "type": "integer",
            "cells": 4,
            "domain": "20 to 59",
            "irregular values": "outside clipped, others dropped",
            "levels": ["age"],
        },
    ]
    assert about["measured"] == [
        {"what": "every cell", "counts": 12, "share": 1.0, "noise": pytest.approx(0, abs=1e-9)}
    ]
    assert [row["question"] for row in about["standard_errors"]] == [
        "all rows",
        "a range at random",
        "one value of ward",
        "one value of age",
        "one cell",
    ]
    assert "every cell: 12 counts, each with 100.00% of epsilon" in told.out
    for name in about:
        tables = ("attributes", "measured", "standard_errors", "doubts")
        assert name in tables or re.search(f"^{name.replace('_', ' ')}( +|$)", told.out, re.MULTILINE)


def test_a_released_cube_answers_sql(clinic: Path, released: Path) -> None:
    query = "SELECT ward, count(*) AS n, avg(age) AS m FROM cube GROUP BY ward ORDER BY ward NULLS LAST"
    shown, told, listed, with_error, unknown, written = run_all(
        ("sql", released, query),
        ("sql", released, query, "--json"),
        ("sql", released, query, "--csv"),
        ("sql", released, "SELECT count(*) AS n FROM cube WHERE age >= 50", "--error", "--json"),
        ("sql", released, "SELECT avg(agee) FROM cube"),
        ("sql", released, "COPY (SELECT 1) TO 'stolen.csv'"),
        cwd=clinic,
    )
    assert told.json() == [
        {"ward": "north-wing", "n": 3.0, "m": pytest.approx((34.5 * 2 + 54.5) / 3)},
        {"ward": "south-wing", "n": 2.0, "m": pytest.approx((44.5 + 24.5) / 2)},
        {"ward": None, "n": 1.0, "m": pytest.approx(54.5)},
    ]
    assert shown.out.splitlines()[0].split() == ["ward", "n", "m"]
    assert shown.out.splitlines()[3].split() == ["-", "1", "54.500"]  # the digits that each column needs
    assert listed.out.splitlines()[0] == "ward,n,m"
    assert listed.out.splitlines()[3] == ",1.0,54.5"
    stated = with_error.json()
    assert isinstance(stated, list)
    assert list(stated[0]) == ["n", "n_stderr", "n_nonuniformity", "n_low", "n_high"]
    assert (unknown.code, unknown.err) == (2, "dpcube: there is no column 'agee'; did you mean 'age'?\n")
    assert (written.code, written.changed) == (2, ())
    assert written.err == "dpcube: a query starts with SELECT or WITH, got 'COPY'; a release is only read\n"


def test_names_in_a_release_cannot_steer_the_terminal(clinic: Path) -> None:
    name = "\x1b[2Jblank\nline \u202e"
    pq.write_table(pa.table({name: [33]}), clinic / "odd.parquet")
    (clinic / "odd.toml").write_text(AGES.replace('"age"', json.dumps(name)))
    made, shown, facts = run_all(
        ("release", "odd.parquet", "--domain", "odd.toml", *EXACT, "-o", "odd.dpcube"),
        ("info", "odd.dpcube"),
        ("info", "odd.dpcube", "--json"),
        cwd=clinic,
    )
    assert [outcome.code for outcome in (made, shown, facts)] == [0, 0, 0]
    assert shown.out.splitlines()[-1].startswith(r"\x1b[2Jblank\nline \u202e  integer  ")
    assert all(line.isprintable() for line in shown.out.splitlines())
    told = facts.json()
    assert isinstance(told, dict)
    assert told["attributes"][0]["attribute"] == name


def test_a_csv_file_is_read_as_declared(clinic: Path) -> None:
    (clinic / "bare.csv").write_text("31;north-wing\n47;NA\n52;-\n25;south-wing\n;north-wing\n")
    (clinic / "tabs.tsv").write_text("age\tward\n31\tnorth-wing\n47\t\n")
    (clinic / "bars.csv").write_text("age|ward\n31|north-wing\n47|south-wing\n")
    bare = ("--delimiter", ";", "--names", "age, ward", "--null-text", "NA", "--null-text", "-")
    question = ("ward is null", "ward = 'north-wing' and age between 30 and 39", "", "--json")
    drafted, *outcomes = run_all(
        ("domain", "bare.csv", *bare),
        ("release", "bare.csv", "--domain", "clinic.toml", *EXACT, "-o", "bare.dpcube", *bare),
        ("count", "bare.dpcube", *question),
        ("release", "tabs.tsv", "--domain", "clinic.toml", *EXACT, "-o", "tabs.dpcube"),
        ("count", "tabs.dpcube", *question),
        ("release", "tabs.tsv", "--domain", "clinic.toml", *EXACT, "-o", "tab2.dpcube", "--delimiter", "\\t"),
        ("count", "tab2.dpcube", *question),
        ("release", "bars.csv", "--domain", "clinic.toml", *EXACT, "-o", "bars.dpcube", "--delimiter", "|", "--json"),
        ("count", "bars.dpcube", *question),
        cwd=clinic,
    )
    assert re.findall(r'^name = "(.*)"$', drafted.out, re.MULTILINE) == ["age", "ward"]
    assert values_in(drafted.out, pq.read_table(clinic / "clinic.parquet")) == set()
    assert [outcome.err for outcome in outcomes] == [""] * 8
    counts = [list(answers(outcome).values()) for outcome in outcomes[1::2]]
    assert counts == [[2, 1, 4], [1, 1, 2], [1, 1, 2], [0, 1, 2]]
    told = outcomes[6].json()
    assert isinstance(told, dict)
    assert told == {"release": "bars.dpcube", "epsilon": "50", "digest": told["digest"], "ledger": False}


def test_an_empty_table_is_released_like_any_other(clinic: Path) -> None:
    pq.write_table(pa.table(CLINIC).slice(0, 0), clinic / "empty.parquet")
    (clinic / "empty.csv").write_text("ward,age\n")
    (clinic / "full.csv").write_text("ward,age\nnorth-wing,33\n")
    tables = ("empty.parquet", "empty.csv", "full.csv")
    *made, counted = run_all(
        *(("release", table, "--domain", "clinic.toml", *EXACT, "-o", f"{table}.dpcube") for table in tables),
        ("count", "empty.parquet.dpcube", "--json"),
        cwd=clinic,
    )
    said = [
        re.sub("digest [0-9a-f]+", "digest", outcome.out.replace(table, ""))
        for table, outcome in zip(tables, made, strict=True)
    ]
    assert [(outcome.code, outcome.err) for outcome in made] == [(0, "")] * 3
    assert said[0] == said[1] == said[2]
    assert answers(counted) == {"": 0}


def test_a_second_release_is_refused_by_the_ledger(clinic: Path) -> None:
    (clinic / "kept.csv").write_text("age\n33\n")
    spend = ("release", "kept.csv", "--domain", "ages.toml", "--epsilon", "0.5", "--even-if-empty", "-o")
    first, second, shown = run_all(
        (*spend, "kept.dpcube"), (*spend, "more.dpcube"), ("ledger", "kept.ledger"), cwd=clinic
    )
    assert (first.code, first.err) == (0, "")
    assert first.changed == ("kept.dpcube", "kept.ledger")
    assert (second.code, second.out, second.changed) == (1, "", ())
    assert re.fullmatch(r"dpcube: .*epsilon 1/2.*kept\.ledger.*\n", second.err)
    assert re.search(r"^left +0$", shown.out, re.MULTILINE)


def test_a_directory_and_its_patterns_are_one_table_with_one_ledger(tmp_path: Path) -> None:
    (tmp_path / "visits").mkdir()
    for name in ("a.tsv", "b.tsv"):
        (tmp_path / "visits" / name).write_text("age\tnote\n33\ta,b\n34\tx\n")
    (tmp_path / "ages.toml").write_text(AGES)
    spend = ("--domain", "ages.toml", "--epsilon", "50", "-o")
    drafted, made, again, counted, queried = run_all(
        ("domain", "visits"),
        ("release", "visits", *spend, "all.dpcube"),
        ("release", "visits/*.tsv", *spend, "more.dpcube"),
        ("count", "all.dpcube", "age = 33", "--json"),
        ("release", "visits", *spend, "q.dpcube", "--query", "SELECT 1", "--no-ledger"),
        cwd=tmp_path,
    )
    assert (drafted.code, drafted.out.count("[[attribute]]")) == (0, 2)
    assert (made.code, made.err, made.changed) == (0, "", ("all.dpcube", "visits.ledger"))
    assert (again.code, again.changed) == (1, ())
    assert "visits.ledger" in again.err
    assert answers(counted) == {"age = 33": 2}
    assert (queried.code, queried.changed) == (2, ())
    assert "query needs the address of a database" in queried.err


# --- bad input ---------------------------------------------------------------------------------------------------

ASK = ("release", "clinic.parquet", "--domain", "clinic.toml", "--epsilon", "1", "-o", "new.dpcube")


def ask(*changes: tuple[int, str]) -> tuple[str, ...]:
    """A good request for a release with some of its words changed."""
    words = list(ASK)
    for position, word in changes:
        words[position] = word
    return tuple(words)


TABLE, TOML, EPSILON, OUTPUT = 1, 3, 5, 7
RANGE = "is not between 0.000001 and 50; write a number from 0.000001 to 50"
BAD = {
    "no such table": (ask((TABLE, "none.parquet")), 2, "there is no file .*none.parquet"),
    "no such csv": (ask((TABLE, "none.csv")), 2, "there is no file .*none.csv"),
    "garbage": (ask((TABLE, "garbage.parquet")), 2, "garbage.parquet cannot be opened as a .parquet file; check that"),
    "cut short": (ask((TABLE, "cut.parquet")), 2, "cut.parquet cannot be opened as a .parquet file; check that"),
    "directory": (ask((TABLE, "directory.parquet")), 2, "there is no data file .*directory.parquet"),
    "extension": (
        ask((TABLE, "clinic.txt")),
        2,
        "clinic.txt has no known extension; allowed are .csv",
    ),
    "no such column": (
        ask((TOML, "wards.toml")),
        2,
        "clinic.parquet has no column 'wards'; its columns are 'ward', 'age', 'dose', 'seen'",
    ),
    "no such domain": (ask((TOML, "none.toml")), 2, "cannot read none.toml: No such file or directory"),
    "mistake in domain": (
        ask((TOML, "mistake.toml")),
        2,
        "mistake.toml: attribute 'age' of type integer has no key 'mxa'",
    ),
    "domain is a table": (ask((TOML, "clinic.parquet")), 2, "clinic.parquet is not text in UTF-8"),
    "domain is no toml": (ask((TOML, "clinic.csv")), 2, r"clinic.csv: not a TOML file: .* \(at line 1, column \d+\)"),
    "epsilon 0": (ask((EPSILON, "0")), 2, f"epsilon '0' {RANGE}"),
    "epsilon -1": (ask((EPSILON, "-1")), 2, f"epsilon '-1' {RANGE}"),
    "epsilon 1e9": (ask((EPSILON, "1e9")), 2, f"epsilon '1e9' {RANGE}"),
    "epsilon nan": (ask((EPSILON, "nan")), 2, "epsilon 'nan' cannot be read; write a number from 0.000001 to 50"),
    "epsilon abc": (ask((EPSILON, "abc")), 2, "epsilon 'abc' cannot be read; write a number from 0.000001 to 50"),
    "epsilon 1/0": (ask((EPSILON, "1/0")), 2, "epsilon '1/0' divides by zero; write a number from 0.000001 to 50"),
    "too large": (
        (*ask((TOML, "huge.toml")), "--strategy", "dpcube"),  # by default it would be a fine grid
        1,
        r"the domain has 1,000,000,000,000,000 cells, which may take [\d,]+ TB of memory; about [\d,]+ cells fit here"
        r"\. Make it [\d,]+ times smaller: leave attributes out, or use wider bins, for example of 'b' \(100,000,000 ",
    ),
    "output exists": (
        ask((OUTPUT, "clinic.dpcube")),
        2,
        "clinic.dpcube exists, and a release never overwrites a file; choose",
    ),
    "no directory": (
        ask((OUTPUT, "no/new.dpcube")),
        2,
        "cannot write no/new.dpcube: no is not a directory that can be",
    ),
    "file, not directory": (
        ask((OUTPUT, "clinic.csv/x.dpcube")),
        2,
        "cannot write clinic.csv/x.dpcube: clinic.csv is not a directory",
    ),
    "strategy": (
        (*ASK, "--strategy", "magic"),
        2,
        "there is no strategy 'magic'; the strategies are 'adaptive', 'dpcube', 'cells'",
    ),
    "queries": (
        (*ASK, "--queries", "everything"),
        2,
        "queries must be among mixed, ranges, prefixes, short, groups, got 'ever",
    ),
    "queries of some": ((*ASK, "--queries", "groups,ranges,short"), 2, "one kind, or one for each of 2 attributes"),
    "queries of cells": (
        (*ASK, "--strategy", "cells", "--queries", "short"),
        2,
        "--queries, --questions and --target are options of the strategy adaptive",
    ),
    "questions in no file": ((*ASK, "--questions", "none.txt"), 2, "cannot read none.txt: No such file or directory"),
    "no questions": ((*ASK, "--questions", "empty.dpcube"), 2, "empty.dpcube has no questions; write one per line"),
    "questions and queries": (
        (*ASK, "--questions", "questions.txt", "--queries", "short"),
        2,
        "give kinds of queries, or a list of questions, not both",
    ),
    "question about nothing": (
        (*ASK, "--questions", "wrong.txt"),
        2,
        "there is no attribute 'agee'; the attributes are 'ward', 'age'",
    ),
    "delimiter": (
        (*ASK, "--delimiter", ";;"),
        2,
        "the delimiter of a CSV dialect must be one ASCII character .*got ';;'",
    ),
    "ledger and none": ((*ASK, "--ledger", "l", "--no-ledger"), 2, "--no-ledger cannot be combined with --ledger or"),
    "a release named as a table": ((*ASK[:-1], "new.csv"), 2, "'new.csv' does not end in it; name it new.dpcube"),
    "no domain given": (ASK[:2], 2, r"Missing option '--domain' \(see dpcube release --help\)"),
    "no table given": (("release",), 2, r"Missing argument 'TABLE' \(see dpcube release --help\)"),
    "verb": (("relase",), 2, r"No such command 'relase'.* \(see dpcube --help\)"),
    "option": (("--frob",), 2, r"No such option '--frob' \(see dpcube --help\)"),
    "option of a verb": (("count", "x", "--jsn"), 2, r"No such option '--jsn'.* \(see dpcube count --help\)"),
    "draft of nothing": (("domain", "none.csv"), 2, "there is no file .*none.csv"),
    "draft over a file": (("domain", "clinic.csv", "-o", "clinic.toml"), 2, "clinic.toml exists; choose another name"),
    "draft in no directory": (
        ("domain", "clinic.csv", "-o", "no/d.toml"),
        2,
        "cannot write no/d.toml: No such file or",
    ),
    "draft of no column": (
        ("domain", "clinic.csv", "--columns", "age,nope"),
        2,
        "has no column 'nope'; its columns are 'ward', 'age', 'dose', 'seen'; name each attribute",
    ),
    "demo epsilon": (("demo", "--epsilon", "0"), 2, f"epsilon '0' {RANGE}"),
    "demo into a file": (("demo", "-o", "clinic.csv"), 2, "'clinic.csv' is a file"),
    "demo strategy": (
        ("demo", "--strategy", "magic"),
        2,
        "there is no strategy 'magic'; the strategies are 'adaptive', 'dp",
    ),
    "no release": (("info", "none.dpcube"), 2, "cannot read none.dpcube: No such file or directory"),
    "release is a directory": (("info", "directory.parquet"), 2, "cannot read directory.parquet: Is a directory"),
    "release is no zip": (
        ("count", "clinic.csv"),
        2,
        "cannot read clinic.csv: .*not a .dpcube file; ask its publisher",
    ),
    "release is another zip": (
        ("info", "other.dpcube"),
        2,
        "cannot read other.dpcube: .*; ask its publisher for a fresh",
    ),
    "release is empty": (
        ("info", "empty.dpcube"),
        2,
        "cannot read empty.dpcube: .*; ask its publisher for a fresh copy",
    ),
    "release is cut": (("info", "cut.dpcube"), 2, "cannot read cut.dpcube: .*; ask its publisher for a fresh copy"),
    "release is damaged": (
        ("count", "bent.dpcube"),
        2,
        "cannot read bent.dpcube: .*; ask its publisher for a fresh copy",
    ),
    "outside the domain": (
        ("count", "clinic.dpcube", "age > 59"),
        2,
        "attribute 'age' has no values above 59; its domain is 20 to 59",
    ),
    "no such attribute": (
        ("count", "clinic.dpcube", "agee > 5"),
        2,
        "there is no attribute 'agee'; the attributes are 'ward', 'age'",
    ),
    "no such value": (
        ("count", "clinic.dpcube", "ward = 'west'"),
        2,
        r"attribute 'ward' has no value 'west'; its values are 'north-wing', 'south-wing', '\(null\)'",
    ),
    "both of two questions": (
        ("count", "clinic.dpcube", "age = ", "age ="),
        2,
        "expected a number, or text in single",
    ),
    "steering the terminal": (
        ("count", "clinic.dpcube", "`\x1b[31m\nred` = 1"),
        2,
        r"there is no attribute '\\x1b\[31m red'; the attributes are 'ward', 'age'",
    ),
    "or across attributes": (
        ("count", "clinic.dpcube", "age = 30 or ward is null"),
        2,
        "'or' must be of one attribute, here it is of age, ward; ask two questions",
    ),
    "confidence": (("count", "clinic.dpcube", "--confidence", "1"), 2, "confidence must be between 0 and 1, got 1.0"),
    "confidence in words": (("count", "clinic.dpcube", "--confidence", "x"), 2, "'x' is not a valid float"),
    "estimate": (
        ("count", "clinic.dpcube", "--estimate", "x"),
        2,
        "there is no estimate 'x'; this release has 'cells'",
    ),
    "estimate of boxes": (
        ("count", "clinic.dpcube", "--estimate", "uniform"),
        2,
        "the estimate 'uniform' cannot be had: this release has no counts of boxes; it has 'cells'",
    ),
    "no such ledger": (("ledger", "none.ledger"), 1, "there is no ledger at none.ledger"),
}


@pytest.fixture(scope="module")
def refusals(clinic: Path, released: Path) -> dict[str, Outcome]:
    """What came of each bad request."""
    whole = released.read_bytes()
    (clinic / "wards.toml").write_text(DOMAIN.replace('"ward"', '"wards"'))
    (clinic / "mistake.toml").write_text(AGES + "mxa = 5\n")
    sizes = {"a": 10**7, "b": 10**8}
    (clinic / "huge.toml").write_text(
        "".join(AGES.replace("age", name).replace("99", str(size - 1)) for name, size in sizes.items())
    )
    (clinic / "empty.dpcube").write_bytes(b"")
    (clinic / "questions.txt").write_text("# asked every month\n\nage >= 40\n")
    (clinic / "wrong.txt").write_text("agee >= 40\n")
    (clinic / "cut.dpcube").write_bytes(whole[: len(whole) // 2])
    middle = len(whole) // 2
    (clinic / "bent.dpcube").write_bytes(whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :])
    (clinic / "other.dpcube").write_bytes(b"PK\x05\x06" + bytes(18))
    outcomes = run_all(*(arguments for arguments, _, _ in BAD.values()), cwd=clinic)
    return dict(zip(BAD, outcomes, strict=True))


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_line_and_leaves_nothing(refusals: dict[str, Outcome], case: str, clinic: Path) -> None:
    _, code, message = BAD[case]
    outcome = refusals[case]
    assert (outcome.code, outcome.out, outcome.changed) == (code, "", ())
    assert re.match(f"dpcube: .*{message}", outcome.err)
    assert outcome.err.count("\n") == 1
    assert outcome.err.endswith("\n")
    assert outcome.err.rstrip("\n").isprintable()
    for secret in ("203", "0.125", "east-wing", "2025-03", "Traceback", "internal error"):
        assert secret not in outcome.err.replace(str(clinic), "")  # a directory's name may hold any digits


@pytest.mark.parametrize("case", ["epsilon -1", "too large", "release is cut"])
def test_bad_input_in_a_process_of_its_own(clinic: Path, refusals: dict[str, Outcome], case: str) -> None:
    before = sorted(clinic.rglob("*"))
    outcome = run(*BAD[case][0], cwd=clinic)
    again = refusals[case]
    as_said = re.sub(r"[\d,]+ (cells fit|times)", r"N \1", outcome.err)  # memory comes and goes
    assert (outcome.code, outcome.out) == (again.code, again.out)
    assert as_said == re.sub(r"[\d,]+ (cells fit|times)", r"N \1", again.err)
    assert sorted(clinic.rglob("*")) == before


def test_a_file_cut_anywhere_is_refused_in_one_line(clinic: Path, released: Path) -> None:
    whole = released.read_bytes()
    lengths = [*range(1, len(whole), len(whole) // 30), len(whole) - 1]
    for length in lengths:
        (clinic / f"cut-{length}.dpcube").write_bytes(whole[:length])
    for length, outcome in zip(
        lengths, run_all(*(("info", f"cut-{length}.dpcube") for length in lengths), cwd=clinic), strict=True
    ):
        assert (outcome.code, outcome.out) == (2, "")
        assert re.fullmatch(
            rf"dpcube: cannot read cut-{length}\.dpcube: .*; ask its publisher for a fresh copy\n", outcome.err
        )


def test_a_reader_that_goes_away_is_no_error_to_report(clinic: Path, released: Path) -> None:
    end, start = os.pipe()
    os.close(end)
    with os.fdopen(start, "wb") as gone:
        done = subprocess.run(
            [sys.executable, "-m", "dpcube", "info", released],
            cwd=clinic,
            stdout=gone,
            stderr=subprocess.PIPE,
            timeout=600,
        )
    assert done.returncode == 1
    assert done.stderr == b""


# --- interruptions -----------------------------------------------------------------------------------------------

INTERRUPTED_WHILE_WRITING = """
import os, signal
from dpcube.cli import main

def interrupt(descriptor):
    print([path for path in os.listdir() if path.endswith(".part")])
    os.kill(os.getpid(), signal.SIGINT)

os.fsync = interrupt
main()
"""


def test_an_interruption_while_writing_leaves_no_part_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("age\n33\n")
    (tmp_path / "ages.toml").write_text(AGES)
    arguments = ("release", "t.csv", "--domain", "ages.toml", *EXACT, "-o", "t.dpcube")
    stopped = run(*arguments, cwd=tmp_path, command=(sys.executable, "-c", INTERRUPTED_WHILE_WRITING))
    assert re.fullmatch(r"\['\.[^ ]*\.part'\]\n", stopped.out)  # there was one
    assert (stopped.code, stopped.err.strip()) == (130, "dpcube: interrupted; no output file is incomplete")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ages.toml", "t.csv"]


ENDLESS = """
import time
from dataclasses import dataclass
from dpcube.strategies.cells import Cells

@dataclass(frozen=True, slots=True, kw_only=True)
class Endless(Cells):
    def run(self, counter):
        time.sleep(3600)
"""


def test_an_interruption_at_work_on_a_terminal(tmp_path: Path) -> None:
    """However late it comes: the strategy is at work until then."""
    (tmp_path / "t.csv").write_text("age\n33\n")
    (tmp_path / "ages.toml").write_text(AGES)
    (tmp_path / "endless.py").write_text(ENDLESS)
    terminal, theirs = pty.openpty()
    arguments = ["release", "t.csv", "--domain", "ages.toml", "--epsilon", "1", "--no-ledger", "-o", "t.dpcube"]
    arguments += ["--strategy", "endless:Endless", "--even-if-empty"]
    with subprocess.Popen(
        [sys.executable, "-m", "dpcube", *arguments], cwd=tmp_path, stdout=subprocess.PIPE, stderr=theirs
    ) as process:
        os.close(theirs)
        said = b""
        while b"measuring" not in said:
            said += os.read(terminal, 1000)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=600) == 130
        with suppress(OSError):  # which is how a terminal ends
            while more := os.read(terminal, 1000):
                said += more
        assert process.stdout is not None
        assert process.stdout.read() == b""
    os.close(terminal)
    assert b"counting the rows ..." in said  # progress is shown on a terminal
    assert said.endswith(b"dpcube: interrupted; no output file is incomplete\r\n")
    assert b"Traceback" not in said
    left = sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__")
    assert left == ["ages.toml", "endless.py", "t.csv"]
