"""Estimates of every cell from what was measured, and what the errors of answers are made of.

`estimators.py` makes an estimate of a transcript; `protocol.py` says what every estimate can do. There are two kinds:
`boxes/` (totals of boxes and details of cells, linear in the counts) and `posterior/` (Bayesian inference on a tree).
`errors/` is where the error of an answer is made, with a map. `tree_totals.py` and `cell_sums.py` are what they share;
`metrics.py` compares an estimate with the truth, for public or made-up counts.
"""

from typing import TYPE_CHECKING

from dpcube.lazy import lazily

if TYPE_CHECKING:
    from dpcube.estimate.errors import EqualNoises, ErrorParts
    from dpcube.estimate.estimators import available, estimate
    from dpcube.estimate.protocol import Estimate

__all__ = ["EqualNoises", "ErrorParts", "Estimate", "available", "estimate"]

_ERRORS, _ESTIMATORS = ("EqualNoises", "ErrorParts"), ("available", "estimate")
_HOMES = {**dict.fromkeys(_ERRORS, "errors.parts"), **dict.fromkeys(_ESTIMATORS, "estimators"), "Estimate": "protocol"}
__getattr__ = lazily(__name__, _HOMES)
