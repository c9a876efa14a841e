"""The bundled Adult table is UCI's, and its domain files fit it."""

import hashlib
import tomllib
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dpcube import datasets
from dpcube.datasets import adult_domain, adult_table

TRAIN_ROWS, TEST_ROWS = 32_561, 16_281
INTEGER, TEXT = pa.int32(), pa.string()
SCHEMA = pa.schema(
    [
        ("age", INTEGER),
        ("workclass", TEXT),
        ("fnlwgt", INTEGER),
        ("education", TEXT),
        ("education-num", INTEGER),
        ("marital-status", TEXT),
        ("occupation", TEXT),
        ("relationship", TEXT),
        ("race", TEXT),
        ("sex", TEXT),
        ("capital-gain", INTEGER),
        ("capital-loss", INTEGER),
        ("hours-per-week", INTEGER),
        ("native-country", TEXT),
        ("income", TEXT),
    ]
)
WITH_MISSING = {"workclass", "occupation", "native-country"}


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return pq.read_table(adult_table())


def attributes(*, full: bool) -> list[dict[str, Any]]:
    declared: list[dict[str, Any]] = tomllib.loads(adult_domain(full=full).read_text("utf-8"))["attribute"]
    return declared


def cells(attribute: dict[str, Any]) -> int:
    """Cells of an axis without cells of its own for irregular values; both ends of a range belong to it."""
    if attribute["type"] == "category":
        return len(attribute["values"])
    last: int = (attribute["max"] - attribute["min"]) // attribute["width"]
    return last + 1


def uci_lines(table: pa.Table, *, end: str) -> str:
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return "".join(", ".join("?" if value is None else str(value) for value in row) + end for row in rows)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_table_reproduces_uci_training_file_to_the_byte(table: pa.Table) -> None:
    text = uci_lines(table.slice(0, TRAIN_ROWS), end="\n") + "\n"
    assert sha256(text) == "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"


def test_table_reproduces_uci_test_file_to_the_byte(table: pa.Table) -> None:
    text = "|1x3 Cross validator\n" + uci_lines(table.slice(TRAIN_ROWS), end=".\n") + "\n"
    assert sha256(text) == "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"


def test_columns_have_uci_names_and_plain_types(table: pa.Table) -> None:
    assert table.schema.equals(SCHEMA)
    assert table.schema.metadata is None


def test_row_counts(table: pa.Table) -> None:
    train, test = table.slice(0, TRAIN_ROWS), table.slice(TRAIN_ROWS)
    assert (table.num_rows, test.num_rows) == (48_842, TEST_ROWS)
    assert (train.drop_null().num_rows, test.drop_null().num_rows) == (30_162, 15_060)
    assert table.slice(0, 10_000).drop_null().num_rows == 10_000 - 756


def test_missing_values_are_nulls_in_three_columns(table: pa.Table) -> None:
    assert {name for name in SCHEMA.names if table[name].null_count} == WITH_MISSING
    texts = [table[field.name] for field in SCHEMA if field.type == TEXT]
    assert not any(pc.any(pc.equal(text, "?")).as_py() for text in texts)


def test_first_rows_of_both_parts(table: pa.Table) -> None:
    first, first_test = (tuple(table.slice(at, 1).to_pylist()[0].values()) for at in (0, TRAIN_ROWS))
    assert first == (
        *(39, "State-gov", 77516, "Bachelors", 13, "Never-married", "Adm-clerical", "Not-in-family"),
        *("White", "Male", 2174, 0, 40, "United-States", "<=50K"),
    )
    assert first_test == (
        *(25, "Private", 226802, "11th", 7, "Never-married", "Machine-op-inspct", "Own-child"),
        *("Black", "Male", 0, 0, 40, "United-States", "<=50K"),
    )


def test_table_is_small() -> None:
    assert adult_table().stat().st_size < 500_000


@pytest.mark.parametrize("full", [False, True])
def test_domain_covers_every_value(table: pa.Table, *, full: bool) -> None:
    for attribute in attributes(full=full):
        present = pc.unique(table[attribute["name"]].drop_null()).to_pylist()
        if attribute["type"] == "category":
            assert set(present) <= set(attribute["values"])
            assert len(set(attribute["values"])) == len(attribute["values"])
        else:
            assert attribute["min"] <= min(present)
            assert max(present) <= attribute["max"]


@pytest.mark.parametrize("full", [False, True])
def test_domain_has_a_cell_for_nulls_where_they_occur(table: pa.Table, *, full: bool) -> None:
    for attribute in attributes(full=full):
        wanted = "cell" if table[attribute["name"]].null_count else "drop"
        assert attribute["null"] == wanted


def test_demo_domain_has_a_modest_number_of_cells() -> None:
    assert [a["name"] for a in attributes(full=False)] == ["age", "hours-per-week", "marital-status", "sex", "income"]
    assert [cells(a) for a in attributes(full=False)] == [16, 20, 7, 2, 2]


def test_full_domain_declares_every_column() -> None:
    assert [a["name"] for a in attributes(full=True)] == SCHEMA.names
    listed = {a["name"]: len(a["values"]) for a in attributes(full=True) if a["type"] == "category"}
    assert listed == {
        "workclass": 8,
        "education": 16,
        "marital-status": 7,
        "occupation": 14,
        "relationship": 6,
        "race": 5,
        "sex": 2,
        "native-country": 41,
        "income": 2,
    }


def test_full_domain_lists_exactly_the_values_that_occur(table: pa.Table) -> None:
    for attribute in attributes(full=True):
        if attribute["type"] == "category":
            assert set(attribute["values"]) == set(pc.unique(table[attribute["name"]].drop_null()).to_pylist())


def test_public_names() -> None:
    assert datasets.__all__ == ["ADULT_QUESTIONS", "adult_domain", "adult_table"]
    assert (adult_domain().name, adult_domain(full=True).name) == ("adult.toml", "adult-full.toml")
    assert (adult_table().parent / "LICENSE.md").is_file()
