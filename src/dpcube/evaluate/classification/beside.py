"""Private classifiers of others, each run by the Python of an environment of its own, on the same rows.

Enters: an interpreter, rows, epsilons. Leaves: scores. diffprivlib does not import beside current scikit-learn, and
neither is a dependency of dpcube: make the environments as docs/classification.md says. The programs below are the
rivals' own defaults, told what is public: types of columns, bounds of numbers, lists of values.
"""

import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpcube.evaluate.classification.official import POSITIVE, TARGET, Score, score

BOUNDS = {
    **{"age": (17, 90), "fnlwgt": (0, 1_500_000), "education-num": (1, 16), "capital-gain": (0, 99_999)},
    **{"capital-loss": (0, 4_999), "hours-per-week": (1, 99)},
}
READ = f"""
import json, sys, warnings
import numpy as np, pandas as pd
warnings.simplefilter("ignore")
where, epsilon, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
bounds = {BOUNDS!r}
train, test = (pd.read_parquet(where + "/" + name + ".parquet") for name in ("train", "test"))
target = (train.pop({TARGET!r}) == {POSITIVE!r}).to_numpy().astype(int)
test.pop({TARGET!r})
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
def numbers(frame):
    parts = [frame[[c for c in frame if c in bounds]].astype(float)]
    for column in sorted(set(frame) - set(bounds)):
        values = sorted(set(train_text[column]))
        parts.append(pd.DataFrame({column + "=" + v: (frame[column] == v).astype(float) for v in values}))
    return pd.concat(parts, axis=1)
train_text = train
train, test = numbers(train), numbers(test)
low = np.array([bounds[c][0] if c in bounds else 0 for c in train])
high = np.array([bounds[c][1] if c in bounds else 1 for c in train])
model = GaussianNB(epsilon=epsilon, bounds=(low, high), random_state=seed)
train, test = train.to_numpy(), test.to_numpy()
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


def rival_score(rival: str, python: str, rows: tuple[pa.Table, pa.Table], epsilon: str, seed: int) -> Score:
    """Return the score of a rival, fitted by another interpreter."""
    train, test = rows
    with tempfile.TemporaryDirectory() as where:
        for name, table in (("train", train), ("test", test)):
            pq.write_table(table, Path(where) / f"{name}.parquet")
        program = READ + CLASSIFIER_RIVALS[rival][0] + LAST
        words = [python, "-c", program, where, epsilon, str(seed)]
        ran = subprocess.run(words, capture_output=True, check=True, text=True)
    return score(np.array(json.loads(ran.stdout.splitlines()[-1]), np.float64), test)
