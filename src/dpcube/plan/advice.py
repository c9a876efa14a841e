"""Advice on bins: how far to coarsen a cube until the asked kind of question stands above noise."""

from dataclasses import dataclass

from dpcube.plan.axes import halve_longest
from dpcube.plan.predict import Prediction, Predictor
from dpcube.strategies import Strategy


@dataclass(frozen=True, slots=True)
class Advice:
    """Which attributes to coarsen, from how many bins to how many, and the prediction before and after.

    `enough` is false when even the coarsest bins leave the typical answer below the noise: then only more budget, more
    rows or fewer attributes help.
    """

    coarser: dict[str, tuple[int, int]]
    before: Prediction
    after: Prediction
    enough: bool


def advise(predictor: Predictor, strategy: Strategy, *, before: Prediction) -> Advice | None:
    """Return how to coarsen the cube, or None when the mean answer stands above noise as predicted.

    The attribute with most bins is halved, again and again: its detail costs most cells.
    The advised cube has no larger relative error than the cube as it is: it is the first such that stands above noise,
    or else the best, which may be the cube as it is.
    """
    if before.stands_out:
        return None
    best, axes, tried = before, predictor.axes, predictor
    while not best.stands_out and (fewer := halve_longest(tried.axes)) is not None:
        tried = tried.on(fewer)
        after = tried.predict(strategy, before.epsilon)[before.queries]
        if after.of_answer <= best.of_answer:
            best, axes = after, tried.axes
    pairs = zip(predictor.axes, axes, strict=True)
    coarser = {old.name: (old.bins, new.bins) for old, new in pairs if old != new}
    return Advice(coarser, before, best, best.stands_out)
