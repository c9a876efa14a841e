"""The shift of padding: golden values, the inequality that it must meet, and the law of shown sizes, all exactly."""

import itertools
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcube.core import padding
from dpcube.core.errors import InputError
from dpcube.core.noise import exp_bounds
from dpcube.core.padding import draw_padding, padding_shift

MILLIONTH = Fraction(1, 10**6)


@pytest.mark.parametrize(
    ("epsilon", "delta", "shift"), [("0.1", "1e-6", 132), ("0.5", "1e-6", 27), ("1", "1e-6", 14), ("0.1", "1e-5", 109)]
)
def test_golden_shifts(epsilon: str, delta: str, shift: int) -> None:
    assert padding_shift(Fraction(epsilon), Fraction(delta)) == shift


def test_a_block_without_dummies_has_the_golden_probability() -> None:
    ratio = np.exp(-0.1)
    assert ratio**132 / (1 + ratio) == pytest.approx(9.715e-7, rel=1e-4)


def sizes_law(shift: int, share: float, most: int) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """The exact probabilities of 0, 1, ..., most - 1 dummies."""
    ratio = np.exp(-share)
    law = (1 - ratio) / (1 + ratio) * ratio ** np.abs(np.arange(most) - shift)
    law[0] = ratio**shift / (1 + ratio)
    return np.asarray(law)


def loss_beyond(epsilon: float, share: float, shift: int, more: int) -> float:
    """The least delta for a block of `more` records more: the mass beyond exp(epsilon) times, the worse way round."""
    most = shift + int(60 / share) + more
    law = sizes_law(shift, share, most)
    less, many = np.append(law, np.zeros(more)), np.append(np.zeros(more), law)
    ratio = np.exp(epsilon) * (1 + 1e-12)  # both are doubles here
    kept = slice(0, most)  # beyond lies exp(-60)
    return max(float(np.maximum(one - ratio * other, 0)[kept].sum()) for one, other in ((less, many), (many, less)))


@pytest.mark.parametrize("sensitivity", [1, 2, 5])
@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1", "4"])
def test_shown_sizes_cost_what_is_said(epsilon: str, sensitivity: int) -> None:
    """By the exact law of one block whose size changes by the whole sensitivity, the dearest single change."""
    amount = Fraction(epsilon)
    shift = padding_shift(amount, MILLIONTH, sensitivity=sensitivity)
    share = float(amount / sensitivity)
    assert loss_beyond(float(amount), share, shift, sensitivity) <= 1e-6
    # The twins: a shift that is too small, noise for one record where many change.
    assert loss_beyond(float(amount), share, max(1, shift - int(3 / share) - 1), sensitivity) > 1e-6
    if sensitivity > 1:
        assert loss_beyond(float(amount), float(amount), padding_shift(amount, MILLIONTH), sensitivity) > 1e-6


@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1", "2"])
def test_for_one_record_the_shift_is_the_least(epsilon: str) -> None:
    shift = padding_shift(Fraction(epsilon), MILLIONTH)
    assert loss_beyond(float(epsilon), float(epsilon), shift, 1) <= 1e-6
    assert loss_beyond(float(epsilon), float(epsilon), shift - 1, 1) > 1e-6


@given(
    epsilon=st.fractions(Fraction(1, 1000), 20, max_denominator=1000),
    power=st.integers(3, 30),
    sensitivity=st.integers(1, 50),
)
@settings(deadline=None)
def test_the_shift_is_the_least_that_meets_the_inequality(epsilon: Fraction, power: int, sensitivity: int) -> None:
    """Beside another arithmetic, of 200 decimal digits."""
    shift = padding_shift(epsilon, Fraction(1, 10**power), sensitivity=sensitivity)
    with localcontext(prec=200):
        share = Decimal(epsilon.numerator) / epsilon.denominator / sensitivity
        steps = sum((share * j).exp() for j in range(sensitivity))

        def delta(k: int) -> Decimal:
            return (-share * k).exp() / (1 + (-share).exp()) * steps

        assert delta(shift) <= Decimal(10) ** -power
        assert shift == 1 or delta(shift - 1) > Decimal(10) ** -power


@pytest.mark.parametrize("sensitivity", [1, 5, 100])
@pytest.mark.parametrize("delta", [Fraction(1, 7), MILLIONTH])
@pytest.mark.parametrize("epsilon", ["0.02", "0.3", "6"])
def test_wide_bounds_decide_nothing_wrongly(
    epsilon: str, delta: Fraction, sensitivity: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounds of few digits leave a shift undecided; they never decide it otherwise than those of many."""
    share = Fraction(epsilon) / sensitivity
    least = padding_shift(Fraction(epsilon), delta, sensitivity=sensitivity)
    shifts = [k for k in range(least - 40, least + 40) if k >= 1]
    honest, narrow = exp_bounds, [padding._suffices(k, share, delta, sensitivity) for k in shifts]

    for widened in itertools.product((False, True), repeat=3):  # of the three powers, in turn
        turn = itertools.cycle(widened)

        def wide(exponent: Fraction, precision: int, turn: Iterator[bool] = turn) -> tuple[int, int]:
            low, high = honest(exponent, precision)
            part = 10 if precision <= 64 else 1000 if precision <= 128 else 2**100
            return (low - low // part, min(1 << precision, high + high // part)) if next(turn) else (low, high)

        monkeypatch.setattr(padding, "exp_bounds", wide)
        assert [padding._suffices(k, share, delta, sensitivity) for k in shifts] == narrow


def test_more_privacy_takes_a_larger_shift() -> None:
    by_epsilon = [padding_shift(Fraction(e), MILLIONTH) for e in ("2", "1", "0.5", "0.1", "0.001")]
    by_sensitivity = [padding_shift(Fraction(1), MILLIONTH, sensitivity=d) for d in (1, 2, 4, 100)]
    assert all(a < b for found in (by_epsilon, by_sensitivity) for a, b in pairwise(found))


@pytest.mark.parametrize(("epsilon", "sensitivity"), [("0.1", 1), ("0.3", 3), ("2", 20)])
def test_nothing_is_taken_away_and_nothing_cut_at_the_top(
    epsilon: str, sensitivity: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sizes never fall below the true ones, whatever the noise is, and grow with it without a bound.

    The noise is asked for at epsilon / sensitivity: what each of the steps of a unit may cost.
    """
    shift = padding_shift(Fraction(epsilon), MILLIONTH, sensitivity=sensitivity)
    drawn = np.array([-(10**6), -shift - 1, -shift, -shift + 1, 0, 10**6])

    class Fixed:
        def draw(self, epsilon: Fraction, size: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
            assert (epsilon, size) == (Fraction(1, 10), 6)
            return drawn

    monkeypatch.setattr(padding, "ExactNoise", Fixed)
    found = draw_padding(Fraction(epsilon), MILLIONTH, sensitivity=sensitivity, blocks=6)
    assert found.tolist() == [0, 0, 0, 1, shift, shift + 10**6]


def test_a_unit_may_have_a_million_rows() -> None:
    share = Fraction(20) / 2**20
    shift = padding_shift(Fraction(20), MILLIONTH, sensitivity=2**20)
    assert shift == pytest.approx((20 + np.log(1e6 / 2) - np.log(float(share))) / float(share), rel=1e-3)


@pytest.mark.parametrize("sensitivity", [0, -1, 2**20 + 1, 1.5])
def test_a_sensitivity_that_cannot_be_is_refused(sensitivity: int) -> None:
    with pytest.raises(InputError, match="sensitivity"):
        padding_shift(Fraction(1), MILLIONTH, sensitivity=sensitivity)


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1), Fraction(-1, 2), 1e-6])
def test_a_delta_that_cannot_be_is_refused(delta: Fraction) -> None:
    with pytest.raises(InputError, match="delta"):
        padding_shift(Fraction(1), delta)


@pytest.mark.parametrize("epsilon", [0.1, 1, Fraction(0), Fraction(-1), Fraction(1000), Fraction(1, 10**10)])
def test_an_epsilon_at_which_no_noise_is_drawn_is_refused(epsilon: Any) -> None:
    with pytest.raises(InputError, match="noise"):
        padding_shift(epsilon, MILLIONTH)


def test_the_share_of_one_row_is_what_noise_is_drawn_at() -> None:
    assert padding_shift(Fraction(100), MILLIONTH) == 1
    with pytest.raises(InputError, match="noise cannot be drawn"):
        padding_shift(Fraction(1, 10**7), MILLIONTH, sensitivity=1000)


@pytest.mark.parametrize("epsilon", ["1.1e-6", "1.2e-8", "6.5e-9"])
def test_a_shift_may_be_large(epsilon: str) -> None:
    """Up to 2^31; with a near 1, k is about ln(1 / (2 delta)) / epsilon."""
    expected = float(np.log(1e6 / 2)) / float(epsilon)
    assert padding_shift(Fraction(epsilon), MILLIONTH) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("epsilon", ["6e-9", "1e-9"])
def test_more_dummies_than_there_can_be_are_refused(epsilon: str) -> None:
    with pytest.raises(InputError, match="dummies a block"):
        padding_shift(Fraction(epsilon), MILLIONTH)
