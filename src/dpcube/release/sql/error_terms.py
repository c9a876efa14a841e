"""Which columns of a query can have errors: a column enters; what is behind it, a factor and an addend leave.

Behind it is one aggregate, or a sum of multiples of aggregates, or the quotient of two such sums. The error of
`100 * avg(x)`, `round(count(*), -2)` or `sum(x) / 1000 + 5` is that of one aggregate times a constant, and what
rounding takes away is not counted. A share of rows, `count(*) FILTER (WHERE c) / count(*)`, is the average of 1 where c
holds and 0 elsewhere, and has the error of an average (the delta method). A WITH clause or sub-query whose columns are
only passed on is the query itself.
"""

from typing import NamedTuple

from sqlglot import exp

from dpcube.release.sql.aggregates import call_of
from dpcube.release.sql.parse import bare, is_constant
from dpcube.release.sql.predicates import Fold

PASSING_ON = {"expressions", "from", "with", "order", "limit", "offset"}
PLAIN_CLAUSES = {"expressions", "from", "where", "group", "having", "with"}
SMOOTH = ("count", "sum", "avg", "var", "stddev")
"""How the names of aggregates begin that a row moves by a little: their sums and quotients have errors."""


class Stated(NamedTuple):
    """A column that is `scale` times an aggregate plus `offset`."""

    aggregate: exp.Expression
    scale: float = 1.0
    offset: float = 0.0

    def times(self, factor: float) -> "Stated":
        """Return the same column times a number."""
        return Stated(self.aggregate, self.scale * factor, self.offset * factor)


class Linear(NamedTuple):
    """A sum of multiples of aggregates, each with its factor, and a constant."""

    terms: tuple[tuple[float, exp.Expression], ...] = ()
    constant: float = 0.0

    def times(self, factor: float) -> "Linear":
        """Return the same sum times a number."""
        return Linear(tuple((factor * of, aggregate) for of, aggregate in self.terms), factor * self.constant)

    def plus(self, other: "Linear") -> "Linear":
        """Return the sum of two."""
        return Linear(self.terms + other.terms, self.constant + other.constant)


ONE_LINE = Linear(constant=1.0)


class Quotient(NamedTuple):
    """A column that is `scale` times one sum over another plus `offset`; a sum by itself is over 1."""

    over: Linear
    under: Linear = ONE_LINE
    scale: float = 1.0
    offset: float = 0.0

    def times(self, factor: float) -> "Quotient":
        """Return the same column times a number."""
        return self._replace(scale=self.scale * factor, offset=self.offset * factor)


def stated(node: exp.Expression, fold: Fold) -> Stated | Quotient | None:
    """Return what a column is made of, if its errors can be stated; `fold` evaluates constants."""
    node = bare(node)
    if isinstance(node, exp.Round | exp.Cast):
        return (
            None
            if node.args.get("to") and not node.args["to"].is_type(*exp.DataType.NUMERIC_TYPES)
            else stated(node.this, fold)
        )
    if isinstance(node, exp.Neg):
        inner = stated(node.this, fold)
        return None if inner is None else inner.times(-1.0)
    if isinstance(node, exp.Mul | exp.Div | exp.Add | exp.Sub):
        return _of_two(node, fold)
    return Stated(node) if call_of(node) is not None else None


def _of_two(node: exp.Binary, fold: Fold) -> Stated | Quotient | None:
    left, right = bare(node.this), bare(node.expression)
    if isinstance(node, exp.Div) and not is_constant(right):
        return _share(left, right, fold) or _quotient(left, right, fold)
    if isinstance(node, exp.Add | exp.Sub) and not is_constant(left) and not is_constant(right):
        return _sum(left, right, fold, sign=-1.0 if isinstance(node, exp.Sub) else 1.0)
    if is_constant(left) and not isinstance(node, exp.Div):
        inner, number = stated(right, fold), _number(left, fold)
        inner = inner.times(-1.0) if inner is not None and isinstance(node, exp.Sub) else inner
    elif is_constant(right):
        inner, number = stated(left, fold), _number(right, fold)
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


def _share(over: exp.Expression, under: exp.Expression, fold: Fold) -> Stated | None:
    """Return a share of rows as an average of ones and zeros."""
    part, whole = stated(over, fold), call_of(under)
    if (
        not isinstance(part, Stated)
        or part.offset
        or whole is None
        or (whole.name, whole.argument, whole.condition) != ("count", None, None)
    ):
        return None
    counted = call_of(part.aggregate)
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
    return Stated(exp.Avg(this=ones), part.scale)


def _sum(left: exp.Expression, right: exp.Expression, fold: Fold, *, sign: float) -> Quotient | None:
    first, second = _linear(left, fold), _linear(right, fold)
    return None if first is None or second is None else Quotient(first.plus(second.times(sign)))


def _quotient(over: exp.Expression, under: exp.Expression, fold: Fold) -> Quotient | None:
    """Return one sum over another; `nullif(x, 0)` under the line is x, and null where that is 0."""
    if isinstance(under, exp.Nullif) and is_constant(under.expression) and _number(under.expression, fold) == 0:
        under = bare(under.this)
    above, below = _linear(over, fold), _linear(under, fold)
    return None if above is None or below is None else Quotient(above, below)


def _linear(node: exp.Expression, fold: Fold) -> Linear | None:
    """Return an expression as a sum of multiples of smooth aggregates, if it is one."""
    if is_constant(node):
        number = _number(node, fold)
        return None if number is None else Linear(constant=number)
    found = stated(node, fold)
    if isinstance(found, Quotient):
        return found.over.times(found.scale).plus(Linear(constant=found.offset)) if found.under == ONE_LINE else None
    call = None if found is None else call_of(found.aggregate)
    if found is None or call is None or not call.name.startswith(SMOOTH):
        return None
    return Linear(((found.scale, found.aggregate),), found.offset)


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
    if not isinstance(tree, exp.Select) or {name for name, value in tree.args.items() if value} - PASSING_ON:
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
