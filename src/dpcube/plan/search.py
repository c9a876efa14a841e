"""The epsilon that reaches a wanted accuracy, by bisection."""

import math
from collections.abc import Callable
from fractions import Fraction

from dpcube.core.epsilon import MAX_EPSILON, MIN_EPSILON

SEARCH_FACTOR = 4
NEAR = 1.05
"""Epsilon is found to within 5%: the prediction is not sharper."""


def least_epsilon(error: Callable[[Fraction], float], wanted: float, *, start: Fraction) -> Fraction | None:
    """Return the least epsilon, whose error is at most `wanted`; None when none is.

    The error falls with epsilon: the runs behind it share their random numbers. Where it does not quite, the epsilon
    returned still meets the wanted error and one slightly below it does not.
    """
    low = high = start
    while error(high) > wanted:
        if high == MAX_EPSILON:
            return None
        low, high = high, min(high * SEARCH_FACTOR, MAX_EPSILON)
    while low == high or error(low) <= wanted:
        if low == MIN_EPSILON:
            return MIN_EPSILON
        low, high = max(low / SEARCH_FACTOR, MIN_EPSILON), low
    while high > low * Fraction(NEAR):
        middle = rounded_up(math.sqrt(low * high))
        if not low < middle < high:
            break
        low, high = (low, middle) if error(middle) <= wanted else (middle, high)
    return high


def rounded_up(epsilon: float) -> Fraction:
    """Return a number with three digits that is not below `epsilon`.

    >>> rounded_up(0.12341)
    Fraction(31, 250)
    """
    unit = Fraction(10) ** (math.floor(math.log10(epsilon)) - 2)
    return math.ceil(Fraction(repr(epsilon)) / unit) * unit  # by its decimal text, as everywhere
