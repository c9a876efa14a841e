"""What the README and the reference of strategies list is what there is, and the README is short."""

import re
import shlex
import tomllib
from pathlib import Path

import walkthrough

from dpcube.models.estimators import ESTIMATORS
from dpcube.research.rivals.registry import LISTED
from dpcube.strategies import DEFAULT
from dpcube.strategies.registry import BY_NAME, NOT_COMPARED, RIVALS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
NUMBERS = {15: "fifteen", 16: "sixteen", 17: "seventeen", 18: "eighteen"}
INDEX = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
STRATEGIES = (ROOT / "docs" / "reference" / "strategies.md").read_text(encoding="utf-8")


def listed(what: str) -> list[str]:
    """The names in the first column of a table, what is in parentheses left out."""
    table = STRATEGIES.partition(f"| {what} |")[2].partition("\n\n")[0]
    firsts = [re.sub(r"\(.*?\)", "", row.split("|")[1]) for row in table.splitlines()[2:]]
    return [name for first in firsts for name in re.findall(r"`(\w+)`", first)]


def test_every_strategy_and_estimate_is_listed_and_no_other() -> None:
    assert sorted(listed("strategy")) == sorted([*BY_NAME, *NOT_COMPARED, *RIVALS])
    assert sorted(listed("estimate")) == sorted(one.name for one in ESTIMATORS)
    assert f"| `{DEFAULT}` (default) |" in STRATEGIES


def test_as_many_methods_are_compared_as_it_says() -> None:
    assert f"beside {NUMBERS[len(LISTED) - 1]} other methods" in STRATEGIES


def test_it_is_one_screen_and_a_half() -> None:
    assert len(README.splitlines()) <= 110
    assert "|---" not in README  # tables are pages


def test_its_commands_of_make_are_targets() -> None:
    named = set(re.findall(r"^\$ make (\w+)|`make (\w+)`", README + STRATEGIES, flags=re.MULTILINE))
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert {"demo", "test"} <= {one or other for one, other in named} <= targets


def test_its_commands_have_the_options_they_are_given() -> None:
    """Those on the file in `notebooks/` are run by tests/integration/test_docs.py, with what they print."""
    lines = re.findall(r"^\$ (dpcube [^#\n]*)", README + INDEX, flags=re.MULTILINE)
    assert len(lines) >= 10
    for line in lines:
        walkthrough.check_options(shlex.split(line))


def test_its_extras_are_there() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = set(re.findall(r"`(\w+)`", INDEX.partition("Extras add")[2].partition("For example")[0]))
    assert len(named) >= 5
    assert named <= set(extras)
