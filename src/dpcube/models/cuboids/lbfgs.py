"""L-BFGS: the minimum of a smooth convex function from its values and gradients (Nocedal and Wright, 2006, 7.2).

Each step goes along -H g, where H is the inverse of the second derivative that the last differences s of places and y
of gradients imply (the two-loop recursion). Its length is found by bisection until it satisfies both of Wolfe's
conditions, so s . y > 0 and H stays positive definite (Lewis and Overton, 2013).
"""

import math
from collections import deque
from collections.abc import Callable

import numpy as np

from dpcube.core.arrays import Floats

ENOUGH_DESCENT, ENOUGH_FLATTENING = 1e-4, 0.9
MOST_TRIALS = 40
"""Lengths tried along one direction: beyond them the function is flat to within rounding."""

Function = Callable[[Floats], tuple[float, Floats]]


def minimum(function: Function, start: Floats, *, steps: int, kept: int, flat: float, close: float) -> Floats:
    """Return where a smooth convex function is least.

    It ends after so many steps, where no part of the gradient exceeds `flat`, or at a step that betters the value by no
    more than the part `close` of it. `kept` are the differences that are remembered.

    >>> found = minimum(lambda x: (float(x @ x), 2 * x), np.array([3.0, 4.0]), steps=9, kept=5, flat=1e-9, close=0)
    >>> bool(np.allclose(found, 0))
    True
    """
    place, (value, slope) = start, function(start)
    moves: deque[tuple[Floats, Floats]] = deque(maxlen=kept)
    for _ in range(steps):
        if np.abs(slope).max(initial=0.0) <= flat:
            break
        direction = -_inverse_curvature(slope, moves)
        length = 1.0 if moves else min(1.0, 1 / float(np.linalg.norm(slope)))
        found = _searched(function, place, value, slope, direction, length)
        if found is None:
            break
        reached, lower, slope_there = found
        moves.append((reached - place, slope_there - slope))
        bettered, scale = value - lower, max(abs(value), abs(lower), 1.0)
        place, value, slope = reached, lower, slope_there
        if bettered <= close * scale:
            break
    return place


def _inverse_curvature(slope: Floats, moves: deque[tuple[Floats, Floats]]) -> Floats:
    """Return H g by the two-loop recursion."""
    found, parts = slope.copy(), []
    for moved, change in reversed(moves):
        part = float(moved @ found) / float(moved @ change)
        found -= part * change
        parts.append(part)
    if moves:
        moved, change = moves[-1]
        found *= float(moved @ change) / float(change @ change)
    for (moved, change), part in zip(moves, reversed(parts), strict=True):
        found += (part - float(change @ found) / float(moved @ change)) * moved
    return found


def _searched(
    function: Function, place: Floats, value: float, slope: Floats, direction: Floats, length: float
) -> tuple[Floats, float, Floats] | None:
    """Return a place along a direction that satisfies Wolfe's conditions, its value and its gradient; None if none."""
    descent = float(slope @ direction)
    low, high = 0.0, math.inf
    for _ in range(MOST_TRIALS):
        reached = place + length * direction
        there, slope_there = function(reached)
        along = float(slope_there @ direction)
        if not there <= value + ENOUGH_DESCENT * length * descent:
            high = length
        elif along < ENOUGH_FLATTENING * descent:
            low = length
        else:
            return reached, there, slope_there
        length = 2 * low if math.isinf(high) else (low + high) / 2
    return None
