"""Which code the figures of a page were measured on: docs/recorded.json says so, and a test holds pages to it.

python tools/recorded.py                    what is wrong, with the command that mends it
python tools/recorded.py --stale PAGE...    the code has changed: say on these pages that their figures are older
python tools/recorded.py --fresh PAGE...    their figures were measured again, at the commit that is checked out
python tools/recorded.py --at COMMIT PAGE   the same, for figures that are known to be of that commit
python tools/recorded.py --stale-all        every page whose code has changed

A page with measured figures names the code that they measure: packages and modules, by the names of groups of them.
A digest of that code is kept, of its syntax tree without docstrings, so that rewording or reformatting changes nothing.
If the code changes, either its figures are measured again, or the page says in one line that they are older.
"""

import ast
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "docs" / "recorded.json"
PACKAGE = "src/dpcube"
MARK = "<!-- figures -->"
"""How the line of a page begins that says how old its figures are; there is one in each page that has figures."""

Read = Callable[[str], bytes]
"""The content of a file of the repository, by its path."""


@dataclass(frozen=True, slots=True)
class Record:
    """The figures of one page: the groups of code that they measure, and how and when that was done.

    `commit` is the last at which some were measured, empty where none have been yet; `digest` is that of the code then,
    empty where the figures of a page are of several commits.
    """

    page: str
    measures: tuple[str, ...]
    command: str
    commit: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Records:
    """All records; the groups of code by name, each a list of paths in the package; pages without measured figures."""

    groups: dict[str, list[str]]
    records: dict[str, Record]
    without_figures: list[str]

    @classmethod
    def load(cls) -> "Records":
        """Read the file."""
        held = json.loads(RECORDS.read_text(encoding="utf-8"))
        records = {
            page: Record(page, tuple(of["measures"]), of["command"], of["commit"], of["digest"])
            for page, of in held["pages"].items()
        }
        return cls(held["groups"], records, held["without_figures"])

    def save(self) -> None:
        """Write the file."""
        pages = {page: {k: v for k, v in asdict(of).items() if k != "page"} for page, of in self.records.items()}
        held = {"groups": self.groups, "pages": pages, "without_figures": self.without_figures}
        RECORDS.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")

    def digest(self, record: Record, *, commit: str = "") -> str:
        """Return the digest of the code that a page's figures measure, as it is or as it was at a commit."""
        paths = [path for group in record.measures for path in self.groups[group]]
        if commit:
            listed = _git("ls-tree", "-r", "--name-only", commit, PACKAGE).decode().splitlines()
            return _digest(_under(paths, listed), lambda path: _git("show", f"{commit}:{path}"))
        there = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / PACKAGE).rglob("*.py"))]
        return _digest(_under(paths, there), lambda path: (ROOT / path).read_bytes())

    def is_current(self, record: Record) -> bool:
        """Say whether the figures of a page are of the code as it is."""
        return record.digest == self.digest(record)

    def mark(self, record: Record) -> str:
        """Return the line that a page should have."""
        if not record.commit:
            words = f"Figures of this version are not recorded yet: <code>{record.command}</code> measures them."
        elif self.is_current(record):
            return MARK
        else:
            words = (
                f"The figures on this page were measured at commit {record.commit} or earlier, and not again with the "
                "code of this version, which may give others."
            )
        return f"{MARK}<p><em>{words}</em></p>"


def _under(paths: Sequence[str], files: Iterable[str]) -> list[str]:
    """Return the files that paths of the package name, a folder with all below it; a path after "-" is left out."""
    named, left_out = ([path.lstrip("-") for path in paths if path.startswith("-") == out] for out in (False, True))
    return sorted(file for file in files if _is_below(file, named) and not _is_below(file, left_out))


def _is_below(file: str, paths: Iterable[str]) -> bool:
    return file.endswith(".py") and any(f"{file}/".startswith(f"{PACKAGE}/{path}/") for path in paths)


def _digest(files: Sequence[str], read: Read) -> str:
    together = hashlib.sha256()
    for file in files:
        together.update(f"{file} {_of_code(read(file))}\n".encode())
    return together.hexdigest()[:16]


@cache
def _of_code(source: bytes) -> str:
    """Return a digest of what a module does: comments, docstrings and layout apart."""
    return hashlib.sha256(_written(ast.parse(source)).encode()).hexdigest()


def _written(node: object) -> str:
    """Write a syntax tree out; what is empty is left out, for versions of Python differ in that."""
    if isinstance(node, list):
        return f"[{','.join(_written(one) for one in node if not _is_text(one))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = [(name, getattr(node, name, None)) for name in sorted(node._fields)]
    kept = [f"{name}={_written(value)}" for name, value in fields if value is not None and value != []]
    return f"{type(node).__name__}({','.join(kept)})"


def _is_text(node: object) -> bool:
    """Say whether a statement is a text by itself: a docstring, of whatever."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True).stdout


def line_of(page: str) -> str:
    """Return the line of a page that says how old its figures are; empty if there is none, or more than one."""
    found = [line for line in page.splitlines() if line.startswith(MARK)]
    return found[0] if len(found) == 1 else ""


def with_line(page: str, line: str) -> str:
    """Return a page with that line in place of the one it has; after its title if it has none."""
    if not line_of(page):
        title, blank, rest = page.partition("\n\n")
        return f"{title}{blank}{line}\n\n{rest}"
    return "".join(f"{line}\n" if one.startswith(MARK) else one for one in page.splitlines(keepends=True))


def without_line(page: str) -> str:
    """Return a page as it is written by a program: without the line."""
    return page.replace(f"{line_of(page)}\n\n", "", 1) if line_of(page) else page


def problems(records: Records) -> list[str]:
    """Return what is wrong, each with the command that mends it."""
    pages = {path.relative_to(ROOT).as_posix() for path in [ROOT / "README.md", ROOT / "benchmarks" / "README.md"]}
    pages |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    named, source = {*records.records, *records.without_figures}, ROOT / PACKAGE
    paths = {path.lstrip("-") for paths in records.groups.values() for path in paths}
    found = [f"{page}: is not in docs/recorded.json; say there what code its figures measure" for page in pages - named]
    found += [f"docs/recorded.json: names {page}, which is not there" for page in named - pages]
    found += [
        f"docs/recorded.json: names {path}, which is not in {PACKAGE}" for path in paths if not (source / path).exists()
    ]
    for page in sorted(pages & named):
        line = line_of((ROOT / page).read_text(encoding="utf-8"))
        if page in records.records and line != records.mark(records.records[page]):
            found.append(_unmarked(records, records.records[page]))
        elif page in records.without_figures and line:
            found.append(f"{page}: says how old its figures are, and docs/recorded.json says that it has none")
    return found


def _unmarked(records: Records, record: Record) -> str:
    """Return what to do about a page that does not say of which code its figures are."""
    again = f"measure them again ({record.command}) and run python tools/recorded.py --fresh {record.page}, or "
    return (
        f"{record.page}: does not say of which code its figures are (recorded: {record.commit or 'none'}); "
        f"{'' if records.is_current(record) else again}mark the page: python tools/recorded.py --stale {record.page}"
    )


def write_line(records: Records, page: str) -> None:
    """Put the line that a page should have into it."""
    path = ROOT / page
    path.write_text(with_line(path.read_text(encoding="utf-8"), records.mark(records.records[page])), encoding="utf-8")


def set_commit(records: Records, page: str, commit: str) -> None:
    """Record that the figures of a page are of the code at a commit."""
    old = records.records[page]
    digest, short = records.digest(old, commit=commit), _git("rev-parse", "--short=9", commit).decode().strip()
    records.records[page] = Record(page, old.measures, old.command, short, digest)


def main(words: list[str]) -> int:
    """Do what the command line says, and return the exit code."""
    records = Records.load()
    verb, pages = (words[0], words[1:]) if words else ("", [])
    if verb == "--stale-all":
        pages = list(records.records)
    elif verb == "--at":
        commit, pages = pages[0], pages[1:]
        for page in pages:
            set_commit(records, page, commit)
    elif verb == "--fresh":
        if _git("status", "--porcelain", PACKAGE):
            print(f"{PACKAGE} has changes that are not committed: commit them, measure, and run this again")
            return 1
        for page in pages:
            set_commit(records, page, "HEAD")
    elif verb not in ("", "--stale"):
        print(__doc__)
        return 2
    records.save()
    for page in pages:
        write_line(records, page)
    found = problems(records)
    print("\n".join(found) or "the figures of every page are of this code, or the page says that they are older")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
