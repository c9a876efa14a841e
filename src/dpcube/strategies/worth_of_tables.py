"""Whether tables over one and two attributes are worth a good part of the budget, found on made-up tables.

A tree finds structure of every kind and shrinks what it cannot see; tables see nothing beyond pairs, but these without
bias. Which a cube needs cannot be said beforehand. So a little of every table is counted first (a pilot). Two cubes are
made up from it that are wrong in opposite directions: one has nothing beyond pairs, in the other rows clump in few
cells. On each the tree is tried with and without tables, and the mean logarithm of the ratio of errors decides.

Enters: noisy tables. Leaves: yes or no. This is post-processing of what was counted; made-up cubes and their noise come
from fixed seeds (`simulated.py`).
"""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from dpcube.core.arrays import Floats
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter
from dpcube.measurements import BoxCounts, Marginal, Transcript
from dpcube.models.marginals.balanced import moved_by_departures
from dpcube.models.marginals.components import Components, noisy_tables, table_over
from dpcube.models.marginals.fitting import most_even_cube
from dpcube.models.posterior import PosteriorEstimate, infer
from dpcube.strategies.simulated import clumped, made_up_rows, simulated_gate
from dpcube.strategies.simulation import AskedOfTables

PILOT = Fraction(4, 100)
"""The part of the budget that all tables together get before it is known whether they are worth more."""
MAX_TRIED_CELLS = 2**18
"""Cubes of more cells are not tried: that would take too long."""
MANY_ATTRIBUTES = 6
"""From so many attributes on tables are taken to be worth it where that is not tried."""
MAX_TRIPLES = 10
"""Tables over three attributes, evenly chosen, that errors are taken of."""

TablesAndTree = tuple[list[Marginal], BoxCounts]


def tables_are_worth_it(
    pilot: list[Marginal],
    share: Fraction,
    counter: NoisyCounter,
    asked: AskedOfTables,
    count: Callable[[NoisyCounter, Fraction], TablesAndTree],
) -> bool:
    """Say whether counting with tables has smaller errors than without, on cubes made up from a pilot.

    `count` counts the tables and the tree of a counter, given the part of the budget for the tables: `share` or none.
    """
    shape, unit = counter.shape, counter.epsilon_per_unit
    if math.prod(shape) > MAX_TRIED_CELLS:
        return len(shape) >= MANY_ATTRIBUTES
    even = most_even_cube(Components.of(shape, noisy_tables(Transcript(shape, unit, tuple(pilot)))))
    gain = 0.0
    for seed, cube in enumerate((even, clumped(even, seed=0))):
        table = made_up_rows(cube, seed=seed)
        without, with_tables = (
            _log_errors(_estimated(Transcript(shape, unit, (*tables, boxes))) - table, asked)
            for tables, boxes in (
                count(simulated_gate(table, unit * BUDGET_UNITS, seed=seed), part) for part in (Fraction(0), share)
            )
        )
        gain += without - with_tables
    return gain > 0


def _estimated(transcript: Transcript) -> Floats:
    """Return the cube that counts lead to, near enough: the posterior of the tree, moved to the tables if any."""
    assert transcript.boxes is not None
    measured = transcript.boxes.by_node(transcript.epsilon_per_unit)
    cube = PosteriorEstimate("posterior", infer(transcript.boxes.tree, *measured), *measured).cells()
    tables = noisy_tables(transcript)
    return moved_by_departures(cube, Components.of(transcript.shape, tables)) if tables else cube


def _log_errors(wrong: Floats, asked: AskedOfTables) -> float:
    """Return the mean logarithm of the errors of what is asked for, and if that is anything, of small tables too."""
    of_questions = np.log(np.maximum(asked.errors(wrong)[: asked.wanted], 1e-9)).mean()
    if not asked.any_kind:
        return float(of_questions)
    axes, found = range(wrong.ndim), [of_questions]
    for way in (1, 2, 3):
        chosen = list(itertools.combinations(axes, way))
        some = chosen[:: max(len(chosen) // MAX_TRIPLES, 1)] if way == 3 else chosen
        sums = np.mean([np.abs(table_over(wrong, kept)).mean() for kept in some])
        found.append(np.log(max(float(sums), 1e-9)))
    return float(np.mean(found))
