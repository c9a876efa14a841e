"""Single values at the edges of trusted code: each test fails for a small fault that other tests let pass."""

import hashlib
import json
import math
import os
import ssl
from collections.abc import Callable
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpcube import Category, Domain, Integer
from dpcube.core.boxes import Boxes
from dpcube.core.caches import is_ours
from dpcube.core.candidates import BestSplit, Candidates, MedianCuts, TableDistances
from dpcube.core.domain.grammar import parsed_day, parsed_number
from dpcube.core.domain.hierarchy import checked_groups
from dpcube.core.domain.reading import Reading
from dpcube.core.domain.value_set import ValueSet
from dpcube.core.domain.written import Typed, typed
from dpcube.core.errors import DomainError, InputError, LinkageError
from dpcube.core.exact import SparseRows, _CountedRows
from dpcube.core.limits import MAX_ATTRIBUTES, MAX_COMPARED_VALUES, MAX_PARSED_TEXT
from dpcube.core.memory import in_words
from dpcube.core.regions import RegionTree
from dpcube.core.sources.dialect import Dialect, Spark
from dpcube.core.sources.lakehouse import _plain
from dpcube.core.sources.open import pinned
from dpcube.core.sources.table import TEXT, common_schema
from dpcube.curator.publishing import count
from dpcube.link.blocking import _numbers
from dpcube.link.rules import MatchingRules, NumberRule
from dpcube.link.secure.agreement import _whole_numbers
from dpcube.link.secure.channel import _fault
from dpcube.link.secure.credentials import KEY_BYTES, _key_in, certificates
from dpcube.link.session import _padded

# Numbers and days in text.

EURO, KRONER = Reading(prefix="€"), Reading(suffix="kr")


@pytest.mark.parametrize(
    ("reading", "text", "number"),
    [
        (EURO, "€5", 5),
        (EURO, "€ 5", 5),
        (EURO, "-€5", -5),
        (EURO, "€-5", -5),
        (EURO, "5", 5),
        (EURO, "-€-5", None),
        (EURO, "-€+5", None),
        (EURO, "+€+5", None),
        (EURO, "5€", None),
        (KRONER, "5 kr", 5),
        (KRONER, "5", 5),
        (KRONER, "kr5", None),
        (KRONER, "5 KR", None),
        (Reading(suffix="kr", fold=True), "5 KR", 5),
        (Reading(prefix="EUR", suffix="net"), "EUR 5 net", 5),
        (Reading(thousands=","), "1,234", 1234),
        (Reading(thousands=","), "-1,234,567.5", -1_234_567.5),
        (Reading(thousands=","), "12,34", None),
        (Reading(thousands=",", prefix="€"), "€1,234e1", 12_340),
        (Reading(decimal=","), "1,5", 1.5),
        (Reading(), "TRUE", 1),
        (Reading(), "false", 0),
    ],
)
def test_a_number_is_read_with_its_marks_and_its_sign_once(reading: Reading, text: str, number: float | None) -> None:
    assert parsed_number(reading, text) == number


DIGITS = Reading(formats=("%Y%m%d",))


@pytest.mark.parametrize(
    ("reading", "text"),
    [
        (DIGITS, "20260301"),
        (DIGITS, " 20260301.0 "),  # as a library writes a column of whole numbers of which one is missing
        (DIGITS, "2026-03-01"),
        (Reading(formats=("%d.%m.%Y",)), "1.3.2026"),
        (Reading(), "2026-03-01T23:30"),
        (Reading(), "2026-03-02T00:30+01:00"),
    ],
)
def test_a_day_is_read_by_every_format(reading: Reading, text: str) -> None:
    assert parsed_day(reading, text, None) == date(2026, 3, 1).toordinal()


@pytest.mark.parametrize(
    "text", ["20260301.5", "20260301", "\u0662\u0660\u0662\u0666-\u0660\u0663-\u0660\u0661", "2026-3-1", "2026-02-29"]
)
def test_what_no_format_reads_is_no_day(text: str) -> None:
    assert parsed_day(Reading(), text, None) is None
    assert parsed_day(DIGITS, "20260301.5", None) is None


def test_a_typed_value_is_as_long_as_text_that_is_parsed() -> None:
    longest = "5".rjust(MAX_PARSED_TEXT)
    assert (typed(longest), typed(f" {longest}")) == (Typed("number", 5.0), None)
    assert typed("1970-01-03T00:00:00") == typed(" 1970-01-03 ") == Typed("day", 2)


def test_null_texts_are_looked_up_among_many_values() -> None:
    """More values than are compared one by one, and the column has numbers."""
    values = tuple(str(n) for n in range(MAX_COMPARED_VALUES + 2))
    domain = Domain((Category(name="ward", values=values, null_text=("-9", "99"), null="cell", unknown="drop"),))
    counted = count(pa.table({"ward": [3, 3, -9, 99, -9, 777]}), domain)
    assert counted.nonzero()[0].tolist() == [3, len(values)]
    assert counted[[3, len(values)]].tolist() == [2, 3]


# Domains.


def test_the_end_of_a_closed_range_stays_closed_in_an_intersection() -> None:
    ending = ValueSet(((0.0, math.nextafter(5.0, math.inf)),), closed=frozenset({5.0}))
    both = ending & ValueSet(((0.0, 10.0),))
    assert both.closed == (ValueSet(((0.0, 10.0),)) & ending).closed == {5.0}
    assert both.shares(np.array([0.0, 10.0])).tolist() == [0.5]


def test_a_whole_bin_is_not_cut() -> None:
    age = Integer(name="age", min=0, max=29, width=10)
    assert age.cut_shares(np.array([0.0, 0.5, 1.0])).tolist() == [False, True, False]


def test_a_value_listed_twice_is_the_one_that_is_named() -> None:
    with pytest.raises(DomainError, match="'south'"):
        Category(name="ward", values=("north", "south", "east", "south"))


def test_a_domain_has_so_many_attributes_and_no_more() -> None:
    most = tuple(Integer(name=f"a{n}", min=0, max=1) for n in range(MAX_ATTRIBUTES))
    assert len(Domain(most).attributes) == MAX_ATTRIBUTES
    with pytest.raises(DomainError, match=f"at most {MAX_ATTRIBUTES} attributes"):
        Domain((*most, Integer(name="more", min=0, max=1)))


def test_levels_of_numbers_come_back_from_a_file() -> None:
    levels = {"halves": (20, 30, 50), "whole": (20, 50)}
    domain = Domain((Integer(name="age", min=20, max=49, width=5, hierarchy=levels),))
    assert Domain.loads(domain.dumps()) == domain


@pytest.mark.parametrize("groups", [(["all", ["a", "b"]],), (("all",),), ("ab",), [("all", ["a", "b"])]], ids=repr)
def test_groups_of_a_level_are_pairs(groups: Any) -> None:
    with pytest.raises(DomainError, match="must map names of groups to lists of members"):
        checked_groups("ward", "level", groups, ["a", "b"], [])


# Sources.


@pytest.mark.parametrize(
    ("cells", "type_"),
    [(2**16 - 1, "USMALLINT"), (2**16, "UINTEGER"), (2**32 - 1, "UINTEGER"), (2**32, "UBIGINT"), (2**62, "UBIGINT")],
)
def test_the_number_of_no_cell_fits_its_type(cells: int, type_: str) -> None:
    assert Dialect().cell_number("flat", cells) == f"coalesce(TRY_CAST(flat AS {type_}), {cells}::{type_})"


@pytest.mark.parametrize("text", ["o'clock", "a\\b", "$x", "{x}", "a\nb", "\x00"])
def test_a_text_that_spark_may_read_otherwise_is_written_in_hexadecimal(text: str) -> None:
    assert Spark().literal(text) == f"CAST(X'{text.encode().hex()}' AS STRING)"
    assert Spark().literal("north 3") == "'north 3'"


def test_an_address_is_no_path_even_if_a_directory_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "postgresql://host/visits"
    (tmp_path / address.replace("//", "/") / "_delta_log").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert pinned(address) == address


def test_the_configuration_in_a_checkpoint_is_a_mapping_and_the_rest_as_it_is() -> None:
    action = {"configuration": [("delta.columnMapping.mode", "name")], "partitionColumns": ["day"]}
    assert _plain(action) == {"configuration": {"delta.columnMapping.mode": "name"}, "partitionColumns": ["day"]}
    assert _plain({"configuration": None}) == {"configuration": None}


@pytest.mark.parametrize("types", [(pa.int64(), pa.float64()), (pa.float64(), pa.int64()), (pa.int32(), pa.int64())])
def test_a_column_of_two_types_is_text(types: tuple[pa.DataType, pa.DataType]) -> None:
    schemas = [pa.schema([("age", type_), ("ward", pa.int8())]) for type_ in types]
    common = common_schema([Path("a.parquet"), Path("b.parquet")], schemas)
    assert common == pa.schema([("age", TEXT), ("ward", pa.int8())])


def test_bytes_are_written_in_words() -> None:
    shown = [in_words(n) for n in (0, 999, 1000, 999_499, 999_500, 999_700 * 10**9, 10**15, 123_456 * 10**12)]
    assert shown == ["0 bytes", "999 bytes", "1 kB", "999 kB", "1 MB", "1,000 TB", "1,000 TB", "123,456 TB"]


# Scores of sparse rows.

SHAPE = (4, 3, 2)
PART = Boxes(SHAPE, np.array([[1, 1, 0]]), np.array([[4, 3, 1]]))
PARTS = Boxes(SHAPE, np.array([[1, 1, 0], [0, 0, 1]]), np.array([[4, 3, 1], [2, 1, 2]]))
SELECTIONS: list[Callable[[], Candidates]] = [
    lambda: MedianCuts(PART, np.array([0])),
    lambda: MedianCuts(PART, np.array([1])),
    lambda: MedianCuts(PARTS, np.array([0, 0])),
    lambda: BestSplit(PART, 1, (0, 2), "gini"),
    lambda: TableDistances(
        SHAPE, ((0,), (1, 2)), (np.zeros(4, np.int64), np.ones((3, 2), np.int64)), np.array([1, 2]), np.array([0, 5])
    ),
]


@pytest.mark.parametrize("number", range(len(SELECTIONS)))
def test_scores_of_sparse_rows_are_those_of_the_cells_of_each_box(number: int) -> None:
    """No two cells have the same count, so a row in the place of another, or one beyond a box, is another score."""
    counts = 3 ** np.arange(24).reshape(SHAPE)
    occupied = np.nonzero(counts)
    candidates = SELECTIONS[number]()
    sparse = candidates.scores_of(_CountedRows(SparseRows(SHAPE, occupied, counts[occupied])))
    assert sparse.tolist() == candidates.scores(counts).tolist()


def test_a_full_tree_of_regions_counts_every_leaf() -> None:
    """It has one place more than nodes: a step too far would read beyond its arrays."""
    tree = RegionTree((32,))
    cells = np.arange(32)[:, None]
    tree.part(Boxes((32,), cells, cells + 1))
    assert tree.used == len(tree.half) - 1 == 63
    counts = tree.counted([(cells, 2 ** np.arange(32))])
    assert counts[0] == 2**32 - 1
    assert tree.sums(Boxes((32,), cells, cells + 1), counts).tolist() == (2 ** np.arange(32)).tolist()


# Linkage.


@pytest.mark.parametrize("cuts", [0, 1, 5, 7, 100])
def test_numbers_of_cuts_go_from_none_to_all(cuts: int) -> None:
    found = _numbers(cuts)
    assert (found[0], found[-1], found) == (0, cuts, sorted(set(found)))


def test_steps_and_values_of_rules_reach_their_bounds() -> None:
    for step in (Fraction(1, 10**9), Fraction(10**9)):
        assert NumberRule("a", "a", tolerance=step, step=step).step == step
    loaded = MatchingRules.loads(
        f'threshold = 1\nkey = "k"\n[[compare]]\ncolumn = "a"\nkind = "number"\ntolerance = {8 * 10**15}\nstep = 1e9\n'
    )
    assert isinstance(loaded.rules[0], NumberRule)
    assert loaded.rules[0].tolerance == 8 * 10**15


def test_parties_of_another_version_of_the_rules_do_not_agree() -> None:
    rules = MatchingRules.loads('threshold = 1\nkey = "k"\n[[compare]]\ncolumn = "a"\nkind = "exact"\n')
    parts = [[rule.meaning() for rule in rules.rules], rules.threshold, hashlib.sha256(b"k").hexdigest()]
    digests = {
        hashlib.sha256(json.dumps([*version, *parts], sort_keys=True).encode()).hexdigest(): version
        for version in (["dpcube rules 1"], ["dpcube rules 2"], [])
    }
    assert digests[rules.digest] == ["dpcube rules 2"]


@pytest.mark.parametrize("message", [b"\0" * 5, b"\0" * 10, b"\0", b"\xff" * 4])
def test_sizes_of_blocks_are_whole_numbers_of_a_peer(message: bytes) -> None:
    with pytest.raises(LinkageError):
        _whole_numbers(message)
    assert _whole_numbers(b"\0\0\0\7" * 2) == (7, 7)
    assert _whole_numbers(b"") == ()


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_shared_key_may_be_a_line(end: str, tmp_path: Path) -> None:
    path = tmp_path / "link.key"
    path.write_bytes(f"{'5f' * KEY_BYTES}{end}".encode())
    path.chmod(0o600)
    assert _key_in(path) == b"\x5f" * KEY_BYTES


def test_an_authority_that_is_no_text_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "root.der").write_bytes(b"0\x82\xff\xfe")
    with pytest.raises(InputError, match="must be an authority, a certificate and its key in PEM"):
        certificates(tmp_path / "root.der", tmp_path / "own.pem", tmp_path / "own.key")


@pytest.mark.parametrize(
    ("reason", "said"),
    [("TLSV1_ALERT_UNKNOWN_CA", "neither our key"), ("WRONG_VERSION_NUMBER", "not use our TLS"), (None, "our TLS")],
)
def test_a_failed_handshake_says_whose_key_is_wrong(reason: str | None, said: str) -> None:
    error = ssl.SSLError(1, "failed")
    error.reason = reason  # type: ignore[assignment]
    assert said in _fault(error)


def test_each_block_gets_its_own_number_of_dummies_and_keeps_its_records() -> None:
    records = pa.table(
        {"block": pa.array([1, 0, 1], pa.int32()), "real": [True, True, True], "id": ["a", "b", "c"], "f0": [1, 2, 3]}
    )
    padded = _padded(records, np.array([3, 0, 2])).to_pylist()
    assert [row["block"] for row in padded] == [0] * 4 + [1] * 2 + [2] * 2
    assert {(row["block"], row["id"], row["f0"]) for row in padded if row["real"]} == {
        (1, "a", 1),
        (0, "b", 2),
        (1, "c", 3),
    }
    assert {(row["id"], row["f0"]) for row in padded if not row["real"]} == {(None, None)}
    assert sum(row["real"] for row in padded) == 3


def test_a_system_without_owners_of_files_keeps_folders_to_their_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o777)
    assert not is_ours(tmp_path.lstat())
    tmp_path.chmod(0o755)
    assert is_ours(tmp_path.lstat())
    monkeypatch.delattr(os, "geteuid")
    assert is_ours(tmp_path.lstat())
    (tmp_path / "link").symlink_to(tmp_path)
    assert not is_ours((tmp_path / "link").lstat())
