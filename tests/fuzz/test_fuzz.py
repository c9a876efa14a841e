"""Hostile input at random: read, or refused in one line, in bounded time and memory; never a traceback or a crash.

`make fuzz` runs the same targets for as long as it is told to; here each gets a few seconds.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from bounds import bounded
from commands import NOT_FUZZED, OPTIONS
from targets import RAW, SEEDS, STRUCTURED, TARGETS

from dpcube.cli.verbs import VERBS
from nightly import at_night

GUIDED = ("domain-bytes", "question-bytes", "release-bytes", "members")


@pytest.mark.parametrize("name", STRUCTURED)
def test_hostile_input_is_read_or_refused(name: str) -> None:
    STRUCTURED[name]()


@pytest.mark.parametrize("name", RAW)
def test_seeds_are_read(name: str) -> None:
    for seed in SEEDS[name]:
        RAW[name](seed)
        RAW[name](seed[: len(seed) // 2])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or sys.version_info >= (3, 14), reason="atheris has no wheel for it")
@pytest.mark.parametrize("targets", [("members",), at_night(GUIDED)], ids=len)
def test_a_few_seconds_of_guided_fuzzing(targets: tuple[str, ...], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, Path(__file__).parent, "--seconds", "3", "--keep", tmp_path, *targets],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" ok\n") == len(targets)
    assert set(targets) <= set(TARGETS)


# The harness itself can say no.


def test_the_bounds_find_what_exceeds_them() -> None:
    with pytest.raises(AssertionError, match="MiB more at its peak"), bounded(mebibytes=50):
        np.ones(20 * 2**20)
    with pytest.raises(AssertionError, match="of processor time"), bounded(seconds=0.01):
        sum(range(10**7))
    with bounded(mebibytes=50, seconds=5):
        np.ones(2**20)


def test_guided_fuzzing_finds_a_planted_fault(tmp_path: Path) -> None:
    """A target that fails ends the run with an exit code, and the input is kept."""
    fault = "def target(data):\n    assert data[:2] != b'no'\n\n"
    (tmp_path / "targets.py").write_text(f"{fault}TARGETS, SEEDS = {{'planted': target}}, {{'planted': (b'no',)}}\n")
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.path.append({str(Path(__file__).parent)!r})\n"
    script += f"import runpy; run = runpy.run_path({str(Path(__file__).with_name('__main__.py'))!r})\n"
    script += f"run['run_one']('planted', ['-max_total_time=3', '-artifact_prefix={tmp_path}/', {str(tmp_path)!r}])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode != 0
    assert list(tmp_path.glob("crash-*"))


def test_every_command_is_fuzzed_or_said_not_to_be() -> None:
    named = {verb[0] for verb in OPTIONS if verb}
    assert named | NOT_FUZZED == set(VERBS)
    assert not named & NOT_FUZZED
