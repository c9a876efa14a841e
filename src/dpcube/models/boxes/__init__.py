"""Estimates by totals of boxes: `part.py` spreads totals evenly over boxes, `estimate.py` adds details of cells."""

from dpcube.models.boxes.estimate import BoxEstimate
from dpcube.models.boxes.part import BoxPart

__all__ = ["BoxEstimate", "BoxPart"]
