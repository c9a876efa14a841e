"""Features: what is alike is alike on both sides, and what is missing or a dummy holds for nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcube.arrays import Ints
from dpcube.link.features import Side, compared_text, feature_key, raw_features, side_features
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
