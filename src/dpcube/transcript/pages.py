"""What the pages of a Parquet member would unpack to, by their own headers, before any of them is unpacked.

Enters: the bytes of a Parquet file and its metadata. Leaves: nothing, or a ReleaseFileError. Arrow unpacks a page into
as many bytes as the page's header says, and the footer need not say the same: 66 kB can hold a page of 2 GB. Here the
headers are read as Arrow reads them (Thrift's compact protocol), and what they add up to is held against the rows.
"""

from typing import NoReturn

import pyarrow.parquet as pq

from dpcube.errors import ReleaseFileError

BYTES_A_ROW = 16  # of a 64-bit integer in any encoding, levels and dictionary included
BYTES_A_PAGE = 4096  # besides: a block of differences is padded to 128 of them
UNPACKED, PACKED = 2, 3  # fields of a page's header
STOP, TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 11, 12


def check_pages(content: bytes, metadata: pq.FileMetaData) -> None:
    """Raise unless every column's pages unpack to no more than its rows can take."""
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(metadata.num_columns)):
            start, rows = column.data_page_offset, group.num_rows
            if column.has_dictionary_page and 0 < column.dictionary_page_offset < start:
                start = column.dictionary_page_offset
            if column.num_values != rows or not _fits(content, start, start + column.total_compressed_size, rows):
                msg = "one of its tables would unpack to more than its rows can take"
                raise ReleaseFileError(msg)


def _fits(content: bytes, start: int, stop: int, rows: int) -> bool:
    """Say whether the pages from `start` to `stop` are few and small enough."""
    unpacked = pages = 0
    reader = _Reader(content, start)
    while reader.position < stop:
        header = reader.struct()
        pages += 1
        unpacked += header.get(UNPACKED, -1)
        sizes = (header.get(UNPACKED, -1), header.get(PACKED, -1))
        if min(sizes) < 0 or pages > rows + 1 or unpacked > BYTES_A_ROW * rows + BYTES_A_PAGE * pages:
            return False
        reader.skip_bytes(header[PACKED])
    return True


class _Reader:
    """A reader of Thrift's compact protocol that keeps the whole numbers of a struct and skips all else."""

    def __init__(self, content: bytes, position: int) -> None:
        self.content = content
        self.position = position

    def struct(self) -> dict[int, int]:
        numbers, field = {}, 0
        while (head := self.byte()) & 15 != STOP:
            field = field + (head >> 4) if head >> 4 else self.number()
            if BYTE < head & 15 < DOUBLE:
                numbers[field] = self.number()
            else:
                self.skip(head & 15, in_field=True)
        return numbers

    def skip(self, kind: int, *, in_field: bool = False) -> None:
        if kind in (TRUE, FALSE, BYTE):
            self.skip_bytes(0 if in_field and kind != BYTE else 1)  # a field's head holds its truth
        elif kind < DOUBLE:
            self.number()
        elif kind in (DOUBLE, BINARY):
            self.skip_bytes(8 if kind == DOUBLE else self.natural())
        elif kind in (LIST, SET):
            head = self.byte()
            self.skip_all(self.natural() if head >> 4 == 15 else head >> 4, (head & 15,))
        elif kind == MAP:
            size = self.natural()
            kinds = self.byte() if size else 0
            self.skip_all(size, (kinds >> 4, kinds & 15))
        elif kind == STRUCT:
            self.struct()
        else:
            self.refuse()

    def skip_all(self, size: int, kinds: tuple[int, ...]) -> None:
        for _ in range(size):
            for kind in kinds:
                self.skip(kind)

    def skip_bytes(self, count: int) -> None:
        self.position += count
        if self.position > len(self.content):
            self.refuse()

    def byte(self) -> int:
        self.skip_bytes(1)
        return self.content[self.position - 1]

    def natural(self) -> int:
        value = shift = 0
        while (byte := self.byte()) & 128 and shift < 63:
            value |= (byte & 127) << shift
            shift += 7
        return value | byte << shift

    def number(self) -> int:
        value = self.natural()
        return value >> 1 ^ -(value & 1)

    def refuse(self) -> NoReturn:
        msg = "a page of one of its tables has no proper header"
        raise ReleaseFileError(msg)
