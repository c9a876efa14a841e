"""The strategy of docs/guides/strategies.md, run as printed: by object, by MODULE:CLASS and by a real entry point."""

import csv
import json
import os
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpcube import Domain, Integer, Release, datasets, plan
from dpcube.core.boxes import Boxes
from dpcube.core.gate import Gate
from dpcube.curator import publish
from dpcube.curator.publishing import count
from dpcube.research.coverage import Coverage, measure_coverage
from dpcube.strategies import BY_NAME, NOT_COMPARED, RIVALS, Strategy
from dpcube.testing import SilentNoise
from forked import dpcube

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "strategies.md").read_text(encoding="utf-8")


def fenced(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


CODE = fenced("python")[0]
DOMAIN = Domain((Integer(name="x", min=0, max=19), Integer(name="y", min=0, max=9)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the page speaks of: the strategy's file, a table and its domain."""
    (tmp_path / "agrid.py").write_text(CODE, encoding="utf-8")
    DOMAIN.save(tmp_path / "visits.toml")
    random = np.random.default_rng(1)
    rows = zip(random.binomial(19, 0.4, 4000), random.binomial(9, 0.7, 4000), strict=True)
    (tmp_path / "visits.csv").write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in rows), encoding="utf-8")
    return tmp_path


@pytest.fixture
def agrid(folder: Path) -> Strategy:
    space: dict[str, object] = {"__name__": "agrid"}
    exec(compile(CODE, "agrid.py", "exec"), space)
    return space["AGrid"](side=4)  # type: ignore[operator, no-any-return]


def started(folder: Path, *arguments: str, path: str) -> "subprocess.CompletedProcess[str]":
    """Start a process with `path` on Python's path, as the command's script does: without the current directory."""
    script = "import sys; from dpcube.cli import main; sys.argv[0] = 'dpcube'; main()"
    command, environment = [sys.executable, "-P", "-c", script, *arguments], {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_example_is_short() -> None:
    assert len([line for line in CODE.splitlines() if line.strip() and "import" not in line]) <= 25


def test_by_object(agrid: Strategy, folder: Path) -> None:
    release = publish(folder / "visits.csv", DOMAIN, epsilon=1, strategy=agrid, save_to=folder / "v.dpcube")
    assert release.estimates == ("balanced", "posterior", "consistent", "uniform", "tree_least_squares")
    opened = Release.open(folder / "v.dpcube")
    assert (opened.provenance.strategy, opened.provenance.parameters) == ("agrid", {"side": 4})
    answer = opened.count(x=(3, 11), y=(2, 6))
    assert (answer.value, answer.low, answer.high) == pytest.approx(
        [getattr(release.count(x=(3, 11), y=(2, 6)), part) for part in ("value", "low", "high")]
    )
    assert 0 < answer.low < answer.value < answer.high
    made = plan.plan(DOMAIN, rows=4000, epsilon=1, strategies=["cells", agrid])
    assert {p.strategy for p in made.predictions} == {"cells", "agrid"}


def test_by_module_and_class_on_the_command_line(folder: Path) -> None:
    ask = ("release", "visits.csv", "--domain", "visits.toml", "--epsilon", "1", "-o", "v.dpcube")
    done = dpcube(*ask, "--strategy", "agrid:AGrid", cwd=folder)
    assert done.returncode == 0, done.stderr
    told = json.loads(dpcube("info", "v.dpcube", "--json", cwd=folder).stdout)
    assert told["strategy"] == "agrid"
    options = ("--epsilon", "1", "--rows", "4000", "--strategy", "cells,agrid:AGrid", "--json")
    planned = dpcube("plan", "visits.toml", *options, cwd=folder)
    assert {p["strategy"] for p in json.loads(planned.stdout)["predictions"]} == {"cells", "agrid"}
    wrong = dpcube(*ask, "--strategy", "agrid:BGrid", cwd=folder)
    assert wrong.returncode == 2
    assert wrong.stderr.count("\n") == 1
    assert "strategy 'agrid:BGrid' cannot be loaded: AttributeError" in wrong.stderr


def test_by_a_real_entry_point(folder: Path) -> None:
    """A distribution as an installer leaves it: the module, and the entry point that the page prints."""
    place = folder / "site"
    info = place / "agrid-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "agrid.py").rename(place / "agrid.py")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: agrid\nVersion: 1.0\n", encoding="utf-8")
    (entry,) = re.findall(r'^(my_agrid) = "(.*)"$', fenced("toml")[0], re.MULTILINE)
    offered = ["[dpcube.strategies]", f"{entry[0]} = {entry[1]}", "broken = no_such_module:X", ""]
    (info / "entry_points.txt").write_text("\n".join(offered), encoding="utf-8")
    path = os.pathsep.join(filter(None, [str(place), os.environ.get("PYTHONPATH", "")]))
    ask = ("release", "visits.csv", "--domain", "visits.toml", "--epsilon", "1", "-o", "v.dpcube")
    done = started(folder, *ask, "--strategy", "my_agrid", path=path)
    assert done.returncode == 0, done.stderr
    assert Release.open(folder / "v.dpcube").provenance.strategy == "agrid"
    assert ", ".join([*BY_NAME, *NOT_COMPARED, *RIVALS, "broken", "my_agrid."]) in " ".join(
        started(folder, "release", "--help", path=path).stdout.split()
    )
    broken = started(folder, *ask, "--strategy", "broken", path=path)
    assert (broken.returncode, broken.stderr.count("\n")) == (2, 1)
    assert "strategy 'broken' (no_such_module:X) of an installed package cannot be loaded" in broken.stderr


@pytest.mark.slow
def test_coverage_on_the_command_line(folder: Path) -> None:
    done = dpcube("coverage", "--strategy", "agrid:AGrid", "--releases", "1", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [one["strategy"] for one in found["ranges"]] == ["agrid"] * 3
    assert [one["strategy"] for one in found["questions"]] == ["agrid"] * 2
    assert all(one["overall"] > 0.85 for one in found["ranges"])


@pytest.mark.slow
def test_accuracy_on_the_command_line(folder: Path) -> None:
    command = ("-m", "dpcube.research.accuracy", "--groups", "wide", "--draws", "2", "--csv", "errors.csv")
    done = subprocess.run(
        [sys.executable, "-c", ACCURACY, *command, "--strategy", "cells,agrid:AGrid"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with (folder / "errors.csv").open(newline="") as file:
        assert {row["algorithm"] for row in csv.DictReader(file)} == {"cells", "agrid:AGrid"}


ACCURACY = """
import sys
from dpcube.research.accuracy import __main__, cases
cases.CUBES = cases.CUBES[1:2]
sys.argv = sys.argv[2:]
__main__.main()
"""


def covered(agrid: Strategy) -> Coverage:
    exact = count(datasets.adult_table(), Domain.load(datasets.adult_domain()))
    return measure_coverage("bundled", [exact], epsilon="0.1", strategy=agrid, releases=4)


@pytest.mark.slow
def test_its_intervals_hold_on_the_bundled_table(agrid: Strategy, monkeypatch: pytest.MonkeyPatch) -> None:
    """49% held while boxes without cells got `consistent` with the noise of `uniform`, and nothing for their inside."""
    assert covered(agrid).overall > 0.93
    monkeypatch.setattr("dpcube.models.estimators.UnseenInside.from_posterior", lambda posterior: posterior)
    assert covered(agrid).overall < 0.93


def test_the_choice_of_the_page_cuts_boxes_at_their_medians() -> None:
    (block,) = [code for code in fenced("python") if "MedianCuts" in code]
    gate = Gate(np.array([0, 0, 5, 1, 1, 0, 2, 2]), Fraction(1), noise=SilentNoise())
    space = {
        "np": np,
        "counter": gate,
        "units": 10**6,
        "boxes": Boxes((8,), np.array([[0], [4]]), np.array([[4], [8]])),
    }
    exec(block, space)
    assert space["places"].tolist() == [3, 7]  # type: ignore[attr-defined]
