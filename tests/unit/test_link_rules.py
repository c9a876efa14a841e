"""Rules: what a file says becomes the program that both parties run; what is wrong is said in one line."""

from fractions import Fraction
from pathlib import Path

import pytest

from dpcube.core.errors import DpcubeError
from dpcube.link.program import Comparison
from dpcube.link.rules import DateRule, MatchingRules, NumberRule, TextRule

WHOLE = """
threshold = 5
key = "agreed between the two"

[[compare]]
column = "surname"
kind = "text"
similar = 0.75
bits = 64
grams = 3
hashes = 4
weight = 2

[[compare]]
column = "born"
kind = "date"
days = 31
format = "%d.%m.%Y"

[[compare]]
column = "weight_kg"
name = "weight"
kind = "number"
tolerance = 0.5
step = 0.25

[[compare]]
column = "postcode"
kind = "exact"
"""


def test_a_file_becomes_a_program(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(WHOLE)
    rules = MatchingRules.load(path)
    assert rules.program.comparisons == (
        Comparison("text", 64, 2, dice=(3, 4)),
        Comparison("number", 1, 1, tolerance=31),
        Comparison("number", 1, 1, tolerance=2),
        Comparison("exact", 1, 1),
    )
    assert rules.program.threshold == 5
    text, born, weight, _ = rules.rules
    assert isinstance(text, TextRule)
    assert (text.grams, text.hashes, text.similar) == (3, 4, Fraction(3, 4))
    assert isinstance(born, DateRule)
    assert isinstance(weight, NumberRule)
    assert (weight.name, weight.column, weight.tolerance) == ("weight", "weight_kg", Fraction(1, 2))


def test_how_far_matching_values_lie_apart_is_told_by_name() -> None:
    rules = MatchingRules.loads(WHOLE)
    assert [rules.reach_along(name) for name in ("born", "weight", "surname", "postcode", "other")] == [
        31,
        0.75,
        0,
        0,
        0,
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('column = "surname"', 'column = "family"\nname = "surname"'),
        ('column = "weight_kg"', 'column = "mass"'),
        ('format = "%d.%m.%Y"', 'format = ["%Y%m%d", "iso"]'),
    ],
)
def test_names_of_columns_and_how_they_are_written_are_ones_own(old: str, new: str) -> None:
    assert MatchingRules.loads(WHOLE.replace(old, new)).digest == MatchingRules.loads(WHOLE).digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("threshold = 5", "threshold = 4"),
        ("agreed", "Agreed"),
        ("0.75", "0.76"),
        ("bits = 64", "bits = 65"),
        ("grams = 3", "grams = 2"),
        ("hashes = 4", "hashes = 3"),
        ("weight = 2", "weight = 3"),
        ("days = 31", "days = 30"),
        ("tolerance = 0.5", "tolerance = 0.25"),
        ("step = 0.25", "step = 0.125"),
        ('kind = "exact"', 'kind = "text"'),
        ('name = "weight"', 'name = "mass"'),
    ],
)
def test_whatever_decides_a_match_changes_the_digest(old: str, new: str) -> None:
    assert old in WHOLE
    assert MatchingRules.loads(WHOLE.replace(old, new)).digest != MatchingRules.loads(WHOLE).digest


ONE = 'threshold = 1\n[[compare]]\ncolumn = "x"\nkind = "{}"\n{}'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("threshold = ", "not a TOML file"),
        ("", "rules need a threshold"),
        ("threshold = 1", "1 to 32 [[compare]] tables, got 0"),
        ("threshold = 1\ncompare = 3", "comparisons must be declared as [[compare]] tables"),
        (
            "threshhold = 1",
            "no key 'threshhold'; its keys are 'threshold', 'key', 'compare'; did you mean 'threshold'?",
        ),
        ("threshold = 1\n[[compare]]\nkind = 'exact'", "comparison 1 needs column"),
        ("threshold = 1\n[[compare]]\ncolumn = 3\nkind = 'exact'", "comparison 1 needs column"),
        (
            ONE.format("txt", ""),
            "kind must be one of 'exact', 'number', 'date', 'text', got 'txt'; did you mean 'text'?",
        ),
        (ONE.format("exact", "similar = 0.8"), "comparison 1 ('x') of kind exact has no key 'similar'"),
        (ONE.format("text", "simlar = 0.8"), "did you mean 'similar'?"),
        (ONE.format("text", "similar = 0"), "similar must be above 0 and at most 1"),
        (ONE.format("text", "similar = 1.01"), "similar must be above 0 and at most 1"),
        (ONE.format("text", "similar = 0.12345"), "of up to 3 decimals"),
        (ONE.format("text", "similar = true"), "similar must be a number"),
        (ONE.format("text", "similar = nan"), "similar must be a number"),
        (ONE.format("text", "similar = inf"), "similar must be a number"),
        (ONE.format("text", "bits = 5000"), "bits must be a whole number from 8 to 4096, got 5000"),
        (ONE.format("text", "grams = 0"), "grams must be a whole number from 1 to 4, got 0"),
        (ONE.format("text", "hashes = 2.5"), "hashes must be a whole number from 1 to 16, got 2.5"),
        (ONE.format("number", "tolerance = 0.3"), "tolerance must be a multiple of step 1"),
        (ONE.format("number", "tolerance = -1"), "tolerance must be a multiple of step"),
        (ONE.format("number", "step = 0"), "step must be from 1e-9 to 1e9"),
        (ONE.format("number", "tolerance = 1e300"), "tolerance must be a number"),
        (ONE.format("number", "tolerance = 1e-300\nstep = 1e-308"), "step must be from 1e-9 to 1e9"),
        (ONE.format("date", "days = -1"), "days must be a whole number from 0 to 100,000, got -1"),
        (ONE.format("date", "days = '3'"), "days must be a whole number"),
        (ONE.format("date", "format = 3"), "format must be a text in quotes or a list of texts"),
        (ONE.format("date", "format = '%Q'"), "unknown directive %Q"),
        (ONE.format("exact", "weight = 0"), "weight must be a whole number from 1 to 1000, got 0"),
        (ONE.format("exact", "weight = 1.5"), "weight must be a whole number from 1 to 1000, got 1.5"),
        (ONE.format("exact", "name = ''"), "name must be a text that is not empty"),
        (
            ONE.format("exact", "").replace("threshold = 1", "threshold = 2"),
            "threshold must be a whole number from 1 to 1",
        ),
        (ONE.format("exact", "").replace("threshold = 1", "threshold = true"), "threshold must be a whole number"),
        (ONE.format("exact", "") + ONE.format("exact", "").partition("\n")[2], "two comparisons are named 'x'"),
        ("a" + ".a" * 50_000 + " = 1", "has dotted keys"),
        ("threshold = 1\nkey = 3\n[[compare]]\ncolumn = 'x'\nkind = 'exact'", "key must be a text"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(DpcubeError) as refused:
        MatchingRules.load(path)
    assert said in str(refused.value)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)
