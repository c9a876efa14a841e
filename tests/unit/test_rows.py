"""What `Rows` answers of a small table whose every number is known."""

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpcube.core.domain import Attribute, Category, Date, Domain, Float, Integer
from dpcube.core.errors import MemoryLimitError, SourceError
from dpcube.core.sources import open_rows
from dpcube.core.sources.rows import Rows

AGE = Integer("age", 0, 9, width=5)
TEXTS = ["3", "3", "7.5", "", "x", None, "12", "inf", "nan", "-4"]
ROWS = open_rows(pa.table({"age": TEXTS, "who": [*"aabbccddee"]}))
REAL = Float("age", 0, 9, width=3)


def fates(**found: int) -> dict[str, int]:
    return {**dict.fromkeys(("kept", "null", "nan", "infinite", "unknown", "outside"), 0), **found}


def test_a_restriction_is_checked_when_it_is_made() -> None:
    for cells in ([2], [-1], [0, 5]):
        with pytest.raises(SourceError, match=r"attribute 'age' has no cell (2|-1|5); its cells are 0 to 1"):
            ROWS.restrict(AGE, cells)
    with pytest.raises(SourceError, match="has no column 'weight'"):
        ROWS.restrict(Integer("weight", 0, 9), [0])
    with pytest.raises(SourceError, match="restrict the rows before limiting them"):
        ROWS.limit("who", max_rows=1).restrict(AGE, [0])
    assert ROWS.restrict(AGE, [1]).count_cells(Domain(AGE)).tolist() == [0, 1]


def test_the_fate_of_each_row_and_how_many_count() -> None:
    who = Category("who", ["a", "b", "c"])
    found, every, counted = ROWS.outcomes(Domain(AGE, who))
    assert found[0] == fates(kept=3, null=1, nan=1, infinite=1, unknown=2, outside=2)
    assert found[1] == fates(kept=6, unknown=4)
    assert (every, counted) == (10, 3)


@pytest.mark.parametrize("limited", [False, True])
def test_what_attributes_would_read_of_a_column_however_often_it_has_a_text(*, limited: bool) -> None:
    rows = ROWS.limit("who", max_rows=10) if limited else ROWS
    found = rows.read_as([AGE, Category("age", ["3", "x"])])
    assert found == [
        fates(kept=3, null=1, nan=1, infinite=1, unknown=2, outside=2),
        fates(kept=3, null=1, unknown=6),
    ]


@pytest.mark.parametrize(
    ("texts", "expected"), [(["3", "12.5", "x", None], False), (["3", "2.5"], True), (["3", "9"], False)]
)
def test_fractions_are_those_that_lie_inside(texts: list[str | None], expected: bool) -> None:  # noqa: FBT001
    rows = open_rows(pa.table({"age": texts}))
    assert rows.has_fractions(REAL) is expected
    assert rows.has_fractions(Date("age", "2026-01-01", "2026-01-02")) is False


@pytest.mark.parametrize(
    ("attribute", "dropped"),
    [
        (AGE, {"", "x", "12", "inf", "nan", "-4"}),
        (Integer("age", 0, 9, unknown="cell", nan="cell"), {"12", "inf", "-4"}),
        (Integer("age", 0, 9, outside="clip", infinite="cell"), {"", "x", "nan"}),
        (Integer("age", 0, 9, unknown="cell", nan="cell", outside="cell", infinite="cell"), set()),
        (Category("age", ["3"]), {"7.5", "", "x", "12", "inf", "nan", "-4"}),
    ],
)
def test_texts_that_are_not_counted(attribute: Attribute, dropped: set[str]) -> None:
    found = ROWS.dropped_texts(attribute, most=20)
    assert sorted(found) == sorted(dropped)
    assert len(ROWS.dropped_texts(attribute, most=2)) == min(2, len(dropped))


def test_lines_are_known_of_files_of_text_alone(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("age,who\n1,a\n\n2\n3,c,d\n")
    assert open_rows(tmp_path / "t.csv").lines() == 3
    assert ROWS.lines() is None


def test_distinct_values_are_texts_and_few_or_none() -> None:
    assert ROWS.distinct("age", most=9) == sorted(text for text in {*TEXTS} if text is not None)
    assert ROWS.distinct("age", most=8) == sorted(text for text in {*TEXTS} if text is not None)
    assert ROWS.distinct("age", most=7) is None
    assert ROWS.different("age") == (8, 9)


@pytest.mark.parametrize(
    ("attribute", "texts", "ends"),
    [
        (AGE, TEXTS, (3, 7)),
        (Integer("age", 0, 9, outside="clip", infinite="clip"), TEXTS, (3, 7)),
        (REAL, TEXTS, (3.0, 7.5)),
        (AGE, ["x", None, "12"], None),
        (Date("age", "2026-01-01", "2026-12-31"), ["2026-02-03", "2025-01-01", "2026-02-01"], 2),
    ],
)
def test_the_extremes_are_of_what_lies_inside(attribute: Attribute, texts: list[Any], ends: Any) -> None:
    expected = (date(2026, 2, 1), date(2026, 2, 3)) if ends == 2 else ends
    found = open_rows(pa.table({"age": texts})).extremes(attribute)
    assert found == expected
    assert expected is None or [*map(type, found)] == [*map(type, expected)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("attribute", "texts", "edges"),
    [
        (REAL, ["0", "1", "2", "3", "4", "5", "6", "7", "100", "x"], [0.0, 4.0, 7.0]),
        (REAL, ["1", "1", "1", "5"], [1.0, 5.0]),
        (REAL, ["1", "1"], None),
        (REAL, ["x"], None),
        (Integer("age", 0, 9, outside="clip"), ["-5", "1", "4", "9", "30"], [1, 4, 9]),
        (AGE, ["1", "1"], [1]),
        (AGE, ["1", "4", "9"], [1, 4, 9]),
    ],
)
def test_quantiles_are_of_what_lies_inside(attribute: Attribute, texts: list[str], edges: list[float] | None) -> None:
    assert open_rows(pa.table({"age": texts})).quantiles(attribute, 2) == edges


def test_records_are_the_rows_that_count_with_their_texts_and_numbers() -> None:
    born = Date("born", "2026-01-01", "2026-12-31")
    table = {"age": ["3", "8", "x", "4"], "name": ["ann", "b" * 2000, "c", None], "born": ["2026-01-02", "x", "", None]}
    rows: Rows = open_rows(pa.table(table))
    found = rows.records(Domain(AGE), ["name", "born"], [born, REAL])
    order = np.argsort(found["x1"])
    day = date(2026, 1, 2).toordinal() - date(1970, 1, 1).toordinal()
    assert found["cell"][order].tolist() == [0, 0, 1]
    assert [text if isinstance(text, str) else None for text in found["a0"][order]] == ["ann", None, "b" * 200]
    assert [text if isinstance(text, str) else None for text in found["a1"][order]] == ["2026-01-02", None, "x"]
    assert np.ma.filled(found["x0"][order], -1).tolist() == [day, -1, -1]
    assert found["x1"][order].tolist() == [3.0, 4.0, 8.0]


def test_records_of_limited_units_are_chosen_among_those_that_count() -> None:
    table = {"ward": ["x", "a"] * 20, "who": ["u"] * 40, "born": ["2026-01-02"] * 40, "n": [3] * 40}
    rows = open_rows(pa.table(table)).limit("who", max_rows=5)
    ward, born = Category("ward", ["a", "b"]), Date("born", "2026-01-01", "2026-12-31")
    found = rows.records(Domain(ward), ["n"], [Integer("n", 0, 9), born])
    assert found["cell"].tolist() == [0] * 5
    assert found["a0"].tolist() == ["3"] * 5
    assert found["x0"].tolist() == [3.0] * 5
    assert found["x1"].tolist() == [20_455.0] * 5  # days since 1970


@pytest.mark.parametrize("error", [MemoryError, ValueError])
def test_a_cube_that_memory_does_not_hold_is_refused(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: object) -> None:
        raise error

    monkeypatch.setattr("dpcube.core.sources.rows.np.zeros", no_room)
    with pytest.raises(MemoryLimitError, match="the domain has 2 cells, too many for the memory of this machine"):
        ROWS.count_cells(Domain(AGE))
