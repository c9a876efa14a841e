"""Public candidates of private selections and their scores: a small closed set of kinds.

Each kind states its sensitivity, the most by which one row changes the difference of two scores, with a proof beside
it; scores are integers throughout. The mechanism that uses them is proved in `core/selection.py`.
"""

from dpcube.core.candidates.classes import BestSplit, LargestClass
from dpcube.core.candidates.distances import BoxDistances, TableDistances
from dpcube.core.candidates.kind import Candidates, Counted
from dpcube.core.candidates.medians import MedianCuts
from dpcube.core.errors import InputError

__all__ = ["CANDIDATE_KINDS", "BestSplit", "BoxDistances", "Candidates", "Counted", "LargestClass", "MedianCuts"]
__all__ += ["TableDistances", "check_candidates"]

CANDIDATE_KINDS: tuple[type[Candidates], ...] = (MedianCuts, LargestClass, BestSplit, BoxDistances, TableDistances)
"""Every kind. A counter refuses any other, because its sensitivity is not proved."""


def check_candidates(candidates: object, shape: tuple[int, ...]) -> None:
    """Raise InputError unless these are candidates of a known kind in a cube of this shape: before a charge."""
    # Exactly these classes and no subclass: the sensitivity of others' scores is not proved.
    if type(candidates) not in CANDIDATE_KINDS:
        names = ", ".join(kind.__name__ for kind in CANDIDATE_KINDS)
        msg = f"select needs candidates of one of the kinds {names}, not {type(candidates).__name__}"
        raise InputError(msg)
    assert isinstance(candidates, Candidates)
    if candidates.shape != shape:
        msg = f"these candidates are of a cube of shape {candidates.shape}, and this one has shape {shape}"
        raise InputError(msg)
