"""CSV files: bytes enter, fields of text cut by a declared dialect leave. No row can raise.

A row is a line, ended by LF or CR LF: whatever the bytes of a line are, it changes the counts by at most one. The
engine's CSV reader is not used, for it samples the rows, lets one stray quote swallow the lines that follow, and raises
(quoting the line) on what it cannot read. Here every line has a destination:

- bytes that are not text in the declared encoding (UTF-8 unless given; `recoding.py`) become replacement characters,
  except in the name of a unit, which is told from others by its bytes;
- a NUL or a lone CR is a character like any other;
- a line is dropped if it is empty, is longer than `LONGEST` bytes, has more or fewer fields than there are columns,
  leaves a quote open or has text after a closing one;
- a quote inside a field that does not start with one is a character like any other.

With `multiline=True` a quoted field may hold line breaks, as RFC 4180 allows; attributes read CR LF there as LF. The
guarantee is then for a file that was written by that rule: in any other, a stray quote joins the lines up to the next
one into a single row.

Every mark of a dialect is ASCII, and no decoding adds or swallows an ASCII byte. So a line is cut into the same fields
whether it is read as UTF-8 or byte by byte (Latin-1), and a unit's field of the latter is another for other bytes.
"""

import codecs
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcube.core.domain.encoding import ALLOWED_ENCODINGS, BYTE_ENCODINGS, encoding_named
from dpcube.core.domain.text import is_text
from dpcube.core.errors import SourceError
from dpcube.core.sources.dialect import literal
from dpcube.core.sources.header import check_header
from dpcube.core.sources.recoding import ByteStream, Recoded, order_of_bytes
from dpcube.core.sources.table import Scan, Table, common_schema, read_each

BLOCK = 4 * 2**20
LONGEST = 2**20
CRLF, LF = "\r\n", "\n"
COMPRESSION = {".gz": "gzip", ".zst": "zstd"}
LINE = pa.schema([("line", pa.large_string()), ("octets", pa.large_string())])  # as UTF-8, and byte by byte


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvDialect:
    """How a CSV file is written: declared, never guessed from its rows.

    `columns` names the columns of a file without a header, or renames those of one with a header. A field that equals
    one of `null_text`, in quotes or not, is null. Fields are divided by commas, or by tabs in .tsv files, unless a
    delimiter is given. With `quote=None` quotes are characters like any other. `encoding` is that of the text: UTF-8,
    UTF-16 or one of one byte a character (`core/domain/encoding.py` lists them).
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
                msg = f"a CSV dialect's {key} must be one ASCII character that ends no line, got {mark!r}"
                raise SourceError(msg)
        if self.quote is not None and self.divider in (self.quote, self.escape):
            msg = f"a CSV dialect's delimiter {self.divider!r} cannot be its quote or escape as well"
            raise SourceError(msg)
        if self.multiline and self.quote != self.escape:
            msg = "a CSV dialect can be multiline only if a quote is escaped by doubling it"
            raise SourceError(msg)
        if not self.header and self.columns is None:
            msg = "a CSV file without a header needs names: CsvDialect(header=False, columns=('age', 'sex'))"
            raise SourceError(msg)
        for name in self.columns or ():
            if not is_text(name):
                msg = f"a CSV dialect's columns must be text in UTF-8, got {name!r}"
                raise SourceError(msg)
        self._keep_encoding()

    def _keep_encoding(self) -> None:
        """Keep the encoding by its one name: a ledger tells readings of a period apart by it."""
        found = encoding_named(self.encoding)
        if found is None:
            msg = f"a CSV dialect's encoding must be {ALLOWED_ENCODINGS}, got {self.encoding!r}"
            raise SourceError(msg)
        if found == "utf_16" and not self.header:
            msg = "a CSV file without a header has no place for a byte-order mark; say utf-16-le or utf-16-be"
            raise SourceError(msg)
        object.__setattr__(self, "encoding", found.replace("_", "-"))

    @property
    def divider(self) -> str:
        """The character between fields."""
        return self.delimiter or ","

    @property
    def declared_encoding(self) -> str | None:
        """The encoding if it is another than the usual one."""
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
    """Return a table that reads CSV files; only their headers, if they have them, are read here."""
    starts = read_each(paths, lambda path: _start(path, dialect))
    schema = common_schema(paths, [pa.schema([(column, pa.string()) for column in columns]) for columns, _ in starts])

    def lines(*, by_octets: bool) -> Iterable[pa.RecordBatch]:
        for path, (_, skip) in zip(paths, starts, strict=True):
            for data, whole in _lines(path, dialect, skip):
                yield _batch(data, dialect, whole=whole, by_octets=by_octets)

    def scans(columns: Sequence[int], of: int | None) -> list[Scan]:
        # A line ends in a delimiter, so an empty one is 1 long, and after the last field comes an empty one.
        cut = f"SELECT {_split(dialect, 'line')} AS f, {'NULL' if of is None else _split(dialect, 'octets')} AS g "
        cut += f"FROM stream WHERE strlen(line) BETWEEN 2 AND {LONGEST}"
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
    """Return the names of a file's columns, and how many bytes stand before its first row."""
    with _opened(path, dialect) as stream:
        start = stream.read(LONGEST)
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
    """Refuse a file whose header is in another encoding: most of its rows would be read as other text, and be dropped.

    The header is public, as the names of columns are; a line of rows is never looked at.
    """
    declared = encoding_named(dialect.encoding)
    if declared in BYTE_ENCODINGS and header.startswith(codecs.BOM_UTF8.decode(declared, "replace").encode()):
        msg = f"{path} begins with the mark of UTF-8, and its encoding was said to be {dialect.encoding}; say none"
        raise SourceError(msg)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(header)  # it may be cut inside of a character
    except UnicodeDecodeError:
        msg = f"the header of {path} is not text in {dialect.encoding.upper()}"
        if dialect.declared_encoding is None:
            wide = header.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            other = "utf-16" if wide else "windows-1252"
            msg += f"; if it is {other}, say so: --encoding {other}, or in a domain file encoding = "
            msg += f'"{other}" (CsvDialect(encoding="{other}") in Python)'
        raise SourceError(msg) from None


@contextmanager
def _opened(path: Path, dialect: CsvDialect) -> Iterator[ByteStream]:
    """Open a file as text in UTF-8, whatever its encoding is."""
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
    """Yield whole lines, ended by LF, and then a file's last piece, which is a line even if it leaves a quote open."""
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
    """Return where each whole line of `data` ends."""
    octets = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(octets == ord("\n")) + 1
    if dialect.multiline:
        quotes = np.cumsum(octets == ord(dialect.escape))
        ends = ends[quotes[ends - 1] % 2 == 0]
    return ends.astype(np.int64)


def _shortened(rest: bytes, dialect: CsvDialect) -> bytes:
    """Keep of a line that is too long no more than shows that it is, and whether a quote is open."""
    if len(rest) <= LONGEST:
        return rest
    quote = dialect.escape.encode() if dialect.multiline else b""
    return b"x" * LONGEST + quote * (rest.count(quote) % 2) + b"x"


def _batch(data: bytes, dialect: CsvDialect, *, whole: bool, by_octets: bool) -> pa.RecordBatch:
    line = _cut(data.decode("utf-8", "replace").encode(), dialect, whole=whole)
    if data.isascii() or not by_octets:
        return pa.record_batch([line, pa.nulls(len(line), pa.large_string())], LINE)
    return pa.record_batch([line, _cut(data.decode("latin-1").encode(), dialect, whole=whole)], LINE)


def _cut(data: bytes, dialect: CsvDialect, *, whole: bool) -> pa.Array:
    """Return the lines, the end of each made a delimiter."""
    ends = _ends(data, dialect) if whole else np.array([len(data)])
    octets = np.frombuffer(data, np.uint8).copy()
    octets[ends - 1] = ord(dialect.divider)
    offsets = np.concatenate([np.zeros(1, np.int64), ends])
    return pa.LargeStringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(octets))


def _split(dialect: CsvDialect, line: str) -> str:
    """Return SQL that cuts a line into fields, quotes included; NULL for a line that breaks the rules."""
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
    """Return SQL for a field byte by byte; a line that was not sent so is ASCII, of which the bytes are the text."""
    nulls = [text.encode().decode("latin-1") for text in dialect.null_text]
    octets, text = _field(dialect, f"g[{i + 1}]", nulls), _field(dialect, f"f[{i + 1}]", dialect.null_text)
    return f"CASE WHEN g IS NULL THEN {text} ELSE {octets} END"


def _field(dialect: CsvDialect, field: str, nulls: Sequence[str]) -> str:
    """Return SQL for what a field holds, NULL if it is one of some texts."""
    if dialect.quote is not None:
        escaped, itself = literal(re.escape(dialect.escape) + "(.)"), literal(r"\1")
        inside = f"regexp_replace({field}[2:-2], {escaped}, {itself}, 'gs')"
        field = f"CASE WHEN starts_with({field}, {literal(dialect.quote)}) THEN {inside} ELSE {field} END"
    listed = ", ".join(map(literal, nulls))
    return f"CASE WHEN {field} IN ({listed}) THEN NULL ELSE {field} END" if listed else field
