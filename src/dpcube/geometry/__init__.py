"""Boxes of cells and trees of boxes: the public geometry of a cube.

`boxes.py` is trusted: the gate sums exact counts over boxes, and the budget of every cell is kept by them.
"""

from dpcube.geometry.boxes import Box, Boxes, Partitioning, box_sums
from dpcube.geometry.tree import BoxTree

__all__ = ["Box", "BoxTree", "Boxes", "Partitioning", "box_sums"]
