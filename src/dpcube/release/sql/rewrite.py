"""One SELECT with aggregates over rows of the cube enters; the same SELECT over weighted rows leaves.

Inside aggregates, conditions and group keys an expression is of one row; elsewhere of a group, made of keys and
aggregates. A bare attribute as a key is its value, or the name of its bin where bins hold several; inside an aggregate
it is the mean of its values in the row; in any other expression each whole number or day is told apart.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dpcube.core.errors import QueryError
from dpcube.release.sql.aggregates import (
    QUANTILE,
    Call,
    Erring,
    Writer,
    Written,
    WrittenQuotient,
    bare_argument,
    call_of,
)
from dpcube.release.sql.axes import Detail
from dpcube.release.sql.error_terms import Quotient, Stated, stated
from dpcube.release.sql.from_clause import SelectSource, column_name
from dpcube.release.sql.parse import Attr, attrs, bare, shown, sql_of
from dpcube.release.sql.predicates import Needs, is_linear, rising_parts

Mapped = Callable[[exp.Expression], exp.Expression | None]


@dataclass
class Rewritten:
    """A SELECT over weighted rows, and what it needs of them.

    `names` are the names of its columns as the user sees them; `numbers` the arguments that must be numbers, each with
    its aggregate's text; `constant_in_bins` the expressions that must not vary inside bins of real numbers, each with
    its axis and text; `errors` the aggregates, by column, whose errors can be stated.
    """

    select: exp.Select
    needs: Needs
    names: list[str]
    numbers: dict[str, str] = field(default_factory=dict)
    constant_in_bins: list[tuple[int, exp.Expression, str]] = field(default_factory=list)
    errors: dict[str, Erring] = field(default_factory=dict)


class Rewriter:
    """Rewrites one SELECT; `complete` says that its rows include those whose count is zero.

    Groups of the `outermost` one are given in the order of their keys if the query asks for none: the engine would give
    them in another order each time.
    """

    def __init__(self, source: SelectSource, needs: Needs, *, complete: bool, outermost: bool) -> None:
        self.source, self.needs = source, needs
        self.numbers: dict[str, str] = {}
        self.constant_in_bins: list[tuple[int, exp.Expression, str]] = []
        self.writer = Writer(needs, self.numbers, complete)
        self.complete, self.outermost = complete, outermost
        self.keys: list[exp.Expression] = []

    def rewrite(self, select: exp.Select, table: str) -> Rewritten:
        """Return `select` as a SELECT over the weighted rows in `table`."""
        items = self._items(select)
        group = self._group(select.args.get("group"), items)
        conditions = self._conditions(select, items)
        self.writer.decided.update(*map(attrs, self.keys), *map(attrs, conditions))
        made = exp.Select().from_(exp.to_identifier(table, quoted=True))
        erring: dict[str, Erring] = {}
        for name, item in items.items():
            if self.complete and (found := stated(item, self.needs.fold)) is not None:
                erring[name] = self._erring(found)
            made = made.select(exp.alias_(self.out(item), name, quoted=True), copy=False)
        for condition in conditions:
            made = made.where(exp.paren(self.condition(condition)), copy=False)
        if group is not None:
            made.set("group", group)
        self._finish(select, made, items)
        names = [column_name(item) for item in select.expressions]
        return Rewritten(made, self.needs, names, self.numbers, self.constant_in_bins, _with_rows(erring))

    def _erring(self, found: Stated | Quotient) -> Erring:
        """Return a column whose errors are asked for, written."""

        def of(aggregate: exp.Expression) -> Written:
            call = call_of(aggregate)
            assert call is not None  # as `stated` says
            return self._aggregate(call)

        if isinstance(found, Stated):
            made = replace(of(found.aggregate), scale=found.scale, offset=found.offset)
            is_moved = (found.scale, found.offset) != (1.0, 0.0)
            if made.kind == QUANTILE and is_moved and self.needs.domain.attributes[made.axis].scale != "number":
                return replace(made, coefficient=None)  # multiples of days and of listed values mean nothing
            return made
        over, under = (tuple((times, of(one)) for times, one in part.terms) for part in (found.over, found.under))
        return WrittenQuotient(over, found.over.constant, under, found.under.constant, found.scale, found.offset)

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
        """Rewrite GROUP BY, and remember its keys."""
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
        """Rewrite what comes after grouping."""
        kept = [] if not self.complete or not self.keys else [written("bool_or(there)")]
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
        """Rewrite one ORDER BY: a name is first a column of the result, a number its place among them."""
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
        """Return what rows are ordered by: bins, and listed values that have an order, are not ordered as text."""
        if isinstance(node, Attr) and node in self.keys:
            attribute = self.needs.domain.attributes[node.axis]
            if (attribute.scale == "position" and attribute.ordered) or self._is_wide(node):
                key, place = self.key(node), self.needs.column(node.axis, "place", Detail.BINS)
                # A subtotal has a null key, and places of all its rows.
                return written(f"CASE WHEN {sql_of(key)} IS NOT NULL THEN min({sql_of(place)}) END")
        return self.out(node)

    def key(self, node: exp.Expression) -> exp.Expression:
        """Return the group key `node` on the rows' own columns; a bin of several values has its name."""
        if isinstance(node, Attr):
            return self.needs.column(node.axis, "bin" if self._is_wide(node) else "key", Detail.BINS)
        if isinstance(node, exp.Literal) and node.is_int:
            return exp.cast(node.copy(), "bigint")  # a bare number would be the place of a column
        return self.condition(node)

    def _is_wide(self, node: exp.Expression) -> bool:
        """Whether a node is an attribute whose bins hold several values."""
        return isinstance(node, Attr) and self.needs.domain.attributes[node.axis].has_wide_bins

    def condition(self, node: exp.Expression) -> exp.Expression:
        """Return `node`, a condition or a key, on the rows' own columns; it may not vary inside a row."""
        made, loose = self._row(node, deciding=True)
        if loose:
            if attrs(node) != loose or len(loose) > 1:
                names = ", ".join(f"'{self.needs.domain.names[axis]}'" for axis in sorted(attrs(node)))
                msg = f"{shown(node)!r} joins {names}, which is not known inside a bin; compare with constants"
                raise QueryError(msg)
            axis = loose.pop()
            if self._is_real(axis):
                parts = [self._row(part)[0] for part in rising_parts(node, self.needs)]
                self.constant_in_bins += [(axis, part, shown(node)) for part in (made, *parts)]
                # The last bin holds its upper edge, where floor(x), say, is another: a part of it by itself.
                self.needs.use(axis).cuts.add(float(self.needs.domain.attributes[axis].bin_edges()[-1]))
            else:
                self.needs.steps.setdefault(axis, []).append((made, shown(node)))
        return made

    def _row(self, node: exp.Expression, *, deciding: bool = False) -> tuple[exp.Expression, set[int]]:
        """Return an expression of one row, and the attributes in it outside comparisons that are not known inside bins.

        One that is `deciding` which rows are counted may not vary inside bins of which nothing is known.
        """
        loose: set[int] = set()

        def replaced(found: exp.Expression) -> exp.Expression | None:
            if isinstance(found, Attr):
                loose.update({found.axis} if self._is_real(found.axis) or self._is_unknown(found.axis) else ())
                return self.needs.column(found.axis, "unit", Detail.UNITS)
            if isinstance(found, exp.Anonymous) and found.name.lower() == "cell":
                return self._cell(found)
            if isinstance(found, exp.AggFunc):
                raise _misplaced(found)
            made = self.needs.comparison(found)
            return self._step(found, deciding=deciding) if made is None else made

        return mapped(node, replaced), loose

    def _is_real(self, axis: int) -> bool:
        return self.needs.domain.attributes[axis].is_continuous

    def _is_unknown(self, axis: int) -> bool:
        """Whether an attribute has bins of several values of which nothing is known inside."""
        attribute = self.needs.domain.attributes[axis]
        return not attribute.is_even and attribute.has_wide_bins

    def _step(self, node: exp.Expression, *, deciding: bool) -> exp.Expression | None:
        """Return an expression of one attribute that is not real, noted as one that cuts its axis where it changes."""
        named = attrs(node)
        if len(named) != 1 or self._is_real(min(named)) or any(node.find_all(exp.AggFunc)):
            return None
        checked = deciding and self._is_unknown(min(named))
        if checked and (isinstance(node, exp.Connector | exp.Not | exp.Paren | exp.Case)):
            return None  # its parts are looked at one by one: comparisons with constants may cut bins
        outside_comparisons = []

        def replaced(found: exp.Expression) -> exp.Expression | None:
            if isinstance(found, Attr):
                outside_comparisons.append(found)
                return self.needs.column(found.axis, "unit", Detail.CUTS)
            if isinstance(found, exp.Anonymous) and found.name.lower() == "cell":
                return self._cell(found)
            return self.needs.comparison(found)

        axis, made = named.pop(), mapped(node, replaced)
        must_be_constant = shown(node) if checked and outside_comparisons else None
        self.needs.steps.setdefault(axis, []).append((made, must_be_constant))
        return made

    def _cell(self, call: exp.Anonymous) -> exp.Expression:
        inside = [bare(argument) for argument in call.expressions]
        if len(inside) != 1 or not isinstance(inside[0], Attr):
            msg = "cell() takes one attribute, as in cell(age): it is the name of the bin"
            raise QueryError(msg)
        return self.needs.column(inside[0].axis, "label", Detail.BINS)

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
                name = self.needs.domain.names[found.axis]
                msg = f"attribute '{name}' must be in GROUP BY, or inside an aggregate such as avg"
                raise QueryError(msg)
            call = call_of(found)
            return None if call is None else exp.paren(written(self._aggregate(call).sql))

        return mapped(node, replaced)

    def _check_bins(self, node: exp.Binary) -> None:
        """Refuse arithmetic on group keys that are bins, and comparing them with anything but text."""
        for key, other in ((bare(node.this), bare(node.expression)), (bare(node.expression), bare(node.this))):
            if self._is_wide(key) and not (isinstance(other, exp.Null) or (other.is_string and not _adds(node))):
                attribute = self.needs.domain.attributes[key.args["axis"]]
                msg = (
                    f"{shown(node)!r}: '{attribute.name}' is grouped by its bins ('{attribute.labels()[0]}', ...), "
                    "which have no single value; put conditions in WHERE, and take min, avg or max of the values"
                )
                raise QueryError(msg)

    def _window(self, window: exp.Window) -> exp.Expression:
        """Rewrite what is inside a window function; the function itself is of results, not of rows."""
        made = window.copy()
        function = made.this.this if isinstance(made.this, exp.Filter) else made.this
        for part in (*function.iter_expressions(), *(p for p in made.iter_expressions() if p is not made.this)):
            part.replace(self.out(part))
        return made

    def _aggregate(self, call: Call) -> Written:
        condition = None if call.condition is None else self.condition(call.condition)
        second = None if call.second is None else self._argument(replace(call, argument=call.second, name="sum"))
        return self.writer.write(call, self._argument(call), condition, second)

    def _argument(self, call: Call) -> exp.Expression | None:
        if call.argument is None:
            return None
        if nested := next(call.argument.find_all(exp.AggFunc), None):
            raise _misplaced(nested)
        if call.name == "count_if":
            return self.condition(call.argument)
        if isinstance(attr := bare_argument(call), Attr):
            return self.needs.column(attr.axis, "value", Detail.BINS)
        if call.name not in ("count", "sum", "avg") or not is_linear(call.argument, self.needs):
            made, loose = self._row(call.argument)
            if call.name == "count" and any(map(self._is_real, loose)):  # it decides which rows are counted
                self.condition(exp.Is(this=call.argument.copy(), expression=exp.null()))
            return made

        def replaced(found: exp.Expression) -> exp.Expression | None:
            if isinstance(found, Attr):
                return self.needs.column(found.axis, "value", Detail.BINS)
            return self.needs.comparison(found)

        return mapped(call.argument, replaced)


def mapped(node: exp.Expression, replaced: Mapped) -> exp.Expression:
    """Return a copy of the tree below `node` with nodes replaced from the top down.

    `replaced` returns what stands for a node, or None to look inside it; what is inside a replaced node is left alone.
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


def written(text: str) -> exp.Expression:
    """Return a node that prints as `text`: SQL written by this package, from parts that were generated."""
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


def _with_rows(columns: dict[str, Erring]) -> dict[str, Erring]:
    """Return the columns of whose aggregates the rows are known that enter them."""
    return {name: made for name, made in columns.items() if all(a.coefficient is not None for a in made.aggregates)}
