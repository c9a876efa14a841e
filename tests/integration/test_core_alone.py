"""The core without SciPy, as `pip install dpcube` gives it: production runs, and research says what it needs."""

import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT = "import sys; sys.modules['scipy'] = None; "
"""An import of SciPy fails as if it were not installed."""


def python(code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + code], cwd=cwd, capture_output=True, text=True, timeout=600, check=False
    )


def command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return python(f"from dpcube.cli import main; sys.argv = ['dpcube', *{arguments!r}]; main()", cwd)


def test_without_scipy_the_check_can_fail(tmp_path: Path) -> None:
    assert "ModuleNotFoundError" in python("import scipy.special", tmp_path).stderr


@pytest.mark.slow
def test_a_table_is_released_queried_and_learnt_from_without_scipy(tmp_path: Path) -> None:
    made = command("demo", "--strategy", "dpcube", cwd=tmp_path)
    assert (made.returncode, made.stderr) == (0, "")
    release = "dpcube-demo/adult.dpcube"
    for asked in (
        ("count", release, "age between 30 and 39"),
        ("sql", release, "SELECT sex, count(*) FROM cube GROUP BY sex"),
        ("train", release, "--target", "income", "-o", "model.json"),
    ):
        done = command(*asked, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), asked


def test_research_without_scipy_says_which_extra_brings_it(tmp_path: Path) -> None:
    done = command("reproduce", "theory", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "dpcube: this needs scipy, which is not installed; pip install 'dpcube[research]'\n"
    done = python("import dpcube.theory", tmp_path)
    assert "dpcube.theory needs scipy: pip install 'dpcube[research]'" in done.stderr
