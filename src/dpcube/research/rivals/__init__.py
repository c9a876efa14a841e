"""Published systems to compare with, by name, strategies included: research code whose output is not private."""

from dpcube.research.rivals.registry import LISTED, Listed, rival_of
from dpcube.research.rivals.rival import NOT_PRIVATE, OfStrategy, Rival

__all__ = ["LISTED", "NOT_PRIVATE", "Listed", "OfStrategy", "Rival", "rival_of"]
