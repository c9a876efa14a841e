"""What a side brings to the computation: its features enter, rows of int64 leave, from which few steps remain.

Each comparison is brought into a form that is cheap between two parties, by work that each side does alone:

* `ge`, for numbers and texts: u_i + v_j + x_i . y_j >= 0. A number has x = 2a, y = b, u = tolerance^2 - a^2, v = -b^2,
  for tolerance^2 - (a - b)^2 >= 0 iff |a - b| <= tolerance. A text has x = 2 den bits, y = bits, u and v = -num |bits|.
* `eq`, for exact columns: x_i = y_j in every column.

So a matrix product and one comparison with zero is all that is secret and common. `NEVER` in u or v makes it fail for a
dummy or a text of no bits (the bounds: `program.py`). A last column keeps dummies out where comparisons would not: if
all must hold it is one more `eq`, 0 for records, 1 or 2 for the dummies of either side; else it lowers the score.
"""

from typing import Any, Literal

import numpy as np

from dpcube.arrays import Ints
from dpcube.link.program import NEVER, Comparison, Program
from dpcube.link.secure.credentials import Role

TermForm = tuple[Literal["ge", "eq"], int, int]
"""How a comparison is made, how many columns of the terms it takes, and its weight."""
LOWERED_SCORE = 2**26


def forms(program: Program) -> list[TermForm]:
    """Return the public form of each comparison, in order."""
    return [
        ("eq", one.columns, one.weight) if one.kind == "exact" else ("ge", one.columns + 1, one.weight)
        for one in program.comparisons
    ]


def public_program(program: Program) -> dict[str, Any]:
    """Return what the engine must know of a program, as JSON can tell it."""
    return {"forms": forms(program), "needs_all": program.needs_all, "threshold": program.threshold}


def side_terms(program: Program, features: Ints, side: Role) -> Ints:
    """Return the rows of one side: for each comparison its columns (of `ge`, u or v last), then the last column."""
    is_real = features[:, 0] == 1
    columns = [_terms(one, features[:, taken], is_real, side) for one, taken in program.parts()]
    dummy = (1 if side == "listener" else 2) if program.needs_all else -LOWERED_SCORE
    columns.append(np.where(is_real, np.int64(0), np.int64(dummy))[:, None])
    return np.ascontiguousarray(np.concatenate(columns, axis=1))


def dummy_row(program: Program, side: Role) -> Ints:
    """Return the terms of a dummy, with which the last tile of a block is filled up."""
    row: Ints = side_terms(program, np.zeros((1, program.width), np.int64), side)[0]
    return row


def _terms(one: Comparison, values: Ints, is_real: np.ndarray[Any, np.dtype[np.bool_]], side: Role) -> Ints:
    values = np.where(is_real[:, None], values, 0)
    if one.kind == "exact":
        return values
    takes_part = is_real
    if one.kind == "number":
        local = -(values[:, 0] ** 2)
        factor, added = 2, one.tolerance**2
    else:
        size = values.sum(axis=1)
        takes_part = is_real & (size > 0)
        local = -one.dice[0] * size
        factor, added = 2 * one.dice[1], 0
    if side == "listener":
        values, local = factor * values, local + added
    return np.concatenate([values, np.where(takes_part, local, local - NEVER)[:, None]], axis=1)
