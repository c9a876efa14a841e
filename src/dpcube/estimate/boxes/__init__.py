"""Estimates by totals of boxes: `part.py` spreads totals evenly over boxes, `estimate.py` adds details of cells."""

from dpcube.estimate.boxes.estimate import BoxEstimate
from dpcube.estimate.boxes.part import BoxPart

__all__ = ["BoxEstimate", "BoxPart"]
