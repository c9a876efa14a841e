"""Private classifiers of others, each run by the Python of an environment of its own, on the same rows.

diffprivlib does not import beside current scikit-learn, and neither is a dependency of dpcube: make the environments as
docs/research/classification.md says. The programs below are the rivals' own defaults, given what is public: types of
columns and bounds of numbers. diffprivlib's model is of numbers, and is given those alone: its budget is shared by all
columns, and 0 and 1 for categories made it worse on Adult.

And two public tables of statsmodels on which no classifier here was developed.

* `fair`: Fair's survey of 6,366 married women (JPE 1978), "included with permission of the author": whether there was
  an affair;
* `randhie`: 20,190 person-years of RAND's Health Insurance Experiment, in the public domain: whether a doctor was seen.

Bins and bounds are from the descriptions of the columns that come with the tables, and were committed before a
classifier was run on them. Numbers that stand for categories keep a bin for each; the others get few bins, as tables of
thousands of rows allow: the first at 0 or at the least that the description allows, and ends are clipped. Ten splits
are fixed by their seeds: a fifth of the rows, drawn at random, are test rows.
"""

import json
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpcube.core.domain import Attribute, Category, Domain, Float
from dpcube.core.errors import InputError
from dpcube.research.classification.task import Score, Task, TrainAndTest, score

READ = """
import json, sys, warnings
import numpy as np, pandas as pd
warnings.simplefilter("ignore")
where, epsilon, seed, public = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
bounds = public["bounds"]
train, test = (pd.read_parquet(where + "/" + name + ".parquet") for name in ("train", "test"))
target = (train.pop(public["target"]) == public["positive"]).to_numpy().astype(int)
test.pop(public["target"])
for column in train:
    if column not in bounds:
        train[column], test[column] = train[column].fillna("?").astype(str), test[column].fillna("?").astype(str)
"""
DP_EBM = """
from interpret.privacy import DPExplainableBoostingClassifier
types = ["continuous" if column in bounds else "nominal" for column in train]
model = DPExplainableBoostingClassifier(
    feature_names=list(train), feature_types=types, privacy_bounds=bounds, epsilon=epsilon, delta=1e-6,
    random_state=seed, n_jobs=1,
)
"""
DIFFPRIVLIB = """
from diffprivlib.models import GaussianNB
names = [column for column in train if column in bounds]
train, test = train[names].to_numpy(float), test[names].to_numpy(float)
low, high = (np.array([bounds[column][end] for column in names], float) for end in (0, 1))
model = GaussianNB(epsilon=epsilon, bounds=(low, high), random_state=seed)
"""
LAST = """
model.fit(train, target)
print(json.dumps(np.nan_to_num(np.asarray(model.predict_proba(test))[:, 1], nan=0.5).tolist()))
"""
CLASSIFIER_RIVALS = {
    "dp-ebm": (DP_EBM, "(epsilon, 1e-6)-DP, replace one row (interpret-core)"),
    "diffprivlib": (DIFFPRIVLIB, "epsilon-DP, replace one row (diffprivlib, Gaussian naive Bayes)"),
}
"""The programs of rivals, and the privacy definition that each states."""


def rival_score(rival: str, python: str, task: Task, rows: TrainAndTest, epsilon: str, seed: int) -> Score:
    """Return the score of a rival, fitted by another interpreter."""
    public = json.dumps({"target": task.target, "positive": task.positive, "bounds": task.bounds})
    with tempfile.TemporaryDirectory() as where:
        for name, table in zip(("train", "test"), rows, strict=True):
            pq.write_table(table, Path(where) / f"{name}.parquet")
        program = READ + CLASSIFIER_RIVALS[rival][0] + LAST
        words = [python, "-c", program, where, epsilon, str(seed), public]
        ran = subprocess.run(words, capture_output=True, check=True, text=True)
    return score(np.array(json.loads(ran.stdout.splitlines()[-1]), np.float64), task.truth(rows[1]))


YES_OR_NO = ("no", "yes")
LOADED = """
import sys
import statsmodels.datasets as tables
name, of, file = sys.argv[1:]
frame = getattr(tables, name).load_pandas().data.astype(float)
frame[of] = (frame[of] > 0).map({False: "no", True: "yes"})
frame.to_parquet(file, index=False)
"""
TARGETS = {"fair": "affairs", "randhie": "mdvis"}
"""The class of each table: whether this number is above 0."""

_OCCUPATIONS = (1, 2, 3, 4, 5, 6, 7)
_YES_OR_NO = (0, 0.5, 1)
BIN_EDGES: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "fair": {
        **{"rate_marriage": (1, 2, 3, 4, 5, 6), "age": (0, 25, 30, 40, 100), "yrs_married": (0, 3, 8, 15, 80)},
        **{"children": (0, 1, 2, 4, 20), "religious": (1, 2, 3, 4, 5), "educ": (0, 13, 15, 17, 30)},
        **{"occupation": _OCCUPATIONS, "occupation_husb": _OCCUPATIONS},
    },
    "randhie": {
        **{
            "lncoins": (0, 1, 3, 4, 5),
            "idp": _YES_OR_NO,
            "lpi": (0, 1, 3, 5, 6, 7, 10),
            "fmde": (0, 1, 3, 5, 6, 7, 10),
        },
        **{"physlm": _YES_OR_NO, "disea": (0, 5, 10, 15, 20, 30, 60)},
        **{"hlthg": _YES_OR_NO, "hlthf": _YES_OR_NO, "hlthp": _YES_OR_NO},
    },
}
"""Where bins of each column begin, and where the last ends."""


def domain_of_other(name: str) -> Domain:
    """Return the cube of a table.

    >>> [domain_of_other(name).size for name in TARGETS]
    [368640, 55296]
    """
    columns: list[Attribute] = [Float(c, edges=edges, outside="clip") for c, edges in BIN_EDGES[name].items()]
    return Domain([*columns, Category(TARGETS[name], YES_OR_NO)])


def loaded(name: str, python: str) -> pa.Table:
    """Return a table, read by an interpreter that has statsmodels, with its class as words."""
    with tempfile.TemporaryDirectory() as where:
        file = Path(where) / "table.parquet"
        try:
            subprocess.run([python, "-c", LOADED, name, TARGETS[name], str(file)], capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            msg = f"{python} cannot read the table {name!r}; give an interpreter with statsmodels, pandas and pyarrow"
            raise InputError(msg) from None
        return pq.read_table(file)


def random_split(rows: pa.Table, seed: int) -> TrainAndTest:
    """Return four fifths of the rows and the other fifth, at random from a seed."""
    order = np.random.default_rng(seed).permutation(len(rows))
    cut = len(rows) // 5
    return rows.take(np.sort(order[cut:])), rows.take(np.sort(order[:cut]))


def other_task(name: str, rows: pa.Table) -> Task:
    """Return the task of one of the tables, whose rows are given."""
    bounds = {column: (float(edges[0]), float(edges[-1])) for column, edges in BIN_EDGES[name].items()}
    return Task(name, TARGETS[name], YES_OR_NO[1], domain_of_other(name), bounds, lambda seed: random_split(rows, seed))
