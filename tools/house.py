"""Size and structure of the code in numbers: `python tools/house.py [TREE]`, to compare two trees.

It measures the package below TREE/src, by default this tree's: lines of the product, of linkage, of research and of
trusted code; packages and layers; the modules that a gate loads; the functions and files that a release, a count and
an SQL query pass, for a dense cube, a wide table and a fine grid; the places that ask for the kind of an estimate or a
strategy; names and docstrings. It reads trees from before `core/` existed too.
"""

import ast
import re
import statistics
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path

ROOT = Path(sys.argv[1] if __name__ == "__main__" and len(sys.argv) > 1 else Path(__file__).parents[1]).resolve()
SOURCE = ROOT / "src" / "dpcube"

# Where things are: today's place first, then those of older trees.
RESEARCH = ("research", "cli/research", "strategies/rivals", "evaluate", "theory", "strategy/rivals")
RESEARCH_FILES = ("evaluate.py", "theory.py", "cli/compare.py", "cli/coverage.py", "cli/reproduce.py")
LINK = ("link",)
LINK_FILES = ("cli/curator/block.py", "cli/curator/link.py", "cli/block.py", "cli/link.py")
GATES = ("core.gate", "curator.gate")
ESTIMATES = ("models", "estimate", "release/cache", "analyst/kept")
STRATEGIES = ("strategies", "strategy")
MEASUREMENTS = ("measurements", "transcript")
EXACT = ("core", "curator")
DOMAIN = ("core/domain", "domain")

ATTRIBUTE_KINDS = {"Integer", "Float", "Number", "Category", "Date", "Timestamp"}
ESTIMATE_METHODS = {"values", "errors", "marginal", "draw", "to_arrays", "answers", "range_values", "cells"}
KIND_NAMES = {"GRID_STRATEGY", "WIDE_STRATEGY", "DENSE_STRATEGY"}
KIND_WORDS = {"cuboids", "marginals", "wide", "fine grid", "grid", "dense"}
FEW_LINES = 60
OLD_FORMULA = re.compile(r"\benters?\b.*\bleaves?\b", re.IGNORECASE | re.DOTALL)

TRACED = """
import os, sys, tempfile, warnings
os.environ["XDG_CACHE_HOME"] = os.environ["DPCUBE_CACHE"] = tempfile.mkdtemp()
import numpy as np, pyarrow as pa
import dpcube
from dpcube import Category, Domain, Float, Integer
from dpcube.curator import publish
warnings.simplefilter("ignore")
source, draw = os.path.dirname(dpcube.__file__), np.random.default_rng(1)
columns = {"age": draw.integers(0, 90, 3000), "sex": draw.choice(["f", "m"], 3000)}
columns |= {f"a{k}": draw.integers(0, 6, 3000) for k in range(13)}
columns |= {name: draw.normal(0.5, 0.1, 3000).clip(0, 0.999) for name in "xy"}
table, sex = pa.table(columns), Category(name="sex", values=("f", "m"))
kinds = {
    "dense": (Domain((Integer(name="age", min=0, max=89, width=5), sex)), "age", "age between 30 and 39 and sex = 'f'"),
    "wide": (Domain((*(Integer(name=f"a{k}", min=0, max=5) for k in range(13)), sex)), "a0", "a0 >= 3 and sex = 'f'"),
    "grid": (Domain(tuple(Float(name=n, min=0.0, max=1.0, width=1e-5) for n in "xy")), "x", "x between 0.25 and 0.5"),
}

def traced(name, task):
    seen, files, changes, last = set(), set(), 0, None
    def profile(frame, event, _):
        nonlocal changes, last
        if event == "call" and frame.f_code.co_filename.startswith(source):
            seen.add((frame.f_code.co_filename, frame.f_code.co_qualname))
            files.add(frame.f_code.co_filename)
            changes += frame.f_code.co_filename != last
            last = frame.f_code.co_filename
    sys.setprofile(profile)
    try:
        task()
        refused = ""
    except dpcube.DpcubeError as error:
        refused = f" (refused: {error})"
    finally:
        sys.setprofile(None)
    print(f"  {name:<20} {len(seen):>4} functions in {len(files):>3} files, {changes:>6,} changes of file{refused}")

def tasks(kind, folder):
    domain, first, question = kinds[kind]
    path = os.path.join(folder, "r.dpcube")
    publish(table, domain, epsilon=1, ledger=None).save(path)
    fresh = lambda: dpcube.open(path)
    statement = f"SELECT count(*) FROM cube WHERE {first} >= 0.25"
    statement += "" if kind == "grid" else " GROUP BY sex"
    yield "release", lambda: publish(table, domain, epsilon=1, ledger=None)
    opened = [fresh() for _ in range(4)]
    yield "count", lambda: opened.pop().count(question)
    yield "sql --error", lambda: opened.pop().sql(statement, error=True)

for kind in kinds:
    with tempfile.TemporaryDirectory() as folder:
        for name, task in tasks(kind, folder):
            try:
                task()  # imports and compiles
            except dpcube.DpcubeError:
                pass
            traced(f"{name}, {kind}", task)
"""


def python(code: str) -> str:
    """Run Python on the measured tree."""
    environment = {"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin", "HOME": str(Path.home())}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


@cache
def modules() -> dict[str, ast.Module]:
    """Return every module of the package, parsed, by its path in the package."""
    return {
        path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
    }


def is_in(path: str, folders: Sequence[str], files: Sequence[str] = ()) -> bool:
    """Whether a module is in one of some folders, or is one of some files."""
    return path in files or any(path.startswith(f"{folder}/") for folder in folders)


def is_research(path: str) -> bool:
    """Whether a module is research."""
    return is_in(path, RESEARCH, RESEARCH_FILES)


def is_link(path: str) -> bool:
    """Whether a module is record linkage."""
    return is_in(path, LINK, LINK_FILES)


@cache
def lines_of(path: str) -> int:
    """Return all lines of a module."""
    return len((SOURCE / path).read_text(encoding="utf-8").splitlines())


@cache
def code_lines(path: str) -> int:
    """Return the lines of a module that are neither blank nor comments nor docstrings."""
    texts: set[int] = set()
    for node in ast.walk(modules()[path]):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            texts.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate((SOURCE / path).read_text(encoding="utf-8").splitlines(), 1)
    return sum(1 for number, line in lines if number not in texts and line.strip() and not line.strip().startswith("#"))


def sizes(where: Callable[[str], bool]) -> str:
    """Return the number of files, lines, and lines of code of some modules."""
    chosen = [path for path in modules() if where(path)]
    lines, code = sum(map(lines_of, chosen)), sum(map(code_lines, chosen))
    return f"{lines:>7,} lines, {code:>7,} of code, in {len(chosen):>3} files"


def audited() -> list[str]:
    """Return the modules that docs/research/audit.md lists, which are all that is trusted."""
    page = (ROOT / "docs" / "research" / "audit.md").read_text(encoding="utf-8")
    return [path for path in re.findall(r"^\| `([^`]+\.py)` \| \d", page, re.MULTILINE) if path in modules()]


def layers() -> list[str]:
    """Return the layers of import-linter's contract, from the top; packages of one layer are separated by bars."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    return next((contract["layers"] for contract in contracts if contract["type"] == "layers"), [])


def loaded(*entries: str) -> list[str]:
    """Return the modules of the package that importing the first of some entries that is there loads."""
    paths = {one: one.replace(".", "/") for one in entries}
    entry = next(one for one, path in paths.items() if {f"{path}.py", f"{path}/__init__.py"} & set(modules()))
    names = "[name for name in sys.modules if name.split('.')[0] == 'dpcube']"
    return python(f"import sys, dpcube.{entry}; print(*{names})").split()


def kinds() -> dict[str, set[str]]:
    """Return the names of the classes that are kinds of estimates, strategies, measurements and exact data."""
    found: dict[str, set[str]] = {what: set() for what in ("estimates", "strategies", "measurements", "exact data")}
    for path, tree in modules().items():
        for node in tree.body:
            if not isinstance(node, ast.ClassDef) or is_research(path) or _is_protocol(node):
                continue
            methods = {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
            if is_in(path, ESTIMATES) and (
                node.name.endswith(("Estimate", "Answers")) or len(methods & ESTIMATE_METHODS) > 1
            ):
                found["estimates"].add(node.name)
            if is_in(path, STRATEGIES) and "run" in methods:
                found["strategies"].add(node.name)
            if is_in(path, MEASUREMENTS) and any("Measurement" in ast.unparse(base) for base in node.bases):
                found["measurements"].add(node.name)
            if is_in(path, EXACT) and node.name.startswith("Exact") and "Noise" not in node.name:
                found["exact data"].add(node.name)
    return found


def _is_protocol(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).startswith("Protocol") for base in node.bases)


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} | {
        one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)
    }


def kind_checks(tree: ast.Module, names: set[str]) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each `isinstance` and class pattern on some classes, also under an alias."""
    aliases = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp | ast.Tuple) and _names(node.value) & names
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            if _names(node.args[1]) & (names | aliases):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.MatchClass) and _names(node.cls) & names:
            yield node.lineno, f"case {ast.unparse(node.cls)}"


def name_checks(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each comparison of a plan or strategy with the name of a kind."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq):
            sides = (node.left, *node.comparators)
            words = {str(side.value) for side in sides if isinstance(side, ast.Constant)}
            of_plan = any(isinstance(side, ast.Attribute) and side.attr in ("plan", "strategy") for side in sides)
            if (of_plan and words & KIND_WORDS) or any(_names(side) & KIND_NAMES for side in sides):
                yield node.lineno, ast.unparse(node)


def places(find: Callable[[ast.Module], Iterator[tuple[int, str]]]) -> list[str]:
    """Return the places, with their text, that a search finds in the product without research."""
    found = [
        (path, line, text) for path, tree in modules().items() if not is_research(path) for line, text in find(tree)
    ]
    return [f"{path}:{line}  {text}" for path, line, text in sorted(found)]


def docstrings() -> Iterator[tuple[str, ast.AST, str]]:
    """Yield every docstring with its module and node."""
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
                yield path, node, text


def functions() -> list[ast.FunctionDef]:
    """Return all functions."""
    return [node for tree in modules().values() for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def lengths() -> list[int]:
    """Return the lengths of all functions, docstrings apart, in order."""
    found = []
    for node in functions():
        body = node.body[1:] if ast.get_docstring(node) is not None and len(node.body) > 1 else node.body
        found.append((body[-1].end_lineno or 0) - body[0].lineno + 1)
    return sorted(found)


def is_command(node: ast.stmt) -> bool:
    """Whether a function is a verb of the command line: decorated with `@click.command` or a group's `command`."""
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


def homes() -> dict[str, list[str]]:
    """Return every public name that is defined at the top of a module, with its modules; verbs of the command apart."""
    found: dict[str, list[str]] = defaultdict(list)
    for path, tree in modules().items():
        for name in {name for node in tree.body for name in defined(node)}:
            found[name].append(path.removesuffix(".py"))
    return dict(sorted(found.items()))


def two_homes() -> dict[str, list[str]]:
    """Return public names that are defined at the top of two or more modules, with their modules."""
    return {name: where for name, where in homes().items() if len(where) > 1}


def kinds_asked() -> int:
    """Return how often `isinstance` asks for the kind of an attribute outside of the domain's package."""
    outside = [tree for path, tree in modules().items() if not is_in(path, DOMAIN)]
    return sum(len(list(kind_checks(tree, ATTRIBUTE_KINDS))) for tree in outside)


def print_sizes() -> None:
    """Print lines by part of the package, and of its trusted code."""
    print("lines of Python (all, and without blanks, comments and docstrings):")
    print(f"  product, link apart  {sizes(lambda path: not is_research(path) and not is_link(path))}")
    print(f"  product with link    {sizes(lambda path: not is_research(path))}")
    print(f"  link                 {sizes(is_link)}")
    print(f"  research             {sizes(is_research)}")
    print(f"  all                  {sizes(lambda _: True)}")
    trusted = audited()
    in_one = any(path.startswith("core/") for path in modules())
    print("trusted code:")
    print(f"  core/                {sizes(lambda path: is_in(path, ['core']))}" if in_one else "  core/ is not there")
    print(f"  link/                {sizes(lambda path: is_in(path, LINK))}")
    print(f"  listed for the audit {sizes(lambda path: path in trusted)}")
    folders = {path.partition("/")[0] if "/" in path else "(top level)" for path in trusted}
    print(f"  it lies in {len(folders)} places: {', '.join(sorted(folders))}")
    pages = [path for ending in ("js", "css", "html") for path in SOURCE.rglob(f"*.{ending}")]
    print(
        f"pages (JavaScript, CSS, HTML): {sum(len(p.read_text(encoding='utf-8').splitlines()) for p in pages):,} lines"
    )


def print_structure() -> None:
    """Print packages, layers, and what work passes through."""
    rows = layers()
    packages = [path for path in modules() if path.count("/") == 1 and path.endswith("/__init__.py")]
    names = sum(len(re.split(r"[|:]", row)) for row in rows)
    print(f"packages at the top: {len(packages)}; layers of the contract: {len(rows)}, of {names} packages and modules")
    print(f"modules loaded by the gate: {len(loaded(*GATES))}")
    print("work, warm:")
    print(python(TRACED), end="")


def print_kinds() -> None:
    """Print where the product asks for the kind of an object."""
    found = {what: places(partial(kind_checks, names=names)) for what, names in kinds().items()}
    main_kinds = [*found["estimates"], *found["strategies"]]
    files = {place.partition(":")[0] for place in main_kinds}
    print(f"isinstance on kinds of estimates and strategies, research apart: {len(main_kinds)} in {len(files)} files")
    for what in ("estimates", "strategies", "exact data", "measurements"):
        print(f"  {what}: {len(found[what])}", *(f"    {place}" for place in found[what]), sep="\n")
    named = places(name_checks)
    print(f"  comparisons with the name of a kind: {len(named)}", *(f"    {place}" for place in named), sep="\n")
    print(f"  attributes, outside of the domain: {kinds_asked()}")


def print_names() -> None:
    """Print names, docstrings and lengths against the rules."""
    old = [(path, node) for path, node, text in docstrings() if OLD_FORMULA.search(text)]
    of_modules = sum(isinstance(node, ast.Module) for _, node in old)
    print(f'docstrings of the form "... enters ... leaves": {len(old)}, {of_modules} of them of modules')
    print(f"functions named `of`: {sum(node.name == 'of' for node in functions())}")
    every = homes()
    most = [name for name in every if name.startswith("MOST_")]
    print(f"constants MOST_*: {sum(len(every[name]) for name in most)}, by {len(most)} names")
    short = [path for path in modules() if lines_of(path) < FEW_LINES]
    packages = sum(path.endswith("__init__.py") for path in short)
    print(f"files under {FEW_LINES} lines: {len(short)} of {len(modules())}, {packages} of them __init__.py")
    twice = two_homes()
    constants = [name for name in twice if name.isupper()]
    named = [f"{name} ({', '.join(where)})" for name, where in twice.items() if name not in constants]
    print(f"functions, classes and type aliases with two homes: {len(named)}", *named, sep="\n  ")
    print(f"constants in capitals with two homes: {len(constants)} ({', '.join(constants)})")
    found = lengths()
    p90 = found[int(0.9 * len(found))]
    print(f"functions: {len(found):,}, median {statistics.median(found):.0f} lines, p90 {p90}, longest {found[-1]}")


def main() -> None:
    """Print the numbers."""
    for part in (print_sizes, print_structure, print_kinds, print_names):
        part()
        print(flush=True)


if __name__ == "__main__":
    main()
