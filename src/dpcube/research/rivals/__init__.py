"""Systems to compare with, strategies included, by name: research code whose output is not private."""

from dpcube.research.rivals.registry import LISTED, Listed, rival_of
from dpcube.research.rivals.rival import NOT_PRIVATE, OfStrategy, Rival

__all__ = ["LISTED", "NOT_PRIVATE", "Listed", "OfStrategy", "Rival", "rival_of"]
