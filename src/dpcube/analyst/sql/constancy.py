"""Where expressions are constant: they are evaluated on the values of an attribute before the query itself runs.

Aggregates of numbers must have numbers; an expression of one attribute cuts its axis where it changes; an expression
that decides which rows are counted must not change inside a bin of which nothing is known.
"""

import numpy as np
import pyarrow as pa
from sqlglot import exp

from dpcube.analyst.sql.axes import AxisUse, Detail, Pieces, pieces_of
from dpcube.analyst.sql.engine import Engine
from dpcube.analyst.sql.needs import Needs
from dpcube.analyst.sql.parse import sql_of
from dpcube.domain import Attribute
from dpcube.errors import QueryError


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
