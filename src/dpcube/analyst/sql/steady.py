"""Checks made on the rows before a query runs: aggregates of numbers have numbers, and keys do not vary inside bins."""

import numpy as np
import pyarrow as pa
from sqlglot import exp

from dpcube.analyst.sql.axes import Pieces
from dpcube.analyst.sql.engine import Engine
from dpcube.analyst.sql.parse import DIALECT
from dpcube.errors import QueryError


def check_numbers(engine: Engine, table: str, arguments: dict[str, str]) -> None:
    """Refuse aggregates of text or dates where numbers are needed."""
    if not arguments:
        return
    schema = engine.run(f'SELECT {", ".join(arguments)} FROM "{table}" LIMIT 0').schema
    for text, kind in zip(arguments.values(), schema.types, strict=True):
        known = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        if not (known or pa.types.is_boolean(kind) or pa.types.is_null(kind)):
            what = "a date" if pa.types.is_temporal(kind) else "text"
            msg = f"{text!r} needs a number, and its argument is {what}; count, min, max and median are for any order"
            raise QueryError(msg)


def check_steady(
    engine: Engine,
    pieces: dict[int, Pieces],
    expressions: list[tuple[int, exp.Expression, str]],
    columns: dict[str, tuple[int, str]],
) -> None:
    """Refuse keys and conditions that differ between the ends and the middle of a bin of real numbers."""
    for number, (axis, expression, text) in enumerate(expressions):
        bins = pieces[axis]
        answers = []
        for place, values in enumerate((bins.low, bins.middle, np.nextafter(bins.high, bins.low))):
            made = {name: bins.column(role).slice(0, len(values)) for name, (of, role) in columns.items() if of == axis}
            made[f"value{axis}"] = pa.array(values)
            name = f"dpcube check {number} {place}"
            engine.add(name, pa.table(made))
            answers.append(engine.run(f'SELECT {expression.sql(dialect=DIALECT, identify=True)} AS v FROM "{name}"'))
        if not answers[0].equals(answers[1]) or not answers[1].equals(answers[2]):
            attribute = bins.attribute
            msg = (
                f"{text!r} varies inside the bins of '{attribute.name}' ({attribute.labels()[0]}, ...), which a "
                "release cannot tell apart; group by the attribute itself, or compare it with constants"
            )
            raise QueryError(msg)
