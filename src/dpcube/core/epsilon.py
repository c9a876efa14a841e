"""Epsilon and delta as exact rationals, parsed from what a user writes."""

import re
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real

from dpcube.core.errors import BudgetError, InputError

MIN_EPSILON = Fraction(1, 10**6)
MAX_EPSILON = Fraction(50)
"""Range of the epsilon of a whole job."""

MIN_SHARE = Fraction(1, 10**9)
MAX_SHARE = Fraction(100)
"""Range of the sampler: inside a job a region may be measured with a small share of the whole epsilon."""

MIN_DELTA = Fraction(1, 10**30)
MAX_DELTA = Fraction(1, 1000)
"""Range of a delta that is not 0. From about 1 over the number of rows on, delta protects nobody."""

_LONGEST = 100
# ASCII digits only, and at most four of exponent: 1e-999999999 would otherwise build a number of a billion digits.
_NUMBER = re.compile(r"[+-]?(?:\d+/\d+|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,4})?)", re.ASCII | re.IGNORECASE)
_REMEDY = "write a number from 0.000001 to 50, such as 0.1, '1/10' or '1e-3'"


def parse_epsilon(value: str | int | float | Decimal | Fraction) -> Fraction:
    """Return the rational that `value` writes; a float is read by its decimal text.

    >>> parse_epsilon(0.1), parse_epsilon("1/5"), parse_epsilon("1e-3")
    (Fraction(1, 10), Fraction(1, 5), Fraction(1, 1000))
    """
    epsilon = _exact(value)
    if not MIN_EPSILON <= epsilon <= MAX_EPSILON:
        message = f"epsilon {_shown(value)} is not between 0.000001 and 50; {_REMEDY}"
        raise InputError(message)
    if _bits(epsilon) > 4 * _LONGEST:
        message = f"epsilon {_shown(epsilon)} is too long; {_REMEDY}"
        raise InputError(message)
    return epsilon


def parse_delta(value: str | int | float | Decimal | Fraction) -> Fraction:
    """Return the rational that `value` writes; a float is read by its decimal text.

    >>> parse_delta("1e-6")
    Fraction(1, 1000000)
    """
    remedy = "write a number from 1e-30 to 0.001, such as 1e-6, far below 1 in the number of rows"
    try:
        delta = _exact(value)
    except InputError:
        message = f"delta cannot be read; {remedy}"
        raise InputError(message) from None
    if not MIN_DELTA <= delta <= MAX_DELTA or _bits(delta) > 4 * _LONGEST:
        message = f"delta {_shown(value)} is not between 1e-30 and 0.001, or too long; {remedy}"
        raise InputError(message)
    return delta


def check_share(epsilon: object) -> None:
    """Raise unless the sampler and its law accept `epsilon`."""
    if not isinstance(epsilon, Fraction):
        message = f"noise takes epsilon as a Fraction, got a {type(epsilon).__name__}; pass it through parse_epsilon"
        raise InputError(message)
    if not MIN_SHARE <= epsilon <= MAX_SHARE:
        message = (
            f"noise cannot be drawn at epsilon {_shown(epsilon)}: it must be from 1e-9 to 100; "
            f"ask for fewer or larger shares of the budget"
        )
        raise InputError(message)


def check_positive(epsilon: Fraction) -> Fraction:
    """Return epsilon, or raise BudgetError unless it is a rational above zero."""
    if not isinstance(epsilon, Fraction) or epsilon <= 0:
        msg = f"a charge must be an exact rational above 0, got {epsilon!r}"
        raise BudgetError(msg)
    return epsilon


def _exact(value: object) -> Fraction:
    if isinstance(value, Fraction):
        return value
    if isinstance(value, str):
        return _read(value)
    # NumPy registers its numbers as these; it is not imported, for the ledger needs nothing heavy.
    if isinstance(value, Integral) and not isinstance(value, bool):
        return Fraction(int(value))
    if isinstance(value, Real | Decimal) and not isinstance(value, bool):
        return _read(str(value))
    # Only the type is named: the value may be a table.
    message = f"epsilon cannot be a {type(value).__name__}; {_REMEDY}"
    raise InputError(message)


def _read(text: str) -> Fraction:
    if len(text) > _LONGEST:
        message = f"epsilon {_shown(text)} is {len(text)} characters long, over {_LONGEST}; {_REMEDY}"
        raise InputError(message)
    number = text.strip()
    if not _NUMBER.fullmatch(number):
        message = f"epsilon {_shown(text)} cannot be read; {_REMEDY}"
        raise InputError(message)
    try:
        return Fraction(number)
    except ZeroDivisionError:
        message = f"epsilon {_shown(text)} divides by zero; {_REMEDY}"
        raise InputError(message) from None


def _shown(value: object) -> str:
    # Python refuses to print integers of thousands of digits.
    if isinstance(value, int | Fraction) and _bits(Fraction(value)) > 4 * _LONGEST:
        return "of hundreds of digits"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:20]}...{text[-5:]}"


def _bits(number: Fraction) -> int:
    return max(number.numerator.bit_length(), number.denominator.bit_length())
