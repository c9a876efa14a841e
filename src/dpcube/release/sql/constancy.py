"""Where expressions are constant: they are evaluated on the values of an attribute before the query itself runs.

Aggregates of numbers must have numbers; an expression of one attribute cuts its axis where it changes; an expression
that decides which rows are counted must not change inside a bin of which nothing is known. Whole numbers, days and
texts are tried one by one. Of real numbers only the ends and the middle of a bin are: so what is tried are the parts of
an expression that rise or fall with the number, which are the same all over a bin if they are the same at both ends.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from sqlglot import exp

from dpcube.core.domain import Attribute
from dpcube.core.errors import QueryError
from dpcube.release.sql.axes import AxisUse, Detail, Pieces, pieces_of
from dpcube.release.sql.engine import Engine
from dpcube.release.sql.names import attrs, bare
from dpcube.release.sql.needs import Needs
from dpcube.release.sql.parse import sql_of

STEADY = (exp.Floor, exp.Ceil, exp.Round, exp.Sqrt, exp.Ln, exp.Exp, exp.Sign, exp.Neg, exp.Add, exp.Sub, exp.Mul)
ORDERS = (exp.LT, exp.LTE, exp.GT, exp.GTE)
RISING = (*STEADY, *ORDERS, exp.Least, exp.Greatest)
"""Functions that rise or fall with one argument if the others are constants."""
STRICT = (*STEADY, *ORDERS, exp.Abs, exp.EQ, exp.NEQ)
"""Functions that are null where an argument is, and nowhere else."""
EQUALITIES = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ)
NUMBER_TYPES = (
    exp.DataType.Type.FLOAT,
    exp.DataType.Type.DOUBLE,
    exp.DataType.Type.DECIMAL,
    *exp.DataType.INTEGER_TYPES,
)


def rising_parts(node: exp.Expression, needs: Needs) -> Iterator[exp.Expression]:
    """Return the parts of an expression of one real attribute that must be constant in bins for it to be so.

    Each rises or falls with the attribute: a function of that kind, or the order of one and a constant. Any other
    function is constant if its arguments are.
    """
    node = bare(node)
    if not attrs(node) or needs.comparison(node) is not None or _is_cell(node):
        return
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        yield from _parts_of_null(node.this, needs)
    elif _rises(node, needs):
        yield node
    elif (compared := _equated(node)) is not None and _rises(compared[0], needs):
        for constant in compared[1]:
            yield exp.LT(this=compared[0].copy(), expression=constant.copy())
            yield exp.GT(this=compared[0].copy(), expression=constant.copy())
    else:
        for child in node.iter_expressions():
            yield from rising_parts(child, needs)


def _parts_of_null(node: exp.Expression, needs: Needs) -> Iterator[exp.Expression]:
    """Return the parts that must be constant for an expression to be null all over a bin, or nowhere."""
    node = bare(node)
    if isinstance(node, exp.Case) and node.this is None:
        for branch in node.args["ifs"]:
            yield from rising_parts(branch.this, needs)
        results = [*(branch.args["true"] for branch in node.args["ifs"]), node.args.get("default")]
        for result in filter(None, results):
            yield from _parts_of_null(result, needs)
    elif isinstance(node, STRICT):
        for child in node.iter_expressions():
            yield from _parts_of_null(child, needs)
    elif not isinstance(node, exp.Column):
        yield from rising_parts(node, needs)


def _rises(node: exp.Expression, needs: Needs) -> bool:
    """Tell whether an expression rises all over a bin, or falls, with the attribute in it."""
    node = bare(node)
    inside = [child for child in node.iter_expressions() if attrs(child)]
    if not inside:
        return bool(attrs(node))  # the attribute itself
    if len(inside) > 1 or needs.comparison(node) is not None:
        return False
    if isinstance(node, exp.Div | exp.IntDiv | exp.Coalesce):
        known = inside[0] is node.this
    elif isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
        known = node.to.this in NUMBER_TYPES
    elif isinstance(node, exp.Log):
        known = inside[0] is (node.expression or node.this)  # of another number; a base is where it has a pole
    else:
        known = isinstance(node, RISING) and inside[0] is not node.args.get("decimals")
    return known and _rises(inside[0], needs)


def _equated(node: exp.Expression) -> tuple[exp.Expression, list[exp.Expression]] | None:
    """Return what a test of equality compares, and the constants that it compares it with; None if it is none."""
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
    """Refuse aggregates of text or dates where numbers are needed.

    `arguments` are the arguments as SQL on the columns of `table`, each with the aggregate as the user wrote it.
    """
    if not arguments:
        return
    schema = engine.run(f'SELECT {", ".join(arguments)} FROM "{table}" LIMIT 0').schema
    for text, kind in zip(arguments.values(), schema.types, strict=True):
        known = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        if not (known or pa.types.is_boolean(kind) or pa.types.is_null(kind)):
            what = "a date" if pa.types.is_temporal(kind) else "text"
            msg = f"{text!r} needs a number, and its argument is {what}; count, min, max and median are for any order"
            raise QueryError(msg)


def cut_at_steps(engine: Engine, needs: Needs) -> None:
    """Cut each axis in `needs` where an expression of it changes from one whole number, day or text to the next.

    An expression that must be constant inside bins is refused if it changes elsewhere than at their edges.
    """
    for axis, expressions in needs.steps.items():
        use = needs.use(axis)
        if use.detail == Detail.UNITS and all(must_be_constant is None for _, must_be_constant in expressions):
            continue
        units = pieces_of(needs.domain.attributes[axis], AxisUse(Detail.UNITS))
        columns = {name: units.column(role) for name, (of, role) in needs.columns.items() if of == axis}
        name = f"dpcube units {axis}"
        engine.add(name, pa.table({**columns, "i": pa.array(np.arange(len(units)))}))
        for expression, must_be_constant in expressions:
            values = f'SELECT i, {sql_of(expression)} AS v FROM "{name}"'
            pairs = f"SELECT i, v, lag(v) OVER (ORDER BY i) AS before FROM ({values})"
            changes = (
                f"SELECT i FROM ({pairs}) WHERE i BETWEEN 1 AND {len(units.low) - 1} AND v IS DISTINCT FROM before"
            )
            cuts = units.low[engine.run(changes)["i"].to_numpy()]
            if must_be_constant is not None and not np.isin(cuts, units.attribute.bin_edges()).all():
                raise _varies(must_be_constant, units.attribute)
            use.cuts.update(cuts.tolist())


def check_constancy(
    engine: Engine,
    pieces: dict[int, Pieces],
    expressions: list[tuple[int, exp.Expression, str]],
    columns: dict[str, tuple[int, str]],
) -> None:
    """Refuse keys and conditions that differ between the ends and the middle of a piece of bins of real numbers.

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
        f"{text!r} varies inside the bins of '{attribute.name}' ({attribute.labels()[0]}, ...), which a "
        "release cannot tell apart; group by the attribute itself, or compare it with constants"
    )
