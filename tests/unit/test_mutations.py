"""The faults that `make mutants` plants: those that once survived the tests are among them."""

from collections import Counter

import pytest
from mutants import interval, sampled
from mutations import mutants_of
from scipy.stats import binom

SOURCE = '''
def limited(turn: int, most: int = 3) -> str:
    """Return SQL: a < b."""
    if turn < 0:
        msg = f"{turn} < 0"
        raise ValueError(msg)
    return f"CASE WHEN turn <= {most} THEN true END"


def sealed(before: str, entry: list[str]) -> list[str]:
    charge(before)
    return [before, *(part for part in entry if part)]
'''


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("turn < 0", "turn <= 0"),
        ("raise ValueError(msg", "pass"),
        ("3", "4"),
        ("3", "2"),
        ("charge(before", "pass"),
        ("[before, *(part for part in entry if part)]", "[*(part for part in entry if part)]"),
        ("part for part in entry if part", "(part for part in entry)"),
    ],
)
def test_a_fault_is_planted(before: str, after: str) -> None:
    assert (before, after) in {(mutant.before, mutant.after) for mutant in mutants_of("m", SOURCE)}


def test_words_of_sql_are_changed_and_words_for_people_are_not() -> None:
    sources = [mutant.source for mutant in mutants_of("m", SOURCE)]
    assert any("CASE WHEN turn < {most}" in source for source in sources)
    assert any("THEN false END" in source for source in sources)
    assert all("Return SQL: a < b." in source and '{turn} < 0"' in source for source in sources)


def test_names_of_types_are_for_the_type_checker() -> None:
    source = 'Bounds = Callable[[int, str], tuple[int, int]]\nElement = TypeVar("Element", int, float)\n'
    assert mutants_of("m", source) == []
    assert len(mutants_of("m", "MOST = 2\nlast, PART = 3, 4\n")) == 8


def test_every_mutant_differs_and_can_be_read() -> None:
    mutants = mutants_of("m", SOURCE)
    assert len({mutant.source for mutant in mutants} | {SOURCE}) == len(mutants) + 1
    for mutant in mutants:
        compile(mutant.source, "m", "exec")


def test_a_sample_is_the_same_every_time_and_has_some_of_each_module() -> None:
    mutants = [*mutants_of("src/a.py", "x = 1 + 2 * 3 - 4\n"), *mutants_of("src/b.py", "y = 1 < 2\n")]
    chosen = sampled(mutants, 3)
    assert Counter(mutant.module for mutant in chosen) == {"src/a.py": 3, "src/b.py": 3}
    assert chosen == sampled(mutants, 3)
    assert set(chosen) <= set(mutants)
    assert sampled(mutants, 100) == mutants


@pytest.mark.parametrize(("killed", "tried"), [(0, 7), (7, 7), (3, 7), (38, 40), (400, 401)])
def test_the_interval_of_a_score_is_exact(killed: int, tried: int) -> None:
    """At each end of the interval, what was seen or worse has a chance of 1 in 40."""
    low, high = interval(killed, tried)
    assert low == 0 if killed == 0 else binom.sf(killed - 1, tried, low) == pytest.approx(1 / 40)
    assert high == 1 if killed == tried else binom.cdf(killed, tried, high) == pytest.approx(1 / 40)


def test_an_alias_of_a_type_is_no_fault() -> None:
    source = "Place = tuple[int, ...]\n_Axes = tuple[int, ...]\n_MOST = 3\n"
    assert {mutant.line for mutant in mutants_of("m", source)} == {3}
