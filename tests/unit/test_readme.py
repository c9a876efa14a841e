"""What the README lists is what there is."""

import re
from pathlib import Path

from dpcube.models.estimators import ESTIMATORS
from dpcube.research.rivals.registry import LISTED
from dpcube.strategies import DEFAULT
from dpcube.strategies.registry import BY_NAME, NOT_COMPARED, RIVALS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
NUMBERS = {15: "fifteen", 16: "sixteen", 17: "seventeen", 18: "eighteen"}


def listed(what: str) -> list[str]:
    """The names in the first column of a table, what is in parentheses left out."""
    table = README.partition(f"| {what} |")[2].partition("\n\n")[0]
    firsts = [re.sub(r"\(.*?\)", "", row.split("|")[1]) for row in table.splitlines()[2:]]
    return [name for first in firsts for name in re.findall(r"`(\w+)`", first)]


def test_every_strategy_and_estimate_is_listed_and_no_other() -> None:
    assert sorted(listed("strategy")) == sorted([*BY_NAME, *NOT_COMPARED, *RIVALS])
    assert sorted(listed("estimate")) == sorted(one.name for one in ESTIMATORS)
    assert f"| `{DEFAULT}` (default) |" in README


def test_as_many_methods_are_compared_as_it_says() -> None:
    assert f"beside {NUMBERS[len(LISTED) - 1]} other methods" in README


def test_its_commands_of_make_are_targets() -> None:
    named = set(re.findall(r"^\$ make (\w+)|`make (\w+)`", README, flags=re.MULTILINE))
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert {"demo", "test"} <= {one or other for one, other in named} <= targets
