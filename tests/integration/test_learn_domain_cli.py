"""The command `dpcube domain --epsilon`: from a table to a learnt domain to a release of one ledger."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dpcube import Domain
from dpcube.cli import commands
from dpcube.core.ledger.ledger import Ledger


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    rows = "".join(f"{('north', 'south')[i % 3 > 0]},{i % 90}\n" for i in range(9000))
    (tmp_path / "visits.csv").write_text(f"ward,age\n{rows}")
    return tmp_path / "visits.csv"


def run(*words: object) -> Result:
    return CliRunner().invoke(commands, list(map(str, words)))


def test_a_table_is_explained_learnt_and_released(visits: Path) -> None:
    asked = ("domain", visits, "--epsilon", "1")
    explained = run(*asked, "--explain")
    assert "Nothing was read or spent" in explained.output
    assert not visits.with_suffix(".ledger").exists()
    made = run(*asked, "--total", "2", "-o", visits.with_name("d.toml"))
    assert made.exit_code == 0, made.output
    assert "next run: dpcube check" in made.output
    domain = Domain.load(visits.with_name("d.toml"))
    assert domain.names == ("ward", "age")
    assert set(domain["ward"].labels()[:2]) == {"north", "south"}
    released = run(
        "release", visits, "--domain", visits.with_name("d.toml"), "--epsilon", "1", "-o", visits.with_name("r.dpcube")
    )
    assert released.exit_code == 0, released.output
    assert Ledger(visits.with_suffix(".ledger")).statement().remaining == 0
    assert run(*asked).exit_code != 0  # learnt once, and nothing is left


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--explain",), "--explain goes with --epsilon"),
        (("--known", "ward=x.txt"), "--known goes with --epsilon"),
        (("--epsilon", "1", "--from-data"), "--from-data cannot be combined with --epsilon"),
        (("--epsilon", "1", "--no-ledger", "--total", "1"), "--no-ledger cannot be combined"),
        (("--epsilon", "1", "--known", "ward"), "--known takes COLUMN=FILE"),
        (("--epsilon", "1", "-o", "nowhere/d.toml"), "cannot be written"),
    ],
)
def test_options_that_do_not_go_together_are_refused(visits: Path, words: tuple[str, ...], message: str) -> None:
    refused = run("domain", visits, *words)
    assert refused.exit_code != 0
    assert message in f"{refused.output}{refused.exception}"
    assert not visits.with_suffix(".ledger").exists()


def test_without_a_ledger_a_release_asks_for_a_signature(visits: Path) -> None:
    place = visits.with_name("d.toml")
    (visits.with_name("wards.txt")).write_text("north\nsouth\n")
    known = f"ward={visits.with_name('wards.txt')}"
    assert run("domain", visits, "--epsilon", "1", "--no-ledger", "--known", known, "-o", place).exit_code == 0
    words = ("release", visits, "--domain", place, "--epsilon", "1", "-o", visits.with_name("r.dpcube"))
    assert "has no charge for that" in f"{run(*words).exception}"
    assert "name that ledger" in f"{run(*words, '--no-ledger').exception}"
    text = place.read_text()
    place.write_text(text.replace("format = 1\n", 'format = 1\nsigned_public_by = "me"\n', 1))
    assert run(*words).exit_code == 0
