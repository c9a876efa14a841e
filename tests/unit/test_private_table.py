"""PINQ's verbs over private rows: what each charges, what noise it asks for, and what it answers."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from dpcube.core import private_table
from dpcube.core.domain import Integer
from dpcube.core.errors import BudgetError, InputError, SourceError
from dpcube.core.sources import CsvDialect
from dpcube.curator import PrivateTable

ROWS = pa.table({"age": [31, 42, 44, 90, None], "pay": [1.5, -2.5, 100.0, 7.0, 3.0]})
TENTH = Fraction(1, 10)


class Recorded:
    """Noise that is always 1000, and keeps a record of what it is asked for."""

    private = True

    def __init__(self) -> None:
        self.drawn: list[tuple[Fraction, int]] = []

    def draw(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
        self.drawn.append((epsilon, size))
        return np.full(size, 1000, np.int64)


@pytest.fixture
def noise(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    recorded = Recorded()
    monkeypatch.setattr(private_table, "ExactNoise", lambda: recorded)
    return recorded


def test_a_count_is_charged_and_has_noise_of_its_epsilon(noise: Recorded) -> None:
    table = PrivateTable(ROWS, epsilon=1)
    assert table.noisy_count(epsilon="0.1") == 1005
    assert noise.drawn == [(TENTH, 1)]
    assert table.remaining == Fraction(9, 10)


def test_a_sum_is_clamped_and_has_noise_as_large_as_a_row_can_be(noise: Recorded) -> None:
    table = PrivateTable(ROWS, epsilon=1)
    assert table.noisy_sum("pay", epsilon="0.1", bound=4) == 1000 + 2 - 3 + 4 + 4 + 3
    assert table.noisy_sum("pay", epsilon="0.1", bound=6, step=0.5) == Fraction(1000 + 3 - 5 + 6 + 6 + 6) / 2
    assert table.noisy_sum("pay", epsilon="0.1", bound=1, step=Fraction(1, 3)) == Fraction(1003, 3)
    assert noise.drawn == [(TENTH / 4, 1), (TENTH / 6, 1), (TENTH, 1)]
    assert table.remaining == Fraction(7, 10)
    exact = table.noisy_sum("pay", epsilon="0.1", bound=1, step=0.1)  # the step that was written, not its nearest float
    assert (exact, type(exact)) == (Fraction(1003, 10), Fraction)


def test_parts_are_those_declared_and_cost_what_the_dearest_costs(noise: Recorded) -> None:
    table = PrivateTable(ROWS, epsilon=1)
    parts = table.partition(Integer("age", 0, 49, width=10))
    assert list(parts) == list(Integer("age", 0, 49, width=10).labels())
    assert [part.noisy_count(epsilon=TENTH) for part in parts.values()] == [1000, 1000, 1000, 1001, 1002]
    assert {part.remaining for part in parts.values()} == {table.remaining} == {Fraction(9, 10)}
    *_, last = parts.values()
    assert last.noisy_sum("pay", epsilon=TENTH, bound=2) == 1000 - 2 + 2
    assert table.remaining == Fraction(8, 10)
    deeper = last.partition(Integer("age", 40, 49, width=5))
    assert [part.noisy_count(epsilon=TENTH) for part in deeper.values()] == [1002, 1000]
    assert table.remaining == Fraction(7, 10)


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda table: table.noisy_count(epsilon="0.3"), BudgetError),
        (lambda table: table.noisy_sum("pay", epsilon="0.3", bound=1), BudgetError),
        (lambda table: table.noisy_count(epsilon=0), InputError),
        (lambda table: table.noisy_sum("pay", epsilon="1e-6", bound=10**4), InputError),
        (lambda table: table.noisy_sum("pay", epsilon="0.1", bound=0), SourceError),
        (lambda table: table.noisy_sum("other", epsilon="0.1", bound=1), SourceError),
        (lambda table: table.noisy_sum("pay", epsilon="0.1", bound=1, step=0), SourceError),
    ],
)
def test_what_is_refused_is_neither_charged_nor_drawn(
    ask: Callable[[PrivateTable], object], error: type[Exception], noise: Recorded
) -> None:
    table = PrivateTable(ROWS, epsilon="0.2")
    with pytest.raises(error):
        ask(table)
    assert (noise.drawn, table.remaining) == ([], Fraction(1, 5))


def test_the_dialect_of_a_csv_file_is_passed_on(tmp_path: Path, noise: Recorded) -> None:
    path = tmp_path / "t.csv"
    path.write_text("age;pay\n1;2\n3;4\n")
    table = PrivateTable(path, epsilon=1, csv=CsvDialect(delimiter=";"))
    assert table.noisy_sum("pay", epsilon=TENTH, bound=10) == 1006


def test_a_query_is_passed_on_and_needs_a_database() -> None:
    with pytest.raises(SourceError, match="query needs the address of a database"):
        PrivateTable(ROWS, epsilon=1, query="SELECT 1")


def test_the_noise_is_the_real_one() -> None:
    table = PrivateTable(ROWS, epsilon=50)
    assert len({table.noisy_count(epsilon=Fraction(1, 1000)) for _ in range(20)}) > 1
