"""Commands that are shown to be pasted: a real shell reads the words that were meant, and does nothing else."""

import ast
import subprocess
from fractions import Fraction
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcube import Release
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.domain import Attribute, Category, Date, Domain, Float, Integer
from dpcube.measurements import Marginal, Provenance, Transcript
from dpcube.queries import query
from dpcube.release.pasteable import MAX_QUESTION_LENGTH, example_question, file_word, shell_word
from dpcube.release.report import report

ODD = "abz09 -_.'\"$`\\!(){}[]<>|&;*?~#%=,\t\n\x1b\x7fäß€\u202e\U0001f600"
NASTY = (
    "x $(touch f)",
    "`touch f`",
    "a'b",
    'a"b',
    "'; touch f; '",
    "$'\\x41'",
    "!!",
    "-rf",
    "a\nb",
    "\x1b[2J",
    "and",
    "",
)


def read_by_bash(line: str, cwd: Path) -> list[str]:
    """Return the words of a command line as a shell hands them over."""
    done = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {line}"], cwd=cwd, capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
    )
    return done.stdout.decode().split("\0")[:-1]


def test_a_shell_reads_every_word_as_it_was(tmp_path: Path) -> None:
    words = [text for text in NASTY if text]
    assert read_by_bash(" ".join(map(shell_word, words)), tmp_path) == words
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=20)
@given(st.lists(st.text(ODD, min_size=1, max_size=12), min_size=1, max_size=30))
def test_a_shell_reads_any_words_as_they_were(words: list[str]) -> None:
    assert read_by_bash(" ".join(map(shell_word, words)), Path("/")) == words


def test_no_file_is_taken_for_an_option() -> None:
    assert file_word(Path("-o")) == "./-o"
    assert file_word(Path("a/-o")) == "a/-o"


def attributes(name: str) -> st.SearchStrategy[Attribute]:
    listed = st.lists(st.text(ODD, min_size=1, max_size=20).filter(str.strip), min_size=1, max_size=3, unique=True)
    return st.one_of(
        listed.map(lambda values: Category(name, values)),
        st.just(Integer(name, -5, 9)),
        st.just(Float(name, -0.25, 1e-7, width=0.1)),
        st.just(Date(name, "2026-02-01", "2026-03-31", every="month")),
    )


@given(
    st.one_of(
        st.sampled_from([n for n in NASTY if n]), st.text(ODD, min_size=1, max_size=20).filter(str.strip)
    ).flatmap(attributes)
)
def test_the_example_is_a_question_that_counts_something(attribute: Attribute) -> None:
    domain = Domain(attribute)
    assert query(domain, example_question(domain)).weights[0].any()


def test_a_name_too_long_for_an_example_is_passed_over() -> None:
    long, short = Integer("n" * MAX_QUESTION_LENGTH, 0, 9), Integer("age", 0, 9)
    assert example_question(Domain(long, short)) == "age >= 0"
    assert example_question(Domain(long)) == ""


def release_of(domain: Domain) -> Release:
    cells = Marginal.from_cells(np.array([3, 5]), BUDGET_UNITS)
    transcript = Transcript(domain.shape, Fraction(1, BUDGET_UNITS), (cells,))
    return Release(domain, transcript, Provenance("cells", Fraction(1), "dpcube test", {}, private=False))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NASTY if name])
def test_the_report_s_command_asks_its_question_and_runs_nothing(name: str, tmp_path: Path) -> None:
    release = release_of(Domain(Category(name, ["it's", "b"])))
    page = report(release)
    line = unescape(page.partition("<code>dpcube count FILE ")[2].partition("</code>")[0])
    (question,) = read_by_bash(line, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert release.count(question) == release.count({name: "it's"})
    python = unescape(page.partition("<code>dpcube.open(FILE).count(")[2].partition(")</code>")[0])
    assert ast.literal_eval(python) == question
