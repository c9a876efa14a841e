"""Coverage-guided fuzzing: `python tests/fuzz [--seconds N] [--keep FOLDER] [TARGET...]`, all targets unless named.

Each target runs in a process of its own under libFuzzer (atheris). What it finds that reaches new code is kept in
FOLDER/TARGET for the next run; an input that fails is written to FOLDER and its traceback is shown.
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from inspect import isclass, isfunction
from pathlib import Path
from types import FunctionType

HERE = Path(__file__).parent
# Modules that read input; function by function, for Numba cannot compile kernels that report which lines they reach.
READERS = (
    *(
        "tomllib._parser",
        "tomllib._re",
        "zipfile",
        "dpcube.cli.analyst.count",
        "dpcube.cli.curator.release",
        "dpcube.cli.curator.ledger",
    ),
    *(f"dpcube.measurements.{name}" for name in ("file", "manifest", "measurement", "measurements")),
    *("dpcube.queries.counting", "dpcube.queries.expression"),
    *(f"dpcube.core.domain.{name}" for name in ("attribute", "calendar", "category", "domain", "file", "number")),
    "dpcube.core.domain.value_set",
)
MEBIBYTES, SECONDS_EACH = 2048, 60  # of the whole process, and for one input


def main() -> int:
    """Fuzz each target in turn; the exit code says whether any failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--keep", type=Path, default=Path(".fuzz"))
    parser.add_argument("targets", nargs="*")
    given = parser.parse_args()
    names = given.targets or names_of_targets()
    return max(fuzz(name, given.seconds, given.keep) for name in names)


def names_of_targets() -> list[str]:
    sys.path.insert(0, str(HERE.parent))
    from targets import TARGETS

    return list(TARGETS)


def fuzz(name: str, seconds: int, keep: Path) -> int:
    """Fuzz one target in a process of its own and say how it went."""
    corpus = keep / name
    corpus.mkdir(parents=True, exist_ok=True)
    limits = [f"-max_total_time={seconds}", f"-timeout={SECONDS_EACH}", f"-rss_limit_mb={MEBIBYTES}", "-max_len=20000"]
    done = subprocess.run(
        [sys.executable, __file__, "--one", name, *limits, f"-artifact_prefix={keep}/{name}-", "-verbosity=1", corpus],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent)])},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    runs = re.search(r"Done (\d+) runs", done.stderr)
    print(
        f"{name:<16} {int(runs[1]) if runs else 0:>9,} inputs  {'ok' if done.returncode == 0 else 'FAILED'}", flush=True
    )
    if done.returncode:
        print((done.stdout + done.stderr)[-6000:])
    return int(done.returncode != 0)


def reading_functions() -> Iterator[FunctionType]:
    for module in map(import_module, READERS):
        classes = [value for value in vars(module).values() if isclass(value) and value.__module__ == module.__name__]
        for owner in (module, *classes):
            functions = [value for value in vars(owner).values() if isfunction(value)]
            yield from (function for function in functions if function.__module__ == module.__name__)


def run_one(name: str, arguments: list[str]) -> None:
    """Run libFuzzer on one target, in this process, which it does not outlive."""
    import atheris
    from targets import SEEDS, TARGETS

    for function in reading_functions():
        atheris.instrument_func(function)
    corpus = Path(arguments[-1])
    for i, seed in enumerate(SEEDS.get(name, ())):
        (corpus / f"seed-{i}").write_bytes(seed)
    atheris.Setup([sys.argv[0], *arguments], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        run_one(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(main())
