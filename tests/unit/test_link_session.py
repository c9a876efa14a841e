"""A session: padded once and charged once, its owner's alone, the same at every restart, and without a record lost."""

import json
import os
import stat
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcube.core import padding
from dpcube.core.arrays import Ints
from dpcube.core.domain import Category, Domain, Integer
from dpcube.core.errors import BudgetError, DpcubeError, HiddenError, InputError, MemoryLimitError
from dpcube.core.ledger.ledger import Ledger
from dpcube.core.padding import padding_shift
from dpcube.core.request import read_lines
from dpcube.core.sources import CsvDialect, open_rows
from dpcube.curator.publishing import count
from dpcube.link import session as session_module
from dpcube.link.blocking import ROUNDS_AS_PAIRS, BlockFile
from dpcube.link.features import Side, feature_key, raw_features, side_features
from dpcube.link.program import matches
from dpcube.link.rules import MatchingRules
from dpcube.link.session import LinkSession, prepare_session
from dpcube.research.tables import experiment
from dpcube.testing import SeededNoise, SilentNoise

DOMAIN = Domain(
    Integer("year", 1920, 1999, outside="clip"), Category("state", list("abc"), null="cell", unknown="cell")
)
RULES = MatchingRules.loads(
    """
threshold = 3
[[compare]]
column = "name"
kind = "text"
similar = 0.7
[[compare]]
column = "year"
kind = "number"
tolerance = 1
[[compare]]
column = "state"
kind = "exact"
"""
)
LETTERS = list("abcdefghijklmnop")


def people(number: int, seed: int = 1, *, mark: str = "r") -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "id": [f"{mark}{i}" for i in range(number)],
            "name": ["".join(rng.choice(LETTERS, 8)) for _ in range(number)],
            "year": rng.integers(1920, 2000, number),
            "state": [None if s == "z" else s for s in rng.choice(["a", "b", "c", "z"], number)],
        }
    )


def blocks_of(table: pa.Table, **how: Any) -> BlockFile:
    release = experiment(count(table, DOMAIN), epsilon="1", domain=DOMAIN, noise=SeededNoise(3))
    return BlockFile.planned(release, RULES, **{"epsilon": "1", "rounds": 0, **how})


def test_a_pair_of_blocks_costs_what_was_measured_and_nothing_where_sets_are_intersected() -> None:
    table = people(4000)
    release = experiment(count(table, DOMAIN), epsilon="1", domain=DOMAIN, noise=SeededNoise(3))
    compared = "".join(f'[[compare]]\ncolumn = "{name}"\nkind = "exact"\n' for name in DOMAIN.names)
    equal = MatchingRules.loads(f"threshold = 2\n{compared}")
    assert equal.program.is_equality
    for rules, costs in ((RULES, ROUNDS_AS_PAIRS), (equal, 0)):
        usual, *others = (
            len(BlockFile.planned(release, rules, epsilon="1", rounds=rounds).plan)
            for rounds in (None, costs, ROUNDS_AS_PAIRS - costs, 4 * ROUNDS_AS_PAIRS)
        )
        assert usual == others[0]
        assert usual not in others[1:]


TABLE = people(600)
BLOCKS = blocks_of(TABLE)


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "t.ledger"


def prepared(path: Path, ledger: Path | None, table: Any = TABLE, **how: Any) -> LinkSession:
    return prepare_session(table, BLOCKS, RULES, path, **{"id_column": "id", "ledger": ledger, **how})


def found_links(left: LinkSession, right: LinkSession) -> set[tuple[str | None, str | None]]:
    """The links of two sessions, in the clear, over all candidate blocks."""
    sides: list[tuple[LinkSession, Side]] = [(left, "listener"), (right, "connector")]
    ours, theirs = (one.features(RULES, side) for one, side in sides)
    our_ids, their_ids = left.ids(), right.ids()
    return {
        (our_ids[i][x], their_ids[j][y])
        for i, j in BLOCKS.plan.candidates().tolist()
        for x, y in np.argwhere(matches(RULES.program, ours[i], theirs[j])).tolist()
    }


def test_blocks_are_several_and_no_record_is_lost_or_made_up(tmp_path: Path, ledger: Path) -> None:
    session = prepared(tmp_path / "s", ledger)
    assert len(BLOCKS.plan) > 10
    ids = [one for block in session.ids() for one in block]
    assert sorted(one for one in ids if one is not None) == sorted(TABLE["id"].to_pylist())
    assert session.sizes.sum() == len(ids)
    for block, features in zip(session.ids(), session.features(RULES, "listener"), strict=True):
        assert [one is not None for one in block] == (features[:, 0] == 1).tolist()
        assert not features[features[:, 0] == 0].any()  # a dummy holds nothing


def test_links_are_those_of_the_rules_without_blocks_and_dummies_match_nothing(tmp_path: Path) -> None:
    """Here no matching pair is lost to blocking: years within the tolerance, states equal or missing."""
    other = TABLE.set_column(0, "id", pa.array([f"q{i}" for i in range(len(TABLE))]))
    other = other.set_column(2, "year", pa.array(np.clip(TABLE["year"].to_numpy() + 1, 1920, 1999)))
    links = found_links(prepared(tmp_path / "a", None), prepared(tmp_path / "b", None, other))
    states = dict(zip(TABLE["id"].to_pylist(), TABLE["state"].to_pylist(), strict=True))
    expected = {(one, f"q{one[1:]}") for one, state in states.items() if state is not None}
    assert expected <= links
    assert not [pair for pair in links if None in pair]
    assert all(states[one or ""] is not None for one, _ in links)


def test_a_restart_uses_the_same_padding_order_and_features_and_is_not_charged(tmp_path: Path, ledger: Path) -> None:
    made = prepared(tmp_path / "s", ledger)
    again = LinkSession.open(tmp_path / "s", BLOCKS, RULES)
    assert again.facts == made.facts
    assert again.sizes.tolist() == made.sizes.tolist()
    assert again.ids() == made.ids()
    for one, other in zip(again.features(RULES, "listener"), made.features(RULES, "listener"), strict=True):
        assert np.array_equal(one, other)
    assert len(Ledger(ledger).statement().charges) == 1


def test_a_session_is_its_owners_alone_and_charged_with_epsilon_and_delta(tmp_path: Path, ledger: Path) -> None:
    session = prepared(tmp_path / "s", ledger, purpose="with the clinic")
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o600
    (charge,) = Ledger(ledger).statement().charges
    assert (charge.epsilon, charge.delta) == (Fraction(1), Fraction(1, 10**6))
    assert (charge.strategy, charge.domain, charge.purpose) == ("padding", BLOCKS.digest, "with the clinic")
    assert charge.digest == session.facts.number
    with pytest.raises(BudgetError):
        prepared(tmp_path / "s2", ledger)
    assert not (tmp_path / "s2").exists()


def test_another_session_is_charged_again_and_padded_anew(tmp_path: Path, ledger: Path) -> None:
    Ledger.create(ledger, total=Fraction(5), delta=Fraction(1, 1000))
    sizes = [prepared(tmp_path / name, ledger).sizes.tolist() for name in "abc"]
    assert Ledger(ledger).statement().spent == 3
    assert Ledger(ledger).statement().spent_delta == Fraction(3, 10**6)
    assert sizes[0] != sizes[1] != sizes[2]  # the same by chance with probability below 1e-10


def test_the_order_of_rows_is_drawn(tmp_path: Path) -> None:
    """Records and dummies lie anywhere in a block; records first, or as in the table, would tell which are which."""
    session = prepared(tmp_path / "s", None)
    real = [features[:, 0] for features in session.features(RULES, "listener")]
    assert any((np.diff(block) > 0).any() for block in real)
    ids = [[int(one[1:]) for one in block if one is not None] for block in session.ids()]
    assert any(block != sorted(block) for block in ids)


def test_rows_lie_in_the_order_of_words_that_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With words that fall from row to row, each block has its dummies first, and its records last to first."""

    class Falling:
        def fill(self, words: Any, /) -> None:
            words[...] = np.arange(len(words))[::-1]

    monkeypatch.setattr(session_module, "RandomWords", Falling)
    for block in prepared(tmp_path / "s", None).ids():
        numbers = [int(one[1:]) for one in block if one is not None]
        assert block[: len(block) - len(numbers)] == [None] * (len(block) - len(numbers))
        assert numbers == sorted(numbers, reverse=True)


def test_what_a_ledger_is_told_is_what_the_session_costs(tmp_path: Path, ledger: Path) -> None:
    how = {"total": "3", "unit": "id", "max_rows": 2, "epsilon": "1/2", "delta": "1e-5", "purpose": "p"}
    session = prepared(tmp_path / "s", ledger, **how)
    state = Ledger(ledger).statement()
    assert (state.total, state.unit, state.total_delta) == (Fraction(3), "id", Fraction(1, 10**5))
    (charge,) = state.charges
    assert (charge.epsilon, charge.delta, charge.purpose) == (Fraction(1, 2), Fraction(1, 10**5), "p")
    assert charge.digest == session.facts.number
    assert len(session.facts.number) == 32


def test_without_a_ledger_nothing_is_kept_and_beside_a_table_it_has_its_name(tmp_path: Path) -> None:
    prepared(tmp_path / "s", None)
    assert [path.name for path in tmp_path.iterdir()] == ["s"]
    pq.write_table(TABLE, tmp_path / "t.parquet")
    prepare_session(tmp_path / "t.parquet", BLOCKS, RULES, tmp_path / "again", id_column="id")
    assert len(Ledger(tmp_path / "t.ledger").statement().charges) == 1


@pytest.mark.parametrize("spent", ["epsilon", "delta", "unit"])
def test_a_ledger_that_has_not_enough_is_seen_before_rows_are_read(
    spent: str, tmp_path: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    total, delta = (
        Fraction(1, 2) if spent == "epsilon" else Fraction(9),
        Fraction(1, 10 ** (9 if spent == "delta" else 3)),
    )
    Ledger.create(ledger, total=total, delta=delta, unit="who" if spent == "unit" else None)
    read: list[object] = []
    monkeypatch.setattr(session_module, "_read_records", lambda *given: read.append(given))
    with pytest.raises(DpcubeError):
        prepared(tmp_path / "s", ledger)
    assert Ledger(ledger).statement().charges == ()
    assert read == []


def test_how_a_table_is_read_is_what_was_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def opened(source: object, **how: Any) -> Any:
        asked.append(how)
        return open_rows(source)

    monkeypatch.setattr(session_module, "open_rows", opened)
    dialect = CsvDialect(delimiter=";")
    prepared(tmp_path / "s", None, csv=dialect, query="SELECT 1")
    assert asked == [{"csv": read_lines(DOMAIN, dialect), "query": "SELECT 1"}]
    assert asked[0]["csv"].delimiter == ";"


@pytest.mark.parametrize(("null", "kept"), [("drop", 600), ("each", 607)])
def test_rows_of_nobody_are_dropped_unless_each_is_a_unit(null: str, kept: int, tmp_path: Path) -> None:
    nobody = TABLE.slice(0, 7).set_column(0, "id", pa.nulls(7, pa.string()))
    session = prepared(tmp_path / "s", None, pa.concat_tables([TABLE, nobody]), unit="id", null_unit=null)
    assert sum(one is not None for block in session.ids() for one in block) == kept


@pytest.mark.parametrize("column", ["id", "name", "year", "state"])
def test_a_column_that_is_not_there_is_named_before_rows_are_read(
    column: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "_read_records", lambda *_: pytest.fail("rows were read"))
    with pytest.raises(DpcubeError, match=f"no column '{column}'"):
        prepared(tmp_path / "s", None, TABLE.drop_columns([column]))


def test_padding_that_memory_does_not_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the shift is what most blocks get at most, eight bytes for each column of the program."""
    needed: list[int] = []

    def checked(size: int, *, what: str, remedy: str) -> None:
        needed.append(size)
        assert f"{len(BLOCKS.plan):,} blocks" in what
        raise MemoryLimitError(remedy)

    monkeypatch.setattr(session_module, "check_memory", checked)
    with pytest.raises(MemoryLimitError, match="larger epsilon"):
        prepared(tmp_path / "s", None)
    shift = padding_shift(Fraction(1), Fraction(1, 10**6))
    assert needed == [8 * RULES.program.width * 2 * shift * len(BLOCKS.plan)]


def test_a_session_in_no_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="its directory does not exist"):
        prepared(tmp_path / "none" / "s", None)


def test_features_of_a_session_are_those_of_its_records(tmp_path: Path) -> None:
    """Made once more from the table, for each record by its id; whoever has no state is missing there."""
    rows = {row["id"]: row for row in TABLE.to_pylist()}
    session, key = prepared(tmp_path / "s", None), feature_key(RULES)
    values = {"name": "text", "year": "number", "state": "text"}
    for block, made in zip(session.ids(), session.features(RULES, "connector"), strict=True):
        assert made.dtype == np.int64
        assert made.shape == (len(block), RULES.program.width)
        for one, features in zip(block, made, strict=True):
            if one is None:
                assert not features.any()
                continue
            row, expected = rows[one], [np.array([1])]
            for rule, (name, kind) in zip(RULES.rules, values.items(), strict=True):
                number = np.array([row[name]], np.float64) if kind == "number" else np.zeros(0)
                raw, there = raw_features(rule, [row[name]] if kind == "text" else (), number, key)
                expected.append(side_features(rule, raw, there, "connector")[0])
            np.testing.assert_array_equal(features, np.concatenate(expected))


def test_a_block_of_neither_records_nor_dummies_has_the_size_0() -> None:
    assert session_module._sizes(np.array([0, 0, 2]), 5).tolist() == [2, 0, 1, 0, 0]


@pytest.mark.parametrize("change", [{"format": "dpcube session 2"}, {"facts": {}}, {"facts": {"number": "1"}}])
def test_a_session_of_another_format_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    prepared(tmp_path / "s", None)
    rows = pq.read_table(tmp_path / "s")
    told = json.loads(rows.schema.metadata[b"dpcube.session"]) | change
    pq.write_table(rows.replace_schema_metadata({"dpcube.session": json.dumps(told)}), tmp_path / "s")
    with pytest.raises(InputError, match="not a complete session"):
        LinkSession.open(tmp_path / "s", BLOCKS, RULES)


def test_a_session_that_is_too_large_or_no_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared(tmp_path / "s", None)
    size = (tmp_path / "s").stat().st_size
    for largest in (size, size - 1):
        monkeypatch.setattr(session_module, "MAX_SESSION", largest)
        if largest == size:
            LinkSession.open(tmp_path / "s", BLOCKS, RULES)
        else:
            with pytest.raises(InputError, match="not a complete session"):
                LinkSession.open(tmp_path / "s", BLOCKS, RULES)
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(InputError, match="not a complete session"):
        LinkSession.open(tmp_path / "pipe", BLOCKS, RULES)


@pytest.mark.parametrize("mode", [0o601, 0o610, 0o640, 0o604, 0o602])
def test_a_session_that_others_may_open_is_refused(tmp_path: Path, mode: int) -> None:
    prepared(tmp_path / "s", None)
    (tmp_path / "s").chmod(mode)
    with pytest.raises(InputError, match="chmod 600"):
        LinkSession.open(tmp_path / "s", BLOCKS, RULES)


def test_a_charge_is_on_disk_before_padding_is_drawn(
    tmp_path: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drawn(*_: object, **__: object) -> None:
        assert len(Ledger(ledger).statement().charges) == 1
        raise OSError(5, "crashed")

    monkeypatch.setattr(session_module, "draw_padding", drawn)
    with pytest.raises(OSError, match="Input/output"):
        prepared(tmp_path / "s", ledger)
    assert not (tmp_path / "s").exists()
    assert Ledger(ledger).statement().remaining == 0  # spent: whoever starts again is charged again


def test_a_ledger_that_another_made_for_the_same_rows_meanwhile_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first session of a directory, while a first release of a file in it makes a ledger of its own."""
    (tmp_path / "data").mkdir()
    pq.write_table(TABLE, tmp_path / "data" / "a.parquet")
    honest = session_module._read_records

    def meanwhile(*given: Any) -> pa.Table:
        Ledger.create(tmp_path / "data" / "a.ledger", total=Fraction(1))
        return honest(*given)

    monkeypatch.setattr(session_module, "_read_records", meanwhile)
    with pytest.raises(InputError, match="has the ledger"):
        prepare_session(tmp_path / "data", BLOCKS, RULES, tmp_path / "s", id_column="id")
    assert not (tmp_path / "s").exists()
    assert Ledger(tmp_path / "data.ledger").statement().charges == ()


def test_a_crash_before_the_file_is_whole_leaves_none(
    tmp_path: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(table: object, part: Path, **_: object) -> None:
        part.write_bytes(b"PAR1")
        raise OSError(28, "full")

    monkeypatch.setattr(pq, "write_table", half)
    with pytest.raises(OSError, match="No space"):
        prepared(tmp_path / "s", ledger)
    assert [path.name for path in tmp_path.iterdir()] == ["t.ledger"]


def test_rows_of_a_unit_are_limited_and_padded_for(tmp_path: Path) -> None:
    table = pa.concat_tables([TABLE, TABLE, TABLE])
    session = prepared(tmp_path / "s", None, table, unit="id", max_rows=2)
    ids = [one for block in session.ids() for one in block if one is not None]
    assert max(ids.count(one) for one in set(ids)) == 2
    assert (session.facts.sensitivity, session.facts.shift) == (2, 29)
    assert session.facts.shift > prepared(tmp_path / "one", None).facts.shift


@pytest.mark.parametrize("rows", [1, 3])
def test_padding_is_drawn_for_all_rows_that_a_unit_may_have(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With silent noise every block has its records and the shift, which is that of so many rows."""
    asked: list[tuple[Fraction, int]] = []

    class Recorded(SilentNoise):
        def draw(self, epsilon: Fraction, size: int) -> Ints:
            asked.append((epsilon, size))
            return super().draw(epsilon, size)

    monkeypatch.setattr(padding, "ExactNoise", Recorded)
    session = prepared(tmp_path / "s", None, unit="id", max_rows=rows, epsilon="1/2", delta="1e-5")
    assert asked == [(Fraction(1, 2) / rows, len(BLOCKS.plan))]
    shift = padding_shift(Fraction(1, 2), Fraction(1, 10**5), sensitivity=rows)
    dummies = [sum(one is None for one in block) for block in session.ids()]
    assert dummies == [shift] * len(BLOCKS.plan)
    assert (session.facts.sensitivity, session.facts.shift) == (rows, shift)
    assert (session.facts.epsilon, session.facts.delta) == ("1/2", "1/100000")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"id_column": "nobody"}, "no column 'nobody'"),
        ({"epsilon": "0"}, "epsilon"),
        ({"delta": "1"}, "delta"),
        ({"max_rows": 2}, "max_rows"),
        ({"unit": "who"}, "no column 'who'"),
        ({"total": "0.5"}, "would allow 1/2"),
        ({"table": TABLE.drop_columns(["name"])}, "no column 'name'"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_spent(
    tmp_path: Path, ledger: Path, how: dict[str, Any], said: str
) -> None:
    with pytest.raises(DpcubeError, match=said):
        prepared(tmp_path / "s", ledger, **how)
    assert list(tmp_path.iterdir()) == []


def test_a_session_never_replaces_a_file(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("mine")
    with pytest.raises(InputError, match="never replaced"):
        prepared(tmp_path / "s", None)
    assert (tmp_path / "s").read_text() == "mine"


def test_a_session_of_other_rules_blocks_or_owners_is_refused(tmp_path: Path) -> None:
    prepared(tmp_path / "s", None)
    other = MatchingRules(RULES.rules, 2)
    with pytest.raises(InputError, match="other blocks or rules"):
        LinkSession.open(tmp_path / "s", BLOCKS, other)
    with pytest.raises(InputError, match="other blocks or rules"):
        LinkSession.open(tmp_path / "s", blocks_of(TABLE, epsilon="2"), RULES)
    with pytest.raises(InputError, match="made for other rules"):
        prepare_session(TABLE, BLOCKS, other, tmp_path / "t", id_column="id", ledger=None)
    (tmp_path / "s").chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        LinkSession.open(tmp_path / "s", BLOCKS, RULES)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"{}", os.urandom(1000)])
def test_a_file_that_is_no_session_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "s").write_bytes(content)
    (tmp_path / "s").chmod(0o600)
    with pytest.raises(InputError, match="not a complete session"):
        LinkSession.open(tmp_path / "s", BLOCKS, RULES)


def test_a_fault_shows_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(records: pa.Table, _: object) -> None:
        raise RuntimeError(records["id"].to_pylist())

    monkeypatch.setattr(session_module, "_padded", fails)
    with pytest.raises(HiddenError) as caught:
        prepared(tmp_path / "s", None)
    assert "r17" not in str(caught.value)
    assert caught.value.__context__ is None


def test_odd_rows_change_nothing_about_whether_a_session_is_made(tmp_path: Path) -> None:
    odd = pa.table(
        {
            "id": ["1", None, "3", "4"],
            "name": [None, "", "\x00\ud7ff" * 5000, "O'Hara; DROP TABLE"],
            "year": pa.array([None, 2**62, -5, 1950], pa.int64()),
            "state": ["nowhere", None, "a" * 10**5, "a"],
        }
    )
    session = prepared(tmp_path / "s", None, odd)
    assert sorted(one for block in session.ids() for one in block if one is not None) == [
        "",
        "3",
        "4",
    ]  # a null year is dropped
    assert prepared(tmp_path / "empty", None, odd.slice(0, 0)).sizes.sum() > 0


def test_a_blocks_file_is_read_back_and_hostile_ones_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    BLOCKS.save(path)
    again = BlockFile.load(path)
    assert again.digest == BLOCKS.digest
    assert again.plan.candidates().tolist() == BLOCKS.plan.candidates().tolist()
    text = path.read_text()
    for old, new in (
        ('"format": "dpcube blocks 1"', '"format": "dpcube blocks 2"'),
        ('"lower": [', '"lower": [[0, 0], '),
        ('"reach": [', '"reach": [NaN, '),
        ('"epsilon": "1"', '"epsilon": "0"'),
        ('"delta": "', '"delta": "99999999'),
        ("1999", "199999999"),
        ("{", ""),
        ("{", '{"more": 1, '),
    ):
        path.write_text(text.replace(old, new, 1))
        with pytest.raises((InputError, MemoryLimitError), match=r"not a blocks file|needs about") as refused:
            BlockFile.load(path)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("rows", [float("nan"), float("inf"), -1])
def test_rows_of_the_other_party_that_are_no_number_of_rows_are_refused(rows: float) -> None:
    with pytest.raises(InputError, match="rows of the other party"):
        blocks_of(TABLE, other_rows=rows)
