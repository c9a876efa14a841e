"""A file is counted once whatever names lead to it, and its rows are charged to one ledger."""

import glob
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from dpcube.core.domain import Domain, Integer
from dpcube.core.errors import SourceError
from dpcube.core.sources import names, open_rows, spark

AGES = Domain((Integer(name="age", min=0, max=9),))
ROW = "age\n3\n"


def write(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"age": [3]}), path)
    else:
        path.write_text(ROW)
    return path


def count(source: Any) -> int:
    return int(open_rows(source).count_cells(AGES).sum())


# Each file once.


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("pattern", ["**/**/*", "**/**/**/*", "**/*", "a/**/b/**/c/*", "*/**/*/**/*"])
def test_a_pattern_of_several_depths_counts_a_file_once(tmp_path: Path, pattern: str, kind: str) -> None:
    write(tmp_path / "t" / "a" / "b" / "c" / f"x.{kind}")
    assert count(f"{tmp_path}/t/{pattern}.{kind}") == 1


def test_a_pattern_that_leads_to_directories_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "t" / "a" / "x.csv")
    for pattern in ("**", "**/**/**", "*"):
        with pytest.raises(SourceError, match="which is not a file; use a pattern of files"):
            open_rows(f"{tmp_path}/t/{pattern}")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_links_are_second_names(tmp_path: Path, kind: str) -> None:
    first = write(tmp_path / "d" / f"nov.{kind}")
    (tmp_path / "d" / f"latest.{kind}").symlink_to(first.name)
    assert count(tmp_path / "d") == count(f"{tmp_path}/d/*") == 1
    (tmp_path / "d" / f"hard.{kind}").hardlink_to(first)
    assert count(tmp_path / "d") == count(f"{tmp_path}/d/*") == 1
    (tmp_path / "e").symlink_to("d")
    assert count(f"{tmp_path}/*/*.{kind}") == count(f"{tmp_path}/**/*.{kind}") == 1
    (tmp_path / "d" / f"copy.{kind}").write_bytes(first.read_bytes())
    assert count(tmp_path / "d") == 2  # the same content is another file
    assert [file.path.name for file in names.listed(tmp_path / "d")] == [f"copy.{kind}", f"hard.{kind}"]


def test_links_that_lead_back_take_no_time(tmp_path: Path) -> None:
    """Two links to '.' are 2^40 names for glob, and so is a chain of directories with two links each to the next."""
    for i in range(40):
        write(tmp_path / "t" / f"{i}" / "x.csv")
        for name in "ab":
            (tmp_path / "t" / f"{i}" / name).symlink_to(f"../{(i + 1) % 40}")
            (tmp_path / "t" / f"{i}" / f"self {name}").symlink_to(".")
    start = time.process_time()
    for pattern in ("**/*.csv", "**/**/**/*.csv", "*/*/**/x.csv", "**/self */**/*.csv", "**/../*/x.csv"):
        assert count(f"{tmp_path}/t/{pattern}") == 40
    assert time.process_time() - start < 5


def test_more_names_than_can_be_looked_at_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(9):
        write(tmp_path / "t" / f"{i}.csv")
    monkeypatch.setattr(names, "MAX_NAMES", 10 + len(tmp_path.parts[1:]))
    assert count(f"{tmp_path}/*/8*.csv") == 1
    monkeypatch.setattr(names, "MAX_NAMES", 9 + len(tmp_path.parts[1:]))
    with pytest.raises(SourceError, match=r"visits more than \d+ names; use a pattern that begins in a smaller"):
        open_rows(f"{tmp_path}/*/8*.csv")


def test_files_that_cannot_be_told_apart_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "d" / "a.csv")
    monkeypatch.setattr(names, "identity", lambda _: (1, 0))
    assert count(tmp_path / "d") == 1
    write(tmp_path / "d" / "b.csv")
    with pytest.raises(SourceError, match=r"file system that gives files no identity .inode.; copy the table"):
        open_rows(tmp_path / "d")


# Arrow datasets.


def union(*datasets: pads.Dataset) -> pads.Dataset:
    return pads.dataset(list(datasets))


def below(folder: Path) -> pads.Dataset:
    return pads.dataset("", format="parquet", filesystem=pafs.SubTreeFileSystem(str(folder), pafs.LocalFileSystem()))


DATASETS: dict[str, Callable[[Path], pads.Dataset]] = {
    "a path twice": lambda d: pads.dataset([str(d / "x.parquet")] * 2),
    "a link": lambda d: pads.dataset([str(d / "x.parquet"), str(d / "y.parquet")]),
    "a hard link": lambda d: pads.dataset([str(d / "x.parquet"), str(d / "z.parquet")]),
    "a directory": pads.dataset,
    "a union": lambda d: union(pads.dataset(d / "x.parquet"), pads.dataset(d / "z.parquet")),
    "a union of unions": lambda d: union(union(pads.dataset(d / "x.parquet")), union(pads.dataset(d / "x.parquet"))),
    "a file system below another": below,
    "a filter": lambda d: pads.dataset(d).filter(pads.field("age") > 2),
    "a filter of a union": lambda d: union(pads.dataset(d), pads.dataset(d)).filter(pads.field("age") > 2),
}


@pytest.mark.parametrize("dataset", DATASETS)
def test_a_dataset_that_reads_a_file_twice_is_refused(tmp_path: Path, dataset: str) -> None:
    first = write(tmp_path / "x.parquet")
    (tmp_path / "y.parquet").symlink_to(first)
    (tmp_path / "z.parquet").hardlink_to(first)
    with pytest.raises(SourceError, match=r"^the Arrow dataset reads .*[xyz]\.parquet (twice|and .*\.parquet, which)"):
        open_rows(DATASETS[dataset](tmp_path))


def test_a_dataset_of_other_kinds_that_reads_a_file_twice_is_refused(tmp_path: Path) -> None:
    paths = [str(write(tmp_path / "x.csv")), str(write(tmp_path / "y.csv"))]
    assert count(pads.dataset(paths, format="csv")) == 2
    assert count(pads.dataset(paths, format="csv").filter(pads.field("age") < 3)) == 0
    assert count(union(pads.dataset(paths[0], format="csv"), pads.dataset(pa.table({"age": [1, 1]})))) == 3
    with pytest.raises(SourceError, match=r"x\.csv twice, so each row would count twice; read each file once"):
        open_rows(pads.dataset([*paths, paths[0]], format="csv"))


def test_row_groups_of_one_file_are_a_dataset_unless_they_overlap(tmp_path: Path) -> None:
    place = tmp_path / "x.parquet"
    pq.write_table(pa.table({"age": [0, 1, 2, 3, 4, 5]}), place, row_group_size=2)
    whole = pads.dataset(place)
    (fragment,) = whole.get_fragments()

    def groups(*ids: list[int] | None) -> pads.Dataset:
        parts = [fragment if i is None else fragment.subset(row_group_ids=i) for i in ids]
        return pads.FileSystemDataset(parts, whole.schema, whole.format, whole.filesystem)

    assert count(groups([0], [1, 2])) == 6
    assert count(groups([2], [0])) == 4
    assert count(union(groups([2]), groups([0]))) == 4
    for overlapping in (groups([0, 1], [1, 2]), groups([0], None), union(groups([1]), groups([1]))):
        with pytest.raises(SourceError, match=r"x\.parquet twice, so each row would count twice"):
            open_rows(overlapping)
    memory = pa.py_buffer(place.read_bytes())
    parts = [whole.format.make_fragment(memory)] * 2
    with pytest.raises(SourceError, match="reads <Buffer> twice"):
        open_rows(pads.FileSystemDataset(parts, whole.schema, whole.format))


def test_a_file_of_another_machine_goes_by_its_path(tmp_path: Path) -> None:
    """A file system of ours stands for one: of it only paths are known."""

    mock = pafs._MockFileSystem()
    for name in ("a", "b"):
        with mock.open_output_stream(f"{name}.csv") as stream:
            stream.write(ROW.encode())
    assert count(pads.dataset(["a.csv", "b.csv"], format="csv", filesystem=mock)) == 2
    with pytest.raises(SourceError, match=r"reads a\.csv twice"):
        open_rows(pads.dataset(["a.csv", "b.csv", "a.csv"], format="csv", filesystem=mock))


# Spark's patterns (what Spark itself does is in tests/integration/test_spark.py).


def test_a_path_in_which_spark_would_not_end_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "t" / "x.parquet")
    for name in "ab":
        (tmp_path / "t" / name).symlink_to(".")
    start = time.process_time()
    for path in (
        f"{tmp_path}/t",
        f"file:{tmp_path}/t",
        f"{tmp_path}/{{t,u}}",
        f"{tmp_path}/{{u,{{s,t}}}}/",
        f"{tmp_path}/**",
    ):
        with pytest.raises(SourceError, match=r"/t and .*/t/[ab], which are the same"):
            open_rows(f"spark:{path}")
    with pytest.raises(SourceError, match="expands to more than 1,000 patterns; use fewer braces"):
        open_rows("spark:t/" + "{a,b}" * 10)
    assert time.process_time() - start < 5
    assert spark._alternatives("a{b,{c,d}e}f{g,}") == {"abfg", "abf", "acefg", "acef", "adefg", "adef"}


class Connected:
    """What a frame of Spark Connect tells of its files."""

    def __init__(self, *files: str) -> None:
        self.files = list(files)
        self.schema = type("Schema", (), {"fields": []})()

    def inputFiles(self) -> list[str]:
        return self.files


def test_a_frame_that_does_not_say_how_often_it_reads_a_file_is_refused() -> None:
    assert spark.spark_table(Connected()).schema.names == []
    with pytest.raises(SourceError, match="is of Spark Connect, which hides how often a file is read"):
        spark.spark_table(Connected("hdfs://a/b.parquet"))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Files and directories with plain and hidden names, a link to a directory, and one that leads nowhere."""
    for name in (
        "a.csv",
        "b.csv",
        ".hidden.csv",
        "_log.csv",
        "d/a.csv",
        "d/e/a.csv",
        "d/.h/a.csv",
        "x[1].csv",
        "E/c.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x\n1\n")
    (tmp_path / "link").symlink_to(tmp_path / "E")
    (tmp_path / "nowhere.csv").symlink_to(tmp_path / "gone")
    return tmp_path.resolve()


PATTERNS = ("*", "*.csv", ".*", ".*.csv", "**", "**/*", "**/*.csv", "d/**", "*/a.csv", "*/*", "d/*/a.csv", "[ab].csv")
MORE = ("d/.h/*", "d/.*/*", "link/*", "**/c.txt", "d/e", "x[[]1].csv", "gone/*", "a.csv/*", "**/e/**", "?.csv", "*/e/*")


@pytest.mark.parametrize("pattern", [*PATTERNS, *MORE])
def test_a_pattern_matches_what_python_says_it_does(pattern: str, tree: Path) -> None:
    expected = {Path(name) for name in glob.glob(str(tree / pattern), recursive=True)}  # noqa: PTH207
    found = names.matched(tree / pattern)
    assert {path.resolve() for path in found} == {path.resolve() for path in expected}
    if "link" not in {path.parts[-2] for path in expected}:  # a directory is walked once, by the first of its names
        assert found == expected


def test_a_directory_is_walked_by_the_first_of_its_names_in_order(tree: Path) -> None:
    """`E` comes before `link`, which leads to it: what is in it goes by that name, wherever it was found first."""
    assert names.matched(tree / "**" / "c.txt") == {tree / "E" / "c.txt"}
    assert names.matched(tree / "**" / "*.txt") == {tree / "E" / "c.txt"}


def test_where_files_have_no_numbers_directories_go_by_their_names(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "identity", lambda _: (1, 0))
    assert names.matched(tree / "d" / "**" / "a.csv") == {tree / "d" / "a.csv", tree / "d" / "e" / "a.csv"}


def test_the_files_of_a_directory_are_those_whose_names_are_of_data(tree: Path) -> None:
    (tree / "d" / "e" / "_SUCCESS").touch()
    (tree / "d" / "e" / ".a.csv.crc").touch()
    [file] = names.listed(tree / "d" / "e")
    data = tree / "d" / "e" / "a.csv"
    assert (file.path, file.names, file.elsewhere) == (data, (data,), False)


@pytest.mark.parametrize(
    ("path", "words"),
    [("gone.csv", r"there is no file /"), ("empty", "no data file"), ("*.none", "no data file")],
)
def test_a_path_without_files_is_refused(path: str, words: str, tree: Path) -> None:
    (tree / "empty").mkdir()
    (tree / "empty" / "_log").touch()
    with pytest.raises(SourceError, match=words):
        names.listed(tree / path)


def test_the_own_names_of_a_file_are_those_in_the_table_once_links_are_followed(tree: Path) -> None:
    (tree / "E" / "hard.txt").hardlink_to(tree / "E" / "c.txt")
    (tree / "E" / "soft.txt").symlink_to(tree / "E" / "c.txt")
    [file] = names.listed(tree / "E")
    assert (file.path, file.elsewhere) == (tree / "E" / "c.txt", False)
    assert file.names == (tree / "E" / "c.txt", tree / "E" / "hard.txt")
    [file] = names.listed(tree / "link")
    assert file.names == (tree / "E" / "c.txt", tree / "E" / "hard.txt")
    [file] = names.listed(tree / "E" / "soft.txt")
    assert (file.path, file.names, file.elsewhere) == (tree / "E" / "soft.txt", (tree / "E" / "c.txt",), True)
    (tree / "outside.txt").hardlink_to(tree / "E" / "c.txt")
    [file] = names.listed(tree / "E")
    assert file.elsewhere


def test_a_name_that_is_deleted_meanwhile_may_be_elsewhere(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file had it when its names were counted: it may have been moved, and lead to another ledger."""
    (tree / "E" / "hard.txt").hardlink_to(tree / "E" / "c.txt")
    monkeypatch.setattr("os.path.lexists", lambda path: Path(path).name != "hard.txt")
    [file] = names.listed(tree / "E")
    assert file.elsewhere


@pytest.mark.parametrize(
    ("columns", "said"),
    [(["a;b"], "--delimiter ';'"), (["a\tb"], r"--delimiter '\t'"), (["a", "b;c"], ""), (["a"], ""), ([], "")],
)
def test_a_hint_is_given_of_one_column_with_another_delimiter(columns: list[str], said: str) -> None:
    hint = names.delimiter_hint(columns)
    assert said in hint
    assert bool(hint) == bool(said)
