"""Mistakes that new users made in names, files and options: each message says what was meant, or where it is wrong."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dpcube import Category, Domain, DomainError, Integer, QueryError, Release, evaluate
from dpcube.cli import commands
from dpcube.core.domain.text import spelling_hint
from dpcube.core.errors import InputError
from dpcube.core.limits import MAX_SPELLING_WORDS
from dpcube.queries import query
from dpcube.release.export import write_table
from dpcube.testing import SeededNoise

DOMAIN = Domain(Integer("age", 0, 9), Category("region", ["north", "south", "East"]))
TEXT = """format = 1
[[attribute]]
name = "age"
type = "integer"
min = 0
max = 9
"""


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("agee = 3", r"no attribute 'agee'; the attributes are .*; did you mean 'age'\?$"),
        ("region = 'nroth'", r"no value 'nroth'; its values are 'north', 'south', 'East'; did you mean 'north'\?$"),
        ("region = 'east'", r"no value 'east'; .*; did you mean 'East'\?$"),
        ("region = 'qqq'", r"no value 'qqq'; its values are 'north', 'south', 'East'$"),
        ("height = 3", r"no attribute 'height'; the attributes are 'age', 'region'$"),
    ],
)
def test_a_question_says_what_may_be_meant(question: str, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        query(DOMAIN, question)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("max = 9", "mxa = 9", r"no key 'mxa'; its keys are .*; did you mean 'max'\?$"),
        ("[[attribute]]", "[[atribute]]", r"no key 'atribute'; .*; did you mean 'attribute'\?$"),
        # The line itself is not shown: the file may be the table, given as the domain by mistake.
        ("max = 9", "max = 9.9.9", r"^not a TOML file: [^9]* \(at line 6, column \d+\)$"),
    ],
)
def test_a_domain_file_says_which_word_or_line_is_wrong(old: str, new: str, said: str) -> None:
    with pytest.raises(DomainError, match=said):
        Domain.loads(TEXT.replace(old, new))


def test_hints_are_of_few_words_and_of_text() -> None:
    many = [f"value {number}" for number in range(MAX_SPELLING_WORDS + 1)]
    assert spelling_hint("valeu 7", many) == ""
    assert spelling_hint("valeu 7", many[:10]) == "; did you mean 'value 7'?"
    assert spelling_hint(7, ["7"]) == ""
    assert spelling_hint("x", []) == ""


@pytest.fixture(scope="module")
def release() -> Release:
    made = evaluate.experiment(np.full(DOMAIN.shape, 9), epsilon=1, strategy="cells", noise=SeededNoise(1))
    return Release(DOMAIN, made.transcript, made.provenance)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT medain(age) FROM cube", r"is not supported; .*; did you mean 'median'\?$"),
        ("SELECT rnk() OVER (ORDER BY count(*)) FROM cube", r"did you mean 'rank'"),
        ("SELECT xyzzy(age) FROM cube", r"is not supported; supported are"),
        ('SELECT count(*) FROM cube WHERE region = "qqq"', "text is written in single quotes: 'qqq'"),
    ],
)
def test_sql_says_what_may_be_meant(release: Release, text: str, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        release.sql(text)


def test_a_full_disk_is_told_in_its_own_words(
    release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "Error writing bytes to file. Detail: [errno 28] No space left on device")

    monkeypatch.setitem(write_table.__globals__["WRITERS"], ".csv", full)
    with pytest.raises(InputError, match=r"cannot write \S+rows.csv: No space left on device$"):
        write_table(release.synthesize_batches(5, 1), tmp_path / "rows.csv")


def test_no_line_of_the_help_is_cut() -> None:
    told = CliRunner().invoke(commands, ["--help"]).output.partition("Commands:")[2]
    assert told
    assert "..." not in told


INTERRUPTED = """
import sys, dpcube.cli
def interrupted(**_):
    dpcube.cli.output.stage(given[2])
    sys.argv += ["--no-ledger"] if len(given) > 3 else []
    raise KeyboardInterrupt
command = dpcube.cli.verbs.VERBS[sys.argv[1]].command()
command.callback, command.params = interrupted, []
sys.argv, given = sys.argv[:2], sys.argv
dpcube.cli.main()
"""


@pytest.mark.parametrize("words", ["measuring", "counting the rows", "measuring --no-ledger"])
def test_an_interrupted_release_says_that_a_charge_stays(words: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED, "release", *words.split(" --")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr.strip().startswith("dpcube: interrupted; no output file is incomplete")
    assert ("stays spent: dpcube ledger" in done.stderr) == (words == "measuring")
