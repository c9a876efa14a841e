"""The posterior of a tree of noisy counts, and the estimate it makes.

`inference.py` infers it, by the compiled loops of `splits.py`; `calibrated.py` measures how much more it errs than it
says; `estimate.py` answers questions by it; `cells.py` fills in every cell.
"""

from dpcube.estimate.posterior.estimate import PosteriorEstimate
from dpcube.estimate.posterior.inference import Learnt, Posterior, infer

__all__ = ["Learnt", "Posterior", "PosteriorEstimate", "infer"]
