"""Intervals: exact where the law of the noise is known, a bound elsewhere, and all at once where asked."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcube import Workload, evaluate, theory
from dpcube.core.errors import QueryError
from dpcube.noise.law import DiscreteLaplace
from dpcube.queries import CountingQueries, CountingQuery
from dpcube.release import Answers
from dpcube.release.answer import deviations_for
from dpcube.strategies import TwoPhase
from dpcube.testing import SeededNoise, SilentNoise

COUNTS: NDArray[np.int64] = np.arange(600, 640).reshape(5, 8) ** 2 % 97 + 300


def mass(alpha: Fraction, number: int, reach: int) -> float:
    """P(|Z| <= reach) of a sum of equal noises, by convolution."""
    far = 400
    law = np.array([float(DiscreteLaplace(alpha).pmf(abs(z))) for z in range(-far, far + 1)])
    total = law
    for _ in range(number - 1):
        total = np.convolve(total, law)
    middle = len(total) // 2
    return float(total[middle - reach : middle + reach + 1].sum())


@pytest.mark.parametrize(("high", "number"), [(0, 1), (2, 3)])
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_the_interval_of_a_few_cells_is_the_shortest_that_holds(high: int, number: int, confidence: float) -> None:
    release = evaluate.experiment(COUNTS, epsilon="0.2", strategy="cells", noise=SeededNoise(4))
    answer = release.count(axis0=(1, 1), axis1=(3, 3 + high), confidence=confidence)
    reach = round(answer.high - answer.value)
    assert answer.high - answer.value == pytest.approx(reach)
    assert answer.value - answer.low == pytest.approx(reach)
    assert mass(Fraction(1, 5), number, reach) >= confidence - 1e-9
    assert mass(Fraction(1, 5), number, reach - 1) < confidence


def test_boxes_that_no_question_cuts_have_an_exact_law() -> None:
    release = evaluate.experiment(COUNTS, epsilon="0.2", strategy=TwoPhase(max_boxes=4), noise=SeededNoise(4))
    answer = release.count(estimate="uniform")
    boxes = release.transcript.boxes
    assert boxes is not None
    assert answer.nonuniformity == 0
    exact = theory.error_quantile([10.0], [len(boxes.tree.leaves)], 0.95, noise="discrete")
    assert answer.high - answer.value == pytest.approx(float(exact))
    assert answer.high - answer.value < deviations_for(0.95) * answer.stderr
    assert release.estimate("consistent").answers(whole(release.domain.shape))[1].noises is None


def whole(shape: tuple[int, ...]) -> CountingQueries:
    return CountingQueries.of(CountingQuery(tuple(np.ones(extent) for extent in shape)))


def test_very_many_noises_have_an_exact_law_and_unequal_ones_the_bound() -> None:
    release = evaluate.experiment(np.full((101, 100), 50), epsilon="1", strategy="cells", noise=SeededNoise(1))
    answer = release.count()
    assert answer.high - answer.value == pytest.approx(float(theory.dl_sum_quantile(0.95, 10_100, alpha=1.0)))
    halves = CountingQueries.of(CountingQuery((np.r_[0.5, np.ones(100)], np.ones(100))))
    errors = release.estimate().answers(halves)[1]
    assert errors.noises is not None
    assert errors.noises.numbers[0] == 0
    answers = Answers.from_parts(np.full(1, 1e6), errors)
    assert answers.half_width() == pytest.approx(deviations_for(0.95) * np.sqrt(errors.noise_variances))


def test_noise_never_rules_out_a_single_row_but_silence_does() -> None:
    empty = np.zeros((5, 8), np.int64)
    noisy = evaluate.experiment(empty, epsilon=40, strategy="cells", noise=SeededNoise(1)).answer(cells(empty.shape))
    silent = Answers(np.zeros(3), np.zeros(3), np.zeros(3))
    assert noisy.interval()[1].min() >= 1
    np.testing.assert_array_equal(silent.interval(), np.zeros((2, 3)))
    exact = evaluate.experiment(COUNTS, epsilon=1, strategy="cells", noise=SilentNoise()).answer(cells(COUNTS.shape))
    low, high = exact.interval()
    assert ((low <= COUNTS.reshape(-1)) & (COUNTS.reshape(-1) <= high)).all()


def cells(shape: tuple[int, ...]) -> Workload:
    places = np.array(list(itertools.product(*map(range, shape))))
    return Workload(shape, places, places + 1)


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.9, 0.905, 0.91, 0.95, 0.99, 1 - 1e-4, 1 - 1e-8])
def test_the_bound_is_never_below_the_true_tail(confidence: float) -> None:
    """Whatever the scales, so many deviations are exceeded by a sum of Laplace noises no oftener than is said."""
    generator = np.random.default_rng(7)
    for number in (1, 2, 3, 10, 40):
        for scales in (np.ones(number), generator.gamma(0.3, size=number) + 1e-3, 2.0 ** -np.arange(number)):
            deviation = math.sqrt(2 * float(np.sum(scales**2)))
            missed = float(theory.error_sf(deviations_for(confidence) * deviation, scales, np.ones(number)))
            assert missed <= (1 - confidence) * (1 + 1e-7)


def test_simultaneous_intervals_hold_together_by_the_exact_tail() -> None:
    """Independent Laplace answers all hold with probability (1 - 0.05/n)^n: above 0.95, and not idly."""
    number, deviation = 1000, 3.0
    answers = Answers(np.full(number, 1e4), np.full(number, deviation), np.zeros(number))
    low, high = answers.interval(0.95, simultaneous=True)
    missed = float(theory.error_sf(float(high[0]) - 1e4, [deviation / math.sqrt(2)], [1]))
    assert missed == pytest.approx(0.05 / number)
    assert 0.95 <= (1 - missed) ** number < 0.9515
    alone = answers.interval(0.95)
    assert (low < alone[0]).all()
    missed_alone = float(theory.error_sf(float(alone[1][0]) - 1e4, [deviation / math.sqrt(2)], [1]))
    assert (1 - missed_alone) ** number < 1e-20  # what each interval by itself would give


def test_one_answer_is_simultaneous_with_itself_and_none_is_no_trouble() -> None:
    one = Answers(np.array([50.0]), np.array([3.0]), np.array([4.0]))
    np.testing.assert_allclose(one.interval(0.9, simultaneous=True), one.interval(0.9))
    assert one.interval(0.9)[1][0] == pytest.approx(50 + 5 * deviations_for(0.9))
    nothing = Answers(np.zeros(0), np.zeros(0), np.zeros(0))
    assert len(nothing.interval(0.9, simultaneous=True)[0]) == 0


@pytest.mark.parametrize("confidence", [0, 1, -0.5, math.nan])
@pytest.mark.parametrize("simultaneous", [False, True])
def test_a_confidence_that_is_none_is_refused(confidence: float, simultaneous: bool) -> None:  # noqa: FBT001
    answers = Answers(np.ones(2), np.ones(2), np.zeros(2))
    with pytest.raises(QueryError, match="confidence must be between 0 and 1"):
        answers.interval(confidence, simultaneous=simultaneous)
