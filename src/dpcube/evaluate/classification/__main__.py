"""`python -m dpcube.evaluate.classification`: the default classifier of releases of the Adult table, beside rivals."""

import argparse
import json
import time
from collections.abc import Callable

from dpcube.evaluate.classification.beside import RIVALS, rival_score
from dpcube.evaluate.classification.official import (
    Score,
    cube_by_rule,
    mean_and_error,
    official_split,
    released,
    scored,
)

FIELDS = ("accuracy", "auc", "log_loss")


def main() -> None:
    """Measure, and print a row for each method and epsilon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", default="0.1,0.5,1,4,10")
    parser.add_argument("--releases", type=int, default=10)
    parser.add_argument("--rival-runs", type=int, default=10)
    parser.add_argument("--skip-dpcube", action="store_true", help="Run the rivals only.")
    for rival in RIVALS:
        parser.add_argument(f"--{rival}", metavar="PYTHON", help=f"The interpreter of an environment with {rival}.")
    given = parser.parse_args()
    rows, domain = official_split(), cube_by_rule()
    print(json.dumps({"features": [one.name for one in domain.attributes], "cells": domain.size}), flush=True)
    for epsilon in given.epsilon.split(","):
        if not given.skip_dpcube:
            _tell(
                "dpcube",
                epsilon,
                given.releases,
                lambda seed, e=epsilon: scored(released(rows[0], domain, e, seed), rows[1]),
            )
        for rival in RIVALS:
            python = getattr(given, rival.replace("-", "_"))
            if python is not None:
                _tell(
                    rival,
                    epsilon,
                    given.rival_runs,
                    lambda seed, e=epsilon, r=rival, p=python: rival_score(r, p, rows, e, seed),
                )


def _tell(method: str, epsilon: str, runs: int, run: Callable[[int], Score]) -> None:
    """Print the mean scores of some runs with their standard errors."""
    began = time.monotonic()
    scores = [run(seed) for seed in range(runs)]
    told = {name: mean_and_error([getattr(one, name) for one in scores]) for name in FIELDS}
    shown = {name: f"{mean:.4f} +- {error:.4f}" for name, (mean, error) in told.items()}
    seconds = round((time.monotonic() - began) / runs, 1)
    print(json.dumps({"method": method, "epsilon": epsilon, "runs": runs, **shown, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
