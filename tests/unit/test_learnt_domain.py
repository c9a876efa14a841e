"""Domains that are learnt: what is found, what is charged and when, and which releases a learnt domain is good for."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import date, timedelta
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcube import Domain
from dpcube.core.domain import Category, Date, Float, Integer
from dpcube.core.errors import BudgetError, DomainError, InputError, KeptReleaseError, LedgerError, SourceError
from dpcube.core.learnt import check_learnt, stamp, stamp_digest
from dpcube.core.ledger.ledger import Ledger
from dpcube.core.sources import open_rows
from dpcube.core.text_code import TextCode
from dpcube.curator import LearntDomain, explain_learning, learn_domain, publish
from dpcube.curator.bounds import Span, date_attribute, number_attribute
from dpcube.curator.column_readings import DATE_READINGS, NUMBER_READINGS, TEXT, TRUTH, date_grid, number_grid
from dpcube.curator.learnt_columns import LearntColumn, counted_column, learn_column
from dpcube.testing import SeededNoise

ROWS = 40_000
RNG = np.random.default_rng(7)
DAYS = [date(2019, 3, 1) + timedelta(days=i % 700) for i in range(ROWS)]
VISITS = pa.table(
    {
        "age": np.clip(RNG.gamma(9, 4.6, ROWS), 17, 90).astype(int),
        "pay": np.round(RNG.lognormal(9, 1.6, ROWS), 2),
        "job": RNG.choice(["Private", "Local-gov", "?"], ROWS, p=[0.7, 0.2, 0.1]),
        "day": [day.strftime("%d.%m.%Y") for day in DAYS],
        "smoker": RNG.choice(["True", "false"], ROWS),
        "comma": [f"{x:.2f}".replace(".", ",") for x in RNG.uniform(0, 50, ROWS)],
    }
)


def of_column(values: Any, epsilon: str = "1", seeds: Iterable[int] = (1,)) -> LearntColumn:
    """What is learnt of one column, with seeded noise; with the last of several seeds."""
    share = Fraction(epsilon)
    column = counted_column(open_rows(pa.table({"x": values})), "x", share)
    for seed in seeds:
        found = learn_column(column, share, TextCode(), noise=SeededNoise(seed), empty=lambda *_: [])
        assert found.attribute is None or found.attribute.size >= 1
    return found


def learn(source: Any = VISITS, **more: Any) -> LearntDomain:
    return learn_domain(source, **{"epsilon": "3", "ledger": None, **more})


@cache
def learnt_visits() -> LearntDomain:
    return learn()


# What is found.


@pytest.mark.slow
def test_every_kind_of_column_is_read_and_bounded() -> None:
    made = learnt_visits().domain
    assert made is not None
    age, pay, job, day, smoker, comma = made.attributes
    assert isinstance(age, Integer)
    assert (age.min, age.max) == (15, 99) or age.extent() == "15 to 89"
    assert isinstance(pay, Float)
    assert pay.edges is not None  # skewed: bins of equal ratios
    assert np.median(np.diff(pay.edges[1:]) / pay.edges[1:-1]) == pytest.approx(0.25, abs=0.05)
    assert isinstance(job, Category)
    assert set(job.values) == {"Private", "Local-gov", "?"}
    assert job.unknown == "cell"
    assert isinstance(day, Date)
    assert (day.start.year, day.end.year, day.format) == (2019, 2021, ("%d.%m.%Y",))
    assert isinstance(smoker, Category)
    assert smoker.values == ("false", "true")
    assert isinstance(comma, Float)
    assert comma.decimal == ","
    assert Domain.loads(learnt_visits().text) == made


@pytest.mark.parametrize("values", [[], pa.array([None] * 900, pa.int64()), pa.array([None] * 900, pa.string())])
def test_columns_without_values_are_left_out(values: Any) -> None:
    found = of_column(pa.array(values, pa.string()) if isinstance(values, list) else values)
    assert found.attribute is None
    made = learn(pa.table({"x": pa.array([], pa.int64())}))
    assert made.domain is None
    assert "nothing was found" in made.text


def test_a_column_of_one_value_has_one_bin_or_value() -> None:
    assert of_column([7] * 900).attribute == Integer("x", 6, 7, outside="clip")
    found = of_column(["a b"] * 900).attribute
    assert isinstance(found, Category)
    assert found.values == ("a b",)
    assert found.null == "drop"


def test_a_column_of_lists_and_one_of_bytes_do_not_fail() -> None:
    assert of_column(pa.array([[1, 2], [3], None] * 300)).attribute is None
    assert of_column(pa.array([b"\xff\xfe", b"ok"] * 500)).attribute == Category(
        "x", ["ok"], trim=True, null_text=[""], unknown="cell"
    )


@pytest.mark.slow
def test_3000_categories_and_a_million_texts() -> None:
    """At epsilon 1 every value of 100 rows is found; of values that one row has, none leaves the engine."""
    found = of_column([f"code {i % 3000}" for i in range(300_000)], "2").attribute
    assert isinstance(found, Category)
    assert len(found.values) == 3000
    column = counted_column(open_rows(pa.table({"x": [f"free text {i}" for i in range(200_000)]})), "x", Fraction(1))
    assert column.texts is not None
    assert column.texts._hold()[0] == []


@pytest.mark.parametrize("values", [[1990, 2026], [-40.5, 3.5], [0, 0], [1e-9, 2e-9], [8e15, 8.5e15], [-5, 5e6]])
def test_any_numbers_make_an_attribute_or_none(values: list[float]) -> None:
    of_column([*values] * 500, seeds=range(3))


def test_odd_values_neither_fail_nor_enter_the_file() -> None:
    odd = ["(unknown)", "(null)", "a\nb", "\u202e", 'say "hi"', "it's", "\\", "x = 1 # no"]
    found = of_column([value for value in odd for _ in range(400)], "2").attribute
    assert isinstance(found, Category)
    assert set(found.values) == set(odd[4:])
    text = learn(pa.table({"x": [value for value in odd for _ in range(4000)]})).text
    assert Domain.loads(text).attributes[0].name == "x"


def test_a_false_value_that_a_file_cannot_list_costs_no_other_value() -> None:
    """Codewords may denote texts that no engine returns, such as one with a blank at its end."""
    column = counted_column(open_rows(pa.table({"x": ["word"] * 900})), "x", Fraction(1))
    code = TextCode()
    odd = [code.codeword(text) or (0, 0) for text in ("male ", "ma\tle", "(null)", "other")]

    def empty(bits: int, *_: object) -> list[int]:
        return [number for length, number in odd if length == bits]

    found = learn_column(column, Fraction(1), code, noise=SeededNoise(4), empty=empty).attribute
    assert isinstance(found, Category)
    assert set(found.values) == {"word", "other"}


def test_known_values_are_found_with_fewer_rows() -> None:
    values = [f"zxq {i}" for i in range(8) for _ in range(20)]
    known = TextCode([f"zxq {i}" for i in range(8)])
    column = counted_column(open_rows(pa.table({"x": values})), "x", Fraction(1))
    one, other = (learn_column(column, Fraction(1), code, noise=SeededNoise(2)) for code in (TextCode(), known))
    assert one.attribute is None
    assert isinstance(other.attribute, Category)


# The same noisy answers make the same file, whatever the table.


def test_the_file_depends_on_noisy_numbers_alone() -> None:
    """Noise far above the counts of two small tables decides everything: the two files are the same."""

    def huge(seed: int) -> Any:
        class Huge(SeededNoise):
            def draw(self, epsilon: Fraction, size: int) -> Any:
                drawn = super().draw(epsilon / 10**6, size)
                return (drawn // 10**5) * 10**9

        return Huge(seed)

    compared, share = 0, Fraction(1, 2)
    tables = (["1", "2", "3"], ["1.5", "01.02.2020", "true"])
    counted = [counted_column(open_rows(pa.table({"x": values})), "x", share) for values in tables]
    for seed in range(12):
        found = [learn_column(one, share, TextCode(), noise=huge(seed), empty=lambda *_: []) for one in counted]
        assert found[0].reading == found[1].reading
        if found[0].reading.kind != "text":  # of texts, those of the table alone are drawn one by one
            assert found[0].attribute == found[1].attribute
            compared += 1
    assert compared > 3


def test_a_unit_of_many_rows_makes_no_value_found() -> None:
    """One unit with 10,000 rows of one text counts once."""
    table = pa.table({"x": ["rare disease"] * 10_000 + ["common"] * 3000, "who": [0] * 10_000 + [*range(1, 3001)]})
    made = learn(table, columns=["x"], unit="who", epsilon="1").domain
    assert made is not None
    assert made.attributes[0].labels()[0] == "common"
    assert "rare disease" not in made.dumps()


# What is charged, and when.


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small table of two columns; of the ways to read them only some are tried, for the time that takes."""
    few = (NUMBER_READINGS[0], TRUTH, TEXT)
    monkeypatch.setattr("dpcube.curator.learnt_columns.readings_of", lambda *_, **__: few)
    pq.write_table(VISITS.select(["job", "age"]).slice(0, 2000), tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def test_the_epsilon_is_charged_before_noise_is_drawn(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = table.with_suffix(".ledger")

    def refuse(*_: object) -> Any:
        (charge,) = Ledger(ledger).statement().charges
        assert (charge.epsilon, charge.strategy, charge.is_open) == (Fraction(1, 2), "domain", True)
        raise KeyboardInterrupt

    monkeypatch.setattr("dpcube.curator.learning.learn_column", refuse)
    with pytest.raises(KeyboardInterrupt):
        learn_domain(table, epsilon="1/2")
    state = Ledger(ledger).statement()
    assert (state.spent, state.charges[0].is_open) == (Fraction(1, 2), True)


def test_nothing_is_charged_if_the_rows_cannot_be_read(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpcube.curator.learning.counted_column", lambda *_: (_ for _ in ()).throw(SourceError("gone")))
    with pytest.raises(SourceError):
        learn_domain(table, epsilon="1/2")
    assert not table.with_suffix(".ledger").exists()


def test_a_stream_is_refused_before_the_charge(tmp_path: Path) -> None:
    stream = pa.RecordBatchReader.from_batches(VISITS.schema, VISITS.to_batches())
    with pytest.raises(SourceError, match="only once"):
        learn(stream, ledger=tmp_path / "s.ledger")
    assert not (tmp_path / "s.ledger").exists()


@pytest.mark.parametrize(
    ("more", "error", "words"),
    [
        ({"epsilon": "0"}, InputError, "not between"),
        ({"epsilon": "1", "total": "1/2"}, BudgetError, "would allow"),
        ({"columns": ["nobody"]}, InputError, "no column 'nobody'"),
        ({"known": {"nobody": ["a"]}}, InputError, "no column 'nobody'"),
        ({"known": {"job": ["x" * 999]}}, InputError, "known values"),
        ({"unit": "job", "null_unit": "both"}, InputError, "null_unit"),
    ],
)
def test_requests_are_refused_before_anything_is_spent(
    table: Path, more: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        learn_domain(table, **{"epsilon": "1/2", **more})
    assert not table.with_suffix(".ledger").exists()


def test_the_epsilons_of_columns_add_up_and_none_is_passed() -> None:
    """All noise of a column, each draw at its epsilon by its sensitivity, costs the column's epsilon."""

    class Recorded(SeededNoise):
        drawn: list[Fraction]

        def draw(self, epsilon: Fraction, size: int) -> Any:
            self.drawn.append(epsilon)
            return super().draw(epsilon, size)

    share = Fraction(2, 3)
    for values, draws in (([5] * 900, 4), (["2020-02-03"] * 900, 3), (["word"] * 900, 2), (["true"] * 900, 1)):
        noise = Recorded(3)
        noise.drawn = []
        column = counted_column(open_rows(pa.table({"x": values})), "x", share)
        learn_column(column, share, TextCode(), noise=noise, empty=lambda *_: [])
        selection, *rest = noise.drawn
        assert len(noise.drawn) == draws
        assert selection * 20 == share / 10  # scores go up by 20 at most
        assert sum(rest) == (share * 9 / 10 if rest else 0)


def test_one_table_is_learnt_once(table: Path) -> None:
    learn_domain(table, epsilon="1/2", total="2")
    with pytest.raises(InputError, match="again"):
        learn_domain(table, epsilon="1/2")
    learn_domain(table, epsilon="1/2", again=True)
    assert Ledger(table.with_suffix(".ledger")).statement().spent == 1


# The stamp: which releases need no signature.


def test_a_release_from_the_ledger_that_paid_needs_no_signature(table: Path, tmp_path: Path) -> None:
    made = learn_domain(table, epsilon="1/2", total="2")
    assert made.ledger
    domain = Domain.loads(made.text)
    assert domain == made.domain
    release = publish(table, domain, epsilon="1/2", strategy="cells")
    assert release.domain.learnt == domain.learnt
    assert Ledger(table.with_suffix(".ledger")).statement().spent == 1


def edited(domain: Domain) -> Domain:
    job = domain["job"]
    assert isinstance(job, Category)
    return replace(domain, attributes=(replace(job, values=(*job.values, "Another")), *domain.attributes[1:]))


def other_charge(domain: Domain) -> Domain:
    return replace(domain, learnt=stamp(edited(domain).attributes))


@pytest.mark.parametrize(
    ("change", "words"), [(edited, "was edited"), (other_charge, "has no charge for that")], ids=["edited", "other"]
)
def test_a_stamp_that_does_not_agree_needs_a_signature(
    table: Path, change: Callable[[Domain], Domain], words: str
) -> None:
    domain = learn_domain(table, epsilon="1/2", total="2").domain
    assert domain is not None
    changed, place = change(domain), table.with_suffix(".ledger")
    with pytest.raises(DomainError, match=words):
        publish(table, changed, epsilon="1/2", strategy="cells")
    assert len(Ledger(place).statement().charges) == 1
    check_learnt(replace(changed, signed_public_by="me"), place)
    check_learnt(domain, place)
    check_learnt(domain.project(("age",)), place)  # an attribute may be left out
    check_learnt(replace(domain, attributes=(*domain.attributes, Integer("n", 0, 9))), place)  # or declared


def test_another_ledger_or_none_or_an_open_charge_does_not_confirm(table: Path, tmp_path: Path) -> None:
    domain = learn_domain(table, epsilon="1/2").domain
    assert domain is not None
    other = Ledger.create(tmp_path / "other.ledger", total=Fraction(3))
    with pytest.raises(DomainError, match="has no charge"):
        check_learnt(domain, other.path)
    with pytest.raises(DomainError, match="has no charge"):
        check_learnt(domain, tmp_path / "none.ledger")
    with pytest.raises(DomainError, match="name that ledger"):
        check_learnt(domain, None)
    number = other.charge(Fraction(1), strategy="domain", domain="")
    with pytest.raises(DomainError, match="has no charge"):
        check_learnt(domain, other.path)
    other.complete(number, stamp_digest(domain.learnt))
    check_learnt(domain, other.path)


def test_a_charge_of_a_release_does_not_confirm(table: Path, tmp_path: Path) -> None:
    domain = learnt_visits().domain
    assert domain is not None
    other = Ledger.create(tmp_path / "other.ledger", total=Fraction(3))
    other.complete(other.charge(Fraction(1), strategy="adaptive", domain=""), stamp_digest(domain.learnt))
    with pytest.raises(DomainError, match="has no charge"):
        check_learnt(domain, other.path)


def test_what_was_paid_for_is_kept_if_the_ledger_fails(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        msg = "the disk is full"
        raise LedgerError(msg)

    monkeypatch.setattr(Ledger, "complete_parts", fail)
    with pytest.raises(KeptReleaseError, match="disk is full") as kept:
        learn_domain(table, epsilon="1/2")
    assert isinstance(kept.value.release, LearntDomain)


# Before anything is spent.


def test_explain_reads_no_row_and_says_what_will_be_found(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpcube.core.sources.aggregates.run_in_duckdb", lambda *_: pytest.fail("a row was read"))
    text = explain_learning(table, epsilon="0.05", known={"job": ["Private", "?"]})
    assert "epsilon 0.025" in text
    assert "a known value" in text
    assert not table.with_suffix(".ledger").exists()


def test_a_value_of_as_many_rows_as_explained_is_found_nine_times_in_ten() -> None:
    from dpcube.core.sparse_histogram import threshold
    from dpcube.curator.learnt_file import rows_for

    epsilon = Fraction(1, 5)
    rows = rows_for(threshold(20, epsilon), epsilon)
    noise = SeededNoise(9).draw(epsilon, 100_000)
    share = float((rows + noise >= threshold(20, epsilon)).mean())
    assert 0.9 <= share < 0.93
    assert float((rows - 1 + noise >= threshold(20, epsilon)).mean()) < 0.905


def test_any_bounds_make_an_attribute() -> None:
    """What noise may find is anything: no span of the grid makes a run fail after its charge."""
    grid, drawn = number_grid(), np.random.default_rng(11)
    cells = len(grid.edges) - 1
    spans = [
        (first, last)
        for first in (0, 219, 220, cells - 1)
        for last in (first, 219, 220, 300, cells - 1)
        if first <= last
    ]
    spans += [tuple(np.sort(drawn.integers(0, cells, 2)).tolist()) for _ in range(400)]
    own: dict[str, Any] = {"null": "cell", "nan": "drop", "unknown": "drop"}
    for first, last in spans:
        for median in (first, last):
            inside = grid.edges[first : last + 2]
            span = Span(first, last, median, float(min(inside[inside > 0], default=inside[-1])))
            for whole in (False, True):
                made = number_attribute("x", grid, span, NUMBER_READINGS[0], whole=whole, own=own)
                assert 1 <= made.bins <= 500
                edges = made.bin_edges()
                assert edges[-1] >= grid.edges[last] or whole
                assert len(Domain.loads(Domain(made).dumps()).attributes) == 1
    days = date_grid()
    for first, last in [(0, 0), (0, 9599), *(tuple(np.sort(drawn.integers(0, 9600, 2)).tolist()) for _ in range(50))]:
        assert date_attribute("x", days, Span(first, last, first, 0), DATE_READINGS[0], own={}).bins <= 801
