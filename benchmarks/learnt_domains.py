"""Recall, false values and bounds of learnt domains, on the bundled table and on simulated ones.

    python benchmarks/learnt_domains.py > learnt.txt

Values of text and bounds are learnt with the whole epsilon that is named, by declared readings; the last part learns
the bundled table whole. Each line is of RUNS runs, with standard errors.
"""

import sys
import time
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dpcube
from dpcube.core.domain import Attribute, Category, Float, Integer
from dpcube.core.sources import open_rows
from dpcube.core.sparse_histogram import ExactTexts, SparseHistogram, ignored_rows
from dpcube.core.text_code import NULL, TextCode
from dpcube.curator import learn_domain
from dpcube.curator.learnt_columns import counted_column, learn_column

RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
ADULT = Path(dpcube.__file__).parent / "datasets" / "adult" / "adult.parquet"


def mean(values: Sequence[float]) -> str:
    """Return a mean and its standard error."""
    return f"{np.mean(values):.4g} ± {np.std(values, ddof=1) / len(values) ** 0.5:.2g}"


def texts(name: str, column: pa.Array, epsilon: str, code: TextCode) -> None:
    """Learn the values of a text column."""
    begun, share = time.process_time(), Fraction(epsilon)
    rows = open_rows(pa.table({"x": column}))
    exact = ExactTexts(*rows.count_texts("x", above=ignored_rows(share)), ignored=ignored_rows(share))
    counted = column.value_counts().to_pylist()
    counts = {NULL if one["values"] is None else one["values"]: int(one["counts"]) for one in counted}
    found, covered, false = [], [], []
    for _ in range(RUNS):
        shown = [one.text for one in SparseHistogram(exact, code, share).heavy()]
        found.append(sum(text in counts for text in shown))
        covered.append(sum(counts.get(text, 0) for text in shown) / len(column))
        false.append(len(shown) - found[-1])
    took = (time.process_time() - begun) / RUNS
    print(
        f"{name}, {len(column):,} rows, {len(counts):,} values, epsilon {epsilon}: found {mean(found)}, "
        f"share of rows {mean(covered)}, false {mean(false)}; {took:.2f} CPU-s a run",
        flush=True,
    )


def numbers(name: str, values: np.ndarray, epsilon: str) -> None:
    """Learn the bounds of a column of numbers."""
    share = Fraction(epsilon)
    rows = open_rows(pa.table({"x": values})).as_declared()
    column = counted_column(rows, "x", share)
    outside, wide, learnt, begun = [], [], [], time.process_time()
    for _ in range(RUNS):
        made = learn_column(column, share, TextCode()).attribute
        if not isinstance(made, Integer | Float):
            continue
        edges = made.bin_edges()
        outside.append(int(((values < edges[0]) | (values >= edges[-1])).sum()))
        wide.append(float((edges[-1] - edges[0]) / (values.max() - values.min())))
        learnt.append(f"{edges[0]:.6g} to {edges[-1]:.6g}, {made.bins} bins")
    took = (time.process_time() - begun) / RUNS
    common = max(set(learnt), key=learnt.count) if learnt else "nothing"
    print(
        f"{name}, {len(values):,} rows, epsilon {epsilon}: true {values.min():.6g} to {values.max():.6g}; {common} "
        f"({learnt.count(common)} of {RUNS}); rows outside {mean(outside) if outside else 'all'}, width over true "
        f"{mean(wide) if wide else '-'}; {took:.2f} CPU-s a run",
        flush=True,
    )


def extent(attribute: Attribute | None) -> str:
    """Return the number of values of a category, or the bounds of another attribute."""
    if attribute is None:
        return "nothing"
    return str(attribute.bins) if isinstance(attribute, Category) else attribute.extent()


def whole(epsilon: str) -> None:
    """Learn the bundled table whole."""
    begun = time.process_time()
    for run in range(RUNS):
        made = learn_domain(ADULT, epsilon=epsilon, ledger=None)
        said = [f"{one.name} {one.reading.words} {extent(one.attribute)}" for one in made.columns]
        print(f"adult whole, epsilon {epsilon}, run {run}: {'; '.join(said)}")
    print(f"  {(time.process_time() - begun) / RUNS:.2f} CPU-s a run", flush=True)


def zipf_names(rng: np.random.Generator, rows: int) -> pa.Array:
    """Return a column of 30,000 made-up names of two to four syllables, with Zipf's frequencies."""
    syllables = [a + b for a, b in product("bdfgklmnprstvz", ("a", "e", "i", "o", "u", "an", "er", "in", "or"))]
    names = {"".join(rng.choice(syllables, rng.integers(2, 5))).capitalize() for _ in range(40_000)}
    kept = np.array(sorted(names))[rng.permutation(len(names))[:30_000]]
    weights = 1 / np.arange(1, len(kept) + 1)
    return pa.array(kept[rng.choice(len(kept), rows, p=weights / weights.sum())])


def main() -> None:
    """Print all parts."""
    adult, rng, code = pq.read_table(ADULT), np.random.default_rng(3), TextCode()
    for name, epsilon in product(("native-country", "occupation", "education"), ("0.05", "0.2", "1")):
        texts(name, adult[name].combine_chunks(), epsilon, code)
    for rows in (10**4, 10**5, 10**6):
        texts("30,000 names", zipf_names(rng, rows), "0.05", code)
    columns = {name: np.array(adult[name].to_pylist(), float) for name in ("age", "hours-per-week", "capital-gain")}
    columns |= {f"salaries {n:,}": np.round(rng.lognormal(10.5, 0.7, n), 2) for n in (10**4, 10**6)}
    columns["degrees C"] = rng.normal(8, 9, 10**4)
    for (name, values), epsilon in product(columns.items(), ("0.05", "0.5")):
        numbers(name, values, epsilon)
    whole("0.05")
    whole("1")


if __name__ == "__main__":
    main()
