"""Features: what is alike is alike on both sides, and what is missing or a dummy holds for nothing."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcube.core.arrays import Ints
from dpcube.link.features import Side, compared_text, feature_key, raw_features, side_features, written_texts
from dpcube.link.limits import MAX_FEATURE_NUMBER
from dpcube.link.program import check_features, matches
from dpcube.link.rules import MatchingRules

ALL_KINDS = """
threshold = {}
[[compare]]
column = "name"
kind = "text"
similar = 0.7
[[compare]]
column = "n"
kind = "number"
tolerance = {}
[[compare]]
column = "code"
kind = "exact"
"""
Records = list[tuple[str | None, float | None, str | None]]


def matrix(rules: MatchingRules, records: Records, side: Side) -> Ints:
    """The feature matrix of some records, none of them a dummy."""
    columns = [np.ones((len(records), 1), np.int64)]
    for place, rule in enumerate(rules.rules):
        given = [record[place] for record in records]
        numbers = np.array([np.nan if not isinstance(v, float) else v for v in given], np.float64)
        texts = [v if isinstance(v, str) else None for v in given]
        made, there = raw_features(rule, texts, numbers, feature_key(rules))
        columns.append(side_features(rule, made, there, side))
    return np.concatenate(columns, axis=1)


def pairs(text: str, left: Records, right: Records) -> list[list[bool]]:
    rules = MatchingRules.loads(text)
    one, other = matrix(rules, left, "listener"), matrix(rules, right, "connector")
    return matches(rules.program, one, other).tolist()  # type: ignore[no-any-return]


def test_texts_are_alike_without_case_accents_blanks_and_marks() -> None:
    assert compared_text("  Mc-Donald's  É") == "mcdonaldse"
    assert compared_text("ΣΊΣΥΦΟΣ") == compared_text("σίσυφος")
    assert compared_text("--- ") == compared_text("") == compared_text(None) == ""


@pytest.mark.parametrize("threshold", [1, 2, 3])
def test_what_is_missing_on_either_side_or_both_holds_for_nothing(threshold: int) -> None:
    """Also with the largest tolerance, at which all numbers that are there match."""
    text = ALL_KINDS.format(threshold, 10**8)
    nothing: Records = [(None, None, None), ("", float("nan"), ""), (" - ", None, "'")]
    something: Records = [("ann", 1e8, "a"), ("ann", -1e8, "a")]
    assert not np.any(pairs(text, nothing, nothing))
    assert not np.any(pairs(text, nothing, something))
    assert not np.any(pairs(text, something, nothing))
    assert np.all(pairs(text, [("Ann", 0.0, "A")], something))


def test_numbers_match_up_to_the_tolerance_and_no_further() -> None:
    text = 'threshold = 1\n[[compare]]\ncolumn = "n"\nkind = "number"\ntolerance = 0.5\nstep = 0.25'
    rules = MatchingRules.loads(text)

    def numbers(values: list[float], side: Side) -> Ints:
        made, there = raw_features(rules.rules[0], (), np.array(values), feature_key(rules))
        return np.concatenate(
            [np.ones((len(values), 1), np.int64), side_features(rules.rules[0], made, there, side)], axis=1
        )

    found = matches(rules.program, numbers([10.0], "listener"), numbers([9.25, 9.5, 10.0, 10.5, 10.75], "connector"))
    assert found.tolist() == [[False, True, True, True, False]]


def test_a_typo_matches_and_another_name_does_not() -> None:
    text = 'threshold = 1\n[[compare]]\ncolumn = "name"\nkind = "text"\nsimilar = 0.6'
    found = pairs(text, [("catherine", None, None)], [(n, None, None) for n in ("cathrine", "Katherine", "wolfgang")])
    assert found == [[True, True, False]]


def test_the_key_and_the_name_of_a_comparison_change_the_bits() -> None:
    one = MatchingRules.loads('threshold = 1\n[[compare]]\ncolumn = "a"\nkind = "text"')
    two = MatchingRules.loads('threshold = 1\nkey = "k"\n[[compare]]\ncolumn = "a"\nkind = "text"')
    three = MatchingRules.loads('threshold = 1\n[[compare]]\ncolumn = "b"\nkind = "text"')
    made = [raw_features(r.rules[0], ["miller"], np.zeros(0), feature_key(r))[0].tolist() for r in (one, two, three)]
    assert made[0] != made[1]
    assert made[0] != made[2]


@given(
    records=st.lists(st.tuples(st.none() | st.text(), st.none() | st.floats(), st.none() | st.text()), max_size=6),
)
@settings(deadline=None)
def test_whatever_a_row_holds_its_features_are_inside_the_bounds(records: Records) -> None:
    """So that no row decides whether a run fails."""
    rules = MatchingRules.loads(ALL_KINDS.format(2, 3))
    inside = [(a, None if b is None or abs(b) > 1e300 else b, c) for a, b, c in records]
    for side in ("listener", "connector"):
        check_features(rules.program, matrix(rules, inside, side))


def test_marks_of_other_scripts_are_letters_and_selectors_are_not() -> None:
    """Vowel signs of Indic scripts do not combine with a class of their own: Mc (ka with aa) and Mn (ka with u)."""
    for text in ("\u0915\u093e", "\u0915\u0941"):
        assert compared_text(text) == text
    assert compared_text("a\ufe0fb\U000e0100") == "ab"
    assert compared_text("e\u0301") == "e"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("0", "1970-01-01"),
        ("-1", "1969-12-31 23:59:59"),
        ("12.5", "12.5"),
        ("one", "one"),
        ("9" * 20, "9" * 20),
        ("9" * 21, "9" * 21),
        ("0" * 20 + "1", "0" * 20 + "1"),
        ("0" * 19 + "1", "1970-01-01 00:00:01"),
        (str(2**63), str(2**63)),
        (str(2**63 + 5), str(2**63 + 5)),
    ],
)
def test_a_time_is_written_as_it_would_be_in_a_file(text: str, read: str) -> None:
    assert written_texts([text], "date", "timestamp[s]") == [read]
    assert written_texts([text], "text", "timestamp[s]") == [text]


def test_the_largest_number_of_nanoseconds_is_a_time() -> None:
    """-2^63 is no time, and 2^63 - 1 is the last."""
    assert written_texts([str(2**63 - 1)], "date", "timestamp[ns]") == ["2262-04-11 23:47:16.854775807"]
    assert written_texts([str(2**62)], "date", "timestamp[ns]") == ["2116-02-20 23:53:38.427387904"]


def test_what_is_no_text_is_missing() -> None:
    for held in ("text", "real", "date"):
        assert written_texts([b"x", 3, None, True, ""], held) == [None, None, None, None, ""]


STEPS = """
threshold = 2
[[compare]]
column = "n"
kind = "number"
tolerance = 1
[[compare]]
column = "code"
kind = "exact"
"""


def test_features_of_numbers_and_hashes_are_whole_and_within_their_bounds() -> None:
    number, exact = MatchingRules.loads(STEPS).rules
    made, there = raw_features(number, (), np.array([2.0, np.nan, -7.0, 1e300, -1e300]), b"key")
    assert made[:, 0].tolist()[:3] == [2, 0, -7]
    assert made[3:, 0].tolist() == [MAX_FEATURE_NUMBER, -MAX_FEATURE_NUMBER]
    assert there.tolist() == [True, False, True, True, True]
    hashed, there = raw_features(exact, ["one", "One ", "", None, "--"], np.zeros(0), b"key")
    assert there.tolist() == [True, True, False, False, False]
    assert hashed[0] == hashed[1] > 0
    assert hashed[2:].tolist() == [[0]] * 3
    many, _ = raw_features(exact, [str(i) for i in range(200)], np.zeros(0), b"key")
    assert 2**61 < many.max() < 2**62  # two bits of 64 are left free


@pytest.mark.parametrize(("side", "number", "hashed"), [("listener", -(2**28), -1), ("connector", 2**28, -2)])
def test_what_is_missing_is_each_sides_own(side: Side, number: int, hashed: int) -> None:
    rules = MatchingRules.loads(STEPS).rules
    nothing, something = np.array([[5], [6]]), np.array([False, True])
    assert side_features(rules[0], nothing, something, side).tolist() == [[number], [6]]
    assert side_features(rules[1], nothing, something, side).tolist() == [[hashed], [6]]


def test_days_are_whole_steps() -> None:
    rule = MatchingRules.loads(DAYS).rules[0]
    made, _ = raw_features(rule, (), np.array([20_000.0, 3.0]), b"key")
    assert made.tolist() == [[20_000], [3]]


DAYS = """
threshold = 1
[[compare]]
column = "d"
kind = "date"
days = 2
"""


@pytest.mark.parametrize("grams", [2, 3])
def test_bits_of_a_text_are_those_of_its_grams_with_its_ends_marked(grams: int) -> None:
    """Worked out once more, from the definition: so many marks at both ends that each letter is in as many grams."""
    text = f"threshold = 1\n[[compare]]\ncolumn = 'name'\nkind = 'text'\nbits = 64\ngrams = {grams}\nhashes = 3\n"
    (rule,) = MatchingRules.loads(text).rules
    made, there = raw_features(rule, ["Ada", "", None], np.zeros(0), b"key")
    marks = "\x02" * (grams - 1)
    marked = f"{marks}ada{marks}"
    bits = np.zeros(64, np.int64)
    for start in range(3 + grams - 1):
        for turn in range(3):
            said = f"6 name {turn} {marked[start : start + grams]}".encode(errors="replace")
            bits[int.from_bytes(hashlib.blake2b(said, digest_size=8, key=b"key").digest(), "big") % 64] = 1
    assert made.tolist() == [bits.tolist(), [0] * 64, [0] * 64]
    assert there.tolist() == [True, False, False]
