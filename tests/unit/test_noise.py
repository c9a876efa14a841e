import ast
import copy
import itertools
import math
import os
import pickle
from collections import deque
from collections.abc import Iterable
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpcube.core import noise, randomness
from dpcube.core.errors import InputError
from dpcube.core.noise import ExactNoise, Noise, digit_bounds, exp_bounds, expansion, two_sided_geometric
from dpcube.core.randomness import RandomWords
from dpcube.noise.law import DiscreteLaplace

WORD = 1 << 32
MISS = WORD - 1  # never below a threshold: no digit has probability above 1/2
EPSILONS = [
    Fraction(text) for text in ("1e-9", "1e-6", "1/700", "0.1", "0.15", "1", "2", "7/3", "22.1", "23", "50", "100")
]


def decimal_exp(exponent: Fraction) -> Fraction:
    """exp(-exponent) within 1e-200, by Decimal's correctly rounded exp."""
    with localcontext() as context:
        context.prec = 220
        return Fraction((-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp())


def digit_count(epsilon: Fraction) -> int:
    return next(j for j in itertools.count() if epsilon * 2**j >= 23)


class Script:
    """A word source that recites the words it was given and fails when asked for more."""

    def __init__(self, words: Iterable[int]) -> None:
        self._words = deque(words)

    def fill(self, words: NDArray[np.uint32], /) -> None:
        assert words.dtype == np.uint32  # which is what the real source fills, and what the words' law is stated for
        words[...] = np.reshape([self._words.popleft() for _ in range(words.size)], words.shape)

    def is_finished(self) -> bool:
        return not self._words


def comparison(exponent: Fraction, *, success: bool, tied: int, ties: int, digit: bool) -> list[int]:
    """The words, after `tied` known ones, of a comparison that ties `ties` times more and then goes as told."""
    bounds = digit_bounds if digit else exp_bounds
    words: list[int] = []
    for length in itertools.count(tied + 1):
        expected = expansion(bounds, exponent, words=length) % WORD
        if len(words) >= ties and expected != (0 if success else MISS):
            return [*words, expected - 1 if success else expected + 1]
        words.append(expected)
    raise AssertionError


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("words", [1, 2, 5])
def test_expansions_are_those_of_an_independent_computation(epsilon: Fraction, words: int) -> None:
    for j in range(digit_count(epsilon) + 1):
        q = decimal_exp(epsilon * 2**j)
        assert expansion(exp_bounds, epsilon * 2**j, words=words) == math.floor(q * WORD**words)
        assert expansion(digit_bounds, epsilon * 2**j, words=words) == math.floor(q / (1 + q) * WORD**words)


@given(st.fractions(Fraction(1, 10**9), 100), st.integers(1, 400))
def test_bounds_of_exp_are_certified_and_tight(exponent: Fraction, precision: int) -> None:
    q = decimal_exp(exponent)
    for bounds, exact in ((exp_bounds, q), (digit_bounds, q / (1 + q))):
        low, high = bounds(exponent, precision)
        assert low <= exact * 2**precision + Fraction(1, 10**60)
        assert high >= exact * 2**precision - Fraction(1, 10**60)
        # At most 2 per term of the series on either side, doubled by each of at most 8 squarings.
        assert high - low <= 2**8 * (4 * precision + 16)


def test_expansion_takes_more_precision_until_its_words_are_certain() -> None:
    asked = []

    def vague_until_200_bits(_: Fraction, precision: int) -> tuple[int, int]:
        asked.append(precision)
        third = (1 << precision) // 3
        return (third, third + 1) if precision > 200 else (0, 1 << precision)

    assert expansion(vague_until_200_bits, Fraction(1), words=1) == WORD // 3
    assert asked == [64, 128, 256]


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_high_part_needs_a_first_word_of_zero(epsilon: Fraction) -> None:
    first = noise._first_words(epsilon)
    assert first.size == digit_count(epsilon) + 1
    assert first[-1] == 0
    assert first.max() < WORD // 2
    assert not first.flags.writeable


@pytest.mark.parametrize("epsilon", [Fraction(2), Fraction(7, 2)], ids=str)
def test_digit_probabilities_imply_the_two_sided_geometric(epsilon: Fraction) -> None:
    # Words of thresholds enclose each probability within 2^-160; all products and sums are exact rationals.
    digits = digit_count(epsilon)

    def enclosed(bounds: noise.Bounds, j: int) -> Fraction:
        return Fraction(2 * expansion(bounds, epsilon * 2**j, words=5) + 1, 2 * WORD**5)

    ones = [enclosed(digit_bounds, j) for j in range(digits)]
    high = enclosed(exp_bounds, digits)
    q = decimal_exp(epsilon)
    pmf = []
    for g in range(2 ** (digits + 2)):
        low_digits = math.prod(p if g >> j & 1 else 1 - p for j, p in enumerate(ones))
        pmf.append(low_digits * (1 - high) * high ** (g >> digits))
        assert abs(pmf[g] - (1 - q) * q**g) < Fraction(1, 10**40)
    for z in (0, 1, 2, 5, 2**digits):
        difference = sum((a * b for a, b in zip(pmf[z:], pmf, strict=False)), Fraction(0))
        left_out = q ** (2 * len(pmf) - z) / (1 - q) + Fraction(1, 10**36)
        assert abs(difference - (1 - q) / (1 + q) * q**z) < left_out


@pytest.mark.parametrize("epsilon", [Fraction(2), Fraction(3, 2), Fraction(6)], ids=str)
def test_every_combination_of_digits_becomes_its_number(epsilon: Fraction) -> None:
    digits = digit_count(epsilon)
    first = noise._first_words(epsilon)[:-1]
    combinations = np.array(list(itertools.product([0, 1], repeat=2 * digits))).T
    below, above = np.tile(first - 1, 2)[:, None], np.tile(first + 1, 2)[:, None]
    words = np.where(combinations == 1, below, above)
    no_high_part = np.ones((1, words.shape[1]), dtype=words.dtype)
    script = Script(np.concatenate([words[:digits], no_high_part, words[digits:], no_high_part]).ravel().tolist())
    drawn = two_sided_geometric(script, epsilon, size=words.shape[1])
    place = 2 ** np.arange(digits)
    np.testing.assert_array_equal(drawn, place @ combinations[:digits] - place @ combinations[digits:])
    assert script.is_finished()


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_first_words_are_those_of_each_digit_and_zero_for_a_high_part(epsilon: Fraction) -> None:
    ratios = [decimal_exp(epsilon * 2**j) for j in range(digit_count(epsilon))]
    words = noise._first_words(epsilon)
    assert words.tolist() == [int(ratio / (1 + ratio) * WORD) for ratio in ratios] + [0]
    assert (words.dtype, words.flags.writeable) == (np.dtype(np.uint32), False)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**9), Fraction(1, 10), Fraction(2)], ids=str)
@pytest.mark.parametrize("success", [True, False])
@pytest.mark.parametrize("ties", [0, 1, 4])
def test_a_tied_digit_is_decided_by_further_words(epsilon: Fraction, success: bool, ties: int) -> None:  # noqa: FBT001
    first = noise._first_words(epsilon)
    digits = first.size - 1
    for row in (*range(digits), *range(digits + 1, 2 * digits + 1)):
        place = row % first.size
        words = [MISS] * (2 * first.size)
        words[row] = int(first[place])
        further = comparison(epsilon * 2**place, success=success, tied=1, ties=ties, digit=True)
        assert len(further) >= 1 + ties
        script = Script(words + further)
        sign = 1 if row == place else -1
        assert two_sided_geometric(script, epsilon, size=1).tolist() == [sign * 2**place * success]
        assert script.is_finished()


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**9), Fraction(1, 10), Fraction(50), Fraction(100)], ids=str)
@pytest.mark.parametrize("high", [0, 1, 3])
def test_a_forced_high_part_is_a_geometric_of_its_own(epsilon: Fraction, high: int) -> None:
    digits = digit_count(epsilon)
    exponent = epsilon * 2**digits
    outcomes = [True] * high + [False]
    trials = [
        comparison(exponent, success=success, tied=0 if i else 1, ties=0, digit=False)
        for i, success in enumerate(outcomes)
    ]
    for row, sign in ((digits, 1), (2 * digits + 1, -1)):
        words = [MISS] * (2 * digits + 2)
        words[row] = 0
        if digits:
            words[0] = 0  # one more digit, added to the high part and not replaced by it
        script = Script(words + list(itertools.chain(*trials)))
        expected = sign * high * 2**digits + (1 if digits else 0)
        assert two_sided_geometric(script, epsilon, size=1).tolist() == [expected]
        assert script.is_finished()


@pytest.mark.parametrize("epsilon", [Fraction(12), Fraction(6), Fraction(50)], ids=str)
def test_any_of_the_words_of_a_value_may_tie_together(epsilon: Fraction) -> None:
    """However many tie, all of them or none, each is resolved: ties are counted up, never against each other."""
    first = noise._first_words(epsilon).tolist() * 2
    digits = len(first) // 2 - 1
    for tied in itertools.product([True, False], repeat=len(first)):
        words = [word if ties else MISS for word, ties in zip(first, tied, strict=True)]
        expected = 0
        for row in itertools.compress(range(len(first)), tied):
            place, sign = row % (digits + 1), 1 if row <= digits else -1
            exponent, digit = epsilon * 2**place, place < digits
            words += comparison(exponent, success=True, tied=1, ties=0, digit=digit)
            words += [] if digit else comparison(exponent, success=False, tied=0, ties=0, digit=False)
            expected += sign * 2**place
        script = Script(words)
        assert two_sided_geometric(script, epsilon, size=1).tolist() == [expected]
        assert script.is_finished()


def test_ties_of_several_values_are_each_resolved_where_they_are() -> None:
    epsilon = Fraction(1, 10)
    first = noise._first_words(epsilon)
    words = np.full((2 * first.size, 3), MISS, dtype=np.int64)
    words[2, 1] = first[2]
    words[5, 0] = first[5]
    words[first.size + 5, 0] = first[5]
    words[first.size, 2] = first[0]
    further = [
        *comparison(epsilon * 4, success=True, tied=1, ties=0, digit=True),
        *comparison(epsilon * 32, success=True, tied=1, ties=2, digit=True),
        *comparison(epsilon, success=True, tied=1, ties=0, digit=True),
        *comparison(epsilon * 32, success=False, tied=1, ties=1, digit=True),
    ]
    script = Script(words.ravel().tolist() + further)
    assert two_sided_geometric(script, epsilon, size=3).tolist() == [32, 4, -1]
    assert script.is_finished()


def test_a_value_that_int64_cannot_hold_raises_instead_of_wrapping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "_high_part", lambda *_: 2**28)
    epsilon = Fraction(1, 10**9)
    words = [MISS] * 72
    words[35] = 0
    with pytest.raises(OverflowError):
        two_sided_geometric(Script(words), epsilon, size=1)
    words[35], words[71] = MISS, 0
    assert two_sided_geometric(Script(words), epsilon, size=1).tolist() == [-(2**63)]
    words[36] = 0
    with pytest.raises(OverflowError):
        two_sided_geometric(Script(words), epsilon, size=1)


@pytest.mark.parametrize("size", [0, 1, 1820, 1821, 50_000])
def test_each_value_takes_the_same_number_of_words(size: int) -> None:
    epsilon = Fraction(1, 10)
    source = Script([5] * (18 * size))  # small words: every digit of both geometrics is 1, no word ties
    assert two_sided_geometric(source, epsilon, size=size).tolist() == [0] * size
    assert source.is_finished()


def test_draws_are_writable_int64_of_the_size_asked() -> None:
    for size in (0, 1, 5000):
        drawn = ExactNoise().draw(Fraction(1, 2), size)
        assert (drawn.dtype, drawn.shape, drawn.flags.writeable) == (np.dtype(np.int64), (size,), True)


def test_exact_noise_is_private_and_has_nothing_to_seed() -> None:
    as_protocol: Noise = ExactNoise()
    assert as_protocol.private
    with pytest.raises(TypeError):
        ExactNoise(7)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        RandomWords(7)  # type: ignore[call-arg]


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(-1), Fraction(1, 2 * 10**9), Fraction(101)], ids=str)
def test_epsilon_out_of_range_is_refused(epsilon: Fraction) -> None:
    with pytest.raises(InputError, match=rf"at epsilon {epsilon}: it must be from 1e-9 to 100"):
        ExactNoise().draw(epsilon, 1)


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(-1), 0.1])
def test_a_law_needs_a_rational_above_zero(epsilon: Fraction) -> None:
    with pytest.raises(InputError, match="needs an epsilon that is a rational above 0"):
        DiscreteLaplace(epsilon)


@pytest.mark.parametrize("epsilon", [0.1, 1, "1/10", None])
def test_epsilon_that_is_no_fraction_is_refused(epsilon: object) -> None:
    with pytest.raises(InputError, match=f"got a {type(epsilon).__name__}; pass it through parse_epsilon"):
        ExactNoise().draw(epsilon, 1)  # type: ignore[arg-type]


def test_negative_size_is_refused() -> None:
    with pytest.raises(InputError, match="-1 values; ask for 0 or more"):
        ExactNoise().draw(Fraction(1), -1)


def test_no_float_in_the_sampler() -> None:
    for module in (noise, randomness):
        nodes = list(ast.walk(ast.parse(Path(str(module.__file__)).read_text())))
        assert not [node for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, float)]
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        names |= {node.name for node in nodes if isinstance(node, ast.alias)}
        assert {"Fraction"} <= names or module is randomness
        assert not {name for name in names if "float" in name or name in {"math", "log", "exp"}}


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
@pytest.mark.parametrize("size", [0, 1, 7, 40_000, 100_000])
def test_fill_overwrites_all_of_the_array_and_no_more(dtype: type[np.unsignedinteger], size: int) -> None:
    around = np.zeros(size + 2, dtype=dtype)
    RandomWords().fill(around[1:-1])
    assert around[0] == around[-1] == 0
    # A word is 0 with probability 2^-32 or less: more than 4 of 100,000 has probability below 1e-24.
    assert np.count_nonzero(around) >= size - 4


def test_a_single_word_is_filled_and_none_is_left_alone() -> None:
    word, source = np.zeros(1, np.uint32), RandomWords()
    seen = set()
    for _ in range(4):
        source.fill(word)
        seen.add(int(word[0]))
    assert len(seen) > 1
    source.fill(np.empty(0, np.uint32))


def test_fill_refuses_what_it_cannot_fill_in_place() -> None:
    words = RandomWords()
    with pytest.raises(TypeError, match="got float64"):
        words.fill(np.zeros(3))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        words.fill(np.zeros((4, 4), dtype=np.uint32)[:, 1])
    fixed = np.zeros(4, dtype=np.uint32)
    fixed.flags.writeable = False
    with pytest.raises((BufferError, ValueError, TypeError)):
        words.fill(fixed)
    assert not fixed.any()


def test_streams_differ_and_do_not_repeat() -> None:
    drawn = np.empty((3, 20_000), dtype=np.uint64)
    first, second = RandomWords(), RandomWords()
    for row, stream in zip(drawn, (first, second, first), strict=True):
        stream.fill(row)
    # 60,000 words of 64 bits collide with probability below 1e-10.
    assert np.unique(drawn).size == drawn.size


def test_a_key_lives_for_as_many_blocks_as_are_told_from_uniform_words_by_nobody() -> None:
    assert randomness.KEY_LIFETIME == 16 * 2**28


def test_a_key_is_replaced_at_the_end_of_its_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(randomness, "KEY_LIFETIME", 3 << 17)
    words = RandomWords()
    block = np.empty(1 << 15, dtype=np.uint32)
    ciphers = []
    for _ in range(7):
        words.fill(block)
        ciphers.append(words._cipher)
    assert [ciphers.index(cipher) for cipher in ciphers] == [0, 0, 0, 3, 3, 3, 6]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_stream_cannot_be_copied(copied: object) -> None:
    with pytest.raises(TypeError, match="never copied"):
        copied(RandomWords())  # type: ignore[operator]


def words_of_parent_and_child(stream: RandomWords) -> tuple[bytes, bytes]:
    """Fork, draw 32 bytes of the same stream on each side, and return both."""
    mine = np.empty(8, dtype=np.uint32)
    stream.fill(mine)
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            stream.fill(mine)
            os.write(sending, mine.tobytes())
        finally:
            os._exit(0)
    os.close(sending)
    stream.fill(mine)
    os.waitpid(child, 0)
    with os.fdopen(receiving, "rb") as pipe:
        theirs = pipe.read()
    assert len(theirs) == 32
    return mine.tobytes(), theirs


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform cannot fork")
# Python 3.12 warns of forking a process with threads; the child here only encrypts and exits.
may_fork = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@needs_fork
@may_fork
@pytest.mark.parametrize("number", [os.getpid, lambda: 1], ids=["its own number", "its parent's number"])
def test_a_fork_does_not_repeat_its_parent(number: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", number)
    mine, theirs = words_of_parent_and_child(RandomWords())
    assert mine != theirs


@needs_fork
@may_fork
def test_sabotage_a_stream_that_ignores_forks_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(randomness, "this_process", lambda: (1, 0))
    mine, theirs = words_of_parent_and_child(RandomWords())
    assert mine == theirs


GOLDEN = {  # variance, mean absolute value, P(0); golden.json, discrete_laplace.single
    "0.05": (799.833354, 19.9916691, 0.024994793),
    "0.15": (88.7224096, 6.64173214, 0.0748596907),
    "0.2": (49.8336661, 4.96682157, 0.0996679946),
    "1": (1.84134719, 0.850918128, 0.462117157),
    "2": (0.36203083, 0.275720565, 0.761594156),
}


@pytest.mark.parametrize("epsilon", GOLDEN)
def test_law_has_its_golden_moments(epsilon: str) -> None:
    law = DiscreteLaplace(Fraction(epsilon))
    assert (law.variance, law.mean_abs, law.pmf(0)) == pytest.approx(GOLDEN[epsilon], rel=2e-9)
    assert law.ratio == math.exp(-float(epsilon))


@pytest.mark.parametrize("epsilon", GOLDEN)
def test_law_agrees_with_sums_of_its_own_probabilities(epsilon: str) -> None:
    law = DiscreteLaplace(Fraction(epsilon))
    z = np.arange(-2000, 2001)
    pmf = law.pmf(z)
    assert pmf.sum() == pytest.approx(1, abs=1e-12)
    assert (pmf * z**2).sum() == pytest.approx(law.variance, rel=1e-12)
    assert (pmf * np.abs(z)).sum() == pytest.approx(law.mean_abs, rel=1e-12)
    for t in (-40, -3, -2.5, -1, -0.5, 0, 0.5, 1, 7.25, 40):
        assert law.sf(t) == pytest.approx(pmf[z > t].sum(), rel=1e-11)
        assert law.cdf(t) == pytest.approx(pmf[z <= t].sum(), rel=1e-11)
    assert law.pmf(0.5) == 0
    for confidence in (0, 0.3, 0.8, 0.95, 0.999):
        low, high = law.central_interval(confidence)
        assert low == -high
        assert pmf[np.abs(z) <= high].sum() >= confidence - 1e-12
        assert high == 0 or pmf[np.abs(z) < high].sum() < confidence


@pytest.mark.parametrize("confidence", [-0.1, 1, 95, math.nan])
def test_law_refuses_confidence_that_no_interval_has(confidence: float) -> None:
    with pytest.raises(InputError, match=r"write 0\.95 for 95%"):
        DiscreteLaplace(Fraction(1)).central_interval(confidence)
