"""The scripts of examples/ run at small size, and show what they say."""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpcube import Release

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> Callable[..., Any]:
    """Return the main function of an example."""
    found: Callable[..., Any] = runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]
    return found


@pytest.mark.slow
def test_hospital_visits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release: Release = example("hospital_visits")(4000, tmp_path)
    assert release.domain.names == ("period", "age", "ward")
    assert "epsilon spent on each patient: 1 of 2" in capsys.readouterr().out
    assert release.provenance.unit is not None


@pytest.mark.slow
def test_points_on_a_map(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release: Release = example("points_on_a_map")(20_000, tmp_path)
    assert release.domain.size == 1_200_000_000
    assert "shops near the capital" in capsys.readouterr().out
    assert release.count("lon between 14 and 15 and lat between 47.8 and 48.8").value == pytest.approx(12_600, abs=600)


@pytest.mark.slow
def test_census(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release: Release = example("census")(5000, tmp_path)
    assert release.count().value == pytest.approx(5000, abs=400)
    assert "of the rows are classified rightly" in capsys.readouterr().out


@pytest.mark.slow
def test_wide_survey(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release: Release = example("wide_survey")(3000, tmp_path)
    assert release.domain.size > 10**13
    assert "(modelled)" in capsys.readouterr().out


@pytest.mark.slow
def test_two_registries(tmp_path: Path) -> None:
    links: set[tuple[str, str]] = example("two_registries")(300, tmp_path)
    assert links == {(f"H{person}", f"C{person}") for person in range(200, 300)}


def test_every_example_is_run_here() -> None:
    here = Path(__file__).read_text(encoding="utf-8")
    names = [path.stem for path in EXAMPLES.glob("*.py")]
    assert len(names) == 5
    assert [name for name in names if f'example("{name}")' not in here] == []
