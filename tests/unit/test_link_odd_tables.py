"""Two parties whose tables are written otherwise: types, orders and kinds of files must not decide who is linked."""

import datetime
import decimal
import unicodedata
import uuid
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcube.core.domain import Domain, Integer
from dpcube.core.errors import DpcubeError, InputError
from dpcube.link.blocking import BlockFile
from dpcube.link.features import compared_text, written_texts
from dpcube.link.program import matches
from dpcube.link.rules import MatchingRules
from dpcube.link.session import LinkSession, prepare_session
from dpcube.research.tables import experiment
from dpcube.testing import SeededNoise

DOMAIN = Domain(Integer("year", 1950, 1999))
YEARS = [1950, 1960, 1970, 1980]
WRITTEN = "id,year,value\na,1950,800\nb,1960,2001-02-03\nc,1970,1.5\nd,1980,\n"
"""A file of texts, as one party has it."""
Link = tuple[str | None, str | None]


def rules(kind: str, *options: str) -> MatchingRules:
    return MatchingRules.loads(
        "\n".join(["threshold = 1", "[[compare]]", 'column = "value"', f'kind = "{kind}"', *options])
    )


@cache
def blocks_for(matching: MatchingRules) -> BlockFile:
    release = experiment(np.full(50, 3), epsilon="1", domain=DOMAIN, noise=SeededNoise(1))
    return BlockFile.planned(release, matching, epsilon="3", rounds=0)


Linker = Callable[..., list[Link]]


@pytest.fixture
def links(tmp_path: Path) -> Linker:
    """Return the links of two tables, in the clear over padded blocks, of the rules that are given."""

    def found(first: object, second: object, matching: MatchingRules) -> list[Link]:
        blocks = blocks_for(matching)
        made: list[LinkSession] = []
        for table in (first, second):
            place = tmp_path / f"session {len(list(tmp_path.iterdir()))}"
            made.append(prepare_session(table, blocks, matching, place, id_column="id", ledger=None))
        left, right = made[0].features(matching, "listener"), made[1].features(matching, "connector")
        ours, theirs = (one.ids() for one in made)
        return sorted(
            (ours[i][x], theirs[j][y])
            for i, j in blocks.plan.candidates().tolist()
            for x, y in np.argwhere(matches(matching.program, left[i], right[j])).tolist()
        )

    return found


def table(value: Any, ids: Any = ("w", "x", "y", "z"), years: Any = YEARS) -> pa.Table:
    return pa.table({"id": ids if isinstance(ids, pa.Array) else list(ids), "year": years, "value": value})


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "written.csv"
    path.write_text(WRITTEN)
    return path


DAY, MOMENT = datetime.date(2001, 2, 3), datetime.datetime(2001, 2, 3)
VALUES = {
    "text": (pa.array(["800", "2001-02-03", "1.5", None]), "abc"),
    "long text": (pa.array(["800", "2001-02-03", "1.5", None], pa.large_string()), "abc"),
    "listed": (pa.array(["800", "2001-02-03", "1.5", None]).dictionary_encode(), "abc"),
    "bytes": (pa.array([b"800", b"2001-02-03", b"1.5", None]), "abc"),
    "whole": (pa.array([800, 1, 2, None]), "a"),
    "small": (pa.array([800, 1, 2, None], pa.uint16()), "a"),
    "real": (pa.array([800.0, 1.0, 1.5, None]), "ac"),
    "short real": (pa.array([800.0, 1.0, 1.5, None], pa.float32()), "ac"),
    "decimal": (pa.array([decimal.Decimal("800.00"), None, decimal.Decimal("1.50"), None]), "ac"),
    "day": (pa.array([None, DAY, None, None]), "b"),
    "moment": (pa.array([None, MOMENT, None, None]), "b"),
    "seconds": (pa.array([None, MOMENT, None, None], pa.timestamp("s")), "b"),
    "moment of a zone": (pa.array([None, MOMENT, None, None], pa.timestamp("ns", "UTC")), "b"),
    "day in milliseconds": (pa.array([None, DAY, None, None], pa.date64()), "b"),
    "nothing": (pa.nulls(4), ""),
}


@pytest.mark.parametrize("kind", ["exact", "text"])
@pytest.mark.parametrize("held", VALUES)
def test_a_file_of_texts_and_typed_columns_are_alike(
    links: Linker, written: Path, tmp_path: Path, held: str, kind: str
) -> None:
    """Of a column with nulls pandas makes real numbers: 800 is 800.0 there, which is no other value."""
    value, linked = VALUES[held]
    pq.write_table(table(value), tmp_path / "other.parquet")
    expected = [(one, dict(zip("abcd", "wxyz", strict=True))[one]) for one in linked]
    assert links(written, tmp_path / "other.parquet", rules(kind)) == expected
    assert links(table(value), written, rules(kind)) == [(other, one) for one, other in expected]


@given(st.datetimes(), st.sampled_from(["s", "ms", "us"]))
def test_a_moment_is_written_as_python_writes_it(moment: datetime.datetime, unit: str) -> None:
    moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000 if unit == "ms" else 0)
    number = pa.array([moment], pa.timestamp(unit)).cast(pa.int64())[0].as_py()
    (text,) = written_texts([str(number)], "date", f"timestamp[{unit}]")
    assert text is not None
    assert datetime.datetime.fromisoformat(text) == moment


def test_columns_may_be_in_any_order_beside_others(links: Linker, written: Path, tmp_path: Path) -> None:
    whole = table(VALUES["text"][0]).append_column("more", pa.array([1, 2, 3, 4]))
    turned = whole.select(["more", "value", "year", "id"])
    pq.write_table(turned, tmp_path / "turned.parquet")
    assert links(written, tmp_path / "turned.parquet", rules("exact")) == [("a", "w"), ("b", "x"), ("c", "y")]


@pytest.mark.parametrize(
    ("ids", "told"),
    [
        (["7", "007", " 7", ""], ["7", "007", " 7", ""]),
        (pa.array([7, -1, 2**62, None]), ["7", "-1", str(2**62), ""]),
        (pa.array([7.0, 8.0, 1e15, None]), ["7", "8", "1000000000000000", ""]),
        ([str(uuid.UUID(int=number)) for number in range(4)], [str(uuid.UUID(int=number)) for number in range(4)]),
        (["same"] * 4, ["same"] * 4),
        (["Zoë", "名前", "a,b", 'q"\n'], ["Zoë", "名前", "a,b", 'q"\n']),
    ],
)
def test_ids_are_told_as_they_are_written(links: Linker, ids: Any, told: list[str]) -> None:
    value = pa.array(["p", "q", "r", "s"])
    given = ids if isinstance(ids, pa.Array) else pa.array(ids)
    assert links(table(value), table(value, given), rules("exact")) == list(zip("wxyz", told, strict=True))


def test_every_pair_of_rows_is_a_link_though_ids_recur(links: Linker) -> None:
    one = table(["p", "p", "q", None], ["a"] * 4, [1950] * 4)
    assert links(one, one, rules("exact")) == [("a", "a")] * 5


@pytest.mark.parametrize("kind", ["exact", "text", "number", "date"])
@pytest.mark.parametrize("rows", [0, 1])
def test_a_party_of_nobody_or_of_one(links: Linker, kind: str, rows: int) -> None:
    values = {"number": pa.array([1, 2, 3, 4]), "date": pa.array([DAY] * 4)}
    whole = table(values.get(kind, pa.array(["p", "q", "r", "s"])))
    linked = [("w", "w")] * rows
    assert links(whole.slice(0, rows), whole, rules(kind)) == linked
    assert links(whole, whole.slice(0, rows), rules(kind)) == linked
    assert links(whole.slice(0, rows), whole.slice(0, rows), rules(kind)) == linked


def test_a_header_alone_is_a_table_of_nobody(links: Linker, written: Path, tmp_path: Path) -> None:
    (tmp_path / "nobody.csv").write_text(WRITTEN.splitlines()[0] + "\n")
    assert links(tmp_path / "nobody.csv", written, rules("exact")) == []


@pytest.mark.parametrize("kind", ["exact", "text", "number", "date"])
def test_what_is_null_links_nobody_not_even_to_what_is_null(links: Linker, kind: str) -> None:
    nothing = table(pa.nulls(4, pa.string()))
    assert links(nothing, nothing, rules(kind)) == []


def test_a_record_without_what_is_blocked_on_is_in_no_block(links: Linker) -> None:
    some = table(["p", "q", "r", "s"], years=pa.array([1950, None, 1970, 3000]))
    assert links(some, some, rules("exact")) == [("w", "w"), ("y", "y")]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Zoë", "zoe\N{COMBINING DIAERESIS}"),
        ("Straße", "STRASSE"),
        ("ﬁona", "Fiona"),
        ("\N{MATHEMATICAL BOLD CAPITAL A}nna", "anna"),
        ("Ltd™", "LTD TM"),
        ("ΌΣΟΣ", "όσος"),
        ("辻\U000e0100", "辻"),
        ("٣٤", "٣-٤"),
    ],
)
def test_names_are_alike_however_they_are_encoded(links: Linker, one: str, other: str) -> None:
    for kind in ("exact", "text"):
        ours, theirs = table([one, "p", "q", "r"]), table([other, "P", "s", None])
        assert links(ours, theirs, rules(kind)) == [("w", "w"), ("x", "x")]


def test_vowels_of_indic_scripts_are_no_accents(links: Linker) -> None:
    assert links(table(["राम", "p", "q", "r"]), table(["रमा"] * 4, years=[1950] * 4), rules("exact")) == []
    assert compared_text("राम") != compared_text("रमा")


@given(st.text())
def test_a_compared_text_is_the_same_however_it_is_written(text: str) -> None:
    plain = compared_text(text)
    assert compared_text(plain) == plain
    assert compared_text(f" {text}-") == plain
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert compared_text(unicodedata.normalize(form, text)) == plain
    assert compared_text(text.casefold()) == plain


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4))
def test_a_number_is_written_without_zeros_and_stays_the_same(number: decimal.Decimal) -> None:
    (text,) = written_texts([f"{number:f}"], "real")
    assert text is not None
    assert decimal.Decimal(text) == number
    assert not ("." in text and text.endswith(("0", ".")))
    assert written_texts([f"{number:f}"], "text") == [f"{number:f}"]


def test_a_party_with_another_rules_file_is_refused_before_a_row_is_read(tmp_path: Path, written: Path) -> None:
    ours, theirs = rules("exact"), rules("text")
    with pytest.raises(InputError, match="made for other rules"):
        prepare_session(written, blocks_for(ours), theirs, tmp_path / "s", id_column="id", ledger=None)
    assert not (tmp_path / "s").exists()


def test_a_second_session_of_the_same_files_is_another_and_the_first_stays(tmp_path: Path, written: Path) -> None:
    matching = rules("exact")
    blocks = blocks_for(matching)
    how: dict[str, Any] = {"id_column": "id", "ledger": None}
    first = prepare_session(written, blocks, matching, tmp_path / "first", **how)
    kept = (tmp_path / "first").read_bytes()
    with pytest.raises(DpcubeError, match="never replaced"):
        prepare_session(written, blocks, matching, tmp_path / "first", **how)
    second = prepare_session(written, blocks, matching, tmp_path / "second", **how)
    assert first.facts.number != second.facts.number
    assert (tmp_path / "first").read_bytes() == kept
    written.write_text(WRITTEN + "e,1990,new\n")
    again = LinkSession.open(tmp_path / "first", blocks, matching)  # a table that has changed is not read again
    assert again.ids() == first.ids()
