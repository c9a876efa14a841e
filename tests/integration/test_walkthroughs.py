"""Tutorials and guides are walked through: every block runs, and commands print what the pages print, but for noise."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
import walkthrough

import forked
from dpcube import Domain
from nightly import at_night

DOCS = walkthrough.ROOT / "docs"
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))
ELSEWHERE = ("olap", "synthetic-rows", "strategies", "learnt-domains")
"""Guides that test_docs and test_strategies_doc run, and one of which the options are checked below."""
LONG = ("plots", "wide-tables")
"""Guides whose commands take long; their kinds of commands are run by test_plot_cli and test_examples, too."""
GUIDES = [
    at_night(page) if page.stem in LONG else page
    for page in sorted((DOCS / "guides").glob("*.md"))
    if page.stem not in ELSEWHERE
]


def run(words: list[str], folder: Path) -> tuple[int, str]:
    """Run a command: one of dpcube in a process that need not import everything again."""
    if words[0] != "dpcube" or words[1] == "check":
        return walkthrough.in_processes(words, folder)
    done = forked.dpcube(*words[1:], cwd=folder)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the curator's tutorial, with which guides go on."""
    folder = tmp_path_factory.mktemp("prepared")
    walkthrough.prepare(folder, run=run)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_tutorials_print_what_they_say(page: Path, tmp_path: Path) -> None:
    """`python tools/walkthrough.py --write PAGE` makes the outputs anew."""
    _, walk = walkthrough.walked(page, run=run, folder=tmp_path)
    assert walk.commands >= 5
    assert "\n\n".join(walk.differences) == ""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated")  # by RDFLib, of mlcroissant's own use
@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_guides_print_what_they_say(page: Path, prepared: Path, tmp_path: Path) -> None:
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    _, walk = walkthrough.walked(page, run=run, folder=tmp_path)
    assert walk.commands >= 1
    assert "\n\n".join(walk.differences) == ""


def test_the_domain_file_of_the_reference_is_one(tmp_path: Path) -> None:
    walkthrough.walked(DOCS / "reference" / "domain-file.md", run=run, folder=tmp_path)
    assert Domain.load(tmp_path / "domain.toml").names == ("age", "sex", "admitted")


def test_the_commands_of_learnt_domains_have_the_options_they_are_given() -> None:
    """They would learn `visits.csv` twice; tests/unit/test_learnt_domain.py runs what they do."""
    page = (DOCS / "guides" / "learnt-domains.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\$ (dpcube .*)$", page, flags=re.MULTILINE)
    assert len(lines) >= 3
    for line in lines:
        walkthrough.check_options(shlex.split(line))


def test_what_is_printed_is_compared_but_for_numbers() -> None:
    printed = ["question      count", "all         4,002.2", "...", "wrote x.csv: ..."]
    assert walkthrough.agrees(printed, ["question   count", "all   -3.1", "more", "wrote x.csv: 5 rows"])
    assert not walkthrough.agrees(printed, ["question   count", "none   -3.1", "wrote x.csv: 5 rows"])
    assert not walkthrough.agrees(printed[:2], ["question   count"])
    assert not walkthrough.agrees(["private  yes"], ["private  no"])


def test_a_page_that_is_wrong_is_noticed(tmp_path: Path) -> None:
    """Another output, a command that fails, one that does not fail, and an option that is not there."""
    answers = {"a": (0, "one\n"), "b": (1, "dpcube: no\n"), "c": (0, "")}
    page = tmp_path / "page.md"
    page.write_text("```console\n$ a\none\n$ a\ntwo\n$ b\n$ b\ndpcube: no\n$ c\ndpcube: no\n```\n", encoding="utf-8")
    text, walk = walkthrough.walked(page, run=lambda words, _: answers[words[0]], folder=tmp_path)
    assert [difference.splitlines()[0] for difference in walk.differences] == ["$ a", "$ b", "$ c", "$ c"]
    assert "$ a\none\n$ a\none\n" in text
    page.write_text("```console\n$ dpcube studio visits.csv --nothing\n```\n", encoding="utf-8")
    with pytest.raises(Exception, match="No such option"):
        walkthrough.walked(page, folder=tmp_path)
