"""Files in declared encodings: the text is what it was, lines and units stay apart, and no row is told of."""

import codecs
import gzip
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcube.core.domain import Category, Domain, Integer
from dpcube.core.domain.text import BYTE_ENCODINGS, ENCODINGS, WIDE_ENCODINGS, encoding_named
from dpcube.core.errors import DomainError, InputError, SourceError
from dpcube.core.request import Range, read_lines
from dpcube.core.sources import CsvDialect, open_rows
from dpcube.core.sources.csv import Recoded, order_of_bytes
from dpcube.curator.draft import draft
from dpcube.curator.publishing import count
from dpcube.learn.predictions import own_rows

CITIES = Domain((Category(name="ville", values=("Köln", "Orléans", "Paris"), column="Préfecture"),))
TEXT = 'Préfecture;Âge\r\nKöln;1\r\n"Orléans";2\r\nOrléans;3\r\nparis;4\r\n'


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "latin-1", "Windows-1252", "iso-8859-15", "cp850", "utf-16"]
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_declared_encoding_is_read(encoding: str, packed: bool, tmp_path: Path) -> None:  # noqa: FBT001
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    data = TEXT.encode(encoding)
    path.write_bytes(gzip.compress(data) if packed else data)
    dialect = CsvDialect(delimiter=";", encoding=encoding)
    assert open_rows(path, csv=dialect).columns == ("Préfecture", "Âge")
    assert count(path, CITIES, csv=dialect).tolist() == [1, 2, 0]
    said = Domain(CITIES.attributes, delimiter=";", encoding=encoding)
    assert count(path, Domain.loads(said.dumps())).tolist() == [1, 2, 0]
    drawn = draft(path, csv=dialect)
    lines = [line for line in drawn.splitlines() if line.startswith("encoding = ")]
    assert len(lines) == (encoding_named(encoding) != "utf_8")


@pytest.mark.parametrize("encoding", BYTE_ENCODINGS)
def test_bytes_are_characters_of_which_the_first_are_ascii(encoding: str) -> None:
    table = [Recoded(io.BytesIO(bytes([octet])), encoding).read(9) for octet in range(256)]
    assert len(set(table)) == 256
    assert table[:128] == [bytes([octet]) for octet in range(128)]
    assert all(b"\n" not in text and b"," not in text and b'"' not in text for text in table[128:])


@given(st.binary(max_size=40), st.sampled_from([*BYTE_ENCODINGS, *WIDE_ENCODINGS[1:]]), st.integers(1, 9))
@settings(deadline=None)
def test_no_bytes_raise_and_other_bytes_are_other_text(data: bytes, encoding: str, size: int) -> None:
    """Read by any size; the text that was meant comes back, and with it the bytes, so two are never one."""
    stream, read = Recoded(io.BytesIO(data), encoding), b""
    while block := stream.read(size):
        assert len(block) <= size
        read += block
    half = len(data) % 2 if encoding in WIDE_ENCODINGS else 0
    text = (read[: -2 * half] if half else read).decode("utf-8", "surrogatepass")
    back = text.encode(encoding, "surrogatepass" if encoding in WIDE_ENCODINGS else "surrogateescape")
    assert back + data[len(data) - half :] == data
    if half:
        assert read[-2:] == b"\xff" + data[-1:]


@given(st.lists(st.text(st.sampled_from('aé\ud83d\ude00," \x85'), max_size=4), max_size=6), st.data())
@settings(deadline=None)
def test_a_line_of_utf_16_is_a_line(lines: list[str], data: st.DataObject) -> None:
    encoding = data.draw(st.sampled_from(WIDE_ENCODINGS[1:]))
    written = "\n".join(lines).encode(encoding, "surrogatepass")
    found = Recoded(io.BytesIO(written), encoding).read(10**6).split(b"\n")
    # Each line alone: what stands in one does not change how another is read.
    alone = [Recoded(io.BytesIO(line.encode(encoding, "surrogatepass")), encoding).read(10**6) for line in lines]
    assert found == (alone or [b""])


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16-le", "latin-1"])
def test_units_are_told_apart_by_their_bytes(encoding: str, tmp_path: Path) -> None:
    """0x81 and 0x8d are no characters of Windows-1252, and half a surrogate pair is none of UTF-16."""
    names = [b"a\x81", b"a\x8d", b"a", b"\xe9", b"a\x81"]
    if encoding == "utf-16-le":
        names = [b"a\0\x3d\xd8", b"a\0\x3e\xd8", b"a\0", b"\xe9\0", b"a\0\x3d\xd8"]
    written = [b"".join([name, ",".encode(encoding), f"{i}\n".encode(encoding)]) for i, name in enumerate(names)]
    (tmp_path / "t.csv").write_bytes("who,v\n".encode(encoding) + b"".join(written))
    rows = open_rows(tmp_path / "t.csv", csv=CsvDialect(encoding=encoding)).limit("who", max_rows=1)
    counts = rows.count_cells(Domain((Integer(name="v", min=0, max=4),)))
    assert counts[1:4].tolist() == [1, 1, 1]
    assert counts[0] + counts[4] == 1


@pytest.mark.parametrize("last", [b"", b"\n", b"\n\0", b"x", b"\x3d\xd8", b"\x3d"])
def test_a_file_of_utf_16_may_end_as_it_likes(last: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("b\n1\n3".encode("utf-16-le") + last)
    rows = open_rows(tmp_path / "t.csv", csv=CsvDialect(encoding="utf-16-le"))
    counts = rows.count_cells(Domain((Integer(name="b", min=1, max=3),)))
    assert counts.tolist() == [1, 0, int(last in (b"", b"\n\0"))]


def test_what_a_header_shows_of_a_wrong_encoding_is_told(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(codecs.BOM_UTF8 + b"v\n1\n")
    with pytest.raises(SourceError, match="begins with the UTF-8 byte-order mark"):
        open_rows(path, csv=CsvDialect(encoding="latin-1"))
    assert open_rows(path, csv=CsvDialect(encoding="latin-1", header=False, columns=("v",))).columns == ("v",)
    with pytest.raises(SourceError, match=r"has no byte-order mark.*utf-16-le"):
        open_rows(path, csv=CsvDialect(encoding="utf-16"))
    path.write_bytes(b"v\x81\n1\n")
    with pytest.raises(SourceError, match=r"not text in CP1252$"):
        open_rows(path, csv=CsvDialect(encoding="windows-1252"))
    with pytest.raises(SourceError, match=r"needs a header.*utf-16-le"):
        CsvDialect(encoding="utf-16", header=False, columns=("v",))


@pytest.mark.parametrize("name", ["gbk", "shift_jis", "utf-7", "unicode_escape", "rot13", "", "../x", "é", 3])
def test_other_encodings_are_refused_by_name(name: str) -> None:
    for made in (lambda: CsvDialect(encoding=name), lambda: Domain(CITIES.attributes, encoding=name)):
        with pytest.raises(
            (SourceError, DomainError), match=r"encoding (of a CSV dialect )?must be utf-8, utf-16, windows-1252"
        ):
            made()


def test_an_encoding_is_said_once_and_is_part_of_how_a_period_is_read() -> None:
    latin = Domain(CITIES.attributes, encoding="ISO-8859-1")
    assert read_lines(latin, CsvDialect(encoding="latin1")) == CsvDialect(encoding="latin-1")
    assert read_lines(latin, None) == CsvDialect(encoding="latin-1")
    with pytest.raises(InputError, match=r"the domain says encoding = 'ISO-8859-1'.*say it once"):
        read_lines(latin, CsvDialect(encoding="cp1252"))
    period = ("day", "2026-01-01", "2026-01-31")
    readings = {name: Range.from_request(period, CITIES, CsvDialect(encoding=name)) for name in ENCODINGS}
    told = [made.period().reading for made in readings.values() if made is not None]
    assert len(set(told)) == len(ENCODINGS)
    assert told[0] == ""


def test_rows_in_another_encoding_change_no_message(tmp_path: Path) -> None:
    """What is not UTF-8 in a row is other text, whatever it is; only the header tells of the encoding."""
    domain = Domain((Category(name="ort", values=("Köln", "Bonn")),))
    for rows, counts in ((b"Bonn\n", [0, 1]), (b"K\xf6ln\nBonn\n", [0, 1]), (b"\xff\xfe\n", [0, 0])):
        (tmp_path / "t.csv").write_bytes(b"ort\n" + rows)
        np.testing.assert_array_equal(count(tmp_path / "t.csv", domain), counts)


@pytest.mark.parametrize("name", ["new.csv", "new.csv.gz", "new.tsv"])
def test_rows_to_be_told_are_read_in_the_encoding_of_the_domain(name: str, tmp_path: Path) -> None:
    (ville,) = CITIES.attributes
    mark = "\t" if name == "new.tsv" else ";"
    domain = Domain(CITIES.attributes, encoding="utf-16", delimiter=None if name == "new.tsv" else mark)
    features = SimpleNamespace(attributes=(ville,), target=Category(name="riche", values=("oui", "non")))
    trained: Any = SimpleNamespace(domain=domain, features=features)
    data = TEXT.replace(";", mark).encode("utf-16")
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    rows = own_rows(tmp_path / name, trained)
    assert rows["Préfecture"].to_pylist() == ["Köln", "Orléans", "Orléans", "paris"]
    (tmp_path / "new.xlsx").write_bytes(data)
    with pytest.raises(InputError, match="its name must end in"):
        own_rows(tmp_path / "new.xlsx", trained)


class Counted(io.BytesIO):
    """A stream that gives no more at once than it is told to."""

    def __init__(self, content: bytes, most: int) -> None:
        super().__init__(content)
        self._most = most

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(self._most if size is None or size < 0 else min(size, self._most))


PAIRS = "a\ud7a3\U00010000b\U0010ffff\udc00\ue000\U0001f600"
"""Pairs at both ends of their range, what lies beside it, and half of one."""


@pytest.mark.parametrize("encoding", ["utf_16_le", "utf_16_be"])
@pytest.mark.parametrize("most", range(1, 12))
def test_a_pair_of_utf_16_may_be_cut_anywhere(encoding: str, most: int) -> None:
    stream = Recoded(Counted(PAIRS.encode(encoding, "surrogatepass"), most), encoding)
    whole = b"".join(iter(lambda: stream.read(5), b""))
    assert whole == PAIRS.encode("utf-8", "surrogatepass")


def test_no_more_is_read_than_is_asked_for() -> None:
    source = Counted(b"x" * 1000, 1000)
    stream = Recoded(source, "latin_1")
    assert [len(stream.read(10)) for _ in range(3)] == [10] * 3
    assert source.tell() == 30


@pytest.mark.parametrize("encoding", ["utf_16_le", "utf_16_be"])
def test_a_mark_may_stand_before_anything(encoding: str) -> None:
    mark = "\ufeff".encode(encoding)
    assert order_of_bytes(mark + b"abcdef", file="f") == order_of_bytes(mark, file="f") == encoding
    with pytest.raises(SourceError, match="f has no byte-order mark"):
        order_of_bytes(b"\0" + mark, file="f")
