"""A release made for a target: tables of each attribute by class come first; what is declared is public."""

from fractions import Fraction

import numpy as np
import pytest

from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.domain import Category, Domain, Integer
from dpcube.core.errors import InputError
from dpcube.measurements import Marginal, Transcript
from dpcube.queries import Workload
from dpcube.research import experiment
from dpcube.strategies import Adaptive
from dpcube.testing import SeededNoise

DOMAIN = Domain(
    Integer("age", 0, 63), Category("y", ["no", "yes"]), Category("k", list("abcdefgh")), Integer("hours", 0, 31)
)
COUNTS = np.random.default_rng(0).poisson(np.random.default_rng(1).gamma(0.05, 20, DOMAIN.shape))


def transcript(strategy: Adaptive, seed: int = 0) -> Transcript:
    return experiment(COUNTS, epsilon="0.2", strategy=strategy, noise=SeededNoise(seed), domain=DOMAIN).transcript


def test_tables_of_each_attribute_by_class_get_the_same_good_part() -> None:
    tables = [one for one in transcript(Adaptive(target="y")).measurements if isinstance(one, Marginal)]
    assert [table.axes for table in tables] == [(0, 1), (1, 2), (1, 3)]
    assert {table.units for table in tables} == {int(Fraction(2, 3) * BUDGET_UNITS) // 3}


@pytest.mark.slow
def test_features_by_class_are_nearer_the_truth() -> None:
    axes = ((0, 1), (1, 2), (1, 3))
    errors = {}
    for target in (None, "y"):
        wrong = []
        for seed in range(3):
            strategy = Adaptive(target=target)
            cells = experiment(COUNTS, epsilon="0.2", strategy=strategy, noise=SeededNoise(seed), domain=DOMAIN).cells()
            for pair in axes:
                others = tuple(axis for axis in range(4) if axis not in pair)
                wrong.append(np.abs((cells - COUNTS).sum(axis=others)).mean())
        errors[target] = np.mean(wrong)
    assert errors["y"] < 0.7 * errors[None]


def test_all_of_the_budget_is_still_spent_and_ranges_still_answered() -> None:
    made = experiment(COUNTS, epsilon="0.2", strategy=Adaptive(target="y"), noise=SeededNoise(0), domain=DOMAIN)
    everything = Workload(DOMAIN.shape, np.zeros((1, 4), np.int64), np.array([DOMAIN.shape]))
    assert made.answer(everything).values[0] == pytest.approx(COUNTS.sum(), rel=0.05)
    assert made.provenance.parameters["target"] == "y"


def test_a_target_that_is_no_attribute_is_refused() -> None:
    with pytest.raises(InputError, match="target must be one of 'age', 'y'"):
        transcript(Adaptive(target="z"))


def test_the_target_is_found_again_in_another_domain() -> None:
    fitted = Adaptive(target="y", queries="mixed").for_domain(DOMAIN)
    assert fitted.target_axis == 1
    assert fitted.for_domain(Domain(DOMAIN["y"], DOMAIN["k"], DOMAIN["age"])).target_axis == 0


def test_beside_kinds_of_queries_and_in_a_small_cube() -> None:
    strategy = Adaptive(target="y", queries=("ranges", "groups", "groups", "short"))
    assert any(isinstance(one, Marginal) for one in transcript(strategy).measurements)
    assert strategy.for_domain(DOMAIN).parameters() == {"queries": "ranges, groups, groups, short", "target": "y"}
    two = Domain(Integer("x", 0, 9), Category("y", ["no", "yes"]))
    counts = np.arange(20).reshape(10, 2)
    small = experiment(counts, epsilon=1, strategy=Adaptive(target="y"), noise=SeededNoise(0), domain=two)
    assert small.cells().shape == (10, 2)
