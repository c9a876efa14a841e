"""Scores of classifiers on a task, run by run, in a CSV file to which each row is written at once.

A measurement that was stopped continues from its file and loses one run at most. Runs are the outer loop, so that an
unfinished file has about as many of every method.

*The wide table* is the same split with all attributes but the survey's weight, in one file of marginals. Its bins are
public conventions, chosen without a look at any row: ages by five years; hours as the US Bureau of Labor Statistics
divides them (15, 30, 35, 40, 41, 49, 60); money at 0, 1, and in each decade from a thousand on at 1, 2 and 5; all other
values as UCI lists them. What is counted follows from `Cuboids(target=...)` alone.
"""

import csv
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped] # it has no types

from dpcube import __version__
from dpcube.core.arrays import Floats
from dpcube.core.domain import Attribute, Domain, Integer
from dpcube.core.errors import InputError
from dpcube.core.exact import SparseRows
from dpcube.core.gate import Gate
from dpcube.core.sources import open_rows
from dpcube.curator.publishing import count
from dpcube.datasets import adult_domain
from dpcube.measurements import Provenance
from dpcube.release import Release
from dpcube.research.arrays import experiment
from dpcube.research.classification.others import rival_score
from dpcube.research.classification.task import SCORES, TARGET, Score, Task, TrainAndTest, score
from dpcube.strategies import Adaptive, Cuboids
from dpcube.testing import SeededNoise

RUN_COLUMNS = ("method", "epsilon", "run", *SCORES, "seconds")
ANY_EPSILON = ("majority", "boosting")
"""Methods without an epsilon: the largest class, and a model of scikit-learn that is not private."""

Classify = Callable[[Task, TrainAndTest, str, int], Score]


def released(task: Task, rows: TrainAndTest, epsilon: str, seed: int) -> Release:
    """Return a release of training rows that is made for the target, with noise from a seed."""
    strategy, noise = Adaptive(target=task.target), SeededNoise(seed)
    counts = count(rows[0], task.domain)
    return experiment(counts, epsilon=epsilon, strategy=strategy, noise=noise, domain=task.domain)


def default_score(task: Task, rows: TrainAndTest, epsilon: str, seed: int) -> Score:
    """Return the score of the default classifier of a release on test rows."""
    return score_of_release(released(task, rows, epsilon, seed), task, rows[1])


def score_of_release(release: Release, task: Task, test: pa.Table) -> Score:
    """Return the score of the default classifier of this release."""
    trained = release.train(task.target)
    chances = trained.model.probabilities(trained.features.cells(test))
    return score(chances[:, trained.features.classes.tolist().index(task.positive)], task.truth(test))


def majority_score(task: Task, rows: TrainAndTest, _: str, __: int) -> Score:
    """Return the score of the share of the positive class as the only prediction."""
    train, test = map(task.truth, rows)
    return score(np.full(len(test), train.mean()), test)


def boosting_score(task: Task, rows: TrainAndTest, _: str, seed: int) -> Score:
    """Return the score of scikit-learn's gradient boosting on the rows themselves: not private."""
    train, test = (_as_numbers(task, part, rows[0]) for part in rows)
    categories = [name not in task.bounds for name in rows[0].column_names if name != task.target]
    model = HistGradientBoostingClassifier(categorical_features=categories, random_state=seed)
    with threadpool_limits(1):  # its threads wait for each other by spinning, for minutes on a busy machine
        model.fit(train, task.truth(rows[0]))
    return score(np.asarray(model.predict_proba(test)[:, 1], np.float64), task.truth(rows[1]))


def _as_numbers(task: Task, rows: pa.Table, known: pa.Table) -> Floats:
    """Return rows as numbers: categories by their place among those of `known`, others as missing."""
    columns = []
    for name in (name for name in rows.column_names if name != task.target):
        if name in task.bounds:
            columns.append(rows[name].to_numpy().astype(np.float64))
            continue
        places = {value: place for place, value in enumerate(sorted({str(one) for one in known[name].to_pylist()}))}
        columns.append(np.array([places.get(str(one), np.nan) for one in rows[name].to_pylist()], np.float64))
    return np.stack(columns, axis=1)


def classify_by(rivals: Mapping[str, str]) -> dict[str, Classify]:
    """Return the methods by name; of rivals those whose interpreters are given."""
    others = {name: partial(rival_score, name, python) for name, python in rivals.items()}
    return {"dpcube": default_score, **others, "majority": majority_score, "boosting": boosting_score}


def measure_runs(
    task: Task,
    methods: Mapping[str, Classify],
    *,
    epsilons: Sequence[str],
    runs: int,
    file: Path,
    progress: Callable[[str], None] = lambda _: None,
) -> list[dict[str, str]]:
    """Measure the runs that the file lacks, and return all its rows."""
    known = {_key(row) for row in read_runs(file)} if file.exists() else set()
    for run in range(runs):
        asked = [(name, e) for name in methods for e in (("",) if name in ANY_EPSILON else epsilons)]
        for name, epsilon in asked:
            if (name, epsilon, str(run)) not in known:
                start = time.monotonic()
                found = methods[name](task, task.split(run), epsilon, run)
                numbers = [f"{getattr(found, one):.6f}" for one in SCORES]
                row = (name, epsilon, str(run), *numbers, f"{time.monotonic() - start:.1f}")
                _append(file, row)
                progress(",".join(row))
    return read_runs(file)


def _key(row: Mapping[str, str]) -> tuple[str, str, str]:
    return row["method"], row["epsilon"], row["run"]


def _append(file: Path, row: Sequence[str]) -> None:
    new = not file.exists()
    with file.open("a", encoding="utf-8", newline="") as stream:
        lines = csv.writer(stream, lineterminator="\n")
        if new:
            lines.writerow(RUN_COLUMNS)
        lines.writerow(row)


def read_runs(file: Path) -> list[dict[str, str]]:
    """Return the rows of a file of runs; each is of another method, epsilon or run."""
    with file.open(encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream)
        names, rows = tuple(reader.fieldnames or ()), list(reader)
    whole = all(None not in row and None not in row.values() for row in rows)
    if names != RUN_COLUMNS or not whole or len(set(map(_key, rows))) != len(rows):
        msg = f"{file} is no file of runs of classifiers; give another (--csv)"
        raise InputError(msg)
    return rows


WEIGHT = "fnlwgt"
CONVENTIONAL_BINS: tuple[Attribute, ...] = (
    Integer("age", edges=(0, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 120), outside="clip"),
    Integer("hours-per-week", edges=(0, 15, 30, 35, 40, 41, 49, 60, 100), outside="clip"),
    Integer("capital-gain", edges=(0, 1, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000), outside="clip"),
    Integer("capital-loss", edges=(0, 1, 1000, 2000, 5000), outside="clip"),
)


def wide_domain() -> Domain:
    """Return the domain of all usable attributes.

    >>> wide_domain().shape
    (13, 9, 16, 16, 7, 15, 6, 5, 2, 8, 4, 8, 42, 2)
    """
    binned = {one.name: one for one in CONVENTIONAL_BINS}
    whole = Domain.load(adult_domain(full=True))
    return Domain([binned.get(one.name, one) for one in whole.attributes if one.name != WEIGHT])


def wide_release(train: pa.Table, epsilon: str, seed: int) -> Release:
    """Return a release of training rows as cuboids for the target, read from its file, with noise from a seed."""
    domain, amount = wide_domain(), Fraction(epsilon)
    strategy = Cuboids(target=TARGET).for_domain(domain)
    rows = SparseRows(domain.shape, *open_rows(train).count_alike(domain))
    transcript = strategy.run(Gate(rows, amount, noise=SeededNoise(seed)))
    made = Provenance(strategy.name, amount, f"dpcube {__version__}", strategy.parameters(), private=False)
    with tempfile.TemporaryDirectory() as where:
        path = Path(where) / "adult.dpcube"
        Release(domain, transcript, made).save(path)
        return Release.open(path)


def wide_score(task: Task, rows: TrainAndTest, epsilon: str, seed: int) -> Score:
    """Return the score of the default classifier of a wide release on test rows."""
    return score_of_release(wide_release(rows[0], epsilon, seed), task, rows[1])
