"""The public code of texts: prefix-free, alike on every machine, and inverted by its decoder."""

import random
from fractions import Fraction
from itertools import pairwise

import pytest

from dpcube.core.text_code import MAX_OCTETS, NULL, TextCode

CODE, KNOWN = TextCode(), TextCode([f"ward {i}" for i in range(1000)])
WORDS = ["Private", "Never-married", "Self-emp-not-inc", "?", "10th", "Hämäläinen", "ICD-10 F32.1", "a, b", "x/y", NULL]


@pytest.mark.parametrize("text", [*WORDS, "-", " ", "a ", "female-", "Ward 7", "ward 7", "é" * 50, "\x00\n", "MALE"])
def test_a_text_is_the_one_that_its_codeword_denotes(text: str) -> None:
    for code in (CODE, KNOWN):
        word = code.codeword(text)
        assert word is not None
        assert code.decoded(*word) == text


@pytest.mark.parametrize(
    "text",
    [" ".join(["applicable"] * 20), " ".join(["applicable"] * 30), "a " * 50_000, "\ud800", "x\udcff", "é" * 101],
)
def test_a_text_that_no_codeword_denotes_has_none(text: str) -> None:
    """Shown for a row and never without one, it would tell that the row is there."""
    for code in (CODE, KNOWN):
        assert code.codeword(text) is None


def test_a_text_has_a_codeword_if_and_only_if_it_is_read_back() -> None:
    drawn = random.Random(7)
    words = ["male", "other", "-", " ", "never", "Private", "x\ud800", "ß", "work"]
    for _ in range(400):
        text = drawn.choice(["", " ", "-"]).join(drawn.choices(words, k=drawn.randrange(1, 60)))
        word = CODE.codeword(text)
        assert word is None or CODE.decoded(*word) == text


def test_random_texts_and_codewords_are_inverted() -> None:
    drawn = random.Random(5)
    for _ in range(300):
        text = "".join(
            chr(drawn.choice((drawn.randrange(32, 127), drawn.randrange(1, 0xD800))))
            for _ in range(drawn.randrange(1, 9))
        )
        assert CODE.decoded(*(CODE.codeword(text) or (0, 0))) == text
    for bits in range(1, 60):
        number = drawn.randrange(1 << bits)
        text_found = CODE.decoded(bits, number)
        if text_found is not None:
            assert CODE.codeword(text_found) == (bits, number)


def test_codewords_are_prefix_free_and_meet_kraft() -> None:
    """Texts of one byte, of two letters, and words: no codeword begins another, and Kraft's sum is below 1."""
    letters = "abcdefghijklmnopqrstuvwxyzABC019-_ ?"
    texts = {*map(chr, range(1, 128)), *(a + b for a in letters for b in letters), *WORDS, "male", "Male", "MALE"}
    for code in (CODE, KNOWN):
        words = [code.codeword(text) or (0, 0) for text in texts]
        starts = sorted((Fraction(number, 1 << bits), Fraction(1, 1 << bits)) for bits, number in words)
        assert all(low + width <= following for (low, width), (following, _) in pairwise(starts))
        assert sum(width for _, width in starts) < 1


def test_the_code_is_the_same_everywhere() -> None:
    """Golden codewords, in integers: with a float anywhere they would differ between machines."""
    found = {text: CODE.codeword(text) for text in ("Private", "Never-married", "Mxqj", "Hämäläinen", NULL)}
    assert found == GOLDEN


GOLDEN = {
    "Private": (11, 108),
    "Never-married": (24, 1299004),
    "Mxqj": (56, 50765030818091172),
    "Hämäläinen": (17, 59856),
    NULL: (7, 1),
}


def test_known_and_common_values_have_fewer_bits() -> None:
    def bits(code: TextCode, text: str) -> int:
        return (code.codeword(text) or (10**9, 0))[0]

    assert bits(KNOWN, "ward 7") <= 10 + 3 < bits(CODE, "ward 7")
    assert bits(CODE, "Private") < bits(CODE, "Schneider") < bits(CODE, "Schnxider") < 8 * len("Schnxider")
    assert bits(CODE, NULL) < 9


def test_a_long_text_has_no_codeword() -> None:
    assert CODE.codeword("x" * (MAX_OCTETS + 1)) is None
    assert KNOWN.codeword("x" * (MAX_OCTETS + 1)) is None
