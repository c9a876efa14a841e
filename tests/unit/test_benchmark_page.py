"""The page of recorded comparisons follows from the rows, failures and losses too."""

import benchmark
import pytest
from recorded import without_line

from dpcube.research.comparison.page import Loss, RecordedComparison, benchmark_page, losses
from dpcube.research.rivals import LISTED

HEAD = (
    "table,rows,epsilon,method,made_by,shown,questions,mean_abs,mean_abs_low,mean_abs_high,coverage,stated,seconds,"
    "peak_bytes,outcome\n"
)


def line(method: str, error: str, *, table: str = "t,", kind: str = "cells", outcome: str = "measured") -> str:
    measured = f"{error},0.95,1,0.5,1000" if outcome == "measured" else ",,,,,,"
    return f"{table},1,{method},release,,{kind},{measured},{outcome}\n"


ROWS = HEAD + "".join(
    (
        line("adaptive", "3,2.9,3.1"),
        line("hb", "2,1,2.95"),
        line("cells", "2.5,2,2.8"),
        line("adaptive", "3,2.9,3.1", table="t,9"),
        line("cells", "1.5,1,2", table="t,9"),
        line("dawa", "", table="t,9", kind="all", outcome="stopped after 2 s (1 of 3 draws)"),
        line("adaptive", "3,2.9,3.1", kind="ranges"),
        line("cells", "4,3,5", kind="ranges"),
        line("cells", "4,3,5", table="lost,"),
    )
)
MADE = RecordedComparison("some", "Some tables", "dpcube compare", "1 May 2026", 12.4, "a machine", "Python 3", ROWS)


def test_the_page_is_that_of_the_recorded_rows() -> None:
    page = (benchmark.ROOT / "docs" / "research" / "benchmark.md").read_text(encoding="utf-8")
    assert without_line(page) == benchmark_page(benchmark.recorded())
    for words in ("## What was run", "## What failed or was stopped", "## Where we lose", "commit ", "cores"):
        assert words in page


@pytest.mark.parametrize("run", benchmark.recorded(), ids=lambda run: run.name)
def test_every_method_has_a_row_wherever_it_was_run(run: RecordedComparison) -> None:
    assert run.command == f"dpcube compare {benchmark.RUNS[run.name][1]} --csv {run.name}.csv"
    settings: dict[tuple[str, str], set[str]] = {}
    for row in run.rows:
        settings.setdefault((row["table"], row["epsilon"]), set()).add(row["method"])
    assert len(settings) == (2 if run.name == "adult" else 12)
    assert all(methods == set(LISTED) for methods in settings.values())


def test_what_is_recorded_is_all_that_lies_there() -> None:
    names = {path.stem for path in benchmark.RECORDED.glob("*.csv")}
    assert names == {run.name for run in benchmark.recorded()} == set(benchmark.how_it_was_made())


def test_losses_name_the_best_other_method() -> None:
    found = losses(ROWS)
    assert found["t", "1"] == {"cells": Loss("hb", 1.5, apart=False), "ranges": None}
    assert found["t, 9 rows", "1"] == {"cells": Loss("cells", 2.0, apart=True)}
    assert found["lost", "1"]["cells"] == Loss("cells", float("inf"), apart=True)


def test_failures_and_losses_are_on_the_page() -> None:
    page = benchmark_page([MADE])
    assert "* Some tables: `dawa` stopped after 2 s (1 of 3 draws): t, 9 rows, epsilon 1." in page
    assert "9 rows, 1 of them not measured. a machine; Python 3." in page
    assert "`dpcube compare`" in page
    assert "| t | 1 |  | hb 1.50 |" in page
    assert "| t, 9 rows | 1 |  | **cells 2.00** |" in page
    assert "| lost | 1 |  | **cells, ours not measured** |" in page
    assert "another method errs less in 3 of 4 settings, apart in 2." in page
    assert "| dawa | - | - | not measured | - | release | - |" in page
    assert "Nothing." not in page


def test_without_failures_the_page_says_so() -> None:
    whole = HEAD + line("adaptive", "3,2,4") + line("cells", "4,3,5")
    page = benchmark_page([RecordedComparison("s", "S", "c", "d", 1, "m", "v", whole)])
    assert "## What failed or was stopped\n\nNothing.\n" in page
    assert "in 0 of 1 settings, apart in 0. The default errs 0.75 times as much as plain cells" in page
    assert "It takes 0.5 seconds in the median; 0 of 1 others take less." in page
