"""The arrays from which the page answers: an estimate enters; plain numbers and arrays leave.

There are three forms, one for each kind of estimate, and `page/estimates.js` does with each what the estimate does. An
estimate of another kind gives its cells alone, and the page says of every error that it is unknown there.
"""

from dataclasses import asdict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Floats
from dpcube.models import Estimate
from dpcube.models.boxes import BoxEstimate
from dpcube.models.errors.biases import BIAS, LARGEST_NOISE, ODD, ODD_BIAS
from dpcube.models.errors.parts import EqualNoises
from dpcube.models.errors.walks import COVERED
from dpcube.models.marginals import BalancedEstimate
from dpcube.models.posterior import PosteriorEstimate
from dpcube.noise.single import noise_variance
from dpcube.noise.sums import dl_sum_quantile
from dpcube.release.cache.balanced_answers import BalancedAnswers
from dpcube.release.cache.tree_answers import TreeAnswers
from dpcube.trees.tree import BoxTree

Arrays = dict[str, NDArray[np.generic]]


class PageModel(NamedTuple):
    """What a page answers from: a few numbers, and arrays by name."""

    facts: dict[str, object]
    arrays: Arrays


def page_model(estimate: Estimate, *, confidence: float) -> PageModel:
    """Return what answers of an estimate need."""
    if isinstance(estimate, PosteriorEstimate):
        return _of_tree(TreeAnswers.of(estimate), kind="tree")
    if isinstance(estimate, BalancedEstimate):
        return _of_balanced(BalancedAnswers.of(estimate))
    if isinstance(estimate, BoxEstimate):
        return _of_boxes(estimate, confidence)
    return PageModel({"kind": "cells"}, {"cells": estimate.cells().reshape(-1)})


def _of_tree(tree: TreeAnswers, *, kind: str) -> PageModel:
    learnt = None if tree.biases is None else asdict(tree.biases)
    facts = {"kind": kind, "columns": tree.apart.shape[1], "biases": learnt}
    facts |= {"unordered": list(tree.unordered), "covered": COVERED}
    facts |= {"bias": BIAS, "oddBias": ODD_BIAS, "odd": ODD, "largestNoise": LARGEST_NOISE}
    arrays: Arrays = {
        "ofTotal": np.array([tree.of_total]),
        "end": tree.end.astype(np.int32),
        "cutAxis": tree.axis.astype(np.int32),
        "cutPlace": tree.place.astype(np.int32),
        "totals": tree.totals,
        "variances": tree.variances,
        "apart": tree.apart.reshape(-1),
        "measure": tree.measure,
    }
    return PageModel(facts, arrays)


def _of_balanced(balanced: BalancedAnswers) -> PageModel:
    facts, arrays = _of_tree(balanced.tree, kind="balanced")
    pooled = {
        "precisions": [[list(axes), precision] for axes, precision in balanced.precisions.items()],
        "factors": [[list(axes), factor] for axes, factor in balanced.factors.items()],
        "ofTree": [list(axes) for axes in balanced.of_tree],
    }
    arrays |= {f"values{axis}": squares for axis, squares in balanced.of_values.items()}
    return PageModel(facts | pooled, arrays | {"cells": np.asarray(balanced.cells, np.float64).reshape(-1)})


def _of_boxes(estimate: BoxEstimate, confidence: float) -> PageModel:
    """Return totals of boxes, details of cells, and what tells how uneven boxes are, as far as there are any."""
    arrays: Arrays = {"cellVariance": np.array([estimate.cell_variance])}
    numbers = int(np.prod(estimate.shape))
    if estimate.detail is not None:
        arrays["detail"] = estimate.detail.reshape(-1)
    if estimate.boxes is not None:
        arrays |= _bounds(estimate.boxes.tree)
        arrays["below"] = estimate.boxes._below.reshape(-1)
        numbers = len(estimate.boxes.totals)
    if estimate.within is not None:
        ratio = estimate.within.ratio
        arrays["ratio"] = np.array([estimate.within.cell_variance, ratio.least, ratio.low, ratio.power])
        arrays["deviation"] = estimate.within.deviation.reshape(-1)
    if estimate.alpha is not None:
        arrays["quantiles"] = _deviations_of_sums(EqualNoises(estimate.alpha, np.arange(1, numbers + 1)), confidence)
    return PageModel({"kind": "boxes"}, arrays)


def _bounds(tree: BoxTree) -> Arrays:
    numbers = {"end": tree.end, "lower": tree.lower, "upper": tree.upper}
    return {name: of.astype(np.int32).reshape(-1) for name, of in numbers.items()}


def _deviations_of_sums(noises: EqualNoises, confidence: float) -> Floats:
    """Return how many standard errors a sum of n noises is off at most, for each n: `Answers.half_width` has it so."""
    quantiles = np.asarray(dl_sum_quantile(confidence, noises.numbers, alpha=noises.alpha)).reshape(-1)
    deviations = np.sqrt(noises.numbers * noise_variance(noises.alpha, noise="discrete"))
    return np.asarray(quantiles / deviations, np.float64)
