"""Random trees of boxes, for tests of every kind."""

import itertools
from collections.abc import Iterator

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.trees.tree import BoxTree


def random_tree(shape: tuple[int, ...], generator: np.random.Generator, *, stop: float) -> BoxTree:
    """Cut boxes in two to four along a random axis; at depth d a box stays whole with probability `stop` times d."""

    def visit(lower: Ints, upper: Ints, parent: int, depth: int) -> Iterator[tuple[Ints, Ints, int]]:
        me = next(number)
        yield lower, upper, parent
        wide = np.flatnonzero(upper - lower > 1)
        if not len(wide) or generator.random() < stop * depth:
            return
        axis = generator.choice(wide)
        places = np.arange(lower[axis] + 1, upper[axis])
        cuts = np.sort(generator.choice(places, size=min(len(places), int(generator.integers(1, 4))), replace=False))
        for low, high in itertools.pairwise([lower[axis], *cuts, upper[axis]]):
            below, above = lower.copy(), upper.copy()
            below[axis], above[axis] = low, high
            yield from visit(below, above, me, depth + 1)

    number = itertools.count()
    lowers, uppers, parents = zip(*visit(np.zeros(len(shape), np.int64), np.array(shape), -1, 0), strict=True)
    return BoxTree(shape, np.array(lowers), np.array(uppers), np.array(parents))
