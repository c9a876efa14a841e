"""Text files of a declared encoding: their bytes enter, bytes of UTF-8 leave, which all else is written for.

What is no character becomes half of a surrogate pair, or a byte that UTF-8 never has. Readers see a replacement
character there, and the bytes of two texts stay apart if the texts' own do: a unit is told from others by them. Nothing
raises.
A line is what stands between two line feeds, before and after: one byte is one character, or two are, so that no
character swallows another. (A file of UTF-16 is a sequence of pairs of bytes, and so is each of its lines.)
"""

import codecs
from typing import Protocol

from dpcube.core.errors import SourceError


class ByteStream(Protocol):
    """What is read from a file."""

    def read(self, size: int, /) -> bytes:
        """Return so many bytes, or what is left."""


class Recoded:
    """A stream in UTF-8 of a stream in another encoding.

    >>> import io
    >>> Recoded(io.BytesIO("Köln".encode("latin-1")), "latin_1").read(100).decode()
    'Köln'
    """

    def __init__(self, stream: ByteStream, encoding: str) -> None:
        self._stream, self._encoding = stream, encoding
        self._left, self._ready, self._ended = b"", b"", False

    def read(self, size: int, /) -> bytes:
        """Return so many bytes of UTF-8, or what is left."""
        while len(self._ready) < size and not self._ended:
            block = self._stream.read(size)
            self._ended = not block
            self._ready += self._recoded(self._left + block)
        given, self._ready = self._ready[:size], self._ready[size:]
        return given

    def _recoded(self, data: bytes) -> bytes:
        """Return what is whole of some bytes in UTF-8, and leave the rest for the next; at the end all is whole."""
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
    """Return which UTF-16 a file is in by its byte-order mark; SourceError if it has none. Its header is public."""
    marks = {codecs.BOM_UTF16_LE: "utf_16_le", codecs.BOM_UTF16_BE: "utf_16_be"}
    if start[:2] not in marks:
        msg = f"{file} has no byte-order mark, as a file in UTF-16 has; say utf-16-le or utf-16-be, or no encoding"
        raise SourceError(msg)
    return marks[start[:2]]
