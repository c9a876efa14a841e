"""Selection of the share of two-way marginals beside the tree, by simulation.

A tree finds structure of every kind, but shrinks what its noise hides; marginals of pairs are unbiased, but see no
interaction of three attributes. Which of them a cube needs depends on its rows. So a pilot of every marginal is counted
first. Two tables are simulated from it that are wrong in opposite directions: one has no structure beyond pairs, in the
other rows are concentrated in few cells. On each the tree is run without marginals, and with several
shares for them, and the mean logarithm of the errors decides.

This is post-processing of the pilot; simulated tables and their noise come from fixed seeds (`simulated.py`).
"""

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from dpcube.core.arrays import Floats
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter
from dpcube.measurements import BoxCounts, Marginal, Transcript
from dpcube.models.marginals.balanced import moved_by_departures
from dpcube.models.marginals.components import Components, noisy_tables, table_over
from dpcube.models.marginals.fitting import maximum_entropy_cube
from dpcube.models.posterior import PosteriorEstimate, infer
from dpcube.strategies.plan_selection import PlanWorkload
from dpcube.strategies.simulated import clumped, poisson_table, simulated_gate

PILOT_SHARE = Fraction(4, 100)
"""The part of the budget for the pilot of all marginals together."""
MAX_TRIED_CELLS = 2**18
"""Cubes of more cells are not simulated: that would take too long."""
MANY_ATTRIBUTES = 6
"""Where nothing is simulated, two-way marginals get the second share from so many attributes on."""
MAX_TRIPLES = 10
"""Three-way marginals, at regular places of the list, whose errors are measured."""

TablesAndTree = tuple[list[Marginal], BoxCounts]


def best_share(
    pilot: list[Marginal],
    shares: Sequence[Fraction],
    counter: NoisyCounter,
    asked: PlanWorkload,
    count: Callable[[NoisyCounter, Fraction], TablesAndTree],
) -> Fraction:
    """Return which share of the budget for two-way marginals has the least error, on tables simulated from a pilot.

    `count` measures the marginals and the tree, given the share.
    """
    shape, unit = counter.shape, counter.epsilon_per_unit
    if math.prod(shape) > MAX_TRIED_CELLS:
        return shares[len(shape) >= MANY_ATTRIBUTES]
    even = maximum_entropy_cube(Components.from_tables(shape, noisy_tables(Transcript(shape, unit, tuple(pilot)))))
    errors = np.zeros(len(shares))
    for seed, cube in enumerate((even, clumped(even, seed=0))):
        table = poisson_table(cube, seed=seed)
        for number, share in enumerate(shares):
            tables, boxes = count(simulated_gate(table, unit * BUDGET_UNITS, seed=seed), share)
            errors[number] += _log_errors(_estimated(Transcript(shape, unit, (*tables, boxes))) - table, asked)
    return shares[int(errors.argmin())]


def _estimated(transcript: Transcript) -> Floats:
    """Return an approximate estimate of the cube: the posterior of the tree, adjusted to the marginals if any."""
    assert transcript.boxes is not None
    measured = transcript.boxes.by_node(transcript.epsilon_per_unit)
    cube = PosteriorEstimate("posterior", infer(transcript.boxes.tree, *measured), *measured).cells()
    tables = noisy_tables(transcript)
    return moved_by_departures(cube, Components.from_tables(transcript.shape, tables)) if tables else cube


def _log_errors(wrong: Floats, asked: PlanWorkload) -> float:
    """Return the mean logarithm of the errors of the workload, and without a declared one, of small marginals too."""
    of_questions = np.log(np.maximum(asked.errors(wrong)[: asked.wanted], 1e-9)).mean()
    if not asked.any_kind:
        return float(of_questions)
    axes, found = range(wrong.ndim), [of_questions]
    for way in (1, 2, 3):
        every = list(itertools.combinations(axes, way))
        some = every[:: max(len(every) // MAX_TRIPLES, 1)] if way == 3 else every
        sums = np.mean([np.abs(table_over(wrong, kept)).mean() for kept in some])
        found.append(np.log(max(float(sums), 1e-9)))
    return float(np.mean(found))
