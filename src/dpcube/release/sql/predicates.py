"""Predicates and expressions of attributes: cuts of the axes, columns of the weighted rows, constancy inside bins.

A comparison with a constant becomes a cut of the attribute's axis. It is evaluated at the mean of a piece, and every
piece lies on one side of every constant: a bin that the constant cuts is two pieces. So `age between 30 and 39`
selects the share of each bin that `Release.count` selects.

Other expressions are evaluated on the values of their attribute before the query itself runs. Aggregates of numbers
must have numbers; an expression of one attribute cuts its axis where its value changes; one that decides which rows
are counted must be constant inside every bin whose distribution is unknown. Whole numbers, days and texts are tried
one by one. Of real numbers only the ends and the middle of a bin are tried, on the monotone parts of the expression:
a monotone function is constant over a bin if it is equal at both ends.
"""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
import pyarrow as pa
from sqlglot import exp

from dpcube.core.domain import Attribute, Domain
from dpcube.core.errors import QueryError
from dpcube.release.sql.axes import AxisUse, Detail, Pieces, pieces_of
from dpcube.release.sql.engine import Engine
from dpcube.release.sql.parse import Attr, attrs, bare, is_constant, sql_of

NUMBER, WHOLE = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII), re.compile(r"[+-]?\d{1,18}", re.ASCII)
COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
MIRRORED = {exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE, exp.EQ: exp.EQ, exp.NEQ: exp.NEQ}

Fold = Callable[[exp.Expression], object]
MONOTONE_ARITHMETIC = (
    exp.Floor,
    exp.Ceil,
    exp.Round,
    exp.Sqrt,
    exp.Ln,
    exp.Exp,
    exp.Sign,
    exp.Neg,
    exp.Add,
    exp.Sub,
    exp.Mul,
)
INEQUALITIES = (exp.LT, exp.LTE, exp.GT, exp.GTE)
MONOTONE = (*MONOTONE_ARITHMETIC, *INEQUALITIES, exp.Least, exp.Greatest)
"""Functions that are monotone in one argument if the others are constants."""
NULL_PROPAGATING = (*MONOTONE_ARITHMETIC, *INEQUALITIES, exp.Abs, exp.EQ, exp.NEQ)
"""Functions that are null exactly where an argument is."""
EQUALITIES = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ)
NUMBER_TYPES = (
    exp.DataType.Type.FLOAT,
    exp.DataType.Type.DOUBLE,
    exp.DataType.Type.DECIMAL,
    *exp.DataType.INTEGER_TYPES,
)


@dataclass
class Requirements:
    """What one SELECT requires of its rows, collected while it is rewritten; attributes are named by their axes.

    `fold` evaluates a constant expression. `uses` are the resolution and the cuts of each axis. `columns` are the
    columns read, by name: the axis of each and its role. `noises` are the columns of standard errors, by the axes that
    distinguish rows. `expressions` are those of one attribute of whole numbers, days or texts, whose axis is cut where
    any of them changes; those that must be constant inside bins have their text beside them.

    Only the methods of this class add to it.
    """

    domain: Domain
    fold: Fold
    uses: dict[int, AxisUse] = field(default_factory=dict)
    columns: dict[str, tuple[int, str]] = field(default_factory=dict)
    noises: dict[frozenset[int], str] = field(default_factory=dict)
    expressions: dict[int, list[tuple[exp.Expression, str | None]]] = field(default_factory=dict)

    def require(self, axis: int, use: AxisUse) -> None:
        """Require an axis at a resolution and with cuts, besides what is required of it already."""
        self.uses[axis] = self.uses.get(axis, AxisUse()).and_(use)

    def column(self, axis: int, role: str, detail: Detail) -> exp.Column:
        """Require the column `role` of an attribute, at least at this resolution, and return it."""
        self.require(axis, AxisUse(detail))
        name = f"{role}{axis}"
        self.columns[name] = (axis, role)
        return exp.column(name)

    def noise(self, axes: set[int]) -> str:
        """Require the standard errors of rows distinguished by the attributes on `axes`; return the column's name."""
        return self.noises.setdefault(frozenset(axes), f"e{len(self.noises)}")

    def cut_where_changing(self, axis: int, expression: exp.Expression, text: str | None) -> None:
        """Require cuts where an expression changes; with its `text`, that it is constant inside bins."""
        self.require(axis, AxisUse())
        self.expressions.setdefault(axis, []).append((expression, text))

    def comparison(self, node: exp.Expression) -> exp.Expression | None:
        """Return `node`, a comparison of an attribute with constants, on the rows' columns; None for other nodes."""
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
            attribute.range(None, str(value))  # raises: it has no ranges
        place = self._cut(axis, coordinate(attribute, value), sign)
        return exp.paren(sign(this=self.column(axis, "place", Detail.CUTS), expression=place))

    def _cut(self, axis: int, place: float, sign: type[exp.Binary] = exp.EQ) -> exp.Expression:
        """Cut the axis so that no piece straddles the place in a comparison, and return the place."""
        before, after = sign not in (exp.GT, exp.LTE), sign not in (exp.LT, exp.GTE)
        if self.domain.attributes[axis].is_continuous:
            use = AxisUse(cuts=frozenset([place] * before), closed=frozenset([place] * after))
        else:  # the place is a whole number or day, or lies between two
            use = AxisUse(cuts=frozenset([float(math.ceil(place))] * before + [math.floor(place) + 1.0] * after))
        self.require(axis, use)
        return exp.cast(exp.Literal.string(repr(place)), "DOUBLE")

    def _in_own_cell(self, axis: int, kind: str) -> exp.Expression:
        """Return a test that is true in that cell, false in bins, null in other own cells, as in `Release.count`."""
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
    """Return the coordinate of a constant on an attribute's axis; integers and days may be compared with fractions."""
    value = float(value) if isinstance(value, Decimal) else value
    if isinstance(value, str) and attribute.is_numeric and NUMBER.fullmatch(value.strip()):
        value = int(value) if WHOLE.fullmatch(value.strip()) else float(value)  # as databases compare age > '40'
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and not attribute.is_numeric:
        msg = f"attribute '{attribute.name}' holds {attribute.kind} values ({attribute.extent()}), got {value!r}"
        raise QueryError(msg)
    return attribute.place(value)  # type: ignore[arg-type]


def monotone_parts(node: exp.Expression, required: Requirements) -> Iterator[exp.Expression]:
    """Yield monotone parts of an expression of one real attribute: if they are constant in bins, so is it.

    A part is a monotone function of the attribute, or an inequality between one and a constant. Any other function is
    constant if its arguments are.
    """
    node = bare(node)
    if not attrs(node) or required.comparison(node) is not None or _is_cell(node):
        return
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        yield from _parts_of_null_test(node.this, required)
    elif _is_monotone(node, required):
        yield node
    elif (compared := _equality_operands(node)) is not None and _is_monotone(compared[0], required):
        for constant in compared[1]:
            yield exp.LT(this=compared[0].copy(), expression=constant.copy())
            yield exp.GT(this=compared[0].copy(), expression=constant.copy())
    else:
        for child in node.iter_expressions():
            yield from monotone_parts(child, required)


def _parts_of_null_test(node: exp.Expression, required: Requirements) -> Iterator[exp.Expression]:
    """Yield the parts that must be constant for an expression to be null all over a bin, or nowhere."""
    node = bare(node)
    if isinstance(node, exp.Case) and node.this is None:
        for branch in node.args["ifs"]:
            yield from monotone_parts(branch.this, required)
        results = [*(branch.args["true"] for branch in node.args["ifs"]), node.args.get("default")]
        for result in filter(None, results):
            yield from _parts_of_null_test(result, required)
    elif isinstance(node, NULL_PROPAGATING):
        for child in node.iter_expressions():
            yield from _parts_of_null_test(child, required)
    elif not isinstance(node, exp.Column):
        yield from monotone_parts(node, required)


def _is_monotone(node: exp.Expression, required: Requirements) -> bool:
    """Return whether an expression is a monotone function of its attribute."""
    node = bare(node)
    inside = [child for child in node.iter_expressions() if attrs(child)]
    if not inside:
        return bool(attrs(node))  # the attribute itself
    if len(inside) > 1 or required.comparison(node) is not None:
        return False
    if isinstance(node, exp.Div | exp.IntDiv | exp.Coalesce):
        known = inside[0] is node.this
    elif isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
        known = node.to.this in NUMBER_TYPES
    elif isinstance(node, exp.Log):
        known = inside[0] is (node.expression or node.this)  # of another number; a base is where it has a pole
    else:
        known = isinstance(node, MONOTONE) and inside[0] is not node.args.get("decimals")
    return known and _is_monotone(inside[0], required)


def _equality_operands(node: exp.Expression) -> tuple[exp.Expression, list[exp.Expression]] | None:
    """Return the operand of an equality test and its constants; None for other nodes."""
    if isinstance(node, EQUALITIES):
        one, other = node.this, node.expression
        one, others = (other, [one]) if attrs(other) else (one, [other])
    elif isinstance(node, exp.In):
        one, others = node.this, node.expressions
    elif isinstance(node, exp.Between):
        one, others = node.this, [node.args["low"], node.args["high"]]
    else:
        return None
    return None if any(map(attrs, others)) else (one, others)


def _is_cell(node: exp.Expression) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() == "cell"


def check_numbers(engine: Engine, table: str, arguments: dict[str, str]) -> None:
    """Refuse aggregates of text or dates where numbers are required.

    `arguments` are the arguments as SQL on the columns of `table`, each with the aggregate as the user wrote it.
    """
    if not arguments:
        return
    schema = engine.run(f'SELECT {", ".join(arguments)} FROM "{table}" LIMIT 0').schema
    for text, kind in zip(arguments.values(), schema.types, strict=True):
        known = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        if not (known or pa.types.is_boolean(kind) or pa.types.is_null(kind)):
            what = "a date" if pa.types.is_temporal(kind) else "text"
            msg = (
                f"{text!r} needs a numeric argument, got {what}; only count, min, max and median accept text and dates"
            )
            raise QueryError(msg)


def pieces_by_axis(engine: Engine, required: Requirements) -> dict[int, Pieces]:
    """Return the pieces of each axis that is required, cut where its expressions change."""
    attributes = required.domain.attributes
    return {
        axis: pieces_of(attributes[axis], use.and_(AxisUse(cuts=_changes(engine, required, axis))))
        for axis, use in sorted(required.uses.items())
    }


def _changes(engine: Engine, required: Requirements, axis: int) -> frozenset[float]:
    """Return where expressions of an axis change from one whole number, day or text to the next.

    An expression that must be constant inside bins is refused if it changes elsewhere than at their edges.
    """
    expressions, cuts = required.expressions.get(axis, []), set[float]()
    is_fine = required.uses[axis].detail == Detail.UNITS
    if not expressions or (is_fine and all(must_be_constant is None for _, must_be_constant in expressions)):
        return frozenset()
    units = pieces_of(required.domain.attributes[axis], AxisUse(Detail.UNITS))
    columns = {name: units.column(role) for name, (of, role) in required.columns.items() if of == axis}
    name = f"dpcube units {axis}"
    engine.add(name, pa.table({**columns, "i": pa.array(np.arange(len(units)))}))
    for expression, must_be_constant in expressions:
        values = f'SELECT i, {sql_of(expression)} AS v FROM "{name}"'
        pairs = f"SELECT i, v, lag(v) OVER (ORDER BY i) AS before FROM ({values})"
        changes = f"SELECT i FROM ({pairs}) WHERE i BETWEEN 1 AND {len(units.low) - 1} AND v IS DISTINCT FROM before"
        found = units.low[engine.run(changes)["i"].to_numpy()]
        if must_be_constant is not None and not np.isin(found, units.attribute.bin_edges()).all():
            raise _varies(must_be_constant, units.attribute)
        cuts.update(found.tolist())
    return frozenset(cuts)


def check_constancy(
    engine: Engine,
    pieces: dict[int, Pieces],
    expressions: list[tuple[int, exp.Expression, str]],
    columns: dict[str, tuple[int, str]],
) -> None:
    """Refuse keys and conditions that differ between the ends and the middle of a piece of real numbers.

    `pieces` are those of each axis; `expressions` are the axis of each, the expression on the rows' `columns`, and its
    text; `columns` give the axis and the role of each column.
    """
    for number, (axis, expression, text) in enumerate(expressions):
        bins = pieces[axis]
        answers = []
        for place, values in enumerate((bins.start, bins.middle, bins.last)):
            made = {name: bins.column(role).slice(0, len(values)) for name, (of, role) in columns.items() if of == axis}
            made[f"unit{axis}"] = pa.array(values)
            name = f"dpcube check {number} {place}"
            engine.add(name, pa.table(made))
            answers.append(engine.run(f'SELECT {sql_of(expression)} AS v FROM "{name}"'))
        if not answers[0].equals(answers[1]) or not answers[1].equals(answers[2]):
            raise _varies(text, bins.attribute)


def _varies(text: str, attribute: Attribute) -> QueryError:
    return QueryError(
        f"{text!r} varies inside the bins of '{attribute.name}' ({attribute.labels()[0]}, ...), whose "
        "values the release does not separate; group by the attribute itself, or compare it with constants"
    )


def is_linear(node: exp.Expression, required: Requirements) -> bool:
    """Return whether an expression at the mean of a bin is its mean over the bin.

    That is true of sums and of products of different attributes; comparisons with constants do not vary inside a piece.
    """
    node = bare(node)
    if isinstance(node, Attr) or not attrs(node) or required.comparison(node) is not None:
        return True
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div):
        left, right = node.this, node.expression
        apart = isinstance(node, exp.Add | exp.Sub) or not attrs(left) & attrs(right)
        divided = isinstance(node, exp.Div) and attrs(right)
        return bool(apart and not divided and is_linear(left, required) and is_linear(right, required))
    if isinstance(node, exp.Neg):
        return is_linear(node.this, required)
    if isinstance(node, exp.Case) and node.this is None:
        results = [branch.args["true"] for branch in node.args["ifs"]]
        return all(_is_constant_in_pieces(branch.this, required) for branch in node.args["ifs"]) and all(
            is_linear(result, required) for result in [*results, *filter(None, [node.args.get("default")])]
        )
    return False


def _is_constant_in_pieces(node: exp.Expression, required: Requirements) -> bool:
    """Whether a condition is made of comparisons with constants, so that it does not vary inside a piece."""
    node = bare(node)
    if isinstance(node, exp.And | exp.Or):
        return _is_constant_in_pieces(node.this, required) and _is_constant_in_pieces(node.expression, required)
    if isinstance(node, exp.Not):
        return _is_constant_in_pieces(node.this, required)
    return not attrs(node) or required.comparison(node) is not None
