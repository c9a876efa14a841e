"""Rewrite of SELECT statements over the cube into weighted aggregates.

Inside aggregates, conditions and group keys an expression is of one row; elsewhere of a group, made of keys and
aggregates. A bare attribute as a key is its value, or the name of its bin where bins hold several; inside an aggregate
it is the mean of its values in the row; any other expression is evaluated at each whole number or day.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dpcube.core.errors import QueryError
from dpcube.release.sql.aggregates import (
    QUANTILE,
    Aggregate,
    AggregateCall,
    AggregateWriter,
    ErrorColumn,
    aggregate_call,
    bare_argument,
)
from dpcube.release.sql.axes import AxisUse, Detail
from dpcube.release.sql.error_terms import AggregateRatio, LinearCombination, as_ratio
from dpcube.release.sql.from_clause import SelectSource, column_name
from dpcube.release.sql.parse import Attr, attrs, bare, shown, sql_of
from dpcube.release.sql.predicates import Requirements, is_linear, monotone_parts

Mapped = Callable[[exp.Expression], exp.Expression | None]


@dataclass
class Rewritten:
    """A SELECT over weighted rows, and what it requires of them.

    `names` are the names of its columns as the user wrote them; `numbers` the arguments that must be numbers, each with
    its aggregate's text; `constant_in_bins` the expressions that must be constant inside bins of real numbers, each
    with its axis and text; `errors` the columns whose errors can be stated.
    """

    select: exp.Select
    required: Requirements
    names: list[str]
    numbers: dict[str, str] = field(default_factory=dict)
    constant_in_bins: list[tuple[int, exp.Expression, str]] = field(default_factory=list)
    errors: dict[str, ErrorColumn] = field(default_factory=dict)


class Rewriter:
    """Rewriter of one SELECT; `complete` says that its rows include those whose count is zero.

    Groups of the `outermost` SELECT are sorted by their keys unless the query has ORDER BY, because the engine's own
    order varies.
    """

    def __init__(self, source: SelectSource, required: Requirements, *, complete: bool, outermost: bool) -> None:
        self.source, self.required = source, required
        self.numbers: dict[str, str] = {}
        self.constant_in_bins: list[tuple[int, exp.Expression, str]] = []
        self.writer = AggregateWriter(required, self.numbers, complete)
        self.complete, self.outermost = complete, outermost
        self.keys: list[exp.Expression] = []

    def rewrite(self, select: exp.Select, table: str) -> Rewritten:
        """Return `select` as a SELECT over the weighted rows in `table`."""
        items = self._items(select)
        group = self._group(select.args.get("group"), items)
        conditions = self._conditions(select, items)
        self.writer.decided.update(*map(attrs, self.keys), *map(attrs, conditions))
        made = exp.Select().from_(exp.to_identifier(table, quoted=True))
        error_columns: dict[str, ErrorColumn] = {}
        for name, item in items.items():
            if self.complete and (ratio := as_ratio(item, self.required.fold)) is not None:
                error_columns[name] = self._error_column(ratio)
            made = made.select(exp.alias_(self.out(item), name, quoted=True), copy=False)
        for condition in conditions:
            made = made.where(exp.paren(self.condition(condition)), copy=False)
        if group is not None:
            made.set("group", group)
        self._finish(select, made, items)
        names = [column_name(item) for item in select.expressions]
        return Rewritten(
            made, self.required, names, self.numbers, self.constant_in_bins, _with_coefficients(error_columns)
        )

    def _error_column(self, ratio: AggregateRatio) -> ErrorColumn:
        """Return a column with errors, its aggregates as SQL."""

        def aggregate(node: exp.Expression) -> Aggregate:
            call = aggregate_call(node)
            assert call is not None  # as `as_ratio` guarantees
            return self._aggregate(call)

        def aggregates(part: LinearCombination) -> tuple[tuple[float, Aggregate], ...]:
            return tuple((factor, aggregate(node)) for factor, node in part.terms)

        over, under, scale, offset = ratio
        made = ErrorColumn(aggregates(over), over.constant, aggregates(under), under.constant, scale, offset)
        quantile = made.single
        if quantile is None or quantile.kind != QUANTILE or (scale, offset) == (1.0, 0.0):
            return made
        if self.required.domain.attributes[quantile.axis].is_numeric:
            return made
        return ErrorColumn(((1.0, replace(quantile, coefficient=None)),))  # days and listed values have no multiples

    def _items(self, select: exp.Select) -> dict[str, exp.Expression]:
        """Return the columns of the SELECT by name, a number added to names that occur twice."""
        items: dict[str, exp.Expression] = {}
        for item in select.expressions:
            if isinstance(item, exp.Star):
                msg = "'*' cannot be selected beside aggregates; name the columns that are grouped by"
                raise QueryError(msg)
            name, number = column_name(item), 1
            while name.casefold() in map(str.casefold, items):
                number += 1
                name = f"{column_name(item)}_{number}"
            items[name] = bare(self.source.resolve(item.unalias(), items))
        return items

    def _conditions(self, select: exp.Select, items: dict[str, exp.Expression]) -> list[exp.Expression]:
        where = select.args.get("where")
        added = [] if where is None else [self.source.resolve(where.this, items)]
        return [part for whole in (*self.source.rows.conditions, *added) for part in _conjuncts(whole)]

    def _group(self, group: exp.Group | None, items: dict[str, exp.Expression]) -> exp.Group | None:
        """Rewrite GROUP BY, and store its keys."""
        if group is None:
            return None
        if group.args.get("all"):
            self.keys = [item for item in items.values() if not any(item.find_all(exp.AggFunc))]
            return exp.Group(expressions=[self.key(item) for item in self.keys])

        def key(node: exp.Expression) -> exp.Expression:
            if isinstance(node, exp.Tuple):
                return exp.Tuple(expressions=[key(part) for part in node.expressions])
            if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets):
                return type(node)(expressions=[key(part) for part in node.expressions])
            if isinstance(node, exp.Paren):
                return exp.Paren(this=key(node.this))
            meant = self._meant(node, items)
            self.keys.append(meant)
            return self.key(meant)

        made = exp.Group()
        for part in ("expressions", "rollup", "cube", "grouping_sets"):
            if group.args.get(part):
                made.set(part, [key(node) for node in group.args[part]])
        return made

    def _meant(
        self, node: exp.Expression, items: dict[str, exp.Expression], *, clause: str = "GROUP BY"
    ) -> exp.Expression:
        if isinstance(node, exp.Literal) and node.is_int:
            place = int(node.name)
            if not 1 <= place <= len(items):
                msg = f"{clause} {place}: the SELECT has columns 1 to {len(items)}"
                raise QueryError(msg)
            return list(items.values())[place - 1]
        return bare(self.source.resolve(node, items))

    def _finish(self, select: exp.Select, made: exp.Select, items: dict[str, exp.Expression]) -> None:
        """Rewrite the clauses that are evaluated after grouping."""
        kept = [] if not self.complete or not self.keys else [raw_sql("bool_or(there)")]
        if having := select.args.get("having"):
            kept.append(exp.paren(self.out(self.source.resolve(having.this, items))))
        if kept:
            made.set("having", exp.Having(this=exp.and_(*kept)))
        if qualify := select.args.get("qualify"):
            made.set("qualify", exp.Qualify(this=self.out(self.source.resolve(qualify.this, items))))
        if order := select.args.get("order"):
            made.set("order", exp.Order(expressions=[self._ordered(item, items) for item in order.expressions]))
        elif self.outermost and not select.args.get("distinct"):
            ranks = [exp.Ordered(this=self._rank(key)) for key in self.keys if attrs(key)]
            made.set("order", exp.Order(expressions=ranks) if ranks else None)
        for part in ("limit", "offset", "distinct"):
            if select.args.get(part):
                made.set(part, select.args[part].copy())

    def _ordered(self, item: exp.Expression, items: dict[str, exp.Expression]) -> exp.Expression:
        """Rewrite one ORDER BY key: a name is first a column of the result, a number the position of one."""
        ordered = item.copy()
        by = ordered.this
        if isinstance(by, exp.Var):  # ORDER BY ALL
            return ordered
        if isinstance(by, exp.Column) and not by.table:
            named = [meant for name, meant in items.items() if name == by.name]
            named += [meant for name, meant in items.items() if name.casefold() == by.name.casefold()]
            meant = named[0] if named else bare(self.source.resolve(by, items))
        else:
            meant = self._meant(by, items, clause="ORDER BY")
        ordered.set("this", self._rank(meant))
        return ordered

    def _rank(self, node: exp.Expression) -> exp.Expression:
        """Return the sort key of an expression: bins and ordered categories are not sorted as text."""
        if isinstance(node, Attr) and node in self.keys:
            attribute = self.required.domain.attributes[node.axis]
            if (not attribute.has_distances and attribute.ordered) or self._is_wide(node):
                key, place = self.key(node), self.required.column(node.axis, "place", Detail.BINS)
                # A subtotal has a null key, and its rows have many places.
                return raw_sql(f"CASE WHEN {sql_of(key)} IS NOT NULL THEN min({sql_of(place)}) END")
        return self.out(node)

    def key(self, node: exp.Expression) -> exp.Expression:
        """Return the group key `node` on the rows' own columns; a bin of several values has its name."""
        if isinstance(node, Attr):
            return self.required.column(node.axis, "bin" if self._is_wide(node) else "key", Detail.BINS)
        if isinstance(node, exp.Literal) and node.is_int:
            return exp.cast(node.copy(), "bigint")  # a bare number would be the place of a column
        return self.condition(node)

    def _is_wide(self, node: exp.Expression) -> bool:
        """Whether a node is an attribute whose bins hold several values."""
        return isinstance(node, Attr) and self.required.domain.attributes[node.axis].has_wide_bins

    def condition(self, node: exp.Expression) -> exp.Expression:
        """Return `node`, a condition or a key, on the rows' own columns; it must be constant inside a row."""
        made, loose = self._row(node, deciding=True)
        if loose:
            if attrs(node) != loose or len(loose) > 1:
                names = ", ".join(f"'{self.required.domain.names[axis]}'" for axis in sorted(attrs(node)))
                msg = (
                    f"{shown(node)!r} combines {names}, whose joint values inside a bin are unknown; compare each "
                    "with constants"
                )
                raise QueryError(msg)
            axis = loose.pop()
            if self._is_real(axis):
                parts = [self._row(part)[0] for part in monotone_parts(node, self.required)]
                self.constant_in_bins += [(axis, part, shown(node)) for part in (made, *parts)]
                # The last bin holds its upper edge, where floor(x), say, is another: a part of it by itself.
                last_edge = float(self.required.domain.attributes[axis].bin_edges()[-1])
                self.required.require(axis, AxisUse(cuts=frozenset([last_edge])))
            else:
                self.required.cut_where_changing(axis, made, shown(node))
        return made

    def _row(self, node: exp.Expression, *, deciding: bool = False) -> tuple[exp.Expression, set[int]]:
        """Return an expression of one row, and its attributes outside comparisons whose values in bins are unknown.

        An expression `deciding` which rows are counted must be constant inside bins of unknown distribution.
        """
        loose: set[int] = set()

        def replaced(found: exp.Expression) -> exp.Expression | None:
            if isinstance(found, Attr):
                loose.update({found.axis} if self._is_real(found.axis) or self._is_unknown(found.axis) else ())
                return self.required.column(found.axis, "unit", Detail.UNITS)
            if isinstance(found, exp.Anonymous) and found.name.lower() == "cell":
                return self._cell(found)
            if isinstance(found, exp.AggFunc):
                raise _misplaced(found)
            made = self.required.comparison(found)
            return self._step(found, deciding=deciding) if made is None else made

        return mapped(node, replaced), loose

    def _is_real(self, axis: int) -> bool:
        return self.required.domain.attributes[axis].is_continuous

    def _is_unknown(self, axis: int) -> bool:
        """Whether an attribute has bins of several values whose distribution inside is unknown."""
        attribute = self.required.domain.attributes[axis]
        return not attribute.is_even and attribute.has_wide_bins

    def _step(self, node: exp.Expression, *, deciding: bool) -> exp.Expression | None:
        """Return an expression of one attribute, not a real one, whose axis is to be cut where it changes."""
        named = attrs(node)
        if len(named) != 1 or self._is_real(min(named)) or any(node.find_all(exp.AggFunc)):
            return None
        checked = deciding and self._is_unknown(min(named))
        if checked and (isinstance(node, exp.Connector | exp.Not | exp.Paren | exp.Case)):
            return None  # its parts are rewritten one by one: comparisons with constants may cut bins
        outside_comparisons = []

        def replaced(found: exp.Expression) -> exp.Expression | None:
            if isinstance(found, Attr):
                outside_comparisons.append(found)
                return self.required.column(found.axis, "unit", Detail.CUTS)
            if isinstance(found, exp.Anonymous) and found.name.lower() == "cell":
                return self._cell(found)
            return self.required.comparison(found)

        axis, made = named.pop(), mapped(node, replaced)
        must_be_constant = shown(node) if checked and outside_comparisons else None
        self.required.cut_where_changing(axis, made, must_be_constant)
        return made

    def _cell(self, call: exp.Anonymous) -> exp.Expression:
        inside = [bare(argument) for argument in call.expressions]
        if len(inside) != 1 or not isinstance(inside[0], Attr):
            msg = "cell() takes one attribute, as in cell(age): it is the name of the bin"
            raise QueryError(msg)
        return self.required.column(inside[0].axis, "label", Detail.BINS)

    def out(self, node: exp.Expression) -> exp.Expression:
        """Return `node`, an expression of a group, with its keys and aggregates on the rows' own columns."""

        def replaced(found: exp.Expression) -> exp.Expression | None:
            if bare(found) in self.keys:
                return self.key(bare(found))
            if isinstance(found, exp.Binary) and not isinstance(found, exp.AggFunc):
                self._check_bins(found)
            if isinstance(found, exp.Window):
                return self._window(found)
            if isinstance(found, exp.Grouping):
                return exp.Grouping(expressions=[self.out(argument) for argument in found.expressions])
            if isinstance(found, Attr):
                name = self.required.domain.names[found.axis]
                msg = f"attribute '{name}' must be in GROUP BY, or inside an aggregate such as avg"
                raise QueryError(msg)
            call = aggregate_call(found)
            return None if call is None else exp.paren(raw_sql(self._aggregate(call).sql))

        return mapped(node, replaced)

    def _check_bins(self, node: exp.Binary) -> None:
        """Refuse arithmetic on group keys that are bins, and comparisons of them with anything but text."""
        for key, other in ((bare(node.this), bare(node.expression)), (bare(node.expression), bare(node.this))):
            if self._is_wide(key) and not (isinstance(other, exp.Null) or (other.is_string and not _adds(node))):
                attribute = self.required.domain.attributes[key.args["axis"]]
                msg = (
                    f"{shown(node)!r}: '{attribute.name}' is grouped by its bins ('{attribute.labels()[0]}', ...), "
                    "which have no single value; put conditions in WHERE, and take min, avg or max of the values"
                )
                raise QueryError(msg)

    def _window(self, window: exp.Window) -> exp.Expression:
        """Rewrite the arguments of a window function; the function itself is of results, not of rows."""
        made = window.copy()
        function = made.this.this if isinstance(made.this, exp.Filter) else made.this
        for part in (*function.iter_expressions(), *(p for p in made.iter_expressions() if p is not made.this)):
            part.replace(self.out(part))
        return made

    def _aggregate(self, call: AggregateCall) -> Aggregate:
        condition = None if call.condition is None else self.condition(call.condition)
        second = None if call.second is None else self._argument(replace(call, argument=call.second, name="sum"))
        return self.writer.write(call, self._argument(call), condition, second)

    def _argument(self, call: AggregateCall) -> exp.Expression | None:
        if call.argument is None:
            return None
        if nested := next(call.argument.find_all(exp.AggFunc), None):
            raise _misplaced(nested)
        if call.name == "count_if":
            return self.condition(call.argument)
        if isinstance(attr := bare_argument(call), Attr):
            return self.required.column(attr.axis, "value", Detail.BINS)
        if call.name not in ("count", "sum", "avg") or not is_linear(call.argument, self.required):
            made, loose = self._row(call.argument)
            if call.name == "count" and any(map(self._is_real, loose)):  # it decides which rows are counted
                self.condition(exp.Is(this=call.argument.copy(), expression=exp.null()))
            return made

        def replaced(found: exp.Expression) -> exp.Expression | None:
            if isinstance(found, Attr):
                return self.required.column(found.axis, "value", Detail.BINS)
            return self.required.comparison(found)

        return mapped(call.argument, replaced)


def mapped(node: exp.Expression, replaced: Mapped) -> exp.Expression:
    """Return a copy of the tree below `node` with nodes replaced from the top down.

    `replaced` returns the replacement of a node, or None to descend into it; a replacement is not descended into.
    """
    made = replaced(node)
    if made is not None:
        return made
    copied = node.copy()
    for name, value in node.args.items():
        if isinstance(value, exp.Expression):
            copied.set(name, mapped(value, replaced))
        elif isinstance(value, list):
            copied.set(name, [mapped(v, replaced) if isinstance(v, exp.Expression) else v for v in value])
    return copied


def raw_sql(text: str) -> exp.Expression:
    """Return a node that prints as `text`: SQL generated by this package."""
    return exp.Var(this=text)


def _misplaced(call: exp.Expression) -> QueryError:
    return QueryError(
        f"{shown(call)!r} cannot stand in WHERE, GROUP BY or another aggregate; use HAVING, or a sub-query"
    )


def _conjuncts(node: exp.Expression) -> list[exp.Expression]:
    node = bare(node)
    return [*_conjuncts(node.this), *_conjuncts(node.expression)] if isinstance(node, exp.And) else [node]


def _adds(node: exp.Binary) -> bool:
    return isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.IntDiv | exp.Mod)


def _with_coefficients(columns: dict[str, ErrorColumn]) -> dict[str, ErrorColumn]:
    """Return the columns in whose aggregates the coefficient of each row is known."""
    return {name: made for name, made in columns.items() if all(a.coefficient is not None for a in made.aggregates)}
