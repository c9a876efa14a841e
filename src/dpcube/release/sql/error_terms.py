"""Columns whose standard errors can be stated: ratios of linear combinations of aggregates, from syntax trees.

The error of `100 * avg(x)`, `round(count(*), -2)` or `sum(x) / 1000 + 5` is that of one aggregate times a constant;
rounding is not counted. A share of rows, `count(*) FILTER (WHERE c) / count(*)`, is the average of 1 where c holds and
0 elsewhere, and has the error of an average (delta method). A WITH clause or sub-query whose columns are only passed on
is the query itself.
"""

from typing import NamedTuple

from sqlglot import exp

from dpcube.release.sql.aggregates import aggregate_call
from dpcube.release.sql.parse import bare, is_constant
from dpcube.release.sql.predicates import Fold

PASSED_CLAUSES = {"expressions", "from", "with", "order", "limit", "offset"}
"""Clauses of a SELECT that passes on the columns of its source."""
PLAIN_CLAUSES = {"expressions", "from", "where", "group", "having", "with"}
"""Clauses of a SELECT whose columns another SELECT may pass on."""
SMOOTH = ("count", "sum", "avg", "var", "stddev")
"""Prefixes of the names of aggregates that are smooth in the counts: their sums and ratios have errors."""


class LinearCombination(NamedTuple):
    """A sum of aggregates, each with its factor, and a constant."""

    terms: tuple[tuple[float, exp.Expression], ...] = ()
    constant: float = 0.0

    def times(self, factor: float) -> "LinearCombination":
        """Return the combination times a number."""
        return LinearCombination(tuple((factor * of, node) for of, node in self.terms), factor * self.constant)

    def plus(self, other: "LinearCombination") -> "LinearCombination":
        """Return the sum of two combinations."""
        return LinearCombination(self.terms + other.terms, self.constant + other.constant)


CONSTANT_ONE = LinearCombination(constant=1.0)


class AggregateRatio(NamedTuple):
    """A column that is `scale` times one combination over another plus `offset`; the denominator may be 1."""

    numerator: LinearCombination
    denominator: LinearCombination = CONSTANT_ONE
    scale: float = 1.0
    offset: float = 0.0

    def times(self, factor: float) -> "AggregateRatio":
        """Return the column times a number."""
        return self._replace(scale=self.scale * factor, offset=self.offset * factor)

    @property
    def aggregate(self) -> exp.Expression | None:
        """The aggregate of a column of one; None if the column is of several."""
        terms, constant = self.numerator
        return terms[0][1] if len(terms) == 1 and not constant and self.denominator == CONSTANT_ONE else None


def as_ratio(node: exp.Expression, fold: Fold) -> AggregateRatio | None:
    """Return a column as a ratio of aggregates, None if its errors cannot be stated; `fold` evaluates constants."""
    node = bare(node)
    if isinstance(node, exp.Round | exp.Cast):
        return (
            None
            if node.args.get("to") and not node.args["to"].is_type(*exp.DataType.NUMERIC_TYPES)
            else as_ratio(node.this, fold)
        )
    if isinstance(node, exp.Neg):
        inner = as_ratio(node.this, fold)
        return None if inner is None else inner.times(-1.0)
    if isinstance(node, exp.Mul | exp.Div | exp.Add | exp.Sub):
        return _of_operands(node, fold)
    return None if aggregate_call(node) is None else _of_aggregate(node)


def _of_aggregate(node: exp.Expression, scale: float = 1.0) -> AggregateRatio:
    return AggregateRatio(LinearCombination(((1.0, node),)), scale=scale)


def _of_operands(node: exp.Binary, fold: Fold) -> AggregateRatio | None:
    left, right = bare(node.this), bare(node.expression)
    if isinstance(node, exp.Div) and not is_constant(right):
        return _share(left, right, fold) or _quotient(left, right, fold)
    if isinstance(node, exp.Add | exp.Sub) and not is_constant(left) and not is_constant(right):
        return _sum(left, right, fold, sign=-1.0 if isinstance(node, exp.Sub) else 1.0)
    if is_constant(left) and not isinstance(node, exp.Div):
        inner, number = as_ratio(right, fold), _number(left, fold)
        inner = inner.times(-1.0) if inner is not None and isinstance(node, exp.Sub) else inner
    elif is_constant(right):
        inner, number = as_ratio(left, fold), _number(right, fold)
        number = -number if number is not None and isinstance(node, exp.Sub) else number
    else:
        return None
    if inner is None or number is None or (isinstance(node, exp.Div) and number == 0):
        return None
    if isinstance(node, exp.Add | exp.Sub):
        return inner._replace(offset=inner.offset + number)
    return inner.times(1 / number if isinstance(node, exp.Div) else number)


def _number(node: exp.Expression, fold: Fold) -> float | None:
    try:
        return float(fold(node))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None


def _share(over: exp.Expression, under: exp.Expression, fold: Fold) -> AggregateRatio | None:
    """Return a share of rows as an average of ones and zeros."""
    part, whole = as_ratio(over, fold), aggregate_call(under)
    if (
        part is None
        or part.aggregate is None
        or part.offset
        or whole is None
        or (whole.name, whole.argument, whole.condition) != ("count", None, None)
    ):
        return None
    counted = aggregate_call(part.aggregate)
    if counted is None or counted.name not in ("count", "count_if"):
        return None
    if counted.name == "count_if":
        if counted.condition is not None:
            return None
        condition = counted.argument
    else:
        condition = None if counted.argument is not None else counted.condition
    if condition is None:
        return None
    ones = exp.case().when(condition.copy(), exp.Literal.number("1.0")).else_(exp.Literal.number("0.0"))
    return _of_aggregate(exp.Avg(this=ones), part.scale)


def _sum(left: exp.Expression, right: exp.Expression, fold: Fold, *, sign: float) -> AggregateRatio | None:
    first, second = _linear(left, fold), _linear(right, fold)
    return None if first is None or second is None else AggregateRatio(first.plus(second.times(sign)))


def _quotient(over: exp.Expression, under: exp.Expression, fold: Fold) -> AggregateRatio | None:
    """Return one combination over another; `nullif(x, 0)` in the denominator is x, and null where that is 0."""
    if isinstance(under, exp.Nullif) and is_constant(under.expression) and _number(under.expression, fold) == 0:
        under = bare(under.this)
    above, below = _linear(over, fold), _linear(under, fold)
    return None if above is None or below is None else AggregateRatio(above, below)


def _linear(node: exp.Expression, fold: Fold) -> LinearCombination | None:
    """Return an expression as a sum of multiples of smooth aggregates, if it is one."""
    if is_constant(node):
        number = _number(node, fold)
        return None if number is None else LinearCombination(constant=number)
    found = as_ratio(node, fold)
    if (
        found is None
        or found.denominator != CONSTANT_ONE
        or not all(_is_smooth(one) for _, one in found.numerator.terms)
    ):
        return None
    return found.numerator.times(found.scale).plus(LinearCombination(constant=found.offset))


def _is_smooth(node: exp.Expression) -> bool:
    call = aggregate_call(node)
    return call is not None and call.name.startswith(SMOOTH)


def inlined(tree: exp.Query) -> exp.Query:
    """Return the query inside one that only passes on its columns, with its order and limit; any other as it is."""
    inner = _source(tree)
    if inner is None or not isinstance(tree, exp.Select):
        return tree
    chosen = _passed_on(tree, inner)
    if chosen is None:
        return tree
    made = inner.copy()
    made.set("expressions", chosen)
    for part in ("order", "limit", "offset"):
        made.set(part, tree.args.get(part))
    if clause := tree.args.get("with"):
        kept = [cte for cte in clause.expressions if cte.this is not inner]
        made.set(
            "with", exp.With(expressions=[*kept, *(made.args["with"].expressions if made.args.get("with") else [])])
        )
        if not made.args["with"].expressions:
            made.set("with", None)
    return made


def _source(tree: exp.Query) -> exp.Select | None:
    """Return the SELECT that a query takes all its rows from, if it does nothing else with them."""
    if not isinstance(tree, exp.Select) or {name for name, value in tree.args.items() if value} - PASSED_CLAUSES:
        return None
    table = tree.args["from"].this if tree.args.get("from") else None
    if isinstance(table, exp.Subquery) and not table.alias_column_names:
        inner = table.this
    elif isinstance(table, exp.Table) and tree.args.get("with"):
        named = [cte for cte in tree.args["with"].expressions if cte.alias.casefold() == table.name.casefold()]
        used = [one for one in tree.find_all(exp.Table) if one.name.casefold() == table.name.casefold()]
        inner = named[0].this if len(named) == 1 and len(used) == 1 and not named[0].alias_column_names else None
    else:
        return None
    is_plain = (
        isinstance(inner, exp.Select) and not {name for name, value in inner.args.items() if value} - PLAIN_CLAUSES
    )
    return inner if is_plain else None


def _passed_on(tree: exp.Select, inner: exp.Select) -> list[exp.Expression] | None:
    """Return the columns of the inner SELECT that the outer one names, under its names; None if it does more."""
    if len(tree.expressions) == 1 and isinstance(tree.expressions[0], exp.Star):
        return [item.copy() for item in inner.expressions]
    group = inner.args.get("group")
    if group is not None and (group.args.get("all") or any(bare(key).is_int for key in group.expressions)):
        return None  # its columns are counted by their places
    items, chosen = {item.alias_or_name.casefold(): item for item in inner.expressions}, []
    for column in tree.expressions:
        named = column.unalias()
        if not isinstance(named, exp.Column) or named.name.casefold() not in items:
            return None
        chosen.append(exp.alias_(items[named.name.casefold()].unalias().copy(), column.alias_or_name, quoted=True))
    return chosen
