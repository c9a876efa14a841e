"""The arrays from which the offline page answers: the written form of an estimate, with what the page computes from.

`page/estimates.js` does with each kind what the estimate does. An estimate of another kind gives its cells alone, and
the page says of every error that it is unknown there.
"""

from typing import NamedTuple

import numpy as np

from dpcube.core.arrays import Floats
from dpcube.models import Estimate
from dpcube.models.arrays import Arrays
from dpcube.models.errors.biases import BIAS, MAX_NOISE, OUTLIER_BIAS, OUTLIERS
from dpcube.models.errors.walks import COVERED
from dpcube.noise.law import discrete_variance
from dpcube.noise.sums import dl_sum_quantile

PAGE_KINDS = ("tree", "balanced", "boxes")
"""Kinds of written estimates from which the page answers with errors."""
CONSTANTS = {"covered": COVERED, "bias": BIAS, "oddBias": OUTLIER_BIAS, "odd": OUTLIERS, "largestNoise": MAX_NOISE}


class PageModel(NamedTuple):
    """What a page answers from: a few numbers, and arrays by name."""

    facts: dict[str, object]
    arrays: Arrays


def page_model(estimate: Estimate, *, confidence: float) -> PageModel:
    """Return what answers of an estimate need."""
    kind, facts, arrays = estimate.to_arrays()
    if kind not in PAGE_KINDS:
        return PageModel({"kind": "cells"}, {"cells": estimate.cells().reshape(-1)})
    alpha = facts.get("alpha")
    if alpha is not None:
        counts = int(np.sum(arrays["end"] == np.arange(1, len(arrays["end"]) + 1))) if "end" in arrays else 0
        arrays |= {"quantiles": _deviations_of_sums(alpha, counts or int(np.prod(estimate.shape)), confidence)}
    return PageModel({**CONSTANTS, **facts, "kind": kind}, arrays)


def _deviations_of_sums(alpha: float, counts: int, confidence: float) -> Floats:
    """Return how many standard errors a sum of n noises is off at most, for each n: `Answers.half_width` has it so."""
    numbers = np.arange(1, counts + 1)
    quantiles = np.asarray(dl_sum_quantile(confidence, numbers, alpha=alpha)).reshape(-1)
    deviations = np.sqrt(numbers * discrete_variance(np.float64(alpha)))
    return np.asarray(quantiles / deviations, np.float64)
