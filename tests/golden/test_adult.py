"""What `golden.json` says of UCI's Adult table, of the bundled copy (adult.data, then adult.test)."""

import numpy as np
import pyarrow.parquet as pq
import pytest
from golden_file import GOLDEN, agrees

from dpcube import datasets

ADULT = GOLDEN["adult"]
TRAIN = 32_561
TABLE = pq.read_table(datasets.adult_table()).to_pandas()
FIRST = TABLE[:10_000]


def test_rows() -> None:
    whole = TABLE.notna().all(axis=1).to_numpy()
    assert [TRAIN, len(TABLE) - TRAIN] == ADULT["raw_rows"]
    assert [whole[:TRAIN].sum(), whole[TRAIN:].sum()] == ADULT["rows_without_missing"]
    assert (~whole[:10_000]).sum() == ADULT["first_1e4_rows_missing"]
    assert agrees((FIRST["capital-gain"] == 0).mean(), ADULT["capital_gain_zero_fraction_first_1e4"])


def test_ranges_of_the_training_rows() -> None:
    for name, (least, most, distinct) in ADULT["ranges"].items():
        column = TABLE[name][:TRAIN]
        assert (column.min(), column.max(), column.nunique()) == (least, most, distinct), name


BINS = {
    "age x hours-per-week (74x99)": ("hours-per-week", np.arange(17, 92), np.arange(1, 101)),
    "age x capital-gain 100 bins (74x100)": ("capital-gain", np.arange(17, 92), np.linspace(0, 100_000, 101)),
    "age x fnlwgt 100 bins (74x100)": ("fnlwgt", np.arange(17, 92), np.linspace(0, 1_500_000, 101)),
    "age(10y bins 8) x hours(10h bins 10)": ("hours-per-week", np.arange(10, 91, 10), np.arange(0, 101, 10)),
}


@pytest.mark.parametrize("name", BINS)
def test_cubes_of_the_first_rows(name: str) -> None:
    golden = ADULT["first_1e4_raw_cubes"][name]
    other, ages, bins = BINS[name]
    cube = np.histogram2d(FIRST["age"], FIRST[other], bins=(ages, bins))[0]
    assert (cube.size, cube.sum()) == (golden["cells"], golden["records"])
    assert ((cube > 0).sum(), cube.max()) == (golden["nonzero"], golden["max"])
    assert agrees(cube.var(), golden["variance"])
    assert agrees(1 - ((cube / cube.sum()) ** 2).sum(), golden["one_minus_sum_p2"])


@pytest.mark.parametrize("rows", ["no_missing", "with_missing"])
def test_classes_and_domains_of_the_classification(rows: str) -> None:
    golden = ADULT[f"ID3_{rows}"]
    kept = TABLE.dropna() if rows == "no_missing" else TABLE.fillna("?")
    train, test = kept[kept.index < TRAIN], kept[kept.index >= TRAIN]
    assert len(test) == golden["n_test"]
    for part, name in ((train, "majority_train"), (test, "majority_test")):
        assert agrees((part["income"] == "<=50K").mean(), golden[name])
    features = list(golden["domain"])
    assert {name: sorted(kept[name].unique()) for name in features} == dict(golden["domain"].items())
    best = test.groupby(features)["income"].agg(lambda income: income.value_counts().max()).sum()
    assert agrees(best / len(test), golden["test_oracle_upper_bound"])


def test_sizes_of_the_classification_cube() -> None:
    golden, domain = ADULT["classification_cube"], ADULT["ID3_no_missing"]["domain"]
    sizes = [len(values) for values in domain.values()]
    assert (sizes, 2 * np.prod(sizes)) == (golden["domain_sizes_without_class"], golden["cells_with_class"])
    assert agrees(1 / (1 - 0.85), ADULT["effective_number_of_equal_blocks_for_RR_85pct"])
