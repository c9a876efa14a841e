"""The default classifier of releases of a public table beside rivals: `python -m dpcube.research.classification`."""

import argparse
from functools import partial
from pathlib import Path

from dpcube.research.classification.measure import RUN_COLUMNS, classify_by, measure_runs, wide_score
from dpcube.research.classification.others import CLASSIFIER_RIVALS, TARGETS, loaded, other_task
from dpcube.research.classification.task import official_task


def measure_classifiers() -> None:
    """Measure, and print a row for each method, epsilon and run as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", nargs="?", default="adult", choices=("adult", *TARGETS))
    parser.add_argument("--epsilon", default="0.1,0.5,1,4")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument(
        "--methods", help="Some of dpcube, wide (adult only), majority, boosting and the rivals; all that can be run."
    )
    parser.add_argument(
        "--csv", type=Path, default=Path("classification.csv"), help="File of the rows; an existing one is continued."
    )
    for rival in CLASSIFIER_RIVALS:
        parser.add_argument(f"--{rival}", metavar="PYTHON", help=f"The interpreter of an environment with {rival}.")
    parser.add_argument("--tables", metavar="PYTHON", help="One with statsmodels, for tables other than adult.")
    given = parser.parse_args()
    if given.table != "adult" and given.tables is None:
        parser.error(
            f"{given.table} is read from statsmodels; give the interpreter of an environment with it (--tables)"
        )
    pythons = {rival: getattr(given, rival.replace("-", "_")) for rival in CLASSIFIER_RIVALS}
    methods = classify_by({rival: python for rival, python in pythons.items() if python is not None})
    if given.table == "adult":
        methods["wide"] = wide_score
    asked = list(methods) if given.methods is None else given.methods.split(",")
    if not set(asked) <= set(methods):
        parser.error(f"methods are {', '.join(methods)}; rivals need their interpreters")
    methods = {name: methods[name] for name in asked}
    task = official_task() if given.table == "adult" else other_task(given.table, loaded(given.table, given.tables))
    print(*RUN_COLUMNS, sep=",")
    tell = partial(print, flush=True)
    measure_runs(task, methods, epsilons=given.epsilon.split(","), runs=given.runs, file=given.csv, progress=tell)


if __name__ == "__main__":
    measure_classifiers()
