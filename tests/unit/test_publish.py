"""Publishing: every kind of table, the one safe order, and nothing told but noise.

At epsilon 50 a count comes out exact but for a chance of 4e-22, so what noise hides can be compared as it is.
"""

import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from dpcube import Category, Domain, Integer, Release
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter, every_cell
from dpcube.core.errors import BudgetError, DomainError, InputError, MemoryLimitError, ReleaseFileError, SourceError
from dpcube.core.gate import Gate
from dpcube.core.ledger.ledger import Ledger
from dpcube.core.noise import ExactNoise
from dpcube.core.sources import CsvDialect, open_rows
from dpcube.curator import explain, publish
from dpcube.measurements import Transcript
from dpcube.strategies import Cells, TwoPhase
from dpcube.strategies.strategy import Parameter

DOMAIN = Domain((Integer(name="age", min=20, max=49, width=10), Category(name="sex", values=("F", "M"))))
AGES = [21, 29, 30, 31, 44, 44, 44, 45, 49, 20, 19, 50, 33]  # 19 and 50 are outside and dropped
SEXES = ["F", "F", "M", "M", "M", "F", "M", "M", "F", "F", "F", "M", "X"]  # X is unknown and dropped
EXACT = [[3, 0], [0, 2], [2, 3]]
TABLE = pa.table({"age": AGES, "sex": SEXES, "name": [f"zebra {i}" for i in range(13)]})
LOUD = 50

Write = Callable[[Path], object]


def csv_file(directory: Path, *, separator: str = ",", name: str = "t.csv") -> Path:
    lines = [separator.join(["age", "sex"]), *(separator.join(map(str, row)) for row in zip(AGES, SEXES, strict=True))]
    (directory / name).write_text("\n".join(lines) + "\n")
    return directory / name


def parquet_file(directory: Path, table: pa.Table = TABLE) -> Path:
    pq.write_table(table, directory / "t.parquet")
    return directory / "t.parquet"


SOURCES: dict[str, Write] = {
    "csv": csv_file,
    "csv as text": lambda directory: str(csv_file(directory)),
    "tsv": lambda directory: csv_file(directory, separator="\t", name="t.tsv"),
    "parquet": parquet_file,
    "arrow": lambda _: TABLE,
    "arrow batch": lambda _: TABLE.to_batches()[0],
    "arrow stream": lambda _: TABLE.to_reader(),
    "pandas": lambda _: TABLE.to_pandas(),
    "polars": lambda _: pl.from_arrow(TABLE),
    "polars lazy": lambda _: pl.from_arrow(TABLE).lazy(),  # type: ignore[union-attr]
    "array": lambda _: np.array(EXACT),
    "array of floats": lambda _: np.array(EXACT, float),
    "array in another order": lambda _: np.asfortranarray(np.array(EXACT, np.int16)),
}
EMPTY: dict[str, Write] = {
    "csv": lambda directory: _text(directory / "t.csv", "age,sex\n"),
    "csv without a line end": lambda directory: _text(directory / "t.csv", "age,sex"),
    "parquet": lambda directory: parquet_file(directory, TABLE[:0]),
    "arrow": lambda _: TABLE[:0],
    "pandas": lambda _: pd.DataFrame({"age": pd.Series([], dtype="int64"), "sex": pd.Series([], dtype="str")}),
    "polars": lambda _: pl.DataFrame(schema={"age": pl.Int64, "sex": pl.String}),
    "array": lambda _: np.zeros((3, 2), np.int64),
}


def _text(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@dataclass
class Account:
    """A ledger in a file, and everything that was done to it or drawn, in order."""

    path: Path
    events: list[tuple[Any, ...]] = field(default_factory=list)

    def names(self) -> list[str]:
        return [event[0] for event in self.events]


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Account:
    account = Account(tmp_path / "t.ledger")
    charge, complete = Ledger.charge_parts, Ledger.complete_parts

    def recorded_charge(ledger: Ledger, parts: list[tuple[str, Fraction]], **purpose: Any) -> list[int]:
        account.events.append(("charge", *(epsilon for _, epsilon in parts)))
        return charge(ledger, parts, **purpose)

    def recorded_completion(ledger: Ledger, numbers: list[int], digest: str) -> None:
        account.events.append(("complete", digest))
        complete(ledger, numbers, digest)

    monkeypatch.setattr(Ledger, "charge_parts", recorded_charge)
    monkeypatch.setattr(Ledger, "complete_parts", recorded_completion)

    class Recorded:
        private = True

        def draw(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
            if account.path.exists():
                assert Ledger(account.path).statement().spent > 0, "noise was drawn before the charge was on disk"
            account.events.append(("draw", epsilon, size))
            return ExactNoise().draw(epsilon, size)

    monkeypatch.setattr("dpcube.core.gate.ExactNoise", Recorded)
    return account


@pytest.mark.parametrize("kind", SOURCES)
def test_every_kind_of_table_is_published(kind: str, tmp_path: Path) -> None:
    release = publish(SOURCES[kind](tmp_path), DOMAIN, epsilon=LOUD, strategy="cells", ledger=None)
    assert release.cells().tolist() == EXACT
    assert release.count(age=(40, 49), sex="M").value == 3


@pytest.mark.parametrize("kind", EMPTY)
@pytest.mark.parametrize("strategy", ["cells", "dpcube"])
def test_an_empty_table_is_published_like_any_other(kind: str, strategy: str, tmp_path: Path) -> None:
    source = EMPTY[kind](tmp_path)
    assert not publish(source, DOMAIN, epsilon=LOUD, strategy=strategy, ledger=None).cells().any()
    quiet = publish(source, DOMAIN, epsilon="0.001", strategy=strategy, ledger=None)
    assert quiet.cells("cells").any()  # six noises of scale 1000 or more are all 0 with probability 1e-20


@pytest.mark.parametrize("kind", EMPTY)
def test_an_empty_table_stays_nearly_empty_by_default(kind: str, tmp_path: Path) -> None:
    release = publish(EMPTY[kind](tmp_path), DOMAIN, epsilon=LOUD, ledger=None)
    assert release.cells().sum() < 0.5
    assert release.cells().min() >= 0


@pytest.mark.parametrize("form", [str, Path])
def test_the_domain_may_be_the_path_of_its_file(form: Callable[[Path], str | Path], tmp_path: Path) -> None:
    DOMAIN.save(tmp_path / "visits.toml")
    path = form(tmp_path / "visits.toml")
    assert publish(TABLE.to_pandas(), path, epsilon=1, ledger=None).domain == DOMAIN
    assert explain(TABLE.to_pandas(), path) == explain(TABLE.to_pandas(), DOMAIN)
    with pytest.raises(DomainError, match=r"cannot read .*no such\.toml: No such file"):
        publish(TABLE.to_pandas(), form(tmp_path / "no such.toml"), epsilon=1, ledger=None)


@pytest.mark.parametrize("call", [partial(publish, epsilon=1), explain])
def test_what_is_no_domain_is_refused_without_a_look_inside(call: Callable[..., object], tmp_path: Path) -> None:
    DOMAIN.save(tmp_path / "visits.toml")
    for wrong in (pd.DataFrame({"age": [12345]}), pl.DataFrame({"age": [12345]}), None, {"age": 12345}, b"visits.toml"):
        with pytest.raises(InputError) as caught:
            call(tmp_path / "visits.toml", wrong)  # as if the two arguments were exchanged
        expected = "domain must be a Domain or the path of a domain file such as 'visits.toml', got a "
        assert str(caught.value) == expected + type(wrong).__name__


def test_the_default_strategy_is_fitted_to_the_attributes() -> None:
    release = publish(TABLE, DOMAIN, epsilon=1, ledger=None)
    assert release.provenance.strategy == "adaptive"
    assert release.provenance.parameters == {"queries": "mixed, groups"}  # ages have an order, sexes have none


def test_dpcube_learns_boxes() -> None:
    release = publish(TABLE, DOMAIN, epsilon=LOUD, ledger=None, strategy="dpcube")
    assert release.provenance.strategy == "dpcube"
    assert release.transcript.boxes is not None
    assert release.transcript.cells is not None
    # Half of 50 is left for the boxes: their noise is 0 but for a chance of 1e-10.
    assert release.count().value == pytest.approx(10)


def test_a_release_says_where_it_comes_from() -> None:
    strategy = TwoPhase(share=Fraction(1, 4), max_boxes=3)
    made = publish(TABLE, DOMAIN, epsilon=0.1, ledger=None, strategy=strategy).provenance
    assert made.epsilon == Fraction(1, 10)  # a float is read by its decimal text
    assert made.strategy == "dpcube"
    assert made.parameters == strategy.parameters()
    assert made.parameters["share"] == "1/4"
    assert made.private
    assert not made.ledger
    assert made.library.startswith("dpcube ")


@pytest.mark.parametrize(("table", "rows"), [(TABLE, 13), (TABLE[:0], 0)])
def test_a_release_file_tells_nothing_else_of_the_rows(table: pa.Table, rows: int, tmp_path: Path) -> None:
    """But for the noisy counts and their digests, the file of any table is the file of an empty one."""
    told = []
    for name, source in (("a", table), ("b", TABLE[:0])):
        publish(source, DOMAIN, epsilon=1, ledger=None, strategy="cells").save(tmp_path / name)
        with zipfile.ZipFile(tmp_path / name) as archive:
            manifest = json.loads(archive.read("manifest.json"))
            told.append((manifest.pop("members").keys(), manifest, archive.read("domain.toml")))
    assert told[0] == told[1]


def test_progress_is_told_what_and_never_how_much() -> None:
    said: list[list[str]] = [[], []]
    publish(TABLE, DOMAIN, epsilon=1, ledger=None, progress=said[0].append)
    publish(TABLE[:0], DOMAIN, epsilon=1, ledger=None, progress=said[1].append)
    assert said[0] == said[1]
    assert len(said[0]) >= 2
    assert not any(character.isdigit() for text in said[0] for character in text)


# What is refused, and when.


def test_a_draft_is_refused_until_it_is_signed() -> None:
    draft = Domain(DOMAIN.attributes, drafted_from_data=True)
    with pytest.raises(DomainError, match="signed_public_by"):
        publish(TABLE, draft, epsilon=LOUD, ledger=None, strategy="cells")
    with pytest.raises(DomainError, match="signed_public_by"):
        publish("/there/is/no/such.parquet", draft, epsilon=LOUD)  # refused before the table is looked for
    signed = Domain(DOMAIN.attributes, drafted_from_data=True, signed_public_by="A. Curator")
    assert publish(TABLE, signed, epsilon=LOUD, ledger=None, strategy="cells").cells().tolist() == EXACT


@pytest.mark.parametrize("strategy", ["cells", "dpcube"])
def test_a_cube_too_large_is_refused_before_anything_is_read(strategy: str, account: Account) -> None:
    domain = Domain((Integer(name="wide", min=0, max=2**30), Integer(name="narrow", min=0, max=99)))
    with pytest.raises(MemoryLimitError) as caught:
        publish("/there/is/no/such.parquet", domain, epsilon=1, strategy=strategy, ledger=account.path)
    line = str(caught.value)
    assert "107,374,182,500 cells" in line
    assert "wider bins" in line
    assert "'wide'" in line
    assert "times smaller" in line
    assert not account.path.exists()


def test_what_fits_depends_on_the_memory_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    cells, two_phase = (strategy.peak_bytes(DOMAIN.shape) for strategy in (Cells(), TwoPhase()))
    assert cells < two_phase
    monkeypatch.setattr("dpcube.core.feasible.available_bytes", lambda: two_phase - 1)
    publish(TABLE, DOMAIN, epsilon=1, ledger=None, strategy="cells")
    with pytest.raises(MemoryLimitError, match=r"about 5 cells fit here\. Make it 2 times smaller"):
        publish(TABLE, DOMAIN, epsilon=1, ledger=None, strategy="dpcube")


def test_no_memory_at_all_is_refused_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's page cache may fill its limit, and then none is free by its account."""
    monkeypatch.setattr("dpcube.core.feasible.available_bytes", lambda: 0)
    with pytest.raises(MemoryLimitError):
        publish(TABLE, DOMAIN, epsilon=1, ledger=None)


@pytest.mark.parametrize("strategy", ["cuboids", "fine_grid"])
def test_memory_that_the_rows_take_is_missed_before_the_charge(
    strategy: str, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = {"before": 2**40}
    monkeypatch.setattr("dpcube.core.memory.available_bytes", lambda: free.get("before", 0))
    with pytest.raises(MemoryLimitError, match=r"with the rows in memory, .* nothing was charged") as caught:
        publish(TABLE, DOMAIN, epsilon=1, strategy=strategy, ledger=account.path, progress=lambda _: free.clear())
    assert not any(character.isdigit() for character in str(caught.value))
    assert (account.events, account.path.exists()) == ([], False)


@pytest.mark.parametrize("strategy", ["cells", "cuboids", "fine_grid"])
@pytest.mark.parametrize("asked", [{"unit": "person"}, {"period": ("age", 20, 29)}], ids=["unit", "period"])
def test_an_array_of_counts_has_no_units_and_no_period(strategy: str, asked: dict[str, Any], account: Account) -> None:
    """To count it whole instead would protect nobody as it was asked to."""
    with pytest.raises(InputError, match="no rows to select by unit or period"):
        publish(np.array(EXACT), DOMAIN, epsilon=1, strategy=strategy, ledger=account.path, **asked)
    assert account.events == []


@pytest.mark.parametrize("epsilon", [0, -1, "zero", "1/0", 51, float("nan"), None])
def test_an_epsilon_that_cannot_be_is_refused(epsilon: Any, account: Account) -> None:
    with pytest.raises(InputError, match="epsilon"):
        publish(TABLE, DOMAIN, epsilon=epsilon, ledger=account.path)
    assert account.events == []


def test_an_unknown_strategy_is_refused_with_those_there_are() -> None:
    with pytest.raises(InputError, match="'adaptive', 'dpcube', 'cells'"):
        publish(TABLE, DOMAIN, epsilon=1, ledger=None, strategy="guess")


@pytest.mark.parametrize(
    "array",
    [np.zeros((2, 3)), np.array(EXACT) - 1, np.array(EXACT) + 0.5, np.full((3, 2), np.nan), np.full((3, 2), "7919")],
    ids=["shape", "negative", "fractions", "nan", "text"],
)
def test_arrays_that_are_no_counts_are_refused_without_saying_what_they_hold(
    array: NDArray[Any], account: Account
) -> None:
    with pytest.raises(SourceError) as caught:
        publish(array, DOMAIN, epsilon=1, ledger=account.path)
    assert "7919" not in str(caught.value)
    assert account.events == []


def test_a_table_that_cannot_be_read_is_refused_before_the_charge(tmp_path: Path, account: Account) -> None:
    for source in (tmp_path / "no.csv", object(), TABLE.drop_columns("sex"), _text(tmp_path / "t.parquet", "no")):
        with pytest.raises(SourceError):
            publish(source, DOMAIN, epsilon=1, ledger=account.path)
    assert account.events == []


# The order: charge, then noise, then completion.


def test_the_charge_comes_before_all_noise_and_the_completion_after(account: Account) -> None:
    release = publish(TABLE, DOMAIN, epsilon="1/10", strategy="dpcube", ledger=account.path)
    charge, cells, boxes, complete = account.events
    assert charge == ("charge", Fraction(1, 10))
    assert cells == ("draw", Fraction(1, 20), 6)
    assert boxes[:2] == ("draw", Fraction(1, 20))
    assert complete == ("complete", release.digest)
    assert release.provenance.ledger
    (entry,) = Ledger(account.path).statement().charges
    assert (entry.epsilon, entry.strategy, entry.digest) == (Fraction(1, 10), "dpcube", release.digest)


def test_a_refused_charge_draws_nothing(account: Account) -> None:
    publish(TABLE, DOMAIN, epsilon="1/5", ledger=account.path)
    account.events.clear()
    with pytest.raises(BudgetError, match="nothing was drawn"):
        publish(TABLE, DOMAIN, epsilon="1/1000", ledger=account.path)
    assert account.names() == []  # it is refused before the rows are counted
    assert Ledger(account.path).statement().spent == Fraction(1, 5)


class Overspending(Cells):
    """A strategy that asks for more than there is."""

    def run(self, counter: NoisyCounter) -> Transcript:
        every_cell(counter, BUDGET_UNITS // 2)
        return Cells().run(counter)


def test_a_job_that_fails_after_its_charge_is_never_completed(account: Account) -> None:
    """What was drawn stays paid for."""
    with pytest.raises(BudgetError):
        publish(TABLE, DOMAIN, epsilon=1, strategy=Overspending(), ledger=account.path)
    assert account.names() == ["charge", "draw"]
    state = Ledger(account.path).statement()
    assert state.spent == 1
    assert state.charges[0].digest is None


def test_without_a_ledger_the_release_says_so(account: Account) -> None:
    release = publish(TABLE, DOMAIN, epsilon=1, strategy="cells", ledger=None)
    assert account.events == [("draw", Fraction(1), 6)]
    assert not release.provenance.ledger


def test_a_place_that_cannot_be_written_is_refused_before_the_charge(account: Account, tmp_path: Path) -> None:
    (tmp_path / "there.dpcube").write_bytes(b"precious")
    for place in ("there.dpcube", "no/where.dpcube"):
        with pytest.raises(ReleaseFileError):
            publish(TABLE, DOMAIN, epsilon=1, ledger=account.path, save_to=tmp_path / place)
    assert account.events == []
    assert (tmp_path / "there.dpcube").read_bytes() == b"precious"


def test_a_unit_of_several_rows_is_drawn_at_its_share(account: Account) -> None:
    people = TABLE.append_column("person", pa.array(range(13)))
    release = publish(people, DOMAIN, epsilon=1, strategy="cells", unit="person", max_rows=4, ledger=account.path)
    assert account.events[:2] == [("charge", Fraction(1)), ("draw", Fraction(1, 4), 6)]
    assert release.transcript.epsilon_per_unit == Fraction(1, 4) / BUDGET_UNITS
    assert (release.provenance.unit, release.provenance.max_rows) == ("person", 4)


@pytest.mark.parametrize("strategy", ["cells", "cuboids", "fine_grid"])
def test_every_strategy_reads_lines_by_the_dialect(strategy: str, tmp_path: Path) -> None:
    semicolons = csv_file(tmp_path, separator=";")
    with pytest.raises(SourceError):
        publish(semicolons, DOMAIN, epsilon=LOUD, strategy=strategy, ledger=None)
    with pytest.raises(SourceError):
        explain(semicolons, DOMAIN)
    dialect = CsvDialect(delimiter=";")
    release = publish(semicolons, DOMAIN, epsilon=LOUD, strategy=strategy, ledger=None, csv=dialect)
    assert release.count().value == pytest.approx(10, abs=2)
    assert "string_split(line, ';')" in explain(semicolons, DOMAIN, csv=dialect)


@pytest.mark.parametrize("strategy", ["cells", "cuboids", "fine_grid"])
def test_every_gate_is_told_how_many_rows_a_unit_has(strategy: str) -> None:
    people = TABLE.append_column("person", pa.array(range(13)))
    release = publish(people, DOMAIN, epsilon=1, strategy=strategy, unit="person", max_rows=4, ledger=None)
    assert release.transcript.epsilon_per_unit == Fraction(1, 4) / BUDGET_UNITS


# Nothing about the rows shows.


def test_what_holds_rows_does_not_show_them() -> None:
    rows = pa.table({"age": [31] * 1009, "sex": ["zebra"] * 1009})
    gate = Gate(np.full((3, 2), 7919), Fraction(1))
    every_cell(gate, BUDGET_UNITS // 2)
    shown = [*map(repr, (gate, open_rows(rows))), *map(str, (gate, open_rows(rows)))]
    assert len(shown) == 4
    for text in shown:
        assert not any(secret in text for secret in ("1009", "zebra", "7919", "31"))
    assert repr(gate) == "<Gate over a private cube of shape (3, 2)>"


def test_the_release_is_what_the_analyst_holds(tmp_path: Path) -> None:
    release = publish(TABLE, DOMAIN, epsilon=LOUD, ledger=None, strategy="cells")
    release.save(tmp_path / "t.dpcube")
    again = Release.open(tmp_path / "t.dpcube")
    assert again.count(sex="F").value == 5
    assert again.digest == release.digest


@pytest.mark.parametrize("strategy", ["cells", "dpcube"])
def test_no_count_however_large_fails_a_release_that_was_charged(strategy: str) -> None:
    counts = np.array([[2**53, 0, 1], [0, 2**53, 2]])
    release = publish(counts, Domain.of_shape((2, 3)), epsilon=LOUD, ledger=None, strategy=strategy)
    assert release.count().value == pytest.approx(2**54, rel=1e-9)


class Wordy(Cells):
    """A strategy with more to say of itself than a manifest may hold."""

    def parameters(self) -> dict[str, Parameter]:
        return {"questions": "age >= 65; " * 2**17}


def test_parameters_that_no_file_could_hold_are_refused_before_anything_is_charged(tmp_path: Path) -> None:
    """A manifest of more than its bound would be written, and could never be read again."""
    with pytest.raises(InputError, match="declare fewer questions"):
        publish(np.array([3, 1, 4]), Domain.of_shape((3,)), epsilon=1, strategy=Wordy(), ledger=tmp_path / "t.ledger")
    assert not (tmp_path / "t.ledger").exists()
