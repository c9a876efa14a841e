"""Runs of classifiers: a file that was stopped is gone on with, and the page follows from what is recorded."""

import json
import sys
from pathlib import Path

import classification
import numpy as np
import pyarrow as pa
import pytest

from dpcube.core.domain import Category, Domain, Float
from dpcube.core.errors import InputError
from dpcube.research.classification.measure import RUN_COLUMNS, classify_by, measure_runs, read_runs
from dpcube.research.classification.others import (
    BIN_EDGES,
    CLASSIFIER_RIVALS,
    TARGETS,
    YES_OR_NO,
    domain_of_other,
    loaded,
    other_task,
    random_split,
)
from dpcube.research.classification.page import ahead_words, classification_table, runs_words
from dpcube.research.classification.task import Score, Task, TrainAndTest, official_split, score

SCORE = Score(accuracy=0.75, auc=0.5, log_loss=1.0)


def little_task() -> Task:
    """A table of two attributes that tell the class nearly."""
    generator = np.random.default_rng(3)
    x, kind = generator.uniform(0, 4, 3000), generator.integers(0, 2, 3000)
    ill = generator.uniform(size=3000) < np.where((x > 2) == kind, 0.9, 0.1)
    words = np.array(["no", "yes"])
    rows = pa.table({"x": x, "kind": np.array(["a", "b"])[kind], "ill": words[ill.astype(int)]})
    domain = Domain([Float("x", edges=(0, 1, 2, 3, 4), outside="clip"), Category("kind", ["a", "b"])])
    domain = Domain([*domain.attributes, Category("ill", ["no", "yes"])])
    return Task("little", "ill", "yes", domain, {"x": (0.0, 4.0)}, lambda seed: random_split(rows, seed))


def test_a_file_that_was_stopped_is_gone_on_with(tmp_path: Path) -> None:
    file, asked = tmp_path / "runs.csv", list[tuple[str, int]]()

    def stopped(_: Task, __: TrainAndTest, epsilon: str, run: int) -> Score:
        if len(asked) == 3:
            raise KeyboardInterrupt
        asked.append((epsilon, run))
        return SCORE

    def whole(_: Task, __: TrainAndTest, epsilon: str, run: int) -> Score:
        asked.append((epsilon, run))
        return SCORE

    with pytest.raises(KeyboardInterrupt):
        measure_runs(little_task(), {"dpcube": stopped}, epsilons=("1", "2"), runs=2, file=file)
    rows = measure_runs(little_task(), {"dpcube": whole}, epsilons=("1", "2"), runs=2, file=file)
    assert asked == [("1", 0), ("2", 0), ("1", 1), ("2", 1)]  # nothing twice, run after run
    assert [(row["epsilon"], row["run"]) for row in rows] == [("1", "0"), ("2", "0"), ("1", "1"), ("2", "1")]
    again = measure_runs(little_task(), {"dpcube": whole}, epsilons=("1", "2"), runs=2, file=file)
    assert again == rows
    assert len(asked) == 4


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", ",".join(RUN_COLUMNS) + "\ndpcube,1,0,0.5\n"])
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "other.csv"
    file.write_text(text)
    with pytest.raises(InputError, match="is no file of runs"):
        read_runs(file)
    line = "dpcube,1,0,0.5,0.5,1,2\n"
    file.write_text(",".join(RUN_COLUMNS) + "\n" + 2 * line)
    with pytest.raises(InputError, match="is no file of runs"):
        read_runs(file)


@pytest.mark.slow
def test_every_method_of_our_own_learns_a_little_table() -> None:
    task = little_task()
    rows = task.split(0)
    assert [len(part) for part in rows] == [2400, 600]
    found = {name: method(task, rows, "10", 0) for name, method in classify_by({}).items()}
    assert found["majority"].auc == 0.5
    assert found["majority"].accuracy < 0.6
    assert found["dpcube"].accuracy > 0.85  # the class is told by both together, and by neither alone
    assert found["boosting"].accuracy > 0.85


def test_a_split_is_all_rows_once_and_follows_from_its_seed() -> None:
    rows = pa.table({"x": np.arange(103)})
    train, test = random_split(rows, 1)
    assert len(test) == 20
    assert sorted(train["x"].to_pylist() + test["x"].to_pylist()) == list(range(103))
    assert random_split(rows, 1)[1] == test
    assert random_split(rows, 2)[1] != test


def test_a_score_by_hand() -> None:
    found = score(np.array([0.9, 0.2, 0.2, 0.6]), np.array([True, True, False, False]))
    assert (found.accuracy, found.auc) == (0.5, (1 + 1 + 0.5 + 0) / 4)
    assert found.log_loss == pytest.approx(-np.log([0.9, 0.2, 0.8, 0.4]).mean())


@pytest.mark.parametrize("name", TARGETS)
def test_the_cube_of_another_table_has_its_columns(name: str) -> None:
    domain = domain_of_other(name)
    assert domain.names == (*BIN_EDGES[name], TARGETS[name])
    rows = pa.table({column: [0.0, 1.0] for column in BIN_EDGES[name]} | {TARGETS[name]: list(YES_OR_NO)})
    task = other_task(name, rows)
    assert task.truth(rows).tolist() == [False, True]
    assert task.bounds.keys() == set(BIN_EDGES[name])


@pytest.mark.parametrize("python", ["/no/such/python", "false"])
def test_a_table_that_cannot_be_read_is_refused_in_one_line(python: str) -> None:
    with pytest.raises(InputError, match="give an interpreter with statsmodels"):
        loaded("fair", python)


@pytest.mark.slow
def test_rivals_are_told_what_is_public_of_the_table(tmp_path: Path) -> None:
    """A rival's program, with a model that keeps what it was given in the place of the rival's."""
    kept = tmp_path / "kept.json"
    program = f"""
class Model:
    def fit(self, train, target):
        json.dump([bounds, list(train), len(train), int(target.sum()), epsilon, seed], open({str(kept)!r}, "w"))
    def predict_proba(self, test): return np.tile([0.25, 0.75], (len(test), 1))
model = Model()
"""
    task = little_task()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(CLASSIFIER_RIVALS, "dp-ebm", (program, ""))
        found = classify_by({"dp-ebm": sys.executable})["dp-ebm"](task, task.split(4), "0.5", 4)
    train, test = task.split(4)
    assert json.loads(kept.read_text()) == [
        {"x": [0.0, 4.0]},
        ["x", "kind"],
        2400,
        int(task.truth(train).sum()),
        0.5,
        4,
    ]
    assert found.accuracy == task.truth(test).mean()


def runs(**values: list[float]) -> list[dict[str, str]]:
    """Rows of methods at two epsilons, the second worse by 0.1 for dpcube."""
    made = []
    for method, some in values.items():
        for epsilon in ("1", "4"):
            for run, value in enumerate(some):
                told = value - 0.1 * (method == "dpcube" and epsilon == "4")
                numbers = (method, epsilon, str(run), str(told), str(value), "1", "1")
                made.append(dict(zip(RUN_COLUMNS, numbers, strict=True)))
    return made


def test_what_the_page_says_by_hand() -> None:
    rows = runs(**{"dpcube": [0.8, 0.82, 0.84, 0.82, 0.82], "dp-ebm": [0.75, 0.78, 0.75, 0.76, 0.76]})
    table = classification_table(rows)
    assert table.splitlines()[0] == "| | epsilon 1 | 4 |"
    assert ".820 ± .006 / .820 ± .006 | .720 ± .006 / .820 ± .006 |" in table
    assert runs_words(rows) == "5 runs"
    assert ahead_words(rows, "dp-ebm") == (
        "Beside DP-EBM the release is, in accuracy ahead at 1; behind at 4, and in AUC ahead at every epsilon."
    )
    near = runs(**{"dpcube": [0.8, 0.82, 0.84, 0.78, 0.86], "dp-ebm": [0.8, 0.78, 0.82, 0.76, 0.84]})
    assert "in AUC level at every epsilon" in ahead_words(near, "dp-ebm")  # 0.02 is one of its standard errors
    few = [row for row in rows if row["run"] < "3"]
    assert ahead_words(few, "dp-ebm") == "Beside DP-EBM there are too few runs yet to tell differences."
    assert runs_words([*rows, {**rows[0], "run": "5"}]) == "so many runs: dpcube 5 to 6, DP-EBM 5"


@pytest.mark.parametrize("name", classification.how_it_was_made())
def test_the_page_is_that_of_the_recorded_runs(name: str) -> None:
    page = classification.PAGE.read_text(encoding="utf-8")
    assert classification.section(name) in page
    assert classification.written(page) == page
    rows = read_runs(classification.RECORDED / f"{name}.csv")
    assert {"dpcube", *CLASSIFIER_RIVALS} <= {row["method"] for row in rows}


def test_what_is_recorded_is_all_that_lies_there() -> None:
    names = {path.stem for path in classification.RECORDED.glob("*.csv")}
    assert names == set(classification.how_it_was_made()) <= set(classification.TABLES)


def test_the_majority_of_the_official_split() -> None:
    test = official_split()[1]
    share = np.mean([value == "<=50K" for value in test["income"].to_pylist()])
    for row in read_runs(classification.RECORDED / "adult.csv"):
        if row["method"] == "majority":
            assert float(row["accuracy"]) == pytest.approx(share, abs=1e-6)
