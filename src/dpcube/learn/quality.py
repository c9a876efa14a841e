"""How good a model is, as far as the release it was learnt from can tell: no row that was kept apart is seen.

Two views. *By the release's cells*: the model's predictions against the estimated counts, from which it also learnt; so
it flatters, the more so the more noise there is. *By the model itself*: what it would score if its own probabilities
were the truth, with the standard error that its numbers leave in it; so it is right if the model's form is.
"""

import math
from dataclasses import asdict, dataclass

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.learn.class_tables import ClassTables
from dpcube.learn.model import ClassModel
from dpcube.learn.terms import weights_by

MAX_SCORED_CELLS = 2**17
SAID = "estimated from the release alone, by its cells, from which the model also learnt; not measured on other rows"


@dataclass(frozen=True, slots=True)
class Quality:
    """Shares of rows: of the largest class, and told rightly by the released cells and by the model's own word.

    `auc` is the chance that of two rows of different classes the one of the second class is ranked higher, by the
    released cells; None where there are more than two classes.
    """

    majority: float
    accuracy: float
    auc: float | None
    log_loss: float
    expected_accuracy: float
    expected_accuracy_stderr: float

    def as_dict(self) -> dict[str, float | str | None]:
        """Return the numbers by name, and what they are."""
        return {**asdict(self), "said": SAID}


def quality(model: ClassModel, tables: ClassTables) -> Quality:
    """Return what a release can tell of a model that was learnt from it."""
    cells, counts = tables.rows(MAX_SCORED_CELLS)
    weights = counts.sum(axis=1)
    chances, total = model.probabilities(cells), float(weights.sum())
    chosen = chances.argmax(axis=1)
    expected, stderr = _own_word(model, cells, chances, weights / total)
    return Quality(
        majority=float(counts.sum(axis=0).max() / total),
        accuracy=float(counts[np.arange(len(chosen)), chosen].sum() / total),
        auc=_auc(chances[:, 1], counts) if tables.classes == 2 else None,
        log_loss=float(-(counts * np.log(np.clip(chances, 1e-12, 1))).sum() / total),
        expected_accuracy=expected,
        expected_accuracy_stderr=stderr,
    )


def _own_word(model: ClassModel, cells: Ints, chances: Floats, weights: Floats) -> tuple[float, float]:
    """Return the accuracy that the model has by its own word, and its standard error; NaN with more than one model.

    A number that is off by a little moves the accuracy by its slope there, so the error is that of the slopes' sum.
    """
    accuracy = float(weights @ chances.max(axis=1))
    if len(model.models) != 1:
        return accuracy, math.nan
    one, second = model.models[0], chances[:, 1]
    moved = weights * second * (1 - second) * np.where(second > 0.5, 1, -1)
    places, slopes = one.places(cells), np.zeros(len(one.numbers))
    for column in places.T:
        slopes += weights_by(column, moved, len(slopes))
    return accuracy, math.sqrt(max(float(slopes @ one.covariance @ slopes), 0.0))


def _auc(scores: Floats, counts: Floats) -> float | None:
    """Return the area under the curve of weighted rows, None if a class has none."""
    _, at = np.unique(scores, return_inverse=True)
    first, second = (np.bincount(at.reshape(-1), counts[:, number]) for number in (0, 1))
    pairs = first.sum() * second.sum()
    below = np.cumsum(first) - first / 2
    return float(second @ below / pairs) if pairs > 0 else None
