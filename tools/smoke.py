"""Smoke test of a wheel in an empty environment: install it, run the demo, and query its release.

    python tools/smoke.py WHEEL                                   with this Python and the newest dependencies
    python tools/smoke.py WHEEL --oldest                          with the lower bounds of pyproject.toml
    python tools/smoke.py WHEEL --python python3.12 --extra plot  with another Python, and an extra

Nothing of the source tree is imported: what is tested is what a user installs. The last line printed is a row of the
matrix of docs/research/packaging.md.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
RELEASE = "dpcube-demo/adult.dpcube"
QUESTION = "age between 30 and 39 and sex = 'Female'"
TRUTH = 3853
"""Rows of the bundled public table that satisfy it."""
SQL = "SELECT sex, count(*) AS rows FROM cube GROUP BY sex ORDER BY sex"
CORE = ("click", "cryptography", "duckdb", "llvmlite", "numba", "numpy", "pyarrow", "sqlglot")


def lower_bounds(text: str) -> list[str]:
    """Return constraints of the oldest allowed dependencies: `numpy==2.0; python_version < '3.13'`.

    >>> lower_bounds('project.dependencies = ["a>=1.5", "b>=2,<3; python_version < \\'4\\'"]')
    ['a==1.5', "b==2; python_version < '4'"]
    """
    found = []
    for line in tomllib.loads(text)["project"]["dependencies"]:
        required, mark, marker = line.partition(";")
        name, _, versions = required.partition(">=")
        found.append(f"{name.strip()}=={versions.partition(',')[0].strip()}{mark}{marker}")
    return found


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command outside of the source tree; its output, or an exit with what it printed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"smoke: {' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def installed(folder: Path, wheel: str, options: argparse.Namespace) -> Path:
    """Install the wheel in a new environment and return its directory of programs."""
    run(options.python, "-m", "venv", folder / "env", cwd=folder)
    programs = folder / "env" / "bin"
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(lower_bounds(PROJECT.read_text(encoding="utf-8")) if options.oldest else []))
    extra = f"[{options.extra}]" if options.extra else ""
    pip = (programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
    run(
        *pip,
        "--only-binary",
        ":all:",
        "-c",
        constraints,
        f"dpcube{extra} @ {Path(wheel).resolve().as_uri()}",
        cwd=folder,
    )
    return programs


def check(programs: Path, folder: Path) -> None:
    """Run the demo, a count and SQL, and compare them with the truth of the public table."""
    dpcube = programs / "dpcube"
    shown = run(dpcube, "--version", cwd=folder)
    run(dpcube, "demo", cwd=folder)
    [answer] = json.loads(run(dpcube, "count", RELEASE, QUESTION, "--json", cwd=folder))
    rows = json.loads(run(dpcube, "sql", RELEASE, SQL, "--json", cwd=folder))
    if not abs(answer["value"] - TRUTH) < 10 * answer["stderr"] + 500:
        sys.exit(f"smoke: {shown.strip()} counts {answer['value']} where the table has {TRUTH}")
    if [row["sex"] for row in rows] != ["Female", "Male"]:
        sys.exit(f"smoke: SQL returned {rows}")


def megabytes(folder: Path) -> int:
    """Return the size of the libraries of an environment, without pip and setuptools."""
    [packages] = (folder / "env" / "lib").glob("python3*/site-packages")
    tools = ("pip", "setuptools", "pkg_resources", "_distutils_hack")
    files = (path for path in packages.rglob("*") if path.is_file() and not path.is_symlink())
    sizes = (p.stat().st_size for p in files if not p.relative_to(packages).parts[0].startswith(tools))
    return round(sum(sizes) / 2**20)


def versions(programs: Path, folder: Path) -> str:
    """Return the versions of the core's dependencies."""
    code = f"from importlib.metadata import version; print(*(f'{{n}} {{version(n)}}' for n in {CORE!r}), sep=', ')"
    return run(programs / "python", "-c", code, cwd=folder).strip()


def seconds() -> float:
    """Return the processor time of the commands so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(arguments: Sequence[str] | None = None) -> None:
    """Install and check one wheel, and print a row of the matrix."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wheel")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--oldest", action="store_true")
    parser.add_argument("--extra", default="")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs = installed(folder, options.wheel, options)
        paid, size = seconds(), megabytes(folder)
        check(programs, folder)
        python = run(programs / "python", "-c", "import platform; print(platform.python_version())", cwd=folder).strip()
        print(
            f"| {python} | {'oldest' if options.oldest else 'newest'} | {versions(programs, folder)} | {size} | "
            f"{paid:.0f} | {seconds() - paid:.0f} |"
        )


if __name__ == "__main__":
    main()
