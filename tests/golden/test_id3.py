"""The paper's plain ID3 on the Adult table: the golden numbers, exactly, by rows and from a histogram of them."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcube.core.domain import Domain
from dpcube.curator.publishing import count
from dpcube.datasets import adult_domain, adult_table
from dpcube.learn import HistogramID3
from dpcube.release import Release
from dpcube.research import experiment
from dpcube.testing import SilentNoise

ATTRIBUTES = ("workclass", "marital-status", "race", "sex")
GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())["adult"]["ID3_no_missing"]


def whole_rows(table: pa.Table) -> pa.Table:
    """Return the rows without a missing value."""
    missing = np.logical_or.reduce([table.column(name).is_null().to_numpy() for name in table.column_names])
    return table.filter(pa.array(~missing))


@pytest.fixture(scope="module")
def tables() -> tuple[pa.Table, pa.Table]:
    table = pq.read_table(adult_table())
    return whole_rows(table.slice(0, 32_561)), whole_rows(table.slice(32_561))


@pytest.fixture(scope="module")
def release(tables: tuple[pa.Table, pa.Table]) -> Release:
    domain = Domain.load(adult_domain(full=True)).project((*ATTRIBUTES, "income"))
    exact = count(tables[0], domain)
    return experiment(exact, epsilon=1, strategy="cells", noise=SilentNoise(), domain=domain)


def test_the_rows_are_the_papers(tables: tuple[pa.Table, pa.Table]) -> None:
    assert [len(table) for table in tables] == [30_162, 15_060]


def test_id3_from_a_histogram_gives_the_golden_numbers(tables: tuple[pa.Table, pa.Table], release: Release) -> None:
    training = release.to_training("income", encoding="cells")
    tree = HistogramID3().fit(*training)
    train, test = tables
    cells, truth = training.encode(test), np.array(test["income"].to_pylist())
    right, unseen = tree.predict(cells) == truth, tree.unseen(cells)
    assert training.columns[tree.tree_.axis] == GOLDEN["root"]
    assert unseen.sum() == GOLDEN["unclassified"]
    assert right.mean() == pytest.approx(GOLDEN["test_acc"], abs=5e-10)
    assert (right & ~unseen).mean() == pytest.approx(GOLDEN["test_acc_unclassified_counts_wrong"], abs=5e-10)
    assert (tree.predict(cells) == ">50K").sum() == GOLDEN["predicted_positive"]
    of_train = tree.predict(training.encode(train)) == np.array(train["income"].to_pylist())
    assert of_train.mean() == pytest.approx(GOLDEN["train_acc"], abs=5e-10)


def test_the_majority_and_the_ceiling(tables: tuple[pa.Table, pa.Table], release: Release) -> None:
    test = tables[1]
    training = release.to_training("income", encoding="cells")
    truth = np.array(test["income"].to_pylist())
    assert (truth == "<=50K").mean() == pytest.approx(GOLDEN["majority_test"], abs=5e-10)
    _, at = np.unique(training.encode(test), axis=0, return_inverse=True)
    best = [np.unique(truth[at == cell], return_counts=True)[1].max() for cell in range(at.max() + 1)]
    assert sum(best) / len(truth) == pytest.approx(GOLDEN["test_oracle_upper_bound"], abs=5e-10)
