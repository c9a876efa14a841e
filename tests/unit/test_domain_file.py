import os
import re
from datetime import date
from pathlib import Path

import pytest

from dpcube.core.domain import Category, Date, Domain, Float, Integer
from dpcube.core.errors import DomainError

AGE = '[[attribute]]\nname = "age"\ntype = "integer"\nmin = 0\nmax = 99\n'
ODD = [
    'a"b',
    "it's",
    "line\nbreak",
    "\r\n",
    "tab\t",
    "back\\slash",
    "\\u0041",
    "\x7f",
    "\x00\x01\x1f",
    "é",
    "漢字 😀",
    "\u2028",
]
ODD += ["\x85", "#", "[x]", "=", '"""', "'''", " lead", "trail ", "\ufeff", "e\u0301"]

EVERYTHING = Domain(
    (
        Integer(name="age", min=-5, max=94, width=5, null="cell", outside="clip"),
        Integer(name="score", edges=(0, 1, 10, 2**53 - 1), unknown="cell"),
        Float(name="dose", min=0.1, max=1e-3 + 7, width=1e-05, nan="cell", infinite="clip"),
        Float(name="tiny", edges=(-1e15, 1e-300, 0.1 + 0.2, 1e15)),
        Category(name="grade", values=("low", "high"), ordered=True, null="cell", unknown="cell"),
        Date(name="visit", start=date(1, 1, 1), end=date(9999, 12, 31), every="year", outside="cell"),
    ),
    drafted_from_data=True,
    signed_public_by='N. "N" O\'Body\n',
)


def failure(text: str) -> str:
    with pytest.raises(DomainError) as caught:
        Domain.loads(text)
    message = str(caught.value)
    assert message.splitlines() == [message]
    return message


# --- round trips -------------------------------------------------------------------------------------------------


def test_text_reads_back_to_an_equal_domain() -> None:
    text = EVERYTHING.dumps()
    assert Domain.loads(text) == EVERYTHING
    assert Domain.loads(text).dumps() == text


def test_a_saved_file_reads_back(tmp_path: Path) -> None:
    EVERYTHING.save(tmp_path / "d.toml")
    assert Domain.load(tmp_path / "d.toml") == EVERYTHING
    assert Domain.load(str(tmp_path / "d.toml")) == EVERYTHING


def test_odd_names_and_values_survive(tmp_path: Path) -> None:
    domain = Domain(tuple(Category(name=f"n{text}", values=tuple(ODD[i:] + ODD[:i])) for i, text in enumerate(ODD)))
    domain.save(tmp_path / "d.toml")
    assert Domain.load(tmp_path / "d.toml") == domain


def test_defaults_are_left_out() -> None:
    assert Domain((Integer(name="age", min=0, max=99),)).dumps() == "format = 1\n\n" + AGE


def test_what_a_user_would_write() -> None:
    text = """
    format = 1

    [[attribute]]          # a comment
    name = 'age'
    type = "integer"
    edges = [
        0, 18,
        65, 120,
    ]
    outside = "clip"

    [[attribute]]
    type = "date"
    name = "visit"
    start = 2024-01-01
    end = 2024-12-31
    every = "week"
    """
    assert Domain.loads(text) == Domain(
        (
            Integer(name="age", edges=(0, 18, 65, 120), outside="clip"),
            Date(name="visit", start=date(2024, 1, 1), end=date(2024, 12, 31), every="week"),
        )
    )


def test_windows_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "d.toml"
    path.write_bytes(b"\xef\xbb\xbf" + AGE.replace("\n", "\r\n").encode())
    assert Domain.load(path) == Domain.loads(AGE)


# --- category lists from a file ----------------------------------------------------------------------------------


def listed(tmp_path: Path, extra: str = "") -> Path:
    path = tmp_path / "d.toml"
    path.write_text(f'[[attribute]]\nname = "code"\ntype = "category"\nvalues_from = "codes.txt"\n{extra}')
    return path


def test_values_are_read_beside_the_file_one_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    (tmp_path / "codes.txt").write_text("A01\nÄ\x85\u2028 02\n\n'x, y'\n", encoding="utf-8")
    domain = Domain.load(listed(tmp_path))
    assert domain == Domain((Category(name="code", values=("A01", "Ä\x85\u2028 02", "", "'x, y'")),))
    assert Domain.loads(domain.dumps()) == domain


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "needs values, a list of at least one text"),
        (b"a\nb\na\n", "attribute 'code' lists the value 'a' twice"),
        (b"\xff\xfe", "codes.txt is not text in UTF-8"),
    ],
)
def test_a_list_that_cannot_be_used(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "codes.txt").write_bytes(content)
    with pytest.raises(DomainError, match=message) as caught:
        Domain.load(listed(tmp_path))
    assert str(caught.value).startswith(str(tmp_path / "d.toml") + ": ")


def test_a_list_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DomainError, match=r"d\.toml: cannot read .*codes\.txt: No such file or directory$"):
        Domain.load(listed(tmp_path))


def test_a_list_given_twice(tmp_path: Path) -> None:
    (tmp_path / "codes.txt").write_text("a\n")
    with pytest.raises(DomainError, match=r"'code' of type category has values as well as values_from; keep one"):
        Domain.load(listed(tmp_path, 'values = ["b"]'))


def test_a_domain_inside_a_release_cannot_make_its_reader_open_files(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("a\n")
    text = f'[[attribute]]\nname = "x"\ntype = "category"\nvalues_from = "{secret}"\n'
    assert failure(text) == (
        "attribute 'x' of type category: values_from is possible in a domain file only; list the values instead"
    )


def test_a_list_whose_name_is_no_path(tmp_path: Path) -> None:
    path = tmp_path / "d.toml"
    path.write_text('[[attribute]]\nname = "x"\ntype = "category"\nvalues_from = "a\\u0000b"\n')
    with pytest.raises(DomainError, match=r"cannot read .*null"):
        Domain.load(path)
    path.write_text('[[attribute]]\nname = "x"\ntype = "category"\nvalues_from = ["a"]\n')
    with pytest.raises(DomainError, match=r"values_from must be the name of a file, got \['a'\]"):
        Domain.load(path)


# --- every mistake gets one clear line ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a domain needs at least one attribute"),
        ("format = 1", "a domain needs at least one attribute"),
        ("attribute = []", "a domain needs at least one attribute"),
        ("format = 2\n" + AGE, "format must be 1, got 2; a newer version of dpcube may read it"),
        ('format = "1"\n' + AGE, "format must be 1, got '1'; a newer version of dpcube may read it"),
        ("format = true\n" + AGE, "format must be 1, got True; a newer version of dpcube may read it"),
        (
            "atribute = []",
            "a domain file has no key 'atribute'; its keys are 'format', 'drafted_from_data', 'signed_public_by', "
            "'multiline', 'delimiter', 'encoding', 'learnt', 'attribute'; did you mean 'attribute'?",
        ),
        (
            "drafted_from_data = 1\n" + AGE,
            "drafted_from_data must be true or false, and signed_public_by a name in quotes",
        ),
        (
            "signed_public_by = 7\n" + AGE,
            "drafted_from_data must be true or false, and signed_public_by a name in quotes",
        ),
        ("[attribute]\nname = 'age'", "attributes must be declared as [[attribute]] tables"),
        ("attribute = 5", "attributes must be declared as [[attribute]] tables"),
        ("attribute = ['age']", "attributes must be declared as [[attribute]] tables"),
        (AGE + AGE, "the domain declares the attribute 'age' twice; give each attribute a unique name"),
        (
            "[[attribute]]\nname = 'age'",
            "attribute 'age': type must be one of 'integer', 'float', 'category', 'date', got None",
        ),
        (
            AGE.replace("integer", "int"),
            "attribute 'age': type must be one of 'integer', 'float', 'category', 'date', got 'int'",
        ),
        (
            AGE.replace('"integer"', "['integer']"),
            "attribute 'age': type must be one of 'integer', 'float', 'category', 'date', got ['integer']",
        ),
        ("[[attribute]]\ntype = 'integer'\nmin = 0\nmax = 9", "attribute None of type integer needs 'name'"),
        (AGE.replace('"age"', "5"), "the name of an attribute must be text that is not blank, got 5"),
        (
            AGE + "mxa = 5",
            "attribute 'age' of type integer has no key 'mxa'; its keys are 'type', 'name', 'column', 'trim', "
            "'case', 'null_text', 'min', 'max', 'width', 'edges', 'null', 'nan', 'infinite', 'unknown', 'outside', "
            "'hierarchy', 'within', 'decimal', 'thousands', 'prefix', 'suffix', 'bins'; did you mean 'max'?",
        ),
        (
            "[[attribute]]\nname = 'x'\ntype = 'category'\nvalue = ['a']",
            "attribute 'x' of type category has no key 'value'; its keys are 'type', 'name', 'column', 'trim', "
            "'case', 'null_text', 'values', 'ordered', 'null', 'unknown', 'hierarchy', 'true', 'false', 'values_from'"
            "; did you mean 'values'?",
        ),
        ("[[attribute]]\nname = 'x'\ntype = 'category'", "attribute 'x' of type category needs 'values'"),
        ("[[attribute]]\nname = 'x'\ntype = 'date'", "attribute 'x' of type date needs 'end', 'start'"),
        (
            "[[attribute]]\nname = 'x'\ntype = 'category'\nvalues = 'a'",
            "attribute 'x' of type category: values must be a list in square brackets, got 'a'",
        ),
        (
            "[[attribute]]\nname = 'x'\ntype = 'float'\nedges = 5",
            "attribute 'x' of type float: edges must be a list in square brackets, got 5",
        ),
        (
            "[[attribute]]\nname = 'x'\ntype = 'category'\nvalues = [1, 2]",
            "attribute 'x': values must be texts in quotes, got 1",
        ),
        (
            "[[attribute]]\nname = 'x'\ntype = 'category'\nvalues = [['a']]",
            "attribute 'x': values must be texts in quotes, got ['a']",
        ),
        (AGE.replace("99", "[99]"), "attribute 'age': max must be a number between -2^53 and 2^53, got [99]"),
        (AGE.replace("99", "'99'"), "attribute 'age': max must be a number between -2^53 and 2^53, got '99'"),
        (AGE.replace("99", "true"), "attribute 'age': max must be a number between -2^53 and 2^53, got True"),
        (AGE.replace("99", "nan"), "attribute 'age': max must be a number between -2^53 and 2^53, got nan"),
        (AGE.replace("99", "-inf"), "attribute 'age': max must be a number between -2^53 and 2^53, got -inf"),
        (AGE.replace("99", "99.5"), "attribute 'age': max must be a whole number, got 99.5; or declare it as a float"),
        (AGE + "null = 'clip'", "attribute 'age': null must be one of \"drop\", \"cell\", got 'clip'"),
        (AGE + "null = true", 'attribute \'age\': null must be one of "drop", "cell", got True'),
        (
            "[[attribute]]\nname = 'x'\ntype = 'date'\nstart = 2024-01-01T00:00:00\nend = 2024-12-31",
            "attribute 'x': start must be a date such as 2026-01-31 without quotes, "
            "got datetime.datetime(2024, 1, 1, 0, 0)",
        ),
        (
            "[[attribute]]\nname = 'x'\ntype = 'date'\nstart = 2024-01-01\nend = '2024-12-31'",
            "attribute 'x': end must be a date such as 2026-01-31 without quotes, got '2024-12-31'",
        ),
        (
            "[[attribute]]\nname = 'x'\ntype = 'date'\nstart = 2024-01-01\nend = 12:00:00",
            "attribute 'x': end must be a date such as 2026-01-31 without quotes, got datetime.time(12, 0)",
        ),
        (
            "[[attribute]]\nname = 'x'\ntype = 'category'\nvalues = ['a']\nordered = 'yes'",
            "attribute 'x': ordered must be true or false, got 'yes'",
        ),
    ],
)
def test_each_mistake_in_a_domain(text: str, message: str) -> None:
    assert failure(text) == message


@pytest.mark.parametrize(
    "text",
    [
        "not toml",
        "a = ",
        "min = ?",
        "a = 1\na = 2",
        "\x00",
        "[[attribute]",
        "a = " + "[" * 50_000,
        "a = " + "9" * 5_000,
    ],
    ids=["words", "no value", "draft", "twice", "null", "bracket", "deep", "digits"],
)
def test_text_that_is_not_toml(text: str) -> None:
    assert failure(text).startswith("not a TOML file: ")


def test_a_draft_that_was_not_filled_in_says_what_is_missing() -> None:
    draft = '[[attribute]]\nname = "age"\ntype = "integer"\n# min = ?\n# max = ?\n# width = ?\n'
    assert failure(draft) == (
        "attribute 'age' needs min and max (and a width), or edges; take them from public knowledge, not from the data"
    )


@pytest.mark.parametrize("text", ["not toml", "format = 2", AGE + AGE, "", AGE + "mxa = 5"])
def test_a_mistake_in_a_file_names_the_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "d.toml"
    path.write_text(text)
    with pytest.raises(DomainError) as caught:
        Domain.load(path)
    assert str(caught.value) == f"{path}: {failure(text)}"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DomainError, match=re.escape(f"cannot read {tmp_path}/none.toml: No such file or directory")):
        Domain.load(tmp_path / "none.toml")
    with pytest.raises(DomainError, match=re.escape(f"cannot read {tmp_path}: Is a directory")):
        Domain.load(tmp_path)
    (tmp_path / "latin.toml").write_bytes("# é".encode("latin-1"))
    with pytest.raises(DomainError, match=r"latin\.toml is not text in UTF-8$"):
        Domain.load(tmp_path / "latin.toml")


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.toml"
    with path.open("wb") as sink:
        sink.truncate(17 * 2**20)
    with pytest.raises(DomainError, match=r"huge\.toml is larger than 16 MiB, the limit for a domain file"):
        Domain.load(path)


# --- saving ------------------------------------------------------------------------------------------------------


def test_saving_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "d.toml"
    path.write_text("old")
    EVERYTHING.save(path)
    assert Domain.load(path) == EVERYTHING
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("moment", ["write_text", "replace"])
def test_a_failure_half_way_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    def full_disk(self: Path, *_args: object, **_options: object) -> None:
        with self.open("wb") as sink:
            sink.write(b"half")
        raise OSError(28, "No space left on device")

    path = tmp_path / "d.toml"
    path.write_text("old")
    monkeypatch.setattr(Path, moment, full_disk)
    with pytest.raises(DomainError, match=re.escape(f"cannot write {path}: No space left on device")):
        EVERYTHING.save(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interruption_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_args: object) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "d.toml"
    path.write_text("old")
    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        EVERYTHING.save(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("where", ["missing/d.toml", "file/d.toml", "file/deeper/d.toml", "directory"])
def test_places_that_cannot_be_written(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "directory").mkdir()
    with pytest.raises(DomainError, match=f"cannot write {re.escape(str(tmp_path / where))}: "):
        EVERYTHING.save(tmp_path / where)
    assert sorted(os.listdir(tmp_path)) == ["directory", "file"]  # noqa: PTH208 (names, not paths)
    assert list((tmp_path / "directory").iterdir()) == []


@pytest.mark.parametrize("learnt", ["3", "[]", "{a = 1}", '{a = "xyz"}', '{a = ["' + 64 * "a" + '"]}'])
def test_a_stamp_that_is_none_is_refused(learnt: str) -> None:
    with pytest.raises(DomainError, match="learnt must be a table"):
        Domain.loads(f"learnt = {learnt}\n{AGE}")


def test_a_stamp_is_read_back() -> None:
    stamped = Domain.loads(f'learnt = {{age = "{64 * "a"}"}}\n{AGE}')
    assert stamped.learnt == (("age", 64 * "a"),)
    assert Domain.loads(stamped.dumps()) == stamped
