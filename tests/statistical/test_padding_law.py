"""Shown sizes have the law that is proved, and the checker rejects a smaller shift, less noise and suppression.

Of each block the dummies are eta = max(0, k + G): whether eta is 0 is binomial, and G beyond is two-sided geometric.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from checks import ALARM, scale, two_sided, union
from scipy import stats

from dpcube.core.arrays import Ints
from dpcube.core.noise import ExactNoise
from dpcube.core.padding import draw_padding, padding_shift

BLOCKS = 40_000
EPSILON, DELTA = Fraction(1, 5), Fraction(1, 10**4)
SHIFT = padding_shift(EPSILON, DELTA)


def p_value(drawn: Ints, *, sensitivity: int = 1) -> float:
    """The exact p-value of dummies: where the shift lies, how wide they spread, and how many blocks have none.

    A unit whose rows lie in several blocks takes as many steps, each of which costs its share of epsilon.
    """
    share, shift = EPSILON / sensitivity, padding_shift(EPSILON, DELTA, sensitivity=sensitivity)
    none = int(np.count_nonzero(drawn == 0))
    ratio = float(np.exp(-float(share)))
    empty = two_sided(stats.binom(len(drawn), ratio**shift / (1 + ratio)), none)
    high = two_sided(stats.binom(len(drawn), ratio**21 / (1 + ratio)), int(np.count_nonzero(drawn > shift + 20)))
    return union(empty, high, scale(drawn[drawn > 0] - shift, share), float((drawn >= 0).all()))


def honest() -> Ints:
    return draw_padding(EPSILON, DELTA, sensitivity=1, blocks=BLOCKS)


def test_dummies_have_their_law() -> None:
    assert p_value(honest()) > ALARM


def test_dummies_that_hide_several_rows_have_their_law() -> None:
    assert p_value(draw_padding(EPSILON, DELTA, sensitivity=3, blocks=BLOCKS), sensitivity=3) > ALARM


def noise_of_one_row() -> Ints:
    """The shift for units of three rows, and the noise for units of one."""
    return np.maximum(0, padding_shift(EPSILON, DELTA, sensitivity=3) + ExactNoise().draw(EPSILON, BLOCKS))


def test_the_checker_rejects_the_noise_and_the_shift_of_units_of_one_row() -> None:
    assert p_value(noise_of_one_row(), sensitivity=3) <= ALARM
    assert p_value(honest(), sensitivity=3) <= ALARM


def less_noise() -> Ints:
    return np.maximum(0, SHIFT + ExactNoise().draw(EPSILON * Fraction(11, 10), BLOCKS))


TWINS: dict[str, Callable[[], Ints]] = {
    "a shift that is 40 smaller": lambda: np.maximum(0, SHIFT - 40 + ExactNoise().draw(EPSILON, BLOCKS)),
    "a shift that is 1 smaller": lambda: np.maximum(0, SHIFT - 1 + ExactNoise().draw(EPSILON, BLOCKS)),
    "a tenth less noise": less_noise,
    "suppression": lambda: ExactNoise().draw(EPSILON, BLOCKS),
    "noise of one sign": lambda: SHIFT + np.abs(ExactNoise().draw(EPSILON, BLOCKS)),
    "a cap": lambda: np.minimum(SHIFT + 20, honest()),
    "no noise": lambda: np.full(BLOCKS, SHIFT),
}


@pytest.mark.parametrize("twin", TWINS)
def test_the_checker_rejects(twin: str) -> None:
    assert p_value(TWINS[twin]()) <= ALARM


def test_a_shift_that_is_too_small_leaves_blocks_without_dummies_too_often() -> None:
    """The tail itself, at the delta that was promised: 4 are expected at most, and a shift 40 smaller leaves 10^4."""
    law = stats.binom(BLOCKS, float(DELTA))
    assert law.sf(np.count_nonzero(honest() == 0) - 1) > ALARM
    assert law.sf(np.count_nonzero(TWINS["a shift that is 40 smaller"]() == 0) - 1) <= ALARM


def test_dummies_of_two_blocks_are_unrelated() -> None:
    drawn = honest() - SHIFT
    agreeing = np.count_nonzero(drawn[::2] * drawn[1::2] > 0)
    both = np.count_nonzero(drawn[::2] * drawn[1::2])
    assert float(two_sided(stats.binom(both, 0.5), agreeing)) > ALARM
