"""Local preprocessing of one side's features into terms of additive conditions for the two-party computation.

Each comparison becomes conditions on pairs of rows that are cheap between two parties, by work that each does alone:

* `ge`: a_i + b_j >= 0 in 32 bits. A number is two of them, tolerance + x_i - y_j and tolerance - x_i + y_j.
* `eq`: a_i + b_j = 0 modulo 2^32. An exact column is two of them, its lower and its upper half.
* a text is a `ge` to which a multiple of p = x_i . y_j, the bits in common, is added. Products cost most, so as many
  rows of the connector as fit share one, in integers modulo 2^64: row t of them is multiplied by 2^(s_t), its place,
  and they are added up, so that the product is the sum of the p_t 2^(s_t), each in a field of its own.

**A field is read alone.** Each party has a share of the product, v + v' = sum of p_t 2^(s_t) + h modulo 2^64, where h,
what the engine's products may be off by (homomorphic decryption rounds), is -1, 0 or 1. Both drop the lower s - g bits
of their share and raise the rest by 32 - g - f, modulo 2^32. They add up to p_t 2^(32-f) + r 2^(32-g-f): fields below
lie wholly under what is dropped (s_t >= s_u + bits of p_u + g), those above are raised out of 32 bits (s_u >= s_t + f),
the carry out of 64 bits too (s_t + f <= 64), and r, of h and of two numbers rounded down, is -2, -1 or 0. The listener
adds one to r, so that it is from -1 to 1.

**It decides as the clear does.** With u = 2^(32-f), the listener's a is u / (4 den) - num |x| u / (2 den) and the
connector's b is -num |y| u / (2 den), each quotient rounded down. With D = p - num (|x| + |y|) / (2 den), a whole
number of 1 / (2 den), what is compared is u (D + 1 / (4 den) + e), |e| <= 2^-g + 2 / u. By the choice of g this is
below 1 / (4 den), so it is positive for D >= 0 and negative for D <= -1 / (2 den). A dummy, or a text of no bits, has
its a or b lowered by (bits + 1) u: then it is negative; and at most 3 (bits + 1) u in magnitude, which f makes less
than 2^31.

A last column keeps dummies out where no `ge` does: if all must hold it is one more `eq`, 0 for records, 1 or 2 for the
dummies of either side; else it lowers the score. Numbers are lowered by `NEVER` (the bounds: `program.py`).
"""

from itertools import count
from typing import Any

import numpy as np

from dpcube.core.arrays import Bools, Ints
from dpcube.link.program import NEVER, Comparison, Program
from dpcube.link.secure.credentials import Role

LOWERED_SCORE = 2**26
_WORD, _LONG = 32, 64


def text_shape(one: Comparison) -> tuple[int, int]:
    """Return f, the bits of a field including its sign, and g, the bits kept below the bits in common.

    >>> text_shape(Comparison("text", 128, 1, dice=(13, 20)))
    (10, 7)
    """
    f = (3 * (one.columns + 1)).bit_length() + 1
    u, den = 2 ** (_WORD - f), one.dice[1]
    return f, next(g for g in count(1) if 4 * den * (u + 2 * 2**g) < u * 2**g)


def text_places(one: Comparison) -> list[int]:
    """Return the place of each row that shares a product of a text; the lowest bit is left for the product's error.

    >>> text_places(Comparison("text", 128, 1, dice=(13, 20)))
    [8, 23, 38, 53]
    """
    f, g = text_shape(one)
    apart = max(f, one.columns.bit_length() + g)
    return list(range(1 + g, _LONG - f + 1, apart))


def public_program(program: Program) -> dict[str, Any]:
    """Return the public program of the engine, as values for JSON.

    Each text is its condition, its columns, the places of its fields, the bits kept below a field and the bits to
    raise.
    """
    forms = [(*_conditions(one), one.weight) for one in program.comparisons]
    if program.needs_all and not any(ge for ge, *_ in forms):
        forms.append((0, 1, 0))
    texts, condition = [], 0
    for one in program.comparisons:
        if one.kind == "text":
            f, g = text_shape(one)
            texts.append((condition, one.columns, text_places(one), g, _WORD - g - f))
        condition += _conditions(one)[0]
    return {"forms": forms, "texts": texts, "needs_all": program.needs_all, "threshold": program.threshold}


def side_terms(program: Program, features: Ints, side: Role) -> tuple[Ints, Ints]:
    """Return the bits of texts of one side's rows, and the side's term of each condition, modulo 2^32.

    Conditions are all `ge`, then all `eq`, then the term that lowers the score of a dummy unless all must hold.
    """
    is_real = features[:, 0] == 1
    bits, ge, eq = [np.zeros((len(features), 0), np.int64)], [], []
    for one, taken in program.parts():
        values = np.where(is_real[:, None], features[:, taken], 0)
        if one.kind == "text":
            bits.append(values)
            ge.append(_text_term(one, values.sum(axis=1), is_real, side))
        elif one.kind == "number":
            ge += _number_terms(one, values[:, 0], is_real, side)
        else:
            eq += _halves(values, side)
    if not program.needs_all:
        eq.append(np.where(is_real, 0, -LOWERED_SCORE))
    elif not ge:
        eq.append(np.where(is_real, 0, 1 if side == "listener" else 2))
    return np.concatenate(bits, axis=1), np.stack([*ge, *eq], axis=1) & (2**_WORD - 1)


def _conditions(one: Comparison) -> tuple[int, int]:
    """Return the numbers of `ge` and `eq` conditions of a comparison."""
    return {"text": (1, 0), "number": (2, 0), "exact": (0, 2 * one.columns)}[one.kind]


def _text_term(one: Comparison, size: Ints, is_real: Bools, side: Role) -> Ints:
    (f, g), (numerator, denominator) = text_shape(one), one.dice
    unit = 2 ** (_WORD - f)
    term = -(numerator * size * unit // (2 * denominator))
    if side == "listener":
        term = term + unit // (4 * denominator) + 2 ** (_WORD - g - f)
    lowered: Ints = np.where(is_real & (size > 0), term, term - unit * (one.columns + 1))
    return lowered


def _number_terms(one: Comparison, values: Ints, is_real: Bools, side: Role) -> list[Ints]:
    allowed = one.tolerance if side == "listener" else 0
    signed = values if side == "listener" else -values
    return [np.where(is_real, allowed + way * signed, allowed + way * signed - NEVER) for way in (1, -1)]


def _halves(values: Ints, side: Role) -> list[Ints]:
    """Return the lower and the upper 32 bits of each column; the connector's are negated."""
    sign = 1 if side == "listener" else -1
    return [sign * (column >> low & (2**_WORD - 1)) for column in values.T for low in (0, _WORD)]
