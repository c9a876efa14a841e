"""One release with everything that can be asked for: each part of the request reaches where it is needed."""

import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpcube import Domain, Integer, Release
from dpcube.core import feasible, gate
from dpcube.core.boxes import MAX_LABELLED_CELLS
from dpcube.core.epsilon import MIN_EPSILON
from dpcube.core.errors import DomainError, InputError, MemoryLimitError, SourceError
from dpcube.core.ledger.ledger import Ledger
from dpcube.core.request import PrivacyUnit, Range
from dpcube.core.sources import CsvDialect
from dpcube.curator import explain, publish
from dpcube.curator.publishing import count
from dpcube.measurements import file as release_file
from dpcube.strategies import Cells
from dpcube.strategies.strategy import STARTING
from dpcube.testing import SilentNoise

PUBLISH = sys.modules["dpcube.curator.publishing"]
DOMAIN = Domain((Integer(name="x", min=0, max=4),))
SEMICOLONS = CsvDialect(delimiter=";")
PERIOD = ("day", 1, 3)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Person 1 has four rows of x = 0, of which one is of day 9; four rows of x = 1 are nobody's."""
    rows = ["p;day;x", *(f"1;{day};0" for day in (1, 2, 3, 9)), *(f";{day};1" for day in (1, 2, 3, 9))]
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "t.csv").write_text("\n".join(rows) + "\n")
    return tmp_path / "d" / "t.csv"


def test_every_part_of_a_request_reaches_the_rows_the_ledger_and_the_file(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[Fraction, int]] = []

    class Recorded(SilentNoise):
        private = True

        def draw(self, epsilon: Fraction, size: int) -> Any:
            drawn.append((epsilon, size))
            return super().draw(epsilon, size)

    monkeypatch.setattr(gate, "ExactNoise", Recorded)
    said: list[str] = []
    release = publish(
        table,
        DOMAIN,
        epsilon="1/2",
        strategy="cells",
        total=3,
        unit="p",
        max_rows=2,
        null_unit="each",
        period=PERIOD,
        purpose="all of it",
        csv=SEMICOLONS,
        save_to=tmp_path / "r.dpcube",
        progress=said.append,
    )
    assert drawn == [(Fraction(1, 4), 5)]
    assert release.count("x = 0").value == 2
    assert release.count("x = 1").value == 3
    state = Ledger(table.with_suffix(".ledger")).statement()
    [charge] = state.charges
    assert (state.total, state.spent, state.unit) == (Fraction(3), Fraction(1, 2), "p")
    assert (charge.epsilon, charge.strategy, charge.purpose) == (Fraction(1, 2), "cells", "all of it")
    assert charge.period is not None
    assert (charge.period.column, charge.period.start, charge.period.stop) == ("day", 1, 4)
    assert charge.digest == release.digest == Release.open(tmp_path / "r.dpcube").digest
    made = release.provenance
    assert (made.unit, made.max_rows, made.period, made.ledger) == ("p", 2, "day from 1 to 3", True)
    assert said == ["counting the rows", "measuring", "writing"]


def test_what_is_not_asked_for_is_not_there(table: Path) -> None:
    said: list[str] = []
    release = publish(table, DOMAIN, epsilon=1, strategy="cells", csv=SEMICOLONS, progress=said.append)
    state = Ledger(table.with_suffix(".ledger")).statement()
    assert (state.total, state.unit, state.charges[0].period) == (Fraction(1), None, None)
    assert (release.provenance.unit, release.provenance.period) == (None, None)
    assert said == ["counting the rows", "measuring", "finishing"]


def test_the_unit_and_the_period_choose_rows_for_counting_and_in_the_sql() -> None:
    rows = pa.table({"p": [1, 1, 1, None, None], "day": [1, 2, 9, 1, 9], "x": [0, 0, 0, 1, 1]})

    def counts(**more: Any) -> list[int]:
        return [int(cell) for cell in count(rows, DOMAIN, **more)[:2]]

    within = Range.from_request(PERIOD, DOMAIN, None)
    assert counts() == [3, 2]
    assert counts(rows_of=within) == [2, 1]
    assert counts(unit=PrivacyUnit("p", 1)) == [1, 0]
    assert counts(unit=PrivacyUnit("p", 2, "each")) == [2, 2]
    assert counts(unit=PrivacyUnit("p", 1, "each"), rows_of=within) == [1, 1]


def test_sql_is_told_of_a_table_as_it_would_be_read(table: Path) -> None:
    assert "count(*)" in explain(table, DOMAIN, csv=SEMICOLONS, unit="p", period=PERIOD)
    lines = Domain(DOMAIN.attributes, multiline=True)
    assert "count(*)" in explain(table, lines, csv=SEMICOLONS)
    with pytest.raises(InputError, match="taken as it is, without SQL"):
        explain(np.zeros(5, np.int64), DOMAIN)


def test_a_query_reaches_the_source_which_refuses_it_if_it_is_no_database(table: Path) -> None:
    for ask in (
        lambda: publish(table, DOMAIN, epsilon=1, query="SELECT 1"),
        lambda: count(table, DOMAIN, query="SELECT 1"),
        lambda: explain(table, DOMAIN, query="SELECT 1"),
    ):
        with pytest.raises((InputError, SourceError), match="query needs the address"):
            ask()
    assert not table.with_suffix(".ledger").exists()


@pytest.mark.parametrize("more", [{"unit": "p"}, {"period": PERIOD}, {"unit": "p", "period": PERIOD}])
def test_an_array_has_no_rows_to_choose(more: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="has no rows to select by unit or period"):
        publish(np.zeros(5, np.int64), DOMAIN, epsilon=1, ledger=None, **more)


def test_two_that_make_ledgers_for_the_same_rows_at_once_do_not_both_draw(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While rows are counted another release makes the ledger of the directory that the table is in."""
    other = table.parent.with_suffix(".ledger")
    monkeypatch.setattr(gate, "ExactNoise", None)  # which nothing may draw

    def meanwhile(said: str) -> None:
        if said == "measuring":
            Ledger.create(other, total=Fraction(1))

    with pytest.raises(InputError, match=r"has the ledger .*, and this release would be charged to"):
        publish(table, DOMAIN, epsilon=1, strategy="cells", csv=SEMICOLONS, progress=meanwhile)
    for place in (other, table.with_suffix(".ledger")):
        assert Ledger(place).statement().spent == 0


def test_an_array_of_counts_is_let_go_once_it_is_counted() -> None:
    """A tool that prints the locals of frames shows it of no frame of ours, though the caller's own may hold it."""
    counts = np.arange(5)

    def fail(said: str) -> None:
        if said == "measuring":
            raise RuntimeError(said)

    with pytest.raises(RuntimeError, match="measuring") as caught:
        publish(counts, DOMAIN, epsilon=1, ledger=None, strategy="cells", progress=fail)
    frames = [entry.frame for entry in caught.traceback if "publishing.py" in str(entry.path)]
    assert frames
    assert not any(value is counts for frame in frames for value in frame.f_locals.values())


# What is refused before a row is read.


def test_an_epsilon_too_small_for_each_row_is_refused(table: Path) -> None:
    feasible.check_drawable(3 * MIN_EPSILON, 3)
    for epsilon, rows in ((MIN_EPSILON, 2), (3 * MIN_EPSILON, 4)):
        with pytest.raises(InputError, match=r"less than 0\.000001 a row"):
            feasible.check_drawable(epsilon, rows)
    with pytest.raises(InputError, match=r"less than 0\.000001 a row"):
        publish(table, DOMAIN, epsilon=MIN_EPSILON, unit="p", max_rows=2)


def test_a_domain_that_no_file_could_hold_is_refused(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_file, "MAX_DOMAIN_FILE", 10)
    with pytest.raises(DomainError, match="shorten it"):
        publish(table, DOMAIN, epsilon=1)
    assert not table.with_suffix(".ledger").exists()


def test_a_place_is_asked_for_the_room_of_a_file(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Path, int]] = []
    monkeypatch.setattr(PUBLISH, "check_writable", lambda path, *, needed: asked.append((path, needed)))
    wide = Domain((Integer(name="x", min=0, max=9999),))
    peak = Cells().peak_bytes(wide.shape)
    publish(table, wide, epsilon=1, strategy="cells", csv=SEMICOLONS, save_to=str(tmp_path / "r.dpcube"))
    assert asked == [(tmp_path / "r.dpcube", (peak - STARTING) // 4)]


def test_a_part_goes_to_the_total_which_is_off_by_more_than_its_error_once_in_twenty() -> None:
    assert Fraction(1, 17) == feasible.TOTAL_SHARE
    for epsilon, rows in ((Fraction(1, 20), 1), (Fraction(1, 20), 7), (Fraction(1, 1000), 1)):
        ratio = float(np.exp(-float(epsilon) / rows))
        error = feasible.error_of_total(epsilon, rows)
        beyond = [2 * ratio ** (t + 1) / (1 + ratio) for t in (error - 1, error)]
        assert beyond[0] > 0.05 >= beyond[1]


@pytest.mark.parametrize("peak", [1, 10_000])
def test_a_cube_fits_if_its_counting_and_its_strategy_do(peak: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting takes 28 bytes for each of five cells, twice."""
    needed = max(peak, 280)
    monkeypatch.setattr(feasible, "available_bytes", lambda: needed)
    feasible.check_fits(DOMAIN, peak_bytes=peak)
    monkeypatch.setattr(feasible, "available_bytes", lambda: needed - 1)
    with pytest.raises(MemoryLimitError, match=r"has 5 cells.* about 4 cells fit here\. Make it 2 times smaller"):
        feasible.check_fits(DOMAIN, peak_bytes=peak)
    monkeypatch.setattr(feasible, "available_bytes", lambda: 1)
    with pytest.raises(MemoryLimitError, match=r"about 1 cells fit here\. Make it 5 times smaller"):
        feasible.check_fits(DOMAIN, peak_bytes=peak)


@pytest.mark.parametrize("available", [None, 2**60])
def test_there_are_no_more_cells_than_labels(available: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feasible, "available_bytes", lambda: available)
    feasible.check_fits(Domain((Integer(name="x", min=1, max=MAX_LABELLED_CELLS),)), peak_bytes=1)
    with pytest.raises(MemoryLimitError, match="about 2,147,483,647 cells"):
        feasible.check_fits(Domain((Integer(name="x", min=0, max=MAX_LABELLED_CELLS),)), peak_bytes=1)
