"""How good a model is, as far as the release it was learnt from can tell: no row that was kept apart is seen.

Two views. *By the release's cells*: the model's predictions against the estimated counts, from which it also learnt; so
it flatters, the more so the more noise there is. *By the model itself*: what it would score if its own probabilities
were the truth, and how far that varies over what it is unsure of; so it is right if the model's form is.
"""

from dataclasses import asdict, dataclass

import numpy as np
from scipy.special import expit

from dpcube.arrays import Floats, Ints
from dpcube.learn.evidence import ClassTables, drawn
from dpcube.learn.model import ClassModel

DRAWS = 100
MOST_SCORED = 2**17
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
    flat = tables.counts.reshape(-1, tables.classes)
    at, weights = drawn(flat.sum(axis=1), MOST_SCORED)
    cells = np.stack(np.unravel_index(at, tables.counts.shape[:-1]), axis=1).astype(np.int64)
    counts = flat[at] * (weights / flat[at].sum(axis=1))[:, None]
    chances, total = model.probabilities(cells), float(weights.sum())
    chosen = chances.argmax(axis=1)
    own = _own_word(model, cells, chances, weights / total)
    return Quality(
        majority=float(counts.sum(axis=0).max() / total),
        accuracy=float(counts[np.arange(len(chosen)), chosen].sum() / total),
        auc=_auc(chances[:, 1], counts) if tables.classes == 2 else None,
        log_loss=float(-(counts * np.log(np.clip(chances, 1e-12, 1))).sum() / total),
        expected_accuracy=float(own.mean()),
        expected_accuracy_stderr=float(own.std()),
    )


def _own_word(model: ClassModel, cells: Ints, chances: Floats, weights: Floats) -> Floats:
    """Return the accuracies that the model would have over what it is unsure of, drawn from a fixed seed."""
    if len(model.models) != 1:
        return np.array([float(weights @ chances.max(axis=1))])
    one, generator = model.models[0], np.random.default_rng(0)
    roots, bases = np.linalg.eigh(one.covariance)
    moves = (bases * np.sqrt(np.maximum(roots, 0))) @ generator.standard_normal((len(roots), DRAWS))
    drawn_numbers = np.vstack([one.numbers[:, None] + moves, np.zeros((1, DRAWS))])
    places, second, found = one.places(cells), chances[:, 1] > 0.5, np.zeros(DRAWS)
    for draw in range(DRAWS):
        chance = expit(drawn_numbers[places, draw].sum(axis=1))
        found[draw] = weights @ np.where(second, chance, 1 - chance)
    return found


def _auc(scores: Floats, counts: Floats) -> float | None:
    """Return the area under the curve of weighted rows, None if a class has none."""
    _, at = np.unique(scores, return_inverse=True)
    first, second = (np.bincount(at.reshape(-1), counts[:, number]) for number in (0, 1))
    pairs = first.sum() * second.sum()
    below = np.cumsum(first) - first / 2
    return float(second @ below / pairs) if pairs > 0 else None
