"""The exact audit of sparse histograms over texts, and for each way to break them a gate it does not pass.

Noise at epsilon a has the law of whole powers of q = exp(-a), which is taken to be a rational number. A cell that is
not shown has any noise below a bound: that tail is one outcome with its exact probability. So the probability of what
is shown is a rational number, nothing is sampled or rounded, and a bound exp(a) is 1/q.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from checks import ALARM, Values, two_sided, union
from scipy import stats

from dpcube.core import sparse_histogram
from dpcube.core.empty_cells import binomial_bounds, drawn_cells, inverted
from dpcube.core.errors import BudgetError
from dpcube.core.noise import ExactNoise
from dpcube.core.randomness import RandomWords
from dpcube.core.sparse_histogram import ExactTexts, Shown, SparseHistogram, threshold
from dpcube.core.text_code import TextCode

ROOT = Fraction(9, 10)
RATIO = ROOT**9
"""exp(-a) of honest noise; at 10/9 of epsilon it is ROOT^10."""
HONEST = Fraction(3)
LEAST = 1
"""threshold(2, HONEST)."""
TEXTS = ("a", "b")
LOWEST, HIGHEST = -4, 3  # of noise that is told apart; all below LOWEST is one outcome
Counts = tuple[int, ...]
Output = tuple[Shown, ...]


class TwoBits(TextCode):
    """Two texts of two bits each, and codewords that no text has."""

    def codeword(self, text: str) -> tuple[int, int]:
        return 2, TEXTS.index(text)

    def decoded(self, bits: int, number: int) -> str | None:
        return TEXTS[number] if bits == 2 and number < len(TEXTS) else None


class Told:
    """Noise that was told beforehand, draw after draw; it keeps at what epsilon it was drawn."""

    private = False

    def __init__(self, *values: Values) -> None:
        self.values, self.epsilons = list(values), list[Fraction]()

    def draw(self, epsilon: Fraction, size: int) -> Values:
        self.epsilons.append(epsilon)
        drawn = self.values.pop(0)
        assert drawn.size == size
        return drawn


def ratio(epsilon: Fraction) -> Fraction:
    power = 9 * epsilon / HONEST
    assert power.denominator == 1
    return ROOT ** int(power)


def mass(z: int, q: Fraction) -> Fraction:
    """The probability of noise z, or of all noise of LOWEST and less."""
    return q ** abs(z) / (1 + q) * (1 if z == LOWEST else 1 - q)


def law(make: Callable[..., SparseHistogram], counts: Counts, *, ignored: int = 0) -> dict[Output, Fraction]:
    """Return the probability of everything that can be shown, up to counts that the noise told here reaches."""
    occupied = [(text, count) for text, count in zip(TEXTS, counts, strict=True) if count > ignored]
    found: dict[Output, Fraction] = defaultdict(Fraction)
    for told in itertools.product(range(LOWEST, HIGHEST + 1), repeat=len(occupied)):
        # Of a codeword without a text, or of a text with noise of its own, all that reaches the threshold is alike.
        taken = {text for text, _ in occupied}
        outcomes = [(None, 0, 1, 2) if text not in taken else (None, 0) for text in TEXTS]
        for more in itertools.product(*outcomes, (None, 0)):
            reached = [number for number, above in enumerate(more) if above is not None]
            above = np.array([g for g in more if g is not None], np.int64)
            noise = Told(np.array(told, np.int64), *([above] if reached else []))
            texts = ExactTexts([t for t, _ in occupied], np.array([c for _, c in occupied], np.int64), ignored=ignored)
            made = make(
                texts,
                TwoBits(),
                HONEST,
                noise=noise,
                empty=lambda bits, *_, reached=reached: reached if bits == 2 else [],
            )
            shown = tuple(made.heavy())
            q = ratio(noise.epsilons[0])
            probability = math.prod((mass(z, q) for z in told), start=Fraction(1))
            for g, outcome in zip(more, [*outcomes, (None, 0)], strict=True):
                reaching = RATIO**LEAST / (1 + RATIO)
                one = reaching if len(outcome) == 2 else reaching * RATIO ** (g or 0) * (1 - RATIO)
                probability *= 1 - reaching if g is None else one
            found[shown] += probability
    return found


def worst_ratio(make: Callable[..., SparseHistogram], counts: Counts, *, ignored: int = 0) -> Fraction | None:
    """Return the largest ratio of probabilities over all tables with one row more; None if a zero is among them."""
    before, worst = law(make, counts, ignored=ignored), Fraction(1)
    for at in range(len(counts)):
        more = tuple(count + (i == at) for i, count in enumerate(counts))
        after = law(make, more, ignored=ignored)
        for shown in {*before, *after}:
            # Counts are told apart up to this in both tables; beyond, noise was cut off.
            if any(one.noisy_count > LEAST + 2 for one in shown):
                continue
            one, other = before.get(shown, Fraction(0)), after.get(shown, Fraction(0))
            if not one or not other:
                return None
            worst = max(worst, one / other, other / one)
    return worst


@pytest.fixture(autouse=True)
def _two_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_histogram, "MAX_BITS", 2)


TABLES: list[Counts] = [(0, 0), (1, 0), (2, 1), (3, 0)]


@pytest.mark.parametrize("counts", TABLES)
def test_no_row_changes_the_law_by_more_than_epsilon(counts: Counts) -> None:
    assert threshold(2, HONEST) == LEAST
    assert worst_ratio(SparseHistogram, counts) == 1 / RATIO


@pytest.mark.parametrize("counts", [(1, 2), (2, 0)])
def test_rows_that_do_not_count_cost_no_more(counts: Counts) -> None:
    assert worst_ratio(SparseHistogram, counts, ignored=1) == 1 / RATIO


class FalseBesideOccupied(SparseHistogram):
    """A false value is shown beside the same text of the table."""

    def _has(self, text: str) -> bool:  # noqa: ARG002
        return False


class NoFalseValues(SparseHistogram):
    """Only texts of the table are ever shown."""

    def _false(self) -> list[Shown]:
        return []


class LessNoise(SparseHistogram):
    """Noise of nine tenths of its scale."""

    def _occupied(self) -> list[Shown]:
        texts, counts = self._texts._hold()
        noisy = counts + self._noise.draw(self._epsilon * 10 / 9, len(counts))
        return [Shown(texts[i], int(noisy[i])) for i in range(len(texts)) if noisy[i] >= LEAST]


class HigherForMore(SparseHistogram):
    """The threshold goes up with the number of different texts."""

    def _occupied(self) -> list[Shown]:
        shown = super()._occupied()
        return [one for one in shown if one.noisy_count >= LEAST + len(self._texts._hold()[0]) - 1]


class ExactCounts(SparseHistogram):
    """A read that is not paid for: texts of two rows and more are shown whatever the noise."""

    def _occupied(self) -> list[Shown]:
        texts, counts = self._texts._hold()
        sure = [Shown(text, LEAST) for text, count in zip(texts, counts, strict=True) if count >= 2]
        return [*[one for one in super()._occupied() if one.text not in {s.text for s in sure}], *sure]


class Twice(SparseHistogram):
    """Each row counts twice."""

    def _occupied(self) -> list[Shown]:
        texts, counts = self._texts._hold()
        noisy = 2 * counts + self._noise.draw(self._epsilon, len(counts))
        return [Shown(texts[i], int(noisy[i])) for i in range(len(texts)) if noisy[i] >= LEAST]


@pytest.mark.parametrize(
    ("twin", "counts"),
    [
        (FalseBesideOccupied, (0, 0)),
        (NoFalseValues, (0, 0)),
        (LessNoise, (2, 1)),
        (HigherForMore, (2, 0)),
        (ExactCounts, (1, 0)),
        (Twice, (1, 0)),
    ],
)
def test_sabotage_loses_more(twin: type[SparseHistogram], counts: Counts) -> None:
    worst = worst_ratio(twin, counts)
    assert worst is None or worst > 1 / RATIO


def test_texts_are_measured_once_and_hidden() -> None:
    texts = ExactTexts(["a"], np.array([7654321]), ignored=0)
    made = SparseHistogram(texts, TwoBits(), Fraction(1), empty=lambda *_: [])
    assert [one.text for one in made.heavy()] == ["a"]
    with pytest.raises(BudgetError, match="measured once"):
        made.heavy()
    assert "7654321" not in repr(texts) + repr(made)
    assert repr(texts) == "<exact texts, hidden>"
    with pytest.raises(AttributeError):
        texts.ignored = 3


# Cells that are drawn at once have the law of cells that are drawn one by one.

EPSILON = Fraction(3, 10)


@pytest.mark.parametrize(("bits", "least"), [(1, 1), (3, 2), (6, 5), (20, 60)])
def test_the_number_of_cells_is_enclosed_tightly(bits: int, least: int) -> None:
    """Against the binomial law by scipy, which is right to 10 digits."""
    p = math.exp(-0.3 * least) / (1 + math.exp(-0.3))
    for k in range(4):
        low, high = binomial_bounds(bits, least, EPSILON, k, 96)
        assert 0 <= high - low <= 2
        assert low / 2**96 == pytest.approx(stats.binom.cdf(k, 2**bits, p), rel=1e-9)


def test_the_enclosure_of_one_cell_is_exact() -> None:
    """Of two cells P(none) is (1 - p)^2 and P(at most 1) is 1 - p^2: certified in fractions, at 400 bits."""
    from dpcube.core.noise import exp_bounds

    for least in (1, 4):
        a, b = exp_bounds(EPSILON * least, 600), exp_bounds(EPSILON, 600)
        p = [
            Fraction(a[0], 2**600) / (1 + Fraction(b[1], 2**600)),
            Fraction(a[1], 2**600) / (1 + Fraction(b[0], 2**600)),
        ]
        for k, exact in ((0, [(1 - x) ** 2 for x in p]), (1, [1 - x * x for x in p])):
            low, high = binomial_bounds(1, least, EPSILON, k, 400)
            assert Fraction(low, 2**400) <= min(exact)
            assert Fraction(high, 2**400) >= max(exact)
            assert high - low <= 2


class Words:
    """Words that were told beforehand."""

    def __init__(self, *words: int) -> None:
        self.words = list(words)

    def fill(self, words: Any) -> None:
        words[:] = [self.words.pop(0) for _ in range(words.size)]


def test_a_tie_is_resolved_with_further_words() -> None:
    half = [0x80000000, 0xFFFFFFFF]

    def cdf(k: int, precision: int) -> tuple[int, int]:
        return (1 << precision - 1) + (1 << precision - 32), (1 << precision - 1) + (1 << precision - 32) + 1

    assert inverted(Words(0x7FFFFFFF), cdf, 5) == 0
    assert inverted(Words(*half), cdf, 1) == 0
    words = Words(0x80000001, 0, 1)
    assert inverted(words, cdf, 1) == 1
    assert words.words == []


def numbers_and_places(draw: Callable[[], list[int]], runs: int, bits: int, least: int) -> float:
    """Test how many cells are drawn, and how often each is."""
    p = math.exp(-0.3 * least) / (1 + math.exp(-0.3))
    drawn = [draw() for _ in range(runs)]
    sizes = np.bincount([len(cells) for cells in drawn], minlength=4)
    counts = [*sizes[:3], sizes[3:].sum()]
    chances = [*stats.binom.pmf(range(3), 2**bits, p), stats.binom.sf(2, 2**bits, p)]
    of_cells = np.bincount([cell for cells in drawn for cell in cells], minlength=2**bits)
    return union(
        *(two_sided(stats.binom(runs, c), n) for c, n in zip(chances, counts, strict=True)),
        two_sided(stats.binom(runs, p), of_cells),
    )


def test_cells_drawn_at_once_have_the_law_of_all_cells() -> None:
    source, dense = RandomWords(), ExactNoise()
    assert numbers_and_places(lambda: drawn_cells(source, 4, 8, EPSILON), 8000, 4, 8) > ALARM
    one_by_one = lambda: np.flatnonzero(dense.draw(EPSILON, 16) >= 8).tolist()  # noqa: E731
    assert numbers_and_places(one_by_one, 8000, 4, 8) > ALARM


def test_cells_of_another_threshold_or_place_are_noticed() -> None:
    source = RandomWords()
    assert numbers_and_places(lambda: drawn_cells(source, 4, 9, EPSILON), 8000, 4, 8) < ALARM
    assert numbers_and_places(lambda: [c | 1 for c in drawn_cells(source, 4, 8, EPSILON)], 8000, 4, 8) < ALARM
