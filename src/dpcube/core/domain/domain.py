"""Domain of a cube: its attributes, in the order of its axes."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from dpcube.core.domain.attribute import Attribute, listing
from dpcube.core.domain.file import (
    Declaration,
    Stamp,
    checked_stamp,
    format_declaration,
    parse_declaration,
    read_text,
    write_text,
)
from dpcube.core.domain.number import Integer
from dpcube.core.domain.text import ALLOWED_ENCODINGS, encoding_named, is_delimiter, spelling_hint
from dpcube.core.errors import DomainError
from dpcube.core.limits import MAX_ATTRIBUTES


@dataclass(frozen=True, slots=True, init=False)
class Domain:
    """Attributes in the order of the cube's axes: public, and declared, never read from the data.

    Parameters
    ----------
    *axes
        Attributes, one by one or as one list.
    drafted_from_data
        Whether bounds or values of this draft were looked up in the private table. Releases then refuse it until
        somebody signs it.
    signed_public_by
        Name of the person who declares that the contents are public knowledge.
    multiline
        Whether quoted fields of CSV files may contain line breaks. A stray quote then joins rows.
    delimiter, encoding
        Delimiter and encoding of CSV files. Other sources ignore them.
    learnt
        Names and digests of attributes that were learnt from the table and charged to its ledger. Releases then need
        that ledger, or a signature.

    Raises
    ------
    DomainError
        If two attributes have the same name, or an option is invalid.

    Examples
    --------
    >>> Domain(Integer("age", 0, 9), Integer("hours", 1, 4)).shape
    (10, 4)
    >>> Domain([Integer("age", 0, 9)]) == Domain(Integer("age", 0, 9))
    True

    """

    attributes: tuple[Attribute, ...]
    drafted_from_data: bool = False
    signed_public_by: str | None = None
    multiline: bool = False
    delimiter: str | None = None
    encoding: str | None = None
    learnt: Stamp = ()

    def __init__(
        self,
        *axes: Attribute | Iterable[Attribute],
        attributes: Iterable[Attribute] = (),
        drafted_from_data: bool = False,
        signed_public_by: str | None = None,
        multiline: bool = False,
        delimiter: str | None = None,
        encoding: str | None = None,
        learnt: Stamp = (),
    ) -> None:
        """Accept attributes one by one or as one list: `Domain(age, sex)`, `Domain([age, sex])`."""
        given = (*axes, attributes) if attributes else axes
        if len(given) == 1 and isinstance(given[0], Iterable) and not isinstance(given[0], str | bytes):
            given = tuple(given[0])
        object.__setattr__(self, "attributes", given)
        object.__setattr__(self, "drafted_from_data", drafted_from_data)
        object.__setattr__(self, "signed_public_by", signed_public_by)
        object.__setattr__(self, "multiline", multiline)
        object.__setattr__(self, "delimiter", delimiter)
        object.__setattr__(self, "encoding", encoding)
        object.__setattr__(self, "learnt", learnt)
        self.__post_init__()

    def __post_init__(self) -> None:
        if not self.attributes:
            msg = "a domain needs at least one attribute"
            raise DomainError(msg)
        if wrong := [item for item in self.attributes if not isinstance(item, Attribute)]:
            msg = f"a domain consists of attributes such as Integer(name='age', min=0, max=99), got {wrong[0]!r}"
            raise DomainError(msg)
        if len(self.attributes) > MAX_ATTRIBUTES:
            msg = f"a domain has at most {MAX_ATTRIBUTES} attributes, got {len(self.attributes)}"
            raise DomainError(msg)
        if self.delimiter is not None and not is_delimiter(self.delimiter):
            msg = "delimiter must be one ASCII character other than a double quote, CR, LF and NUL, "
            msg += f"got {self.delimiter!r}"
            raise DomainError(msg)
        if self.encoding is not None and encoding_named(self.encoding) is None:
            msg = f"encoding must be {ALLOWED_ENCODINGS}, got {self.encoding!r}"
            raise DomainError(msg)
        checked_stamp(self.learnt)
        names = self.names
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            msg = f"the domain declares the attribute '{twice}' twice; give each attribute a unique name"
            raise DomainError(msg)

    @classmethod
    def of_shape(cls, shape: tuple[int, ...]) -> "Domain":
        """Return the domain of an array without labels: axes `axis0`, `axis1`, ... of whole numbers from 0."""
        return cls(tuple(Integer(name=f"axis{j}", min=0, max=n - 1) for j, n in enumerate(shape)))

    @classmethod
    def load(cls, path: str | Path) -> "Domain":
        """Read a domain file (TOML)."""
        text = read_text(Path(path))
        try:
            return cls._declared(parse_declaration(text, beside=Path(path).parent))
        except DomainError as error:
            msg = f"{path}: {error}"
            raise DomainError(msg) from None

    @classmethod
    def loads(cls, text: str) -> "Domain":
        """Read a domain from the text of a domain file."""
        return cls._declared(parse_declaration(text))

    @classmethod
    def _declared(cls, declaration: Declaration) -> "Domain":
        attributes, drafted, signed, multiline, delimiter, encoding, learnt = declaration
        return cls(
            attributes,
            drafted_from_data=drafted,
            signed_public_by=signed,
            multiline=multiline,
            delimiter=delimiter,
            encoding=encoding,
            learnt=learnt,
        )

    def dumps(self) -> str:
        """Return the text of a domain file; `loads` reads it back to an equal domain."""
        options = (self.drafted_from_data, self.signed_public_by, self.multiline, self.delimiter, self.encoding)
        return format_declaration((self.attributes, *options, self.learnt))

    def save(self, path: str | Path) -> None:
        """Write a domain file (TOML), replacing the file at `path` in one step."""
        unsigned = self.drafted_from_data and self.signed_public_by is None
        write_text(Path(path), self.dumps(), private=unsigned)

    @property
    def names(self) -> tuple[str, ...]:
        """Attribute names in axis order."""
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells along each axis."""
        return tuple(attribute.size for attribute in self.attributes)

    @property
    def size(self) -> int:
        """Number of cells of the cube."""
        return math.prod(self.shape)

    def axis(self, name: str) -> int:
        """Return the axis of an attribute; DomainError with the known names if there is none."""
        try:
            return self.names.index(name)
        except ValueError:
            msg = f"there is no attribute '{name}'; the attributes are {listing(self.names, most=30)}"
            msg += spelling_hint(name, self.names)
            raise DomainError(msg) from None

    def __getitem__(self, name: str) -> Attribute:
        return self.attributes[self.axis(name)]

    def project(self, names: tuple[str, ...]) -> "Domain":
        """Keep the named attributes, in the order given."""
        return replace(self, attributes=tuple(self[name] for name in names))
