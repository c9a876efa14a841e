"""The faults that `make mutants` plants: those that once survived the tests are among them."""

import pytest
from mutations import mutants_of

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


def test_every_mutant_differs_and_can_be_read() -> None:
    mutants = mutants_of("m", SOURCE)
    assert len({mutant.source for mutant in mutants} | {SOURCE}) == len(mutants) + 1
    for mutant in mutants:
        compile(mutant.source, "m", "exec")
