"""`python -m dpcube.evaluate.classification`: the default classifier of releases of the Adult table, beside rivals."""

import argparse
import json

from dpcube.evaluate.classification.beside import CLASSIFIER_RIVALS, rival_score
from dpcube.evaluate.classification.official import (
    Score,
    cube_by_rule,
    mean_and_error,
    official_split,
    released,
    scored,
)
from dpcube.evaluate.classification.wide import wide_release

FIELDS = ("accuracy", "auc", "log_loss")


def main() -> None:
    """Measure, and print a row for each method and epsilon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", default="0.1,0.5,1,4,10")
    parser.add_argument("--releases", type=int, default=10)
    parser.add_argument("--rival-runs", type=int, default=10)
    parser.add_argument("--skip-dpcube", action="store_true", help="Run the rivals only.")
    parser.add_argument("--skip-cube", action="store_true", help="Release the wide table only, not one cube.")
    for rival in CLASSIFIER_RIVALS:
        parser.add_argument(f"--{rival}", metavar="PYTHON", help=f"The interpreter of an environment with {rival}.")
    given = parser.parse_args()
    rows, domain = official_split(), cube_by_rule()
    print(json.dumps({"features": [one.name for one in domain.attributes], "cells": domain.size}), flush=True)
    for epsilon in given.epsilon.split(","):
        if not given.skip_dpcube:
            wide = [scored(wide_release(rows[0], epsilon, seed), rows[1]) for seed in range(given.releases)]
            _tell("dpcube wide", epsilon, wide)
        if not given.skip_dpcube and not given.skip_cube:
            ours = [scored(released(rows[0], domain, epsilon, seed), rows[1]) for seed in range(given.releases)]
            _tell("dpcube", epsilon, ours)
        for rival in CLASSIFIER_RIVALS:
            python = getattr(given, rival.replace("-", "_"))
            if python is not None:
                theirs = [rival_score(rival, python, rows, epsilon, seed) for seed in range(given.rival_runs)]
                _tell(rival, epsilon, theirs)


def _tell(method: str, epsilon: str, scores: list[Score]) -> None:
    """Print the mean scores of some runs with their standard errors."""
    told = {name: mean_and_error([getattr(one, name) for one in scores]) for name in FIELDS}
    shown = {name: f"{mean:.4f} +- {error:.4f}" for name, (mean, error) in told.items()}
    print(json.dumps({"method": method, "epsilon": epsilon, "runs": len(scores), **shown}), flush=True)


if __name__ == "__main__":
    main()
