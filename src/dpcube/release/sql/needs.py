"""What a rewritten SELECT needs of the rows it runs on: which columns of which attributes, cut how finely.

The parts of a SELECT enter one by one; the same parts on the columns of the rows leave, and what they need is noted.
Comparisons with constants become cuts of an axis.

A comparison is made with the mean place of a piece, and every piece lies on one side of every constant: a bin that the
constant cuts is two pieces. So `age between 30 and 39` selects the share of each bin that `Release.count` selects.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal

from sqlglot import exp

from dpcube.core.domain import Attribute, Domain
from dpcube.core.errors import QueryError
from dpcube.release.sql.axes import AxisUse, Detail
from dpcube.release.sql.names import Attr, bare, is_constant

NUMBER, WHOLE = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII), re.compile(r"[+-]?\d{1,18}", re.ASCII)
COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
MIRRORED = {exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE, exp.EQ: exp.EQ, exp.NEQ: exp.NEQ}

Fold = Callable[[exp.Expression], object]


@dataclass
class Needs:
    """What one SELECT needs of its rows; attributes are known by their axes.

    `fold` evaluates a constant expression. `uses` says how finely each attribute is used, and where it is cut.
    `columns` are the columns read, by name: the axis of each and its role. `noises` are the columns of noise, by the
    axes that tell rows apart. `steps` holds expressions of one attribute of whole numbers, days or texts: its axis is
    cut where any of them changes. Those that must not change inside a bin have their text beside them.
    """

    domain: Domain
    fold: Fold
    uses: dict[int, AxisUse] = field(default_factory=dict)
    columns: dict[str, tuple[int, str]] = field(default_factory=dict)
    noises: dict[frozenset[int], str] = field(default_factory=dict)
    steps: dict[int, list[tuple[exp.Expression, str | None]]] = field(default_factory=dict)

    def use(self, axis: int) -> AxisUse:
        """Return how the attribute on `axis` is used so far."""
        return self.uses.setdefault(axis, AxisUse())

    def column(self, axis: int, role: str, detail: Detail) -> exp.Column:
        """Note that the column `role` of the attribute on `axis` is needed, at least in this detail, and return it."""
        use = self.use(axis)
        use.detail = max(use.detail, detail)
        name = f"{role}{axis}"
        self.columns[name] = (axis, role)
        return exp.column(name)

    def noise(self, axes: set[int]) -> str:
        """Note that the noise of rows told apart by the attributes on `axes` is needed; return the column's name."""
        return self.noises.setdefault(frozenset(axes), f"e{len(self.noises)}")

    def comparison(self, node: exp.Expression) -> exp.Expression | None:
        """Return `node`, a comparison of an attribute with constants, on the rows' columns; None if it is none."""
        if isinstance(node, COMPARED):
            return self._compared(node)
        if isinstance(node, exp.Not) and isinstance(bare(node.this), exp.Is):
            return self._is_not_null(bare(node.this))
        if not isinstance(node, exp.Between | exp.In | exp.Is) or not isinstance(bare(node.this), Attr):
            return None
        axis = bare(node.this).args["axis"]
        if isinstance(node, exp.Is):
            return self._is_null(axis) if isinstance(node.expression, exp.Null) else None
        if isinstance(node, exp.In):
            if not node.expressions or not all(map(is_constant, node.expressions)):
                return None
            return self._in(axis, [self.fold(item) for item in node.expressions])
        low, high = node.args["low"], node.args["high"]
        if not (is_constant(low) and is_constant(high)) or node.args.get("symmetric"):
            return None
        ends = self._ordered(axis, exp.GTE, self.fold(low)), self._ordered(axis, exp.LTE, self.fold(high))
        return exp.paren(exp.and_(*ends))

    def _compared(self, node: exp.Expression) -> exp.Expression | None:
        left, right, sign = bare(node.this), bare(node.expression), type(node)
        assert issubclass(sign, exp.Binary)
        if isinstance(right, Attr):
            left, right, sign = right, left, MIRRORED[sign]
        if not isinstance(left, Attr) or not is_constant(right):
            return None
        value = self.fold(right)
        if sign is exp.EQ:
            return self._in(left.axis, [value])
        if sign is exp.NEQ:
            return exp.not_(self._in(left.axis, [value]))
        return self._ordered(left.axis, sign, value)

    def _in(self, axis: int, values: list[object]) -> exp.Expression:
        attribute = self.domain.attributes[axis]
        labels = {f"({kind})": kind for kind in attribute.own_cells}
        own = [labels[value] for value in values if isinstance(value, str) and value in labels]
        places = [exp.null() if value is None else self._equal(axis, value) for value in values if value not in labels]
        parts: list[exp.Expression] = [self._in_own_cell(axis, kind) for kind in own]
        if places:
            parts.append(exp.In(this=self.column(axis, "place", Detail.CUTS), expressions=places))
        return exp.paren(exp.or_(*parts))

    def _equal(self, axis: int, value: object) -> exp.Expression:
        return self._cut(axis, coordinate(self.domain.attributes[axis], value))

    def _ordered(self, axis: int, sign: type[exp.Binary], value: object) -> exp.Expression:
        attribute = self.domain.attributes[axis]
        if value is None:
            return exp.null()
        if not attribute.ordered:
            attribute.range(None, str(value))  # says that it has no ranges
        place = self._cut(axis, coordinate(attribute, value), sign)
        return exp.paren(sign(this=self.column(axis, "place", Detail.CUTS), expression=place))

    def _cut(self, axis: int, place: float, sign: type[exp.Binary] = exp.EQ) -> exp.Expression:
        """Cut the axis so that no piece straddles a place in a comparison, and return the place."""
        use = self.use(axis)
        before, after = sign not in (exp.GT, exp.LTE), sign not in (exp.LT, exp.GTE)
        if self.domain.attributes[axis].is_continuous:
            use.cuts |= {place} if before else set()
            use.closed |= {place} if after else set()
        else:  # the place is a whole number or day, or lies between two
            use.cuts |= {float(math.ceil(place))} if before else set()
            use.cuts |= {math.floor(place) + 1.0} if after else set()
        return exp.cast(exp.Literal.string(repr(place)), "DOUBLE")

    def _in_own_cell(self, axis: int, kind: str) -> exp.Expression:
        """Return a test: true in that cell, false in bins, neither in other own cells, as in `Release.count`."""
        own = self.column(axis, "own", Detail.CUTS)
        here = own.copy().eq(exp.Literal.string(kind))
        return exp.paren(exp.case().when(own.is_(exp.null()), exp.false()).when(here, exp.true()))

    def _is_null(self, axis: int) -> exp.Expression:
        attribute = self.domain.attributes[axis]
        if "null" not in attribute.own_cells:
            msg = f"nulls of '{attribute.name}' were dropped by the domain, so they cannot be counted"
            raise QueryError(msg)
        own = self.column(axis, "own", Detail.CUTS)
        return exp.paren(exp.NullSafeEQ(this=own, expression=exp.Literal.string("null")))

    def _is_not_null(self, node: exp.Expression) -> exp.Expression | None:
        attr = bare(node.this)
        if not isinstance(attr, Attr) or not isinstance(node.expression, exp.Null):
            return None
        has_nulls = "null" in self.domain.attributes[attr.axis].own_cells
        return exp.not_(self._is_null(attr.axis)) if has_nulls else exp.true()


def coordinate(attribute: Attribute, value: object) -> float:
    """Return the place of a constant on an attribute's axis; whole numbers and days may be compared with fractions."""
    value = float(value) if isinstance(value, Decimal) else value
    if isinstance(value, str) and attribute.scale == "number" and NUMBER.fullmatch(value.strip()):
        value = int(value) if WHOLE.fullmatch(value.strip()) else float(value)  # as databases compare age > '40'
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and attribute.scale != "number":
        msg = f"attribute '{attribute.name}' holds {attribute.kind} values ({attribute.extent()}), got {value!r}"
        raise QueryError(msg)
    return attribute.place(value)  # type: ignore[arg-type]
