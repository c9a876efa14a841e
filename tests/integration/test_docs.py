"""The examples of the documentation, run as they are printed."""

import doctest
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import samples

import dpcube
import forked
from dpcube import Domain, Release, datasets
from dpcube.cli import main
from dpcube.curator import publish
from dpcube.curator.publishing import count
from dpcube.research import experiment
from dpcube.testing import SeededNoise

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("guides/olap.md", "guides/synthetic-rows.md")


def fenced(page: str, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The two files that the pages speak of: a clinic with the domain printed there, and the bundled table."""
    where = tmp_path_factory.mktemp("docs")
    clinic, adult = Domain.loads(fenced("guides/olap.md", "toml")[0]), Domain.load(datasets.adult_domain())
    people = np.random.default_rng(1).poisson(10, clinic.shape)
    for name, domain, counts, strategy in (
        ("clinic", clinic, people, "cells"),
        ("adult", adult, count(datasets.adult_table(), adult), "dpcube"),
    ):
        made = experiment(counts, epsilon=1, strategy=strategy, noise=SeededNoise(1))
        Release(domain, made.transcript, made.provenance).save(where / f"{name}.dpcube")
    for month, first, last in (("october", "10-01", "10-31"), ("november", "11-01", "11-30")):
        made = experiment(people, epsilon=1, strategy="cells", noise=SeededNoise(len(month)))
        of_month = replace(made.provenance, period=f"admitted from 2026-{first} to 2026-{last}")
        Release(clinic, made.transcript, of_month).save(where / f"{month}.dpcube")
    return where


def test_releases_over_time_are_asked_together(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (block,) = [b for b in fenced("guides/olap.md", "python") if "october.dpcube" in b]
    names: dict[str, Any] = {"dpcube": dpcube}
    exec(block, names)
    assert names["r"].domain.names[0] == "period"


def printed_by(words: list[str]) -> str:
    """What a command of a page prints, in a process that need not import everything again."""
    done = forked.dpcube(*words[1:], cwd=samples.ROOT)
    return done.stdout + done.stderr


@pytest.mark.parametrize("page", samples.PAGES)
def test_sample_outputs_are_what_the_commands_print(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`python tools/samples.py --write` makes them anew."""
    monkeypatch.setattr(samples, "printed_by", printed_by)
    text, ran = samples.remade(page)
    assert ran >= 1
    assert text == (samples.ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_examples_print_what_the_page_says(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with pd.option_context("display.width", 120):
        outcome = doctest.testfile(str(DOCS / page), module_relative=False, encoding="utf-8")
    assert outcome.attempted >= 3
    assert outcome.failed == 0


def test_the_readme_publishes_a_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = [b for b in fenced("../README.md", "python") if "from dpcube.curator import publish" in b]
    names: dict[str, Any] = {}
    exec(block, names)
    assert Release.open("visits.dpcube").digest == names["release"].digest
    assert Path("visits.ledger").exists()
    (asked,) = [b for b in fenced("../README.md", "python") if "dpcube.open" in b]
    exec(asked, names)
    assert names["r"].digest == names["release"].digest
    names["domain"].save("visits.toml")  # the form in the comment
    for frame in (names["visits"], pl.from_pandas(names["visits"])):
        assert publish(frame, "visits.toml", epsilon=0.5, ledger=None).domain == names["domain"]


@pytest.mark.parametrize("page", PAGES)
def test_commands_run(
    page: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    commands = [line for block in fenced(page, "console") for line in block.splitlines()]
    assert commands
    for command in commands:
        assert command.startswith("$ dpcube ")
        monkeypatch.setattr(sys, "argv", shlex.split(command.removeprefix("$ ")))
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 0, capsys.readouterr().err
        assert capsys.readouterr().out.startswith("wrote ")


def test_numpy_reads_the_members_of_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (block,) = [b for b in fenced("guides/olap.md", "python") if "np.load" in b]
    names: dict[str, Any] = {}
    exec(block, names)
    boxes, (lower, upper, counts) = Release.open("adult.dpcube").transcript.boxes, names["boxes"]
    assert boxes is not None
    np.testing.assert_array_equal(lower.T, boxes.tree.lower[boxes.node])
    np.testing.assert_array_equal(upper.T, boxes.tree.upper[boxes.node])
    assert counts.sum() == boxes.counts.sum()
