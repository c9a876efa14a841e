import doctest
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcube.core import epsilon as epsilon_module
from dpcube.core import noise, randomness
from dpcube.core.epsilon import MAX_EPSILON, MIN_EPSILON, check_share, parse_epsilon
from dpcube.core.errors import InputError
from dpcube.noise import law


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.1, Fraction(1, 10)),
        (1e-6, Fraction(1, 10**6)),
        (0.30000000000000004, Fraction("0.30000000000000004")),
        (np.float64(0.2), Fraction(1, 5)),
        (np.float32(0.1), Fraction(1, 10)),
        (np.int64(3), Fraction(3)),
        (50, Fraction(50)),
        ("50", Fraction(50)),
        ("0.2", Fraction(1, 5)),
        (" 1/5\n", Fraction(1, 5)),
        ("1e-3", Fraction(1, 1000)),
        ("1E-3", Fraction(1, 1000)),
        (".5", Fraction(1, 2)),
        ("+2.", Fraction(2)),
        (Decimal("0.15"), Fraction(3, 20)),
        (Decimal("1E+1"), Fraction(10)),
        (Fraction(1, 3), Fraction(1, 3)),
    ],
)
def test_epsilon_is_the_rational_that_was_written(value: float, expected: Fraction) -> None:
    parsed = parse_epsilon(value)
    assert parsed == expected
    assert type(parsed) is Fraction


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (0, "epsilon 0 is not between"),
        (-1, "epsilon -1 is not between"),
        (0.0, "epsilon 0.0 is not between"),
        (-0.5, "epsilon -0.5 is not between"),
        ("-0.5", "epsilon '-0.5' is not between"),
        (50.1, "epsilon 50.1 is not between"),
        ("9e-7", "epsilon '9e-7' is not between"),
        ("1e9999", "epsilon '1e9999' is not between"),
        (Fraction(51), "epsilon 51 is not between"),
        (Fraction(1, 10**7), "epsilon 1/10000000 is not between"),
        (10**5000, "epsilon of hundreds of digits is not between"),
        (Fraction(1, 10**5000), "epsilon of hundreds of digits is not between"),
        (1 + Fraction(1, 10**200), "epsilon of hundreds of digits is too long"),
        (math.nan, "epsilon 'nan' cannot be read"),
        (math.inf, "epsilon 'inf' cannot be read"),
        (-math.inf, "epsilon '-inf' cannot be read"),
        (Decimal("sNaN"), "epsilon 'sNaN' cannot be read"),
        (Decimal("-Infinity"), "epsilon '-Infinity' cannot be read"),
        (Decimal("1e-999999"), "epsilon '1E-999999' cannot be read"),
        ("1e-999999999", "epsilon '1e-999999999' cannot be read"),
        ("", "epsilon '' cannot be read"),
        ("a\nb", r"epsilon 'a\nb' cannot be read"),
        ("1_0", "epsilon '1_0' cannot be read"),
        ("0,1", "epsilon '0,1' cannot be read"),
        ("٢", "epsilon '٢' cannot be read"),
        ("0x1", "epsilon '0x1' cannot be read"),
        ("1/0", "epsilon '1/0' divides by zero"),
        ("0." + "1" * 10**6, "epsilon '0.11111111111111111...1111' is 1000002 characters long, over 100"),
        (True, "epsilon cannot be a bool"),
        (np.True_, "epsilon cannot be a bool"),
        (None, "epsilon cannot be a NoneType"),
        (b"0.1", "epsilon cannot be a bytes"),
        (0.1 + 0j, "epsilon cannot be a complex"),
        ([0.1], "epsilon cannot be a list"),
        (np.array([0.1]), "epsilon cannot be a ndarray"),
        (Unprintable(), "epsilon cannot be a Unprintable"),
    ],
    ids=lambda value: str(value)[:20] if isinstance(value, str) else type(value).__name__,
)
def test_anything_else_is_refused_in_one_line(value: float, named: str) -> None:
    with pytest.raises(InputError) as refusal:
        parse_epsilon(value)
    message = str(refusal.value)
    assert message.startswith(named)
    assert message.endswith("write a number from 0.000001 to 50, such as 0.1, '1/10' or '1e-3'")
    assert "\n" not in message
    assert len(message) < 300


def test_an_epsilon_may_be_as_long_as_said_and_no_longer() -> None:
    long = Fraction(2**400 - 1, 2**399)  # of 400 bits above and below
    assert parse_epsilon(long) == long
    with pytest.raises(InputError, match="epsilon of hundreds of digits is too long"):
        parse_epsilon(Fraction(2**401 - 1, 2**400))
    text = "0." + "1" * 98
    assert parse_epsilon(text) == Fraction(text)
    with pytest.raises(InputError, match="is 101 characters long, over 100"):
        parse_epsilon(text + "1")
    with pytest.raises(InputError, match="cannot be read"):
        parse_epsilon("1e-00001")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("x" * 98, f"'{'x' * 98}'"),
        ("x" * 99, f"'{'x' * 19}...xxxx'"),
        (2**399, f"{str(2**399)[:20]}...{str(2**399)[-5:]}"),
        (2**400, "of hundreds of digits"),
        (Fraction(2**399), f"{str(2**399)[:20]}...{str(2**399)[-5:]}"),
        (Fraction(1, 2**400), "of hundreds of digits"),
    ],
)
def test_a_message_shows_as_much_of_an_epsilon_as_fits(value: float, shown: str) -> None:
    with pytest.raises(InputError) as refusal:
        parse_epsilon(value)
    assert str(refusal.value).startswith(f"epsilon {shown} ")


@pytest.mark.parametrize(
    ("share", "beyond"), [(Fraction(1, 10**9), Fraction(99, 10**11)), (Fraction(100), Fraction(10001, 100))]
)
def test_a_share_may_be_as_small_and_as_large_as_said(share: Fraction, beyond: Fraction) -> None:
    check_share(share)
    with pytest.raises(InputError, match="from 1e-9 to 100"):
        check_share(beyond)
    with pytest.raises(InputError, match="takes epsilon as a Fraction, got a float"):
        check_share(float(share))


@given(st.fractions(MIN_EPSILON, MAX_EPSILON, max_denominator=10**40))
def test_text_of_a_fraction_reads_back(value: Fraction) -> None:
    assert parse_epsilon(str(value)) == parse_epsilon(value) == value


@given(st.floats(1e-6, 50))
def test_a_float_is_its_shortest_decimal(value: float) -> None:
    assert parse_epsilon(value) == Fraction(Decimal(repr(value)))


@given(st.text(max_size=150) | st.floats() | st.integers() | st.decimals() | st.fractions() | st.none())
def test_parsing_returns_an_allowed_rational_or_an_input_error(value: float) -> None:
    try:
        parsed = parse_epsilon(value)
    except InputError:
        return
    assert MIN_EPSILON <= parsed <= MAX_EPSILON


@pytest.mark.parametrize("module", [epsilon_module, law, noise, randomness], ids=lambda module: module.__name__)
def test_examples_of_the_docstrings_hold(module: object) -> None:
    results = doctest.testmod(module)  # type: ignore[arg-type]
    assert results.attempted > 0
    assert results.failed == 0
