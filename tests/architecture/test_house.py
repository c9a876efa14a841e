"""Plain words stay plain: a public name has one home, and the kind of an attribute is asked where kinds live."""

import ast
from pathlib import Path

import house
import pytest


def test_hardly_a_public_name_has_two_homes() -> None:
    found = house.two_homes()
    assert len(found) <= 3, found


def test_the_kind_of_an_attribute_is_hardly_asked_outside_domain() -> None:
    assert house.kinds_asked() <= 4


def test_a_second_home_and_a_question_of_kind_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: modules that have what the tests above look for."""
    monkeypatch.setattr(house, "modules", lambda: {house.SOURCE / f"{name}.py": ast.parse(TEXT) for name in "ab"})
    assert house.two_homes() == {name: ["a", "b"] for name in ("Box", "LIMIT", "grow")}
    assert house.kinds_asked() == 2
    monkeypatch.setattr(house, "modules", lambda: {Path(house.SOURCE / "domain" / "a.py"): ast.parse(TEXT)})
    assert (house.two_homes(), house.kinds_asked()) == ({}, 0)


TEXT = """
LIMIT: int = 3
_own = 4
class Box: ...
def grow(x): return isinstance(x, Integer)
@click.command
def plan(): ...
"""
