"""Headers of a release's tables that are larger than what they describe: refused before they cost anything."""

import resource
import sys
import tracemalloc

import pytest

from dpcube.core.errors import ReleaseFileError
from dpcube.measurements import pages
from dpcube.measurements.pages import LARGEST_FOOTER, LARGEST_HEADER, checked_rows

LIST_OF_STRUCTS, LIST_OF_LISTS, LIST_OF_NUMBERS = 0xFC, 0xF9, 0xF5
CELLS = 10


def number(value: int) -> bytes:
    octets = b""
    while value > 127:
        octets, value = octets + bytes([value & 127 | 128]), value >> 7
    return octets + bytes([value])


def field(kind: int, content: bytes, size: int) -> bytes:
    """The first field of a struct, a list of so many elements, and the struct's end."""
    return bytes([0x19, kind]) + number(size) + content + b"\0"


def forged(header: bytes) -> bytes:
    """A Parquet file of one column whose only page has this header."""
    whole = 2 * len(header)
    about = bytes([0x56]) + number(2 * CELLS) + bytes([0x26]) + number(whole) + bytes([0x26]) + number(8) + b"\0"
    column = bytes([0x3C]) + about + b"\0"
    group = bytes([0x19, 0x1C]) + column + bytes([0x26]) + number(2 * CELLS) + b"\0"
    footer = bytes([0x36]) + number(2 * CELLS) + bytes([0x19, 0x1C]) + group + b"\0"
    return b"PAR1" + header + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def peak(content: bytes) -> int:
    """The bytes that a refusal takes at its peak."""
    tracemalloc.start()
    try:
        with pytest.raises((ReleaseFileError, KeyError)):
            checked_rows(content)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


HEADERS = {
    "empty structs": field(LIST_OF_STRUCTS, bytes(2**15), 2**15),
    "small structs": field(LIST_OF_STRUCTS, b"\x15\0\0" * 2**15, 2**15),
    "lists": field(LIST_OF_LISTS, bytes(2**15), 2**15),
    "numbers": field(LIST_OF_NUMBERS, b"\x7f" * 2**15, 2**15),
}


def test_an_honest_header_is_read() -> None:
    header = bytes([0x15, 0, 0x15]) + number(2 * 80) + bytes([0x15, 0, 0])
    assert checked_rows(forged(header)) == CELLS


@pytest.mark.parametrize("kind", HEADERS)
def test_a_page_header_takes_next_to_nothing(kind: str) -> None:
    """16 MB of these took 1.3 GB and more."""
    assert peak(forged(HEADERS[kind])) < 2**17 + 300 * LARGEST_HEADER // 3


@pytest.mark.parametrize("kind", ["empty structs", "small structs"])
def test_sabotage_page_headers_without_a_bound_are_caught(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LARGEST_HEADER", sys.maxsize)
    monkeypatch.setattr(pages, "MOST_STRUCTS", sys.maxsize)
    assert peak(forged(HEADERS[kind])) > 2**17 + 100 * 4096


def test_a_header_at_the_bound_is_read_and_one_above_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    header = bytes([0x15, 0, 0x15]) + number(2 * 80) + bytes([0x15, 0, 0])
    monkeypatch.setattr(pages, "LARGEST_HEADER", len(header))
    assert checked_rows(forged(header)) == CELLS
    monkeypatch.setattr(pages, "LARGEST_HEADER", len(header) - 1)
    with pytest.raises(ReleaseFileError):
        checked_rows(forged(header))


def page(unpacked: int) -> bytes:
    """The header of a page that takes no room itself and says that it unpacks to so many bytes."""
    return bytes([0x15, 0, 0x15]) + number(2 * unpacked) + bytes([0x15, 0, 0])


def test_a_column_has_a_page_for_each_row_and_a_dictionary_and_no_more() -> None:
    assert checked_rows(forged(page(0) * (CELLS + 1))) == CELLS
    with pytest.raises(ReleaseFileError, match="unpack to more"):
        checked_rows(forged(page(0) * (CELLS + 2)))


@pytest.mark.parametrize("count", [1, 3])
def test_pages_unpack_to_what_their_rows_can_take_and_no_more(count: int) -> None:
    most = pages.BYTES_A_ROW * CELLS + pages.BYTES_A_PAGE * count
    assert checked_rows(forged(page(0) * (count - 1) + page(most))) == CELLS
    with pytest.raises(ReleaseFileError, match="unpack to more"):
        checked_rows(forged(page(0) * (count - 1) + page(most + 1)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["empty structs", "small structs", "lists"])
def test_a_footer_takes_no_more_than_any_hostile_file_may(kind: str) -> None:
    element = b"\x15\0\0" if kind == "small structs" else b"\0"
    size = (LARGEST_FOOTER - 100) // len(element)
    footer = field(LIST_OF_LISTS if kind == "lists" else LIST_OF_STRUCTS, element * size, size)
    content = b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises((ReleaseFileError, KeyError)):
        checked_rows(content)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < 300
