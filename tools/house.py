"""How the house is built, in numbers: `python tools/house.py [TREE]` measures the package below TREE/src.

Printed are what importing the trusted modules loads, their lines, how many functions and files a release, a count and
an SQL query pass through, public names that have two homes (functions, classes and type aliases apart from constants in
capitals; verbs of the command line, which are click's commands, are not counted), places outside `domain/` that ask for
the kind of an attribute, and how long functions are. It is run on two trees to compare them.
"""

import ast
import statistics
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(sys.argv[1] if __name__ == "__main__" and len(sys.argv) > 1 else Path(__file__).parents[1]).resolve()
SOURCE = ROOT / "src" / "dpcube"
ENTRIES = ("core.gate", "core.noise", "core.ledger.ledger", "core.sources")
KINDS = {"Integer", "Float", "Number", "Category", "Date"}

TRACED = """
import sys, os, tempfile
from pathlib import Path
import dpcube
from dpcube import Domain, Integer, Category
from dpcube.curator import publish
import pyarrow as pa
import dpcube.release.sql
source = os.path.dirname(dpcube.__file__)
table = pa.table({"age": [i % 90 for i in range(500)], "sex": ["f", "m"] * 250})
domain = Domain((Integer(name="age", min=0, max=89, width=5), Category(name="sex", values=("f", "m"))))
tasks = {
    "release": lambda: publish(table, domain, epsilon=1, ledger=None),
    "count": lambda: release.count("age between 30 and 39 and sex = 'f'"),
    "sql --error": lambda: release.sql("SELECT sex, count(*) FROM cube WHERE age >= 30 GROUP BY sex", error=True),
}
release = tasks["release"]()
for name, task in tasks.items():
    seen, files, changes, last = set(), set(), 0, None
    def profile(frame, event, _):
        global changes, last
        if event == "call" and frame.f_code.co_filename.startswith(source):
            seen.add((frame.f_code.co_filename, frame.f_code.co_qualname))
            files.add(frame.f_code.co_filename)
            changes += frame.f_code.co_filename != last
            last = frame.f_code.co_filename
    if name != "release":
        release = dpcube.release.Release(release.domain, release.transcript, release.provenance)
    sys.setprofile(profile)
    task()
    sys.setprofile(None)
    print(f"{name}: {len(seen)} functions in {len(files)} files, {changes} changes of file")
"""


def python(code: str) -> str:
    """Run Python on the measured tree."""
    environment = {"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin", "HOME": str(Path.home())}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


@cache
def modules() -> dict[Path, ast.Module]:
    """Return every module of the package, parsed."""
    return {path: ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


def loaded(*entries: str) -> list[str]:
    """Return the modules of the package that importing others loads."""
    imports = "; ".join(f"import dpcube.{entry}" for entry in entries)
    found = python(
        f"import sys; {imports}; print(*sorted(m for m in sys.modules if m.startswith('dpcube')), sep='\\n')"
    )
    return found.split()


def code_lines(module: str) -> int:
    """Return the lines of a module that are neither blank nor comments nor docstrings."""
    path = SOURCE.parent / (module.replace(".", "/") + ".py")
    path = path if path.exists() else path.with_suffix("") / "__init__.py"
    tree = ast.parse(path.read_text())
    told: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            told.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(path.read_text().splitlines(), 1)
    return sum(1 for number, line in lines if number not in told and line.strip() and not line.strip().startswith("#"))


def is_command(node: ast.stmt) -> bool:
    """Tell whether a function is a verb of the command line: decorated with `@click.command` or a group's `command`."""
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    called = [decorator.func if isinstance(decorator, ast.Call) else decorator for decorator in decorators]
    names = [function.attr if isinstance(function, ast.Attribute) else ast.unparse(function) for function in called]
    return bool({"command", "group"} & set(names))


def defined(node: ast.stmt) -> list[str]:
    """Return the public names that a statement at the top of a module defines."""
    names: list[str] = []
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        names = [] if is_command(node) else [node.name]
    elif isinstance(node, ast.Assign):
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        names = [node.target.id]
    return [name for name in names if not name.startswith("_")]


def two_homes() -> dict[str, list[str]]:
    """Return public names that are defined at the top of two or more modules, with their modules.

    Verbs of the command line are left out: `dpcube plan` may be told by a function `plan`.
    """
    homes: dict[str, list[str]] = defaultdict(list)
    for path, tree in modules().items():
        for name in {name for node in tree.body for name in defined(node)}:
            homes[name].append(str(path.relative_to(SOURCE).with_suffix("")))
    return {name: places for name, places in sorted(homes.items()) if len(places) > 1}


def kinds_asked() -> int:
    """Return how often the kind of an attribute is asked by isinstance outside of core/domain/."""
    asked = 0
    for path, tree in modules().items():
        if (SOURCE / "core" / "domain") in path.parents:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
                asked += bool({n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)} & KINDS)
    return asked


def lengths() -> list[int]:
    """Return the lengths of all functions, docstrings apart."""
    found = []
    for tree in modules().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) is not None and len(node.body) > 1 else node.body
                found.append((body[-1].end_lineno or 0) - body[0].lineno + 1)
    return sorted(found)


def main() -> None:
    """Print the numbers."""
    by_gate, trusted = loaded("core.gate"), loaded(*ENTRIES)
    print(f"modules loaded by the gate: {len(by_gate)}")
    print(f"trusted modules (what {', '.join(ENTRIES)} load): {len(trusted)}")
    print(f"trusted lines of code: {sum(map(code_lines, trusted)):,}")
    print(python(TRACED), end="")
    homes = two_homes()
    constants = [name for name in homes if name.isupper()]
    named = [f"{name} ({', '.join(places)})" for name, places in homes.items() if name not in constants]
    print(f"functions, classes and type aliases with two homes: {len(named)}", *named, sep="\n  ")
    print(f"constants in capitals with two homes: {len(constants)} ({', '.join(constants)})")
    print(f"isinstance on attribute kinds outside domain/: {kinds_asked()}")
    found = lengths()
    print(f"functions: {len(found)}, median {statistics.median(found):.0f} lines, ", end="")
    print(f"p90 {found[int(0.9 * len(found))]}, longest {found[-1]}")


if __name__ == "__main__":
    main()
