"""Plain words stay plain: a public name has one home, and the kind of an attribute is asked where kinds live."""

import ast
import re
from collections.abc import Iterator

import house
import pytest

from dpcube.strategies.registry import GROUP


def test_hardly_a_public_name_has_two_homes() -> None:
    found = house.two_homes()
    assert len(found) <= 3, found


def test_the_kind_of_an_attribute_is_hardly_asked_outside_domain() -> None:
    assert house.kinds_asked() <= 4


def test_a_second_home_and_a_question_of_kind_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: modules that have what the tests above look for."""
    monkeypatch.setattr(house, "modules", lambda: {f"{name}.py": ast.parse(TEXT) for name in "ab"})
    assert house.two_homes() == {name: ["a", "b"] for name in ("Box", "LIMIT", "grow")}
    assert house.kinds_asked() == 2
    monkeypatch.setattr(house, "modules", lambda: {"core/domain/a.py": ast.parse(TEXT)})
    assert (house.two_homes(), house.kinds_asked()) == ({}, 0)


def missing_modules(page: str) -> list[str]:
    """The modules that a page names, by their path or its end, and that are not there."""
    there = {f"/{path}" for path in house.modules()}
    named = re.findall(r"`([a-z_/]+\.py)`", page)
    return [name for name in named if not any(path.endswith(f"/{name}") for path in there)]


def test_the_page_on_the_architecture_names_modules_that_are_there() -> None:
    page = (house.ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert len(re.findall(r"\.py`", page)) > 40
    assert missing_modules(page) == []
    assert missing_modules("`gate.py`, `privacy/gate.py`, `ate.py`") == ["privacy/gate.py", "ate.py"]


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Every text that stands by itself: docstrings of modules, classes and functions, and those below constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def missing_packages(text: str) -> list[str]:
    """The names `dpcube.a...` in backquotes of which not even `dpcube/a` is there; a group of entry points is none."""
    there = {path.removesuffix(".py").partition("/")[0] for path in house.modules()}
    named = re.findall(r"`dpcube\.(\w+)[\w.]*`", text)
    return [f"dpcube.{name}" for name in named if name not in there and f"dpcube.{name}" != GROUP]


def test_docstrings_name_modules_that_are_there() -> None:
    """`posterior/probes.py` pointed to a module that was gone, and `sources/rows.py` to one that never was."""
    texts = {path: " ".join(docstrings(tree)) for path, tree in house.modules().items()}
    assert sum(len(re.findall(r"\.py`", text)) for text in texts.values()) > 150
    missing = {path: missing_modules(text) + missing_packages(text) for path, text in texts.items()}
    assert {path: names for path, names in missing.items() if names} == {}
    assert missing_modules("(`doubts.py`)") == ["doubts.py"]
    assert missing_packages("`dpcube.noise.law`, `dpcube.nose`, `dpcube.strategies`") == ["dpcube.nose"]


TEXT = """
LIMIT: int = 3
_own = 4
class Box: ...
def grow(x): return isinstance(x, Integer)
@click.command
def plan(): ...
"""
