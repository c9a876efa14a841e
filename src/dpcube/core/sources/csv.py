"""CSV reader: lines and fields cut by a declared dialect. No row can raise.

A row is a line, ended by LF or CR LF: whatever the bytes of a line are, it changes the counts by at most one. The
engine's CSV reader is not used, for it samples the rows, lets one stray quote swallow the lines that follow, and raises
(quoting the line) on what it cannot read. Here every line has a destination:

- bytes that are not text in the declared encoding (UTF-8 by default) become replacement characters, except in the name
  of a privacy unit, where the bytes themselves decide which rows belong to one unit;
- a NUL or a lone CR is a character like any other;
- a line is dropped if it is empty, is longer than `MAX_LINE` bytes, has more or fewer fields than there are columns,
  leaves a quote open or has text after a closing one;
- a quote inside a field that does not start with one is a character like any other.

With `multiline=True` a quoted field may hold line breaks, as RFC 4180 allows; attributes read CR LF there as LF. The
guarantee is then for a file that was written by that rule: in any other, a stray quote joins the lines up to the next
one into a single row.

Every mark of a dialect is ASCII, and no decoding adds or swallows an ASCII byte. So a line is cut into the same fields
whether it is read as UTF-8 or byte by byte (Latin-1), and a unit's field of the latter differs if its bytes differ.

**Encodings** (`Recoded`). Files in another encoding are converted to UTF-8, which all other code is written for.
A sequence that is no character becomes half of a surrogate pair, or a byte that UTF-8 never has. Readers see a
replacement character there, and the bytes of two texts differ if the texts' own do, so units stay apart. Nothing
raises. A line is what stands between two line feeds, before and after: one byte is one character, or two are, so that
no character swallows another. (A file of UTF-16 is a sequence of pairs of bytes, and so is each of its lines.)

**Headers** (`check_header`). Column names are public, and appear in messages and drafts; a row must not. No rule can
separate the two for certain, so a first line with a field that hardly looks like a name is refused, and none of it is
shown. Messages list columns only if one of the requested names is among them.
"""

import codecs
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcube.core.domain.text import ALLOWED_ENCODINGS, BYTE_ENCODINGS, encoding_named, is_text
from dpcube.core.errors import SourceError
from dpcube.core.limits import MAX_LINE
from dpcube.core.sources.dialect import literal
from dpcube.core.sources.names import DELIMITERS
from dpcube.core.sources.table import Scan, Table, common_schema, read_each


class ByteStream(Protocol):
    """Stream of bytes, as files are."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; none at the end."""


class Recoded:
    """Stream of UTF-8 that converts a stream in another encoding.

    >>> import io
    >>> Recoded(io.BytesIO("Köln".encode("latin-1")), "latin_1").read(100).decode()
    'Köln'
    """

    def __init__(self, stream: ByteStream, encoding: str) -> None:
        self._stream, self._encoding = stream, encoding
        self._left, self._ready, self._ended = b"", b"", False

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes of UTF-8; none at the end."""
        while len(self._ready) < size and not self._ended:
            block = self._stream.read(size)
            self._ended = not block
            self._ready += self._recoded(self._left + block)
        given, self._ready = self._ready[:size], self._ready[size:]
        return given

    def _recoded(self, data: bytes) -> bytes:
        """Return the complete characters of some bytes in UTF-8, and keep the rest for the next call."""
        if not self._encoding.startswith("utf_16"):
            return data.decode(self._encoding, "surrogateescape").encode("utf-8", "surrogatepass")
        odd = len(data) % 2
        whole = len(data) - odd
        if not self._ended and whole and _begins_a_pair(data[whole - 2 : whole], self._encoding):
            whole -= 2
        self._left = data[whole:]
        last = (
            b"\xff" + self._left if self._ended and odd else b""
        )  # half a unit, which no reader takes for a character
        return data[:whole].decode(self._encoding, "surrogatepass").encode("utf-8", "surrogatepass") + last


def _begins_a_pair(unit: bytes, encoding: str) -> bool:
    high = unit[1] if encoding == "utf_16_le" else unit[0]
    return 0xD8 <= high < 0xDC


def order_of_bytes(start: bytes, *, file: object) -> str:
    """Return the byte order of a UTF-16 file by its byte-order mark; SourceError if it has none. Headers are public."""
    marks = {codecs.BOM_UTF16_LE: "utf_16_le", codecs.BOM_UTF16_BE: "utf_16_be"}
    if start[:2] not in marks:
        msg = f"{file} has no byte-order mark, which UTF-16 requires; declare utf-16-le or utf-16-be, or no encoding"
        raise SourceError(msg)
    return marks[start[:2]]


MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
VALUES = (
    r"(?=.*\d)[\W\d_]*",  # digits and marks without a letter: a number, an amount, a date, a time
    r"[+-]?(?:\d+\.?\d*|\.\d+)e[+-]?\d+",
    r"\d{4}-\d\d-\d\d[t ].*",
    rf"\d{{1,2}}[ ./-]?{MONTH}[ ./,-]*\d{{2,4}}",
    rf"{MONTH}[ .]*\d{{1,2}},? +\d{{4}}",
    r"[+-]?(?:nan|inf|infinity)|n/?a|null|none|true|false|\?+|-+|\.+",
    r"[<>]=? ?[$]?\d.*",
    r"\d{1,2}:\d\d(?::\d\d)? ?[ap]\.?m\.?",
    r"[^\s@]+@[^\s@]+\.[^\s@]+",
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
)
VALUE = re.compile("|".join(f"(?:{form})" for form in VALUES), re.IGNORECASE)
HEADER_REMEDY = (
    "if the file has no header, name its columns: --names a,b,c (CsvDialect(header=False, columns=('a', 'b', 'c')) in "
    "Python)"
)


def check_header(file: str, fields: Sequence[str]) -> None:
    """Refuse a first line that may be a row, and show none of it.

    One field may be empty, at an end: an index without a name, or a delimiter after the last name.
    """
    inside = fields[1 if fields and not fields[0].strip() else 0 :]
    inside = inside[: -1 if len(inside) == len(fields) > 1 and not inside[-1].strip() else None]
    is_unique = len({field.strip() for field in fields}) == len(fields)
    if is_unique and all(field.strip() and not _is_value(field) for field in inside):
        return
    msg = (
        f"the first line of {file} does not look like column names: a field is empty, repeated, or looks like a value "
        f"(a number, a date, an address). It is not shown because it may be a row; {HEADER_REMEDY}; if it has a "
        "header, give each column a unique name that contains a letter"
    )
    raise SourceError(msg)


def _is_value(field: str) -> bool:
    """Return whether a field looks like a value, or contains one between marks that may be delimiters."""
    parts = [field, *(part for mark in DELIMITERS if mark in field for part in field.split(mark))]
    return any(VALUE.fullmatch(part.strip()) for part in parts)


BLOCK = 4 * 2**20
CRLF, LF = "\r\n", "\n"
COMPRESSION = {".gz": "gzip", ".zst": "zstd"}
LINE = pa.schema([("line", pa.large_string()), ("octets", pa.large_string())])  # as UTF-8, and byte by byte


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvDialect:
    """Dialect of CSV files: declared, never guessed from rows.

    Parameters
    ----------
    delimiter
        Character between fields. The default is a comma, and a tab in .tsv files.
    quote, escape
        Quote character, and the character that escapes a quote. With `quote=None` quotes have no meaning.
    header
        Whether the first line names the columns.
    columns
        Names of the columns, which a file without a header needs. They replace those of a header.
    null_text
        Texts of null fields, in quotes or not.
    multiline
        Whether quoted fields may contain line breaks.
    encoding
        UTF-8, UTF-16 or an encoding with one byte per character (`core/domain/text.py` lists them).

    Raises
    ------
    SourceError
        If the options contradict each other.

    """

    delimiter: str | None = None
    quote: str | None = '"'
    escape: str = '"'
    header: bool = True
    columns: tuple[str, ...] | None = None
    null_text: tuple[str, ...] = ("",)
    multiline: bool = False
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        marks = {"delimiter": self.delimiter, "quote": self.quote, "escape": self.escape}
        for key, mark in marks.items():
            if mark is not None and not (len(mark) == 1 and mark.isascii() and mark not in "\r\n\0"):
                msg = f"the {key} of a CSV dialect must be one ASCII character other than CR, LF and NUL, got {mark!r}"
                raise SourceError(msg)
        if self.quote is not None and self.divider in (self.quote, self.escape):
            msg = f"the delimiter of a CSV dialect must differ from its quote and escape, got {self.divider!r}"
            raise SourceError(msg)
        if self.multiline and self.quote != self.escape:
            msg = "multiline=True needs quotes that are escaped by doubling: leave quote and escape at their defaults"
            raise SourceError(msg)
        if not self.header and self.columns is None:
            msg = "a CSV file without a header needs names: CsvDialect(header=False, columns=('age', 'sex'))"
            raise SourceError(msg)
        for name in self.columns or ():
            if not is_text(name):
                msg = f"the columns of a CSV dialect must be texts, got {name!r}"
                raise SourceError(msg)
        self._normalise_encoding()

    def _normalise_encoding(self) -> None:
        """Store the encoding under one name: a ledger compares the readings of a period's column by it."""
        found = encoding_named(self.encoding)
        if found is None:
            msg = f"the encoding of a CSV dialect must be {ALLOWED_ENCODINGS}, got {self.encoding!r}"
            raise SourceError(msg)
        if found == "utf_16" and not self.header:
            msg = "encoding utf-16 needs a header, where its byte-order mark is read; declare utf-16-le or utf-16-be"
            raise SourceError(msg)
        object.__setattr__(self, "encoding", found.replace("_", "-"))

    @property
    def divider(self) -> str:
        """The character between fields."""
        return self.delimiter or ","

    @property
    def declared_encoding(self) -> str | None:
        """The encoding, or None if it is UTF-8."""
        return None if self.encoding == "utf-8" else self.encoding

    @property
    def field(self) -> str:
        """Regular expression of a field, quotes included, and the delimiter after it."""
        d, e = re.escape(self.divider), re.escape(self.escape)
        if self.quote is None:
            return f"(?s:([^{d}]*){d})"
        q = re.escape(self.quote)
        inside = f"[^{q}]|{q}{q}" if q == e else f"[^{q}{e}]|{e}."
        return f"(?s:({q}(?:{inside})*{q}|[^{d}{q}][^{d}]*|){d})"


def csv_table(name: str, paths: Sequence[Path], dialect: CsvDialect) -> Table:
    """Return a table that reads CSV files. This function reads only their headers, if they have any."""
    starts = read_each(paths, lambda path: _start(path, dialect))
    schema = common_schema(paths, [pa.schema([(column, pa.string()) for column in columns]) for columns, _ in starts])

    def lines(*, by_octets: bool) -> Iterable[pa.RecordBatch]:
        for path, (_, skip) in zip(paths, starts, strict=True):
            for data, whole in _lines(path, dialect, skip):
                yield _batch(data, dialect, whole=whole, by_octets=by_octets)

    def scans(columns: Sequence[int], of: int | None) -> list[Scan]:
        # A line ends in a delimiter, so an empty one is 1 long, and after the last field comes an empty one.
        cut = f"SELECT {_split(dialect, 'line')} AS f, {'NULL' if of is None else _split(dialect, 'octets')} AS g "
        cut += f"FROM stream WHERE strlen(line) BETWEEN 2 AND {MAX_LINE}"
        fields = [f"{_read(dialect, i)} AS c{i}" for i in columns] + (
            [] if of is None else [f"{_unit(dialect, of)} AS u"]
        )
        sql = f"(SELECT {', '.join(fields)} FROM ({cut}) WHERE len(f) = {len(schema) + 1})"
        return [Scan(sql, lambda: pa.RecordBatchReader.from_batches(LINE, lines(by_octets=of is not None)))]

    every_line = Scan(
        "(SELECT line FROM stream WHERE strlen(line) > 1)",
        lambda: pa.RecordBatchReader.from_batches(LINE, lines(by_octets=False)),
    )
    in_first_line = dialect.header and dialect.columns is None
    return Table(name, schema, scans, lambda _: True, declared=True, lines=every_line, in_first_line=in_first_line)


def _start(path: Path, dialect: CsvDialect) -> tuple[tuple[str, ...], int]:
    """Return the names of a file's columns, and the number of bytes before its first row."""
    with _opened(path, dialect) as stream:
        start = stream.read(MAX_LINE)
    skip = len(codecs.BOM_UTF8) if start.startswith(codecs.BOM_UTF8) else 0
    if not dialect.header:
        return dialect.columns or (), skip
    header = start[skip:].split(b"\n", 1)[0]
    _check_encoding(header, path, dialect)
    names = dialect.columns
    if names is None:
        names = _names(header.decode("utf-8", "replace").removesuffix("\r"), dialect)
        check_header(str(path), names)
    return names, skip + len(header) + 1


def _check_encoding(header: bytes, path: Path, dialect: CsvDialect) -> None:
    """Refuse a file whose header is in another encoding: most rows would be read as wrong text and be dropped.

    The header is public, as the names of columns are; lines of rows are never inspected.
    """
    declared = encoding_named(dialect.encoding)
    if declared in BYTE_ENCODINGS and header.startswith(codecs.BOM_UTF8.decode(declared, "replace").encode()):
        msg = f"{path} begins with the UTF-8 byte-order mark, but its declared encoding is {dialect.encoding}; "
        msg += "leave the encoding out"
        raise SourceError(msg)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(header)  # it may be cut inside of a character
    except UnicodeDecodeError:
        msg = f"the header of {path} is not text in {dialect.encoding.upper()}"
        if dialect.declared_encoding is None:
            wide = header.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            other = "utf-16" if wide else "windows-1252"
            msg += f"; if it is {other}, declare it: --encoding {other}, or in a domain file encoding = "
            msg += f'"{other}" (CsvDialect(encoding="{other}") in Python)'
        raise SourceError(msg) from None


@contextmanager
def _opened(path: Path, dialect: CsvDialect) -> Iterator[ByteStream]:
    """Open a file as a stream of UTF-8, whatever its encoding."""
    encoding = dialect.encoding.replace("-", "_")
    if encoding == "utf_16":
        with _open(path) as stream:
            encoding = order_of_bytes(stream.read(2), file=path)
    with _open(path) as stream:
        yield stream if encoding == "utf_8" else Recoded(stream, encoding)


def _open(path: Path) -> pa.NativeFile:
    return pa.input_stream(str(path), compression=COMPRESSION.get(path.suffix.lower()))


def _names(header: str, dialect: CsvDialect) -> tuple[str, ...]:
    fields = re.findall(dialect.field, header + dialect.divider)
    quoted = [dialect.quote is not None and field.startswith(dialect.quote) for field in fields]
    escaped = re.escape(dialect.escape) + "(.)"
    return tuple(re.sub(escaped, r"\1", f[1:-1]) if q else f for f, q in zip(fields, quoted, strict=True))


def _lines(path: Path, dialect: CsvDialect, skip: int) -> Iterable[tuple[bytes, bool]]:
    """Yield blocks of whole lines, ended by LF, then the rest of the file: a line, even if it leaves a quote open."""
    with _opened(path, dialect) as stream:
        stream.read(skip)
        rest = b""
        while block := stream.read(BLOCK):
            data = rest + block
            end = int(_ends(data, dialect)[-1:].sum())
            rest = _shortened(data[end:], dialect)
            yield _without_returns(data[:end], dialect), True
        yield rest + b"\n", False


def _without_returns(data: bytes, dialect: CsvDialect) -> bytes:
    """Return whole lines ended by LF alone."""
    if not dialect.multiline:
        return data.replace(b"\r\n", b"\n")
    octets, ends = np.frombuffer(data, np.uint8), _ends(data, dialect)
    before = ends[ends > 1] - 2
    return np.delete(octets, before[octets[before] == ord("\r")]).tobytes()


def _ends(data: bytes, dialect: CsvDialect) -> NDArray[np.int64]:
    """Return the offset after each whole line of `data`."""
    octets = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(octets == ord("\n")) + 1
    if dialect.multiline:
        quotes = np.cumsum(octets == ord(dialect.escape))
        ends = ends[quotes[ends - 1] % 2 == 0]
    return ends.astype(np.int64)


def _shortened(rest: bytes, dialect: CsvDialect) -> bytes:
    """Shorten a line that is too long: it stays too long, and a quote that is open stays open."""
    if len(rest) <= MAX_LINE:
        return rest
    quote = dialect.escape.encode() if dialect.multiline else b""
    return b"x" * MAX_LINE + quote * (rest.count(quote) % 2) + b"x"


def _batch(data: bytes, dialect: CsvDialect, *, whole: bool, by_octets: bool) -> pa.RecordBatch:
    line = _cut(data.decode("utf-8", "replace").encode(), dialect, whole=whole)
    if data.isascii() or not by_octets:
        return pa.record_batch([line, pa.nulls(len(line), pa.large_string())], LINE)
    return pa.record_batch([line, _cut(data.decode("latin-1").encode(), dialect, whole=whole)], LINE)


def _cut(data: bytes, dialect: CsvDialect, *, whole: bool) -> pa.Array:
    """Return the lines, each ended by a delimiter."""
    ends = _ends(data, dialect) if whole else np.array([len(data)])
    octets = np.frombuffer(data, np.uint8).copy()
    octets[ends - 1] = ord(dialect.divider)
    offsets = np.concatenate([np.zeros(1, np.int64), ends])
    return pa.LargeStringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(octets))


def _split(dialect: CsvDialect, line: str) -> str:
    """Return SQL that splits a line into fields, quotes included; NULL for a line that breaks the rules."""
    bare = f"string_split({line}, {literal(dialect.divider)})"
    if dialect.quote is None:
        return bare
    fields = f"list_append(regexp_extract_all({line}, {literal(dialect.field)}, 1), '')"
    quoted = f"CASE WHEN regexp_full_match({line}, {literal(dialect.field + '*')}) THEN {fields} END"
    return f"CASE WHEN contains({line}, {literal(dialect.quote)}) THEN {quoted} ELSE {bare} END"


def _read(dialect: CsvDialect, i: int) -> str:
    """Return SQL for the text of a field as attributes read it, NULL if it is a null's text."""
    text = _field(dialect, f"f[{i + 1}]", dialect.null_text)
    return f"replace({text}, {literal(CRLF)}, {literal(LF)})" if dialect.multiline else text


def _unit(dialect: CsvDialect, i: int) -> str:
    """Return SQL for a field byte by byte; lines of ASCII are not sent so, for their bytes are their text."""
    nulls = [text.encode().decode("latin-1") for text in dialect.null_text]
    octets, text = _field(dialect, f"g[{i + 1}]", nulls), _field(dialect, f"f[{i + 1}]", dialect.null_text)
    return f"CASE WHEN g IS NULL THEN {text} ELSE {octets} END"


def _field(dialect: CsvDialect, field: str, nulls: Sequence[str]) -> str:
    """Return SQL for the content of a field, NULL if it is one of the null texts."""
    if dialect.quote is not None:
        escaped, itself = literal(re.escape(dialect.escape) + "(.)"), literal(r"\1")
        inside = f"regexp_replace({field}[2:-2], {escaped}, {itself}, 'gs')"
        field = f"CASE WHEN starts_with({field}, {literal(dialect.quote)}) THEN {inside} ELSE {field} END"
    listed = ", ".join(map(literal, nulls))
    return f"CASE WHEN {field} IN ({listed}) THEN NULL ELSE {field} END" if listed else field
