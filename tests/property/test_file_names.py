"""Random trees of directories with links of both kinds: every pattern counts each file that it leads to once."""

import glob
import os
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from dpcube.core.errors import SourceError
from dpcube.core.sources import names, open_rows

PARTS = st.sampled_from(["**", "**", "*", "a", "?", "[ab]", "b*", ".a", "*.csv"])
PATTERNS = st.lists(PARTS, min_size=1, max_size=4).map("/".join)
DIRECTORIES = st.sampled_from(["", "a", "b", "a/a", "a/b", "b/.a"])
FILES = st.sampled_from(["x.csv", "y.csv", ".z.csv"])
KINDS = st.sampled_from(["file", "symbolic", "hard", "directory"])
STEPS = st.lists(st.tuples(KINDS, DIRECTORIES, FILES, DIRECTORIES, FILES), min_size=1, max_size=12)


def grow(root: Path, steps: list[tuple[str, str, str, str, str]], *, loops: bool) -> None:
    """Make files, and links to them and to directories; without `loops` no directory is reached by two names."""
    for directory in ("a/a", "a/b", "b/.a"):
        (root / directory).mkdir(parents=True)
    for number, (kind, where, name, target, other) in enumerate(steps):
        place, aim = root / where / name, root / target / other
        if kind == "directory" and loops:
            (root / where / f"{'abd'[number % 3]}{number}").symlink_to(root / target)
        elif os.path.lexists(place):
            continue
        elif kind == "hard" and aim.is_file():
            place.hardlink_to(aim.resolve())
        elif kind == "symbolic" and aim.is_file():
            place.symlink_to(aim)
        elif kind == "file":
            place.write_text("n\n1\n")


def found_by_glob(pattern: str) -> set[tuple[int, int]]:
    found = glob.glob(pattern, recursive=True)  # noqa: PTH207
    return {names.identity(path) for path in map(Path, found) if path.exists()}  # '.a/**' finds .a/ where there is none


@given(STEPS, PATTERNS)
def test_what_matches_is_what_glob_finds(steps: list[tuple[str, str, str, str, str]], pattern: str) -> None:
    with TemporaryDirectory() as folder:
        grow(Path(folder), steps, loops=False)
        whole = f"{folder}/{pattern}"
        assert {names.identity(path) for path in names.matched(Path(whole))} == found_by_glob(whole)


@settings(max_examples=50)
@given(STEPS, PATTERNS)
def test_every_pattern_counts_each_of_its_files_once(steps: list[tuple[str, str, str, str, str]], pattern: str) -> None:
    """Against all files by a walk of ours through real directories, and for one pattern at a time against its files."""
    with TemporaryDirectory() as folder:
        grow(Path(folder), steps, loops=True)
        everything = {
            names.identity(Path(where, name))
            for where, _, files in os.walk(folder)
            for name in files
            if "/." not in where and not name.startswith(".")
        }
        whole = Path(folder, pattern, "*.csv")
        try:
            rows = open_rows(whole).count()
        except SourceError:
            assert {path for path in names.matched(whole) if path.is_file()} == set()
            return
        files = [names.identity(file.path) for file in names.listed(whole)]
        assert rows == len(set(files)) == len(files)
        if set(pattern.split("/")) == {"**"}:
            assert set(files) >= everything
            assert len(files) <= len({names.identity(path) for path in Path(folder).rglob("*.csv")})
