"""Trees of boxes: the balanced halving tree, binarisation by straight cuts, v-optimal kd-trees.

tree           tree of nested boxes, with its nodes in preorder
halving        balanced halving tree for a workload
straight_cuts  binary trees from partitions into many boxes
growth         v-optimal kd-tree of noisy counts, by the compiled loops of `growth_kernels`
"""

from dpcube.trees.tree import BoxTree

__all__ = ["BoxTree"]
