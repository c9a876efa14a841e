"""The page's numbers are Python's: random questions are asked of the page in a browser, and of the release."""

import ast
import json
import math
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from cubes import EVEN, MIXED, STRANGE, released, with_its_own_tables, with_tables

from chromium import Browser, Page
from dpcube import Answer, Domain, Release
from dpcube.models.errors.biases import Biases
from dpcube.models.posterior import PosteriorEstimate
from dpcube.research.arrays import experiment
from dpcube.testing import SeededNoise
from dpcube.web.explorer import explorer_page, packed_contents
from dpcube.web.explorer.contents import PageModel, page_model
from nightly import at_night

Asked = dict[int, Any]

ASK = """
async (hashes) => {
  const found = [];
  for (const hash of hashes) {
    if (location.hash !== hash) {
      const heard = new Promise((resolve) => addEventListener("hashchange", resolve, { once: true }));
      location.hash = hash;
      await heard;
    }
    const commands = [...document.querySelectorAll("#commands code")].map((code) => code.textContent);
    found.push({ ...document.getElementById("answer").dataset, commands });
  }
  return found;
}
"""


def opened(browser: Browser, release: Release, folder: Path, **options: Any) -> Page:
    """Open the page of a release, and wait until its intervals are there."""
    path = folder / "cube.html"
    contents = packed_contents(release, Path("it's a $cube.dpcube"), **options)
    path.write_text(explorer_page(contents, title="a cube"), encoding="utf-8")
    page = browser.page(path.as_uri())
    page.wait("document.body?.dataset.told")
    return page


def address_of(asked: Asked) -> str:
    said = {"asked": {str(axis): of for axis, of in asked.items()}}
    return "#" + quote(json.dumps(said), safe="")


def random_question(domain: Domain, generator: np.random.Generator) -> Asked:
    """Return runs of whole cells, or ranges that may cut bins, of some attributes."""
    asked: Asked = {}
    for axis, attribute in enumerate(domain.attributes):
        kind = generator.integers(0, 3)
        if kind == 1:
            taken = generator.random(attribute.size) < generator.uniform(0.1, 0.9)
            if taken.any() and not taken.all():
                asked[axis] = [[int(k), int(k)] for k in np.flatnonzero(taken)]
        elif kind == 2 and attribute.scale != "position":
            asked[axis] = random_range(attribute, generator)
    return asked


def random_range(attribute: Any, generator: np.random.Generator) -> dict[str, float]:
    edges = attribute.bin_edges()
    if attribute.is_continuous:
        ends = np.where(
            generator.random(2) < 0.4, generator.choice(edges, 2), generator.uniform(edges[0], edges[-1], 2)
        )
        low, high = sorted(map(float, ends))
    else:
        low, high = sorted(generator.integers(edges[0], edges[-1], 2).tolist())
    return {"from": low, "to": high}


def words_of(commands: list[str]) -> list[list[str]]:
    """Return the words that a real shell hands to the command `dpcube`, for each of many lines."""
    script = "dpcube() { printf '%s\\0' \"$@\"; printf '\\1\\0'; }\n" + "\n".join(commands)
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True, timeout=600)
    assert done.stderr == b""
    lines = done.stdout.decode().split("\1\0")
    return [line.split("\0")[:-1] for line in lines[:-1]]


def python_answers(release: Release, shown: list[dict[str, Any]], **options: Any) -> list[Answer]:
    """Ask the release what the page's commands say, as a shell would hand it on."""
    answers = []
    for words in words_of([one["commands"][0] for one in shown]):
        assert words[:2] == ["count", "it's a $cube.dpcube"]
        question = words[2] if len(words) > 2 and not words[2].startswith("--") else None
        answers.append(release.count(question, **options))
    return answers


def check_alike(shown: dict[str, Any], answer: Answer) -> None:
    found = {name: float(shown[name]) for name in ("value", "stderr", "nonuniformity", "low", "high")}
    expected = {name: float(getattr(answer, name)) for name in found}
    for name, number in expected.items():
        scale = max(1.0, abs(answer.value)) * 1e-9
        alike = math.isclose(found[name], number, rel_tol=1e-9, abs_tol=scale * (1e3 if name == "nonuniformity" else 1))
        assert alike or (math.isnan(number) and math.isnan(found[name])), (name, found, answer, shown["commands"][0])
    assert (float(shown["reach"]) > 0) <= bool(answer.cut)


def check_python_and_sql(release: Release, shown: dict[str, Any]) -> None:
    """The other two ways to ask, as they stand on the page, ask the same."""
    (_, _, *asked), _, (_, _, sql, error) = words_of([shown["commands"][0], "dpcube -", shown["commands"][2]])
    call = ast.parse(shown["commands"][1], mode="eval").body
    assert isinstance(call, ast.Call)
    assert [ast.literal_eval(argument) for argument in call.args] == asked
    assert error == "--error"
    (row,) = release.sql(sql, error=True).to_pylist()
    counted, *_ = row.values()
    assert counted == pytest.approx(float(shown["value"]), rel=1e-9, abs=1e-6)
    ends = [number for name, number in row.items() if name.endswith(("_low", "_high"))]
    assert ends == pytest.approx([float(shown["low"]), float(shown["high"])], rel=1e-6, abs=1e-6, nan_ok=True)


def with_biases() -> Release:
    """A release whose sums over few attributes are taken to be off by more than its own would say."""
    release = released(MIXED, "adaptive")
    estimate = release.estimate()
    assert isinstance(estimate, PosteriorEstimate)
    assert estimate.biases is not None
    vars(estimate)["biases"] = Biases(estimate.biases.least, (1.0, 2.0, 1.5), (0.0, 3.0, 0.7))
    return release


RELEASES: dict[str, Callable[[], Release]] = {
    "tree": lambda: released(MIXED, "adaptive"),
    "tree with biases": with_biases,
    "tree of a grid": lambda: released(MIXED, "quad_tree"),
    "tree, even": lambda: released(EVEN, "adaptive"),
    "balanced, even": lambda: with_tables(EVEN),
    "balanced": lambda: with_tables(MIXED),
    "balanced by its own counts": with_its_own_tables,
    "boxes and cells": lambda: released(MIXED, "dpcube"),
    "cells": lambda: released(MIXED, "cells"),
    "cells, even": lambda: released(EVEN, "cells"),
    "strange names": lambda: released(STRANGE, "adaptive"),
}


WITH_EVERY_COMMIT = ("tree", "balanced", "boxes and cells", "strange names")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind if kind in WITH_EVERY_COMMIT else at_night(kind) for kind in RELEASES])
def test_random_questions_have_the_answers_of_python(browser: Browser, tmp_path: Path, kind: str) -> None:
    release = RELEASES[kind]()
    model = page_model(release.estimate(), confidence=0.95).facts
    assert model["kind"] == {"balanced": "balanced", "boxes": "boxes", "cells": "boxes"}.get(
        re.split("[ ,]", kind)[0], "tree"
    )
    generator = np.random.default_rng(11)
    questions = [{}, *(random_question(release.domain, generator) for _ in range(150))]
    page = opened(browser, release, tmp_path)
    shown = page.run(f"({ASK})({json.dumps([address_of(asked) for asked in questions])})")
    answers = python_answers(release, shown)
    for one, answer in zip(shown, answers, strict=True):
        check_alike(one, answer)
    assert len({one["commands"][0] for one in shown}) > 100
    for one in shown[1:13]:
        check_python_and_sql(release, one)
    if kind not in ("strange names", "tree, even", "balanced, even", "cells, even", "balanced by its own counts"):
        assert sum(bool(answer.cut) for answer in answers) > 20
    assert page.complaints() == []
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("estimate", ["uniform", "consistent", "least_squares", "weighted_least_squares", "cells"])
def test_every_estimate_of_boxes_has_the_answers_of_python(browser: Browser, tmp_path: Path, estimate: str) -> None:
    release = released(MIXED, "dpcube")
    generator = np.random.default_rng(7)
    questions = [random_question(release.domain, generator) for _ in range(60)]
    page = opened(browser, release, tmp_path, estimate=estimate, confidence=0.8)
    shown = page.run(f"({ASK})({json.dumps([address_of(asked) for asked in questions])})")
    for one, answer in zip(shown, python_answers(release, shown, estimate=estimate, confidence=0.8), strict=True):
        assert f"--estimate {estimate} --confidence 0.8" in one["commands"][0]
        check_alike(one, answer)
    page.close()


@pytest.mark.parametrize("strategy", ["adaptive", "cells"])
def test_one_real_value_of_an_even_bin_has_the_interval_of_python(
    browser: Browser, tmp_path: Path, strategy: str
) -> None:
    """Such a value was 0 rows, from 0 to 0. An end of a range that is one value of a bin is none."""
    release, dose = released(EVEN, strategy), EVEN.axis("dose")
    ends = [(0.6, 0.6), (0.5, 0.5), (0.0, 0.0), (2.0, 2.0), (0.25, 0.5), (0.0, 2.0)]
    asked: list[Asked] = [{dose: {"from": low, "to": high}} for low, high in ends]
    page = opened(browser, release, tmp_path)
    shown = page.run(f"({ASK})({json.dumps([address_of(one) for one in asked])})")
    answers = python_answers(release, shown)
    for one, answer in zip(shown, answers, strict=True):
        check_alike(one, answer)
        check_python_and_sql(release, one)
    assert [bool(answer.cut) for answer in answers] == [True] * 4 + [False] * 2
    assert all(float(one["high"]) > 1 for one in shown[:4])
    page.close()


def test_of_an_estimate_that_the_page_does_not_know_errors_are_unknown(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = released(MIXED, "cells")
    known = PageModel({"kind": "cells"}, {"cells": release.cells().reshape(-1)})
    monkeypatch.setattr("dpcube.web.explorer.contents.page_model", lambda *_, **__: known)
    page = opened(browser, release, tmp_path)
    shown = page.run("({...document.getElementById('answer').dataset})")
    assert float(shown["value"]) == pytest.approx(release.count().value)
    assert (shown["low"], shown["high"], shown["stderr"]) == ("NaN", "NaN", "NaN")
    assert page.run("document.getElementById('between').textContent") == "error unknown on this page; use Python"
    assert page.run("document.querySelectorAll('.doubtful').length") == 0
    assert page.complaints() == []
    page.close()


ODD_CUBES = {
    "empty": np.zeros((4, 3), np.int64),
    "one attribute": np.arange(12),
    "one cell": np.array([7]),
    "sixteen attributes": np.random.default_rng(1).poisson(0.05, (2,) * 16),
    "counts of a million million": np.array([[10**12, 0, 3], [5, 10**11, 1]]),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ODD_CUBES)
def test_odd_cubes_have_the_answers_of_python(browser: Browser, tmp_path: Path, kind: str) -> None:
    release = experiment(ODD_CUBES[kind], epsilon="1", strategy="adaptive", noise=SeededNoise(3))
    page = opened(browser, release, tmp_path)
    generator = np.random.default_rng(5)
    questions = [{}, *(random_question(release.domain, generator) for _ in range(8))]
    shown = page.run(f"({ASK})({json.dumps([address_of(asked) for asked in questions])})")
    for one, answer in zip(shown, python_answers(release, shown), strict=True):
        check_alike(one, answer)
    assert page.complaints() == []
    page.close()
