"""Section 6.4: accuracy of classifiers against epsilon, on the Adult table's rows without missing values.

Enters: nothing; the table is bundled. Leaves: a figure. Accuracy is drawn as points above the largest class, for the
whole figure lies in 1.8 of them: that class alone tells 75.43% of the test rows, and no classifier of these four
attributes can tell more than 77.26%. Noise is from seeds, and intervals are over releases, not over test rows.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import pyarrow as pa

from dpcube.core.arrays import Bools, Floats, Ints
from dpcube.core.candidates import Criterion
from dpcube.core.domain import Category, Domain
from dpcube.core.gate import Gate
from dpcube.core.sources.open import counts_from_array
from dpcube.curator.publishing import count
from dpcube.datasets import adult_domain
from dpcube.learn import Features, HistogramID3
from dpcube.research.arrays import experiment
from dpcube.research.classification.private_trees import Splits, interactive_id3, random_trees, votes
from dpcube.research.classification.task import TARGET, official_split
from dpcube.research.reproduce.figure import CurvePanel, Figure, Verdict
from dpcube.research.reproduce.measured import (
    DRAWS,
    CurveLook,
    Draws,
    Gathered,
    PanelPlan,
    Progress,
    clearly_below,
    from_to,
    measured_panels,
    places,
    recorded_panels,
    trend,
)
from dpcube.testing import SeededNoise, SilentNoise

ATTRIBUTES = ("workclass", "marital-status", "race", "sex")
MORE_ATTRIBUTES = ("education-num", "marital-status", "occupation", "sex")
CLASSIFIER_EPSILONS = ("0.05", "0.1", "0.2", "0.5", "1", "2")
BOUND_ON_ROWS = 2**16
"""A public bound on the rows, which information gain needs."""

Data = tuple[Domain, Ints, Ints, Ints]
"""A domain whose last attribute is the class, exact counts of training rows, cells and classes of test rows."""
Method = Callable[[Data, str, int], Floats]


def whole_rows(table: pa.Table) -> pa.Table:
    """Return the rows without a missing value."""
    missing = np.logical_or.reduce([table.column(name).is_null().to_numpy() for name in table.column_names])
    return table.filter(pa.array(~missing))


def data_of(names: tuple[str, ...]) -> Data:
    """Return the training cube and the test rows of some attributes."""
    whole = Domain.load(adult_domain(full=True))
    # Classes in the order of their names: of two that are as large ID3 takes the first.
    target = Category(TARGET, sorted(whole[TARGET].labels()))
    domain = Domain([*whole.project(names).attributes, target])
    train, test = (whole_rows(table) for table in official_split())
    features = Features.from_domain(domain, TARGET)
    truth = np.array([features.classes.tolist().index(value) for value in test[TARGET].to_pylist()])
    return domain, count(train, domain), features.cells(test), truth


def histogram_id3(data: Data, epsilon: str, seed: int, *, strategy: str, estimate: str = "auto") -> Floats:
    """Return the class weights that ID3 on a released histogram gives test rows."""
    domain, counts, cells, _ = data
    release = experiment(counts, epsilon=epsilon, strategy=strategy, noise=SeededNoise(seed), domain=domain)
    training = release.to_training(TARGET, encoding="cells", estimate=estimate)
    tree = HistogramID3().fit(training.X, training.target, training.sample_weight)
    chances = np.zeros((len(cells), len(training.features.classes)))
    chances[:, tree.classes_] = tree.predict_proba(cells)
    return chances


def plain_id3(data: Data) -> tuple[Floats, Bools]:
    """Return the class weights that ID3 on exact counts gives test rows, and which rows reach an unseen branch."""
    domain, counts, cells, _ = data
    exact = experiment(counts, epsilon="1", strategy="cells", noise=SilentNoise(), domain=domain)
    training = exact.to_training(TARGET, encoding="cells")
    tree = HistogramID3().fit(training.X, training.target, training.sample_weight)
    return tree.predict_proba(cells), tree.unseen(cells)


def default_classifier(data: Data, epsilon: str, seed: int) -> Floats:
    """Return the probabilities that the default classifier of a release gives test rows."""
    domain, counts, cells, _ = data
    release = experiment(counts, epsilon=epsilon, noise=SeededNoise(seed), domain=domain)
    return release.train(TARGET).model.probabilities(cells)


def private_tree(data: Data, epsilon: str, seed: int, *, splits: Splits = "choice", criterion: Criterion) -> Floats:
    """Return the class weights of interactive ID3 behind a gate with seeded noise."""
    gate, target = _gate(data, epsilon, seed)
    tree = interactive_id3(gate, target, splits=splits, criterion=criterion, most_rows=BOUND_ON_ROWS)
    return votes([tree], data[2])


def ten_random_trees(data: Data, epsilon: str, seed: int) -> Floats:
    """Return the class weights of ten random trees behind a gate with seeded noise."""
    gate, target = _gate(data, epsilon, seed)
    return votes(random_trees(gate, target, seed=seed), data[2])


def _gate(data: Data, epsilon: str, seed: int) -> tuple[Gate, int]:
    domain, counts, _, _ = data
    gate = Gate(counts_from_array(counts, domain), Fraction(epsilon), noise=SeededNoise(seed))
    return gate, len(domain.shape) - 1


_BY_TWO_PHASES = partial(histogram_id3, strategy="dpcube")
METHODS: dict[str, tuple[str, str, Method]] = {
    "default": ("the default classifier", "adaptive", default_classifier),
    "adaptive": ("ID3, the default's cube", "weighted", partial(histogram_id3, strategy="adaptive")),
    "dpcube_ls": ("ID3, DPCube, least squares", "dpcube", partial(_BY_TWO_PHASES, estimate="least_squares")),
    "dpcube_uniform": ("ID3, DPCube, uniform", "dpcube follows", partial(_BY_TWO_PHASES, estimate="uniform")),
    "cells": ("ID3, cells, whole budget", "cells", partial(histogram_id3, strategy="cells")),
    "max": ("interactive ID3, Max", "kd-tree best", partial(private_tree, criterion="max")),
    "gini": ("interactive ID3, Gini", "kd-tree", partial(private_tree, criterion="gini")),
    "information": ("interactive ID3, information", "mwem", partial(private_tree, criterion="information")),
    "sulq": ("interactive ID3, SuLQ", "ugrid", partial(private_tree, splits="sulq", criterion="information")),
    "random": ("random trees", "privtree", ten_random_trees),
}
FIXED_LINES = {
    "id3": CurveLook("plain ID3, not private", "uniform"),
    "id3_unseen_wrong": CurveLook("plain ID3, unseen wrong", "privelet"),
    "majority": CurveLook("the largest class", "consistency rows"),
    "ceiling": CurveLook("ceiling of the attributes", "formula"),
}
"""Lines that do not depend on epsilon: no private method is asked for them."""
SETTINGS_OF_FIGURE = {"a": ATTRIBUTES, "b": MORE_ATTRIBUTES}
CLASSIFIER_PLANS = tuple(
    PanelPlan(
        letter,
        ", ".join(names),
        "epsilon",
        "epsilon",
        {**{key: CurveLook(*look[:2]) for key, look in METHODS.items()}, **FIXED_LINES},
        spaced="log",
    )
    for letter, names in SETTINGS_OF_FIGURE.items()
)


def points(weights: Floats, truth: Ints) -> float:
    """Return by how many points of 100 an accuracy is above that of the largest class."""
    majority = np.bincount(truth).max() / len(truth)
    return 100 * float((weights.argmax(axis=1) == truth).mean() - majority)


def ceiling(cells: Ints, truth: Ints) -> float:
    """Return the points of whoever knows the largest class of the test rows in every cell."""
    at = np.unique(cells, axis=0, return_inverse=True)[1].reshape(-1)
    table = np.zeros((int(at.max()) + 1, int(truth.max()) + 1))
    np.add.at(table, (at, truth), 1)
    return 100 * float((table.max(axis=1).sum() - table.sum(axis=0).max()) / len(truth))


def fixed_lines(data: Data) -> dict[str, float]:
    """Return the points of the lines that do not depend on epsilon."""
    cells, truth = data[2:]
    chances, unseen = plain_id3(data)
    told = points(chances, truth)
    wrong = 100 * float((unseen & (chances.argmax(axis=1) == truth)).mean())
    return {"id3": told, "id3_unseen_wrong": told - wrong, "majority": 0.0, "ceiling": ceiling(cells, truth)}


def measured_points(draws: int, progress: Progress, epsilons: tuple[str, ...]) -> Draws:
    """Return the points of every method, draw by draw."""
    found = Gathered()
    for letter, names in SETTINGS_OF_FIGURE.items():
        data = data_of(names)
        for key, (label, _, method) in METHODS.items():
            for epsilon in epsilons:
                progress(f"classifiers of {', '.join(names)}: {label} at epsilon {epsilon}")
                for seed in range(draws):
                    found.add(letter, key, float(epsilon), points(method(data, epsilon, seed), data[3]))
        for key, value in fixed_lines(data).items():
            for epsilon in epsilons:
                found.setdefault((letter, key), {})[float(epsilon)] = [value] * draws
    return found


def classification(
    *, draws: int = DRAWS, progress: Progress = lambda _: None, epsilons: tuple[str, ...] = CLASSIFIER_EPSILONS
) -> Figure:
    """Return the paper's experiment, and the same with more informative attributes."""
    return figure_of_classification(measured_panels(CLASSIFIER_PLANS, measured_points(draws, progress, epsilons)))


def recorded_classification(text: str) -> Figure:
    """Return the figure that was recorded as CSV."""
    return figure_of_classification(recorded_panels(CLASSIFIER_PLANS, text))


def figure_of_classification(panels: tuple[CurvePanel, ...]) -> Figure:
    """Return the figure of these panels with its verdicts."""
    first, second = panels
    draws = first.curves[0].draws
    return Figure(
        "classification",
        "Accuracy of classifiers against epsilon",
        "fig:classifiers",
        f"30,162 training and 15,060 test rows, {draws} releases, depth 4",
        panels,
        _verdicts(first, second),
        _left_out(first, second),
        value_label="points above the largest class",
        panels_a_line=2,
    )


def _verdicts(first: CurvePanel, second: CurvePanel) -> tuple[Verdict, ...]:
    """Return the paper's claims beside the measured numbers."""
    plain, unseen, best = (MAJORITY + first[key][0] for key in ("id3", "id3_unseen_wrong", "ceiling"))
    below = {key: places(first, clearly_below(first, key, "id3")) for key in _OURS}
    rises = "; ".join(
        f"{METHODS[key][0]} {trend(first, key)} ({from_to(first, key)})" for key in (*_OURS, *_INTERACTIVE)
    )
    return (
        Verdict(
            "Plain ID3 tells 76.9% of the test rows.",
            f"{unseen:.2f}% where a row at an unseen branch counts as wrong, {plain:.2f}% where it gets the largest "
            "class there.",
            f"The largest class alone tells {MAJORITY:.2f}%, and no classifier of these four attributes can tell more "
            f"than {best:.2f}%: the whole figure lies in {first['ceiling'][0]:.2f} points.",
        ),
        Verdict(
            "ID3 on the released cube is slightly below plain ID3.",
            f"Clearly below with least squares {below['dpcube_ls']}, with the uniform estimate "
            f"{below['dpcube_uniform']}.",
            f"Slightly, at large epsilon: at {first.at[-1]:g} it has {first['dpcube_ls'][-1]:.2f} and "
            f"{first['dpcube_uniform'][-1]:.2f} of plain ID3's {first['id3'][0]:.2f} points, at {first.at[0]:g} "
            f"{first['dpcube_ls'][0]:.2f} and {first['dpcube_uniform'][0]:.2f}.",
        ),
        Verdict(
            "Both get better with a larger budget.",
            f"From epsilon {first.at[0]:g} to {first.at[-1]:g}: {rises}.",
            "Trends are between the ends, beyond chance or not.",
        ),
        Verdict(
            "ID3 on the released cube is above interactive ID3.",
            f"With least squares: {_above(first, 'dpcube_ls')}. With the uniform estimate: "
            f"{_above(first, 'dpcube_uniform')}.",
            f"With attributes that tell more (b), with least squares: {_above(second, 'dpcube_ls')}; with the uniform "
            f"estimate: {_above(second, 'dpcube_uniform')}.",
        ),
    )


_OURS = ("dpcube_ls", "dpcube_uniform")
_INTERACTIVE = ("max", "gini", "information", "sulq")
MAJORITY = 75.4316
"""Accuracy of the largest class on the test rows, in percent."""


def _above(panel: CurvePanel, curve: str) -> str:
    """Return where a curve is clearly above each variant of interactive ID3, and where below."""
    said = []
    for rival in _INTERACTIVE:
        above, below = clearly_below(panel, rival, curve), clearly_below(panel, curve, rival)
        word = METHODS[rival][0].removeprefix("interactive ID3, ")
        said.append(f"{word} {places(panel, above)}" + (f" (below it {places(panel, below)})" if below.any() else ""))
    return f"clearly above {', '.join(said)}"


def _left_out(first: CurvePanel, second: CurvePanel) -> str:
    ends = [
        f"{look[0]} {panel[key][0]:.2f} to {panel[key][-1]:.2f}"
        for panel, keys in ((first, ("default", "cells")), (second, ("default", "cells", "max", "random")))
        for key, look in METHODS.items()
        if key in keys
    ]
    return (
        "The line of the largest class, cells with the whole budget, and attributes that tell more. "
        f"Points from epsilon {first.at[0]:g} to {first.at[-1]:g}: (a) {', '.join(ends[:2])}; "
        f"(b) {', '.join(ends[2:])}, of {second['id3'][0]:.2f} of plain ID3; the ceiling is {second['ceiling'][0]:.2f}."
    )


CLASSIFIERS: dict[str, Callable[..., Figure]] = {"classification": classification}
