"""The posterior of a tree of noisy counts, and the estimate it makes.

`inference.py` infers it, by the compiled loops of `splits.py`; `whole.py` is the count of the whole table;
`calibration.py` estimates how much more it errs than it states; `estimate.py` answers queries by it, and `stored.py` by
what was written of it.
"""

from dpcube.models.posterior.estimate import PosteriorEstimate, TreeEstimate
from dpcube.models.posterior.inference import Learnt, Posterior, infer, with_unseen_departures
from dpcube.models.posterior.whole import Whole, counted_apart, whole_count

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
