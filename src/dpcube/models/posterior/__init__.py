"""The posterior of a tree of noisy counts, and the estimate it makes.

`inference.py` infers it, by the compiled loops of `splits.py`, and the count of the whole table;
`calibration.py` estimates how much more it errs than it states; `estimate.py` answers queries by it, and `stored.py` by
what was written of it.
"""

from dpcube.models.posterior.estimate import PosteriorEstimate, TreeEstimate
from dpcube.models.posterior.inference import (
    Learnt,
    Posterior,
    Whole,
    counted_apart,
    infer,
    whole_count,
    with_unseen_departures,
)

__all__ = [
    "Learnt",
    "Posterior",
    "PosteriorEstimate",
    "TreeEstimate",
    "Whole",
    "counted_apart",
    "infer",
    "whole_count",
    "with_unseen_departures",
]
