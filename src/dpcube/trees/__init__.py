"""Trees of boxes: the halving tree, straight cuts, and kd-tree partitions grown from noisy counts."""
