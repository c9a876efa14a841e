"""Boxes of cells and trees of boxes: the public geometry of a cube.

`boxes.py` is trusted: the gate sums exact counts over boxes, and the budget of every cell is kept by them. Nothing is
imported here, so that who needs it does not load the trees.
"""

__all__: list[str] = []
