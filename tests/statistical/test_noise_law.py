"""The law of drawn noise, and for each checker a sabotaged noise that it must reject.

Each checker returns one p-value. Honest noise fails an assertion with probability ALARM; each sabotage is gross
enough, at the sizes drawn here, to escape with a smaller probability still.
"""

import itertools
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from checks import ALARM, Values, association, at_lag, independence, scale, two_sided, union
from numpy.typing import NDArray
from scipy import stats

from dpcube.core import noise
from dpcube.core.noise import ExactNoise, digit_bounds, exp_bounds, expansion, two_sided_geometric
from dpcube.core.randomness import RandomWords
from dpcube.noise.law import DiscreteLaplace

MISS = 2**32 - 1
TENTH = Fraction(1, 10)

Words = NDArray[np.uint32]


def draw(epsilon: Fraction, size: int) -> Values:
    return ExactNoise().draw(epsilon, size)


def tail_edges(law: DiscreteLaplace, *, smallest: float) -> list[int]:
    """Edges t, from 0 outwards, such that P(t < Z <= next t) is at least `smallest`, the open last one included."""
    _, far = law.central_interval(1 - 2 * smallest)
    edges, beyond = [], 0.0
    for t in range(far, -1, -1):
        tail = float(law.sf(t))
        if tail - beyond >= smallest:
            edges.append(t)
            beyond = tail
    return edges[::-1]


def binned(drawn: Values, edges: list[int]) -> NDArray[np.int64]:
    """Count by magnitude and sign, in the bins between consecutive edges."""
    outwards = np.array(edges) + 1
    boundaries = np.concatenate([1 - outwards[::-1], outwards])
    return np.bincount(np.searchsorted(boundaries, drawn, side="right"), minlength=boundaries.size + 1)


def mass_of_bins(law: DiscreteLaplace, edges: list[int]) -> NDArray[np.float64]:
    upper = law.sf(edges)
    return np.concatenate([upper[-1:], -np.diff(upper)[::-1], [1 - 2 * upper[0]], -np.diff(upper), upper[-1:]])


def frequencies(drawn: Values, epsilon: Fraction) -> float:
    """Compare frequencies with the exact pmf, all together by chi-square and one by one by their exact binomial laws.

    The first sees a small error everywhere, in bins of 2,000 expected so that its asymptotic tail is good to a few per
    cent at ALARM; the second a large one anywhere, in bins of 20 expected out to the far tails.
    """
    law = DiscreteLaplace(epsilon)
    coarse, fine = (tail_edges(law, smallest=least / drawn.size) for least in (2000, 20))
    together = stats.chisquare(binned(drawn, coarse), mass_of_bins(law, coarse) * drawn.size).pvalue
    apart = union(two_sided(stats.binom(drawn.size, mass_of_bins(law, fine)), binned(drawn, fine)))
    return union(together, apart)


def kolmogorov(drawn: Values, epsilon: Fraction) -> float:
    """Compare the distribution functions; for a discrete law the tail is an upper bound."""
    return float(stats.kstest(drawn, DiscreteLaplace(epsilon).cdf).pvalue)


def two_samples(drawn: Values, other: Values, epsilon: Fraction) -> float:
    """Compare two samples in bins fixed beforehand, of at least 100 values of the smaller sample expected in each."""
    edges = tail_edges(DiscreteLaplace(epsilon), smallest=100 / min(drawn.size, other.size))
    return float(stats.chi2_contingency(np.array([binned(drawn, edges), binned(other, edges)])).pvalue)


def digits(geometric: Values, epsilon: Fraction) -> float:
    """Test each binary digit's probability, and each pair of digits for association."""
    ratio = [np.exp(-float(epsilon) * 2**j) for j in range(noise._first_words(epsilon).size - 1)]
    bits = [(geometric >> j & 1).astype(bool) for j in range(len(ratio))]
    seen = [
        two_sided(stats.binom(bit.size, q / (1 + q)), np.count_nonzero(bit)) for bit, q in zip(bits, ratio, strict=True)
    ]
    return union(*seen, *(association(a, b) for a, b in itertools.combinations(bits, 2)))


class Positive:
    """Honest words for the first geometric, none for the second."""

    def fill(self, words: Words, /) -> None:
        RandomWords().fill(words)
        words[words.shape[0] // 2 :] = MISS


class PositiveSharing(Positive):
    """Two digits decided by the same words."""

    def fill(self, words: Words, /) -> None:
        super().fill(words)
        words[3] = words[2]


class Stuck:
    """The words of the first call over and over, as if the buffer were not filled again."""

    def __init__(self) -> None:
        self._words = np.empty(1 << 20, dtype=np.uint32)
        RandomWords().fill(self._words)

    def fill(self, words: Words, /) -> None:
        words[...] = self._words[: words.size].reshape(words.shape)


class Tied:
    """Words of which one row ties with its threshold `tied` times and is then uniform."""

    def __init__(self, row: int, *, words: list[int]) -> None:
        self._row, self._ties = row, words

    def fill(self, words: Words, /) -> None:
        if words.size > 1:
            words[:] = MISS
            words[self._row] = self._ties[0]
            self._next = 1
        elif self._next < len(self._ties):
            words[:] = self._ties[self._next]
            self._next += 1
        else:
            RandomWords().fill(words)


def too_little(epsilon: Fraction, size: int) -> Values:
    return draw(epsilon / Fraction(9, 10), size)


def truncated(epsilon: Fraction, size: int) -> Values:
    low, high = DiscreteLaplace(epsilon).central_interval(0.98)
    return np.clip(draw(epsilon, size), low, high)


def one_sided(epsilon: Fraction, size: int) -> Values:
    return np.abs(draw(epsilon, size))


def rounded(epsilon: Fraction, size: int) -> Values:
    """The continuous Laplace law at the same scale, rounded: close, and wrong."""
    return np.rint(np.random.default_rng().laplace(scale=1 / float(epsilon), size=size)).astype(np.int64)


def with_thresholds(change: Callable[[Words], None]) -> Callable[[Fraction, int], Values]:
    def sabotaged(epsilon: Fraction, size: int) -> Values:
        first_words = noise._first_words(epsilon).copy()
        change(first_words)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(noise, "_first_words", lambda _: first_words)
            return draw(epsilon, size)

    return sabotaged


def weightiest(first_words: Words) -> int:
    """The digit of probability near 1/4: it carries the most of the variance."""
    return max(0, int(np.count_nonzero(first_words > 2**29)) - 1)


def lose_a_digit(first_words: Words) -> None:
    first_words[weightiest(first_words)] = 0


def shift_digits(first_words: Words) -> None:
    first_words[:-2] = first_words[1:-1].copy()


def swap_digits(first_words: Words) -> None:
    j = weightiest(first_words)
    first_words[[j, j + 1]] = first_words[[j + 1, j]]


SABOTAGES: dict[str, Callable[[Fraction, int], Values]] = {
    "scale x 0.9": too_little,
    "truncated": truncated,
    "one sided": one_sided,
    "lost digit": with_thresholds(lose_a_digit),
    "digits off by one": with_thresholds(shift_digits),
    "digits swapped": with_thresholds(swap_digits),
}
EPSILONS = [Fraction(text) for text in ("0.01", "0.1", "1", "5")]


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**9), Fraction(1, 10**6), *EPSILONS], ids=str)
def test_scale_is_exact(epsilon: Fraction) -> None:
    assert scale(draw(epsilon, 1_000_000), epsilon) > ALARM


@pytest.mark.parametrize("sabotage", SABOTAGES)
@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), *EPSILONS], ids=str)
def test_sabotage_scale_rejects(epsilon: Fraction, sabotage: str) -> None:
    assert scale(SABOTAGES[sabotage](epsilon, 1_000_000), epsilon) < ALARM


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_frequencies_are_those_of_the_law(epsilon: Fraction) -> None:
    assert frequencies(draw(epsilon, 1_000_000), epsilon) > ALARM


@pytest.mark.parametrize("sabotage", SABOTAGES)
@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_sabotage_frequencies_reject(epsilon: Fraction, sabotage: str) -> None:
    assert frequencies(SABOTAGES[sabotage](epsilon, 1_000_000), epsilon) < ALARM


def test_sabotage_rounded_continuous_noise_is_rejected() -> None:
    assert frequencies(rounded(Fraction(1), 1_000_000), Fraction(1)) < ALARM
    assert scale(rounded(Fraction(1), 200_000), Fraction(1)) < ALARM


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**9), Fraction(1, 10**6)], ids=str)
def test_wide_noise_has_the_distribution_function_of_the_law(epsilon: Fraction) -> None:
    assert kolmogorov(draw(epsilon, 200_000), epsilon) > ALARM
    for sabotage in ("scale x 0.9", "one sided", "lost digit", "digits off by one", "digits swapped"):
        assert kolmogorov(SABOTAGES[sabotage](epsilon, 200_000), epsilon) < ALARM


def test_noise_at_the_largest_epsilon_of_a_user_is_all_but_silent() -> None:
    # A million values hold anything but 0 with probability 4e-16. The law behind it: the tied high part below.
    assert not draw(Fraction(50), 1_000_000).any()


@pytest.mark.parametrize("epsilon", [TENTH, Fraction(1)], ids=str)
def test_noise_agrees_with_opendp(epsilon: Fraction) -> None:
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    oracle = np.array(dp.m.make_laplace(*space, scale=float(1 / epsilon))(np.zeros(50_000, dtype=np.int64)))
    assert two_samples(draw(epsilon, 500_000), oracle, epsilon) > ALARM
    assert scale(oracle, epsilon) > ALARM
    for sabotage in SABOTAGES.values():
        assert two_samples(sabotage(epsilon, 500_000), oracle, epsilon) < ALARM


CHUNK = noise._CHUNK_WORDS // 18  # values of one chunk at epsilon 1/10


@pytest.mark.parametrize("lag", [1, 2, 7, CHUNK])
def test_values_are_independent_at_a_distance(lag: int) -> None:
    assert independence(*at_lag(draw(TENTH, 50 * CHUNK), lag)) > ALARM


def test_sabotage_values_of_repeated_words_are_rejected() -> None:
    drawn = two_sided_geometric(Stuck(), TENTH, size=50 * CHUNK)
    assert independence(*at_lag(drawn, CHUNK)) < ALARM


@pytest.mark.parametrize("second", [TENTH, Fraction(1, 5)], ids=str)
def test_draws_are_independent(second: Fraction) -> None:
    assert independence(draw(TENTH, 50_000), draw(second, 50_000)) > ALARM


@pytest.mark.parametrize("second", [TENTH, Fraction(1, 5)], ids=str)
def test_sabotage_reused_noise_is_rejected(second: Fraction) -> None:
    words = Stuck()
    first, again = (two_sided_geometric(words, epsilon, size=1800) for epsilon in (TENTH, second))
    assert independence(first, again) < ALARM
    assert independence(first, -again) < ALARM


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_digits_of_a_geometric_are_independent(epsilon: Fraction) -> None:
    assert digits(two_sided_geometric(Positive(), epsilon, size=200_000), epsilon) > ALARM


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), TENTH], ids=str)
def test_sabotage_digits_that_share_words_are_rejected(epsilon: Fraction) -> None:
    assert digits(two_sided_geometric(PositiveSharing(), epsilon, size=200_000), epsilon) < ALARM


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_sabotage_digits_of_another_epsilon_are_rejected(epsilon: Fraction) -> None:
    drawn = two_sided_geometric(Positive(), epsilon / Fraction(9, 10), size=200_000)
    assert digits(drawn, epsilon) < ALARM


def tied_comparison(epsilon: Fraction, position: int, *, tied: int) -> float:
    """Force `tied` words of a comparison and test that it then succeeds as often as the rest of its expansion says."""
    exponent, tries = epsilon * 2**position, 4000
    first_words = noise._first_words(epsilon)
    is_digit = position < first_words.size - 1
    with localcontext() as context:
        context.prec = 120
        q = (-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp()
        rest = float((q / (1 + q) if is_digit else q) * 2 ** (32 * tied) % 1)
    bounds = digit_bounds if is_digit else exp_bounds
    ties = [expansion(bounds, exponent, words=length) % 2**32 for length in range(1, tied + 1)]
    source = Tied(position, words=ties)
    successes = sum(bool(two_sided_geometric(source, epsilon, size=1)[0]) for _ in range(tries))
    return float(two_sided(stats.binom(tries, rest), successes))


TIES = [(TENTH, 0, 1), (TENTH, 5, 3), (Fraction(2), 1, 2), (TENTH, 8, 1), (Fraction(45), 0, 2)]


@pytest.mark.parametrize(("epsilon", "position", "tied"), TIES)
def test_ties_are_broken_with_the_exact_probability(epsilon: Fraction, position: int, tied: int) -> None:
    assert tied_comparison(epsilon, position, tied=tied) > ALARM


@pytest.mark.parametrize(("epsilon", "position", "tied"), TIES)
def test_sabotage_ties_broken_otherwise_are_rejected(
    epsilon: Fraction, position: int, tied: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, outcomes = noise._below, itertools.cycle([True, False])
    monkeypatch.setattr(noise, "_below", lambda *_, **__: next(outcomes))
    assert tied_comparison(epsilon, position, tied=tied) < ALARM
    monkeypatch.setattr(noise, "_below", lambda *args, **_: honest(*args, tied=0))
    assert tied_comparison(epsilon, position, tied=tied) < ALARM
