"""Tables and sentences of docs/research/classification.md, from the rows of recorded runs."""

from collections.abc import Mapping, Sequence

import numpy as np

from dpcube.research.classification.measure import ANY_EPSILON
from dpcube.research.classification.task import mean_and_error

METHOD_WORDS = {
    "dpcube": "the default classifier of one release, pure epsilon, add or remove one row",
    "wide": "the same of one wide release of all attributes, pure epsilon, add or remove one row",
    "dp-ebm": "DP-EBM, (epsilon, 1e-6), replace one row",
    "diffprivlib": "diffprivlib's Gaussian naive Bayes, pure epsilon, replace one row",
    "majority": "the largest class",
    "boosting": "gradient boosting of scikit-learn, not private",
}
SHORT_WORDS = {"dp-ebm": "DP-EBM", "diffprivlib": "diffprivlib", "boosting": "gradient boosting"}
SHOWN_SCORES = {"accuracy": "accuracy", "auc": "AUC"}
CLEARLY = 2.0
"""Standard errors of a difference from which on it is said to be one."""

FEWEST_RUNS = 5
"""Runs of each method below which nothing is said of differences."""

Runs = Sequence[Mapping[str, str]]


def classification_table(rows: Runs) -> str:
    """Return accuracy / AUC of each method and epsilon, means with standard errors, as a table of Markdown."""
    epsilons = _epsilons(rows)
    lines = ["| | " + " | ".join(["epsilon " + epsilons[0], *epsilons[1:]]) + " |", "|---" * (len(epsilons) + 1) + "|"]
    for method in _methods(rows):
        cells = [_cell(rows, method, epsilon) for epsilon in epsilons]
        lines.append(f"| {METHOD_WORDS[method]} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def runs_words(rows: Runs) -> str:
    """Return over how many runs the means are; if they are not of as many, how many of which."""
    numbers = {(m, e): len(_values(rows, m, e, "auc")) for m in _methods(rows) for e in _epsilons(rows)}
    if len(set(numbers.values())) == 1:
        return f"{next(iter(numbers.values()))} runs"
    by_method = {m: sorted({number for (one, _), number in numbers.items() if one == m}) for m in _methods(rows)}
    each = [
        f"{SHORT_WORDS.get(m, m)} {' to '.join(map(str, {some[0]: 0, some[-1]: 0}))}" for m, some in by_method.items()
    ]
    return f"so many runs: {', '.join(each)}"


def ahead_words(rows: Runs, rival: str) -> str:
    """Return where dpcube is ahead of a rival and where behind, beyond twice the standard error of the difference."""
    fewest = min(len(_values(rows, m, e, "auc")) for m in ("dpcube", rival) for e in _epsilons(rows))
    if fewest < FEWEST_RUNS:
        return f"Beside {SHORT_WORDS[rival]} there are too few runs yet to tell differences."
    said = []
    for score, word in SHOWN_SCORES.items():
        signs = {e: _sign(rows, rival, e, score) for e in _epsilons(rows)}
        places = {name: [e for e, sign in signs.items() if sign == of] for name, of in _SIGNS.items()}
        parts = [f"{name} at {', '.join(at)}" for name, at in places.items() if at]
        every = next((name for name, at in places.items() if len(at) == len(signs)), None)
        said.append(f"in {word} {every} at every epsilon" if every else f"in {word} {'; '.join(parts)}")
    return f"Beside {SHORT_WORDS[rival]} the release is, {', and '.join(said)}."


_SIGNS = {"ahead": 1, "level": 0, "behind": -1}


def _sign(rows: Runs, rival: str, epsilon: str, score: str) -> int:
    (ours, our_error), (theirs, their_error) = (
        mean_and_error(_values(rows, method, epsilon, score)) for method in ("dpcube", rival)
    )
    return int(np.sign(ours - theirs)) if abs(ours - theirs) > CLEARLY * np.hypot(our_error, their_error) else 0


def _cell(rows: Runs, method: str, epsilon: str) -> str:
    values = [mean_and_error(_values(rows, method, epsilon, score)) for score in SHOWN_SCORES]
    return " / ".join(f"{mean:.3f} ± {error:.3f}".replace("0.", ".") for mean, error in values)


def _values(rows: Runs, method: str, epsilon: str, score: str) -> list[float]:
    epsilon = "" if method in ANY_EPSILON else epsilon
    return [float(row[score]) for row in rows if (row["method"], row["epsilon"]) == (method, epsilon)]


def _methods(rows: Runs) -> list[str]:
    known = {row["method"] for row in rows}
    return [method for method in METHOD_WORDS if method in known]


def _epsilons(rows: Runs) -> list[str]:
    return sorted({row["epsilon"] for row in rows} - {""}, key=float)
