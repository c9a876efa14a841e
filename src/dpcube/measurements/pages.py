"""How many rows a Parquet member holds and what its pages unpack to, by its own words, before Arrow is given it.

Enters: the bytes of a Parquet file. Leaves: its number of rows, or a ReleaseFileError. Arrow unpacks a page into as
many bytes as the page's header says, and the footer need not say the same: 66 kB can hold a page of 2 GB. Nor can Arrow
be asked first: pyarrow's view of a forged footer may end the process. So footer and headers are read here (Thrift's
compact protocol, numbers kept and all else skipped), and what the pages add up to is held against the rows. What is
kept takes a hundred times the memory of what is read, so each is read within bounds.
"""

from typing import Any, NoReturn

from dpcube.core.errors import ReleaseFileError

BYTES_A_ROW = 16  # of a 64-bit integer in any encoding, levels and dictionary included
BYTES_A_PAGE = 4096  # besides: a block of differences is padded to 128 of them
LARGEST_FOOTER = 4 * 2**20
LARGEST_HEADER = 4096  # of a page: a few numbers, and the least and the greatest value
MOST_STRUCTS = 2**19  # of a footer; an honest one takes over 8 bytes for each
MAGIC = b"PAR1"

# Fields by number, of the footer, a row group, a column of it, what is said of the column, and a page's header.
ROW_GROUPS, COLUMNS, ROWS, ABOUT = 4, 1, 3, 3
VALUES, PACKED_PAGES, FIRST_PAGE, DICTIONARY_PAGE = 5, 7, 9, 11
UNPACKED, PACKED = 2, 3

STOP, TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 11, 12


def checked_rows(content: bytes) -> int:
    """Return the number of rows, after checking that every column's pages unpack to no more than they can take."""
    size = int.from_bytes(content[-8:-4], "little")
    if content[-4:] != MAGIC or not 0 < size <= min(LARGEST_FOOTER, len(content) - 12):
        _refuse()
    footer = _Reader(content, len(content) - 8 - size, len(content) - 8).struct()
    groups = footer.get(ROW_GROUPS, ())
    for group in groups:
        for column in group[COLUMNS]:
            about = column[ABOUT]
            start = min(about[FIRST_PAGE], about.get(DICTIONARY_PAGE) or about[FIRST_PAGE])
            if about[VALUES] != group[ROWS] or start < len(MAGIC) or about[PACKED_PAGES] < 0:
                _refuse()
            _check_pages(content, start, start + about[PACKED_PAGES], rows=group[ROWS])
    rows = [int(group[ROWS]) for group in groups]
    if min(rows, default=0) < 0 or sum(rows) != footer[ROWS]:
        _refuse()
    return sum(rows)


def _check_pages(content: bytes, start: int, stop: int, *, rows: int) -> None:
    position, unpacked, pages = start, 0, 0
    while position < stop:
        reader = _Reader(content, position, min(position + LARGEST_HEADER, len(content)))
        header = reader.struct()
        pages += 1
        unpacked += header[UNPACKED]
        few = pages <= rows + 1 and unpacked <= BYTES_A_ROW * rows + BYTES_A_PAGE * pages
        if not few or header[UNPACKED] < 0 or header[PACKED] < 0:
            msg = "one of its tables would unpack to more than its rows can take"
            raise ReleaseFileError(msg)
        position = reader.position + header[PACKED]
    if position > len(content):
        _refuse()


class _Reader:
    """A reader of Thrift's compact protocol that keeps whole numbers, and structs and lists of them."""

    def __init__(self, content: bytes, position: int, stop: int) -> None:
        self.content = content
        self.position = position
        self.stop = stop
        self.structs = 0

    def struct(self) -> dict[int, Any]:
        self.structs += 1
        if self.structs > MOST_STRUCTS:
            _refuse()
        fields, number = {}, 0
        while (head := self.byte()) & 15 != STOP:
            number = number + (head >> 4) if head >> 4 else self.whole()
            # The head of a field that is true or false says which.
            fields[number] = None if head & 15 in (TRUE, FALSE) else self.value(head & 15)
        return fields

    def value(self, kind: int) -> Any:
        if kind in (TRUE, FALSE, BYTE):
            return self.byte()
        if kind < DOUBLE:
            return self.whole()
        if kind in (DOUBLE, BINARY):
            return self.pass_over(8 if kind == DOUBLE else self.natural())
        if kind in (LIST, SET):
            head = self.byte()
            size = self.natural() if head >> 4 == 15 else head >> 4
            return tuple(self.value(head & 15) for _ in range(size))  # an empty one takes no room
        if kind == MAP:
            size = self.natural()
            kinds = self.byte() if size else 0
            return tuple((self.value(kinds >> 4), self.value(kinds & 15)) for _ in range(size))
        return self.struct() if kind == STRUCT else _refuse()

    def pass_over(self, count: int) -> None:
        self.position += count
        if self.position > self.stop:
            _refuse()

    def byte(self) -> int:
        self.pass_over(1)
        return self.content[self.position - 1]

    def natural(self) -> int:
        value = shift = 0
        while (byte := self.byte()) & 128 and shift < 63:
            value |= (byte & 127) << shift
            shift += 7
        return value | byte << shift

    def whole(self) -> int:
        value = self.natural()
        return value >> 1 ^ -(value & 1)


def _refuse() -> NoReturn:
    msg = "one of its tables is no Parquet file, or one that contradicts itself"
    raise ReleaseFileError(msg)
