"""Private classifiers of others, each run by the Python of an environment of its own, on the same rows.

diffprivlib does not import beside current scikit-learn, and
neither is a dependency of dpcube: make the environments as docs/research/classification.md says. The programs below
are the rivals' own defaults, given what is public: types of columns and bounds of numbers. diffprivlib's model is of
numbers, and is given those alone: its budget is shared by all columns, and 0 and 1 for categories made it worse on
Adult.
"""

import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

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
