"""Estimates of every cell from what was measured, and what the errors of answers are made of.

`protocol.py` is the `Estimate` protocol, the one interface of all of them, and their written form;
`estimators.py` makes one of a transcript. The estimates:

* `boxes.py`: totals of boxes and details of cells, linear in the counts; `least_squares_tree.py`: the same for boxes
  inside one another, by least squares on their tree.
* `posterior/`: Bayesian inference of the splits of a tree; `marginals/`: such a posterior reconciled with noisy
  marginals of one and two attributes (the default); `fine_grid.py`: the posterior of a grid too large to materialise.
* `cuboids/`: a maximum-entropy model of the noisy marginals of a wide table, on a junction tree.

`cellwise.py` is what estimates of every cell share, `sampling.py` draws synthetic rows, and `errors/` is where the
error of an answer is made, with a map. `cell_sums.py` is used by several;
`metrics.py` compares an estimate with the truth, for public or simulated counts.
"""

from typing import TYPE_CHECKING

from dpcube.core.lazy import lazily

if TYPE_CHECKING:
    from dpcube.models.errors import EqualNoises, ErrorParts
    from dpcube.models.estimators import available, estimate
    from dpcube.models.protocol import Estimate

__all__ = ["EqualNoises", "ErrorParts", "Estimate", "available", "estimate"]

_ERRORS, _ESTIMATORS = ("EqualNoises", "ErrorParts"), ("available", "estimate")
_HOMES = {**dict.fromkeys(_ERRORS, "errors.parts"), **dict.fromkeys(_ESTIMATORS, "estimators"), "Estimate": "protocol"}
__getattr__ = lazily(__name__, _HOMES)
