"""Names in a query: which attribute or column is meant, and what is near when there is none."""

from collections.abc import Iterable
from difflib import get_close_matches

from sqlglot import exp

from dpcube.core.domain.attribute import listing
from dpcube.core.errors import QueryError


class Attr(exp.Column):
    """A reference to the attribute of an axis; it prints as the attribute's name."""

    arg_types = {"this": True, "axis": True}  # noqa: RUF012 (sqlglot's own way of declaring a node)

    @property
    def axis(self) -> int:
        """The attribute's axis."""
        return int(self.args["axis"])

    @classmethod
    def of(cls, axis: int, name: str) -> "Attr":
        """Return a reference by axis and name."""
        return cls(this=exp.to_identifier(name), axis=axis)


Attr.key = "column"  # the generator's method that prints it


def find(name: str, known: Iterable[str], *, what: str) -> str:
    """Return the known name that is meant: the same, or else the only one that differs in case alone."""
    names = list(known)
    if name in names:
        return name
    alike = [other for other in names if other.casefold() == name.casefold()]
    if len(alike) == 1:
        return alike[0]
    if alike:
        msg = f"{what} '{name}' may be {listing(alike)}; write it in double quotes, as in \"{alike[0]}\""
        raise QueryError(msg)
    folded = {other.casefold(): other for other in names}
    near = [folded[found] for found in get_close_matches(name.casefold(), folded, n=3, cutoff=0.6)]
    hint = f"did you mean {listing(near)}?" if near else f"there are {listing(names, most=30)}"
    if what == "column" and not near:
        hint += f"; text is written in single quotes: '{name}'"
    msg = f"there is no {what} '{name}'; {hint}"
    raise QueryError(msg)


def attrs(node: exp.Expression | None) -> set[int]:
    """Return the axes that a part of a query names."""
    return set() if node is None else {found.axis for found in node.find_all(Attr)}


def is_constant(node: exp.Expression) -> bool:
    """Whether a part of a query has one value, whatever the row."""
    return not any(node.find_all(exp.Column, exp.AggFunc, exp.Window, exp.Query, exp.Star))


def bare(node: exp.Expression) -> exp.Expression:
    """Return what is inside parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node
