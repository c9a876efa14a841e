"""What must be audited: the modules that trusted code can reach, and their lines, into docs/research/audit.md.

    python tools/audit.py            print the table
    python tools/audit.py --write    put it into the page

Trusted are the directories `core/`, `link/` and `curator/`, whole: the last two read rows too, and `curator/` is the
order of a release. That they load nothing else of ours is seen by loading them, in a process of their own; all but
`curator/publishing.py`, which hands noisy counts to strategies and returns a release.
"""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
PAGE = ROOT / "docs" / "research" / "audit.md"
BEGIN, END = "<!-- the table of tools/audit.py -->", "<!-- its end -->"
ABOVE = "dpcube.curator.publishing"


@cache
def trusted_modules() -> tuple[str, ...]:
    """Return the names of the modules that hold code which must be right for a release to be private."""
    folders = [
        path for part in ("core", "link", "curator") for path in sorted((SOURCE / "dpcube" / part).rglob("*.py"))
    ]
    entries = [name for name in map(_name, folders) if name != ABOVE]
    script = f"import sys, importlib; [importlib.import_module(name) for name in {entries!r}]; "
    script += "print(*sorted(name for name in sys.modules if name.split('.')[0] == 'dpcube'))"
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(SOURCE)!r}); {script}"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return tuple(sorted([*loaded, ABOVE]))


def path_of(module: str) -> Path:
    """Return the file of a module."""
    path = SOURCE.joinpath(*module.split("."))
    return path / "__init__.py" if (path / "__init__.py").exists() else path.with_suffix(".py")


@cache
def code_lines(path: Path) -> int:
    """Return the lines of a file that are neither blank nor comments nor docstrings."""
    text = path.read_text(encoding="utf-8")
    told: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            told.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(1 for number, line in lines if number not in told and line.strip() and not line.strip().startswith("#"))


def table() -> str:
    """Return the table of trusted modules, with what each is for by the first sentence of its own words."""
    rows = ["| module | lines | what it is for |", "|---|---:|---|"]
    modules = [module for module in trusted_modules() if code_lines(path_of(module))]
    for module in modules:
        said = ast.get_docstring(ast.parse(path_of(module).read_text(encoding="utf-8"))) or ""
        first = " ".join(said.split("\n\n")[0].split()).split(". ")[0].rstrip(".")
        rows.append(f"| `{path_of(module).relative_to(SOURCE / 'dpcube')}` | {code_lines(path_of(module))} | {first} |")
    total = sum(code_lines(path_of(module)) for module in modules)
    rows.append(f"| **{len(modules)} modules** | **{total:,}** | |")
    return "\n".join(rows)


def page() -> str:
    """Return the page with the table as it is now."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"


def _name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(table())
