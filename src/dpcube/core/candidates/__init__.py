"""Public candidates of private selections, and how the exact counts score them: a small closed set of kinds.

Each kind says by how much one row can change the difference of two scores, with its proof beside it; scores are whole
numbers from beginning to end. What is done with them is proved in `core/selection.py`.
"""

from dpcube.core.candidates.classes import BestSplit, LargestClass
from dpcube.core.candidates.distances import BoxDistances, TableDistances
from dpcube.core.candidates.kind import Candidates, Counted
from dpcube.core.candidates.medians import MedianCuts
from dpcube.core.errors import InputError

__all__ = ["CANDIDATE_KINDS", "BestSplit", "BoxDistances", "Candidates", "Counted", "LargestClass", "MedianCuts"]
__all__ += ["TableDistances", "check_candidates"]

CANDIDATE_KINDS: tuple[type[Candidates], ...] = (MedianCuts, LargestClass, BestSplit, BoxDistances, TableDistances)
"""Every kind. One of one's own has no proof, so a counter refuses it."""


def check_candidates(candidates: object, shape: tuple[int, ...]) -> None:
    """Raise InputError unless these are candidates of a known kind in a cube of this shape: before a charge."""
    # The very classes and nothing made of them: what is proved of their scores is not proved of others'.
    if type(candidates) not in CANDIDATE_KINDS:
        names = ", ".join(kind.__name__ for kind in CANDIDATE_KINDS)
        msg = f"select needs candidates of one of the kinds {names}, not {type(candidates).__name__}"
        raise InputError(msg)
    assert isinstance(candidates, Candidates)
    if candidates.shape != shape:
        msg = f"these candidates are of a cube of shape {candidates.shape}, and this one has shape {shape}"
        raise InputError(msg)
