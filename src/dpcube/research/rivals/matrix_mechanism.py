"""The matrix mechanism (Li, Hay, Rastogi, Miklau, McGregor, PODS 2010) in its practical form, HDMM's (PVLDB 2018).

Each axis has a p-identity matrix A_i, optimised for all ranges (or prefixes) of the axis; what is measured is the
Kronecker product of them times the counts, one axis at a time. Columns of the product add up to 1, so Laplace noise of
scale 1/epsilon is epsilon-DP. The estimate is least squares, one axis at a time too.

It measures weighted sums, which the gate does not count, so it is research code.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.queries import Workload
from dpcube.research.rivals.p_identity import AxisWorkload, PIdentity, gram_of, optimised
from dpcube.research.rivals.rival import PURE, checked


@dataclass(frozen=True, slots=True)
class MatrixMechanism:
    """One p-identity strategy an axis, for all ranges or all prefixes."""

    name: str = "matrix_mechanism"
    asked: AxisWorkload = "ranges"
    privacy: str = PURE

    def release(self, counts: Ints, epsilon: float, rng: np.random.Generator) -> Floats:
        """Return the least-squares counts of noisy measurements."""
        exact = checked(counts, epsilon)
        strategies = self.strategies(exact.shape)
        measured = along_axes(exact, [one.matrix() for one in strategies])
        noisy = measured + rng.laplace(scale=1 / epsilon, size=measured.shape)
        return along_axes(noisy, [one.covariance() @ one.matrix().T for one in strategies])

    def strategies(self, shape: tuple[int, ...]) -> list[PIdentity]:
        """Return the strategy of each axis."""
        return [optimised(extent, self.asked) for extent in shape]

    def expected_square(self, shape: tuple[int, ...], epsilon: float) -> float:
        """Return the expected squared error of an answer, over all ranges or prefixes of the shape."""
        errors = [one.total_error(gram_of(n, self.asked)) for one, n in zip(self.strategies(shape), shape, strict=True)]
        queries = math.prod(n * (n + 1) // 2 if self.asked == "ranges" else n for n in shape)
        return 2 / epsilon**2 * math.prod(errors) / queries

    def range_variances(self, workload: Workload, epsilon: float) -> Floats:
        """Return the variance of the answer of each range: a product over axes."""
        variances = np.full(len(workload), 2 / epsilon**2)
        for axis, one in enumerate(self.strategies(workload.shape)):
            sums = np.zeros((len(one.scale) + 1,) * 2)
            sums[1:, 1:] = one.covariance().cumsum(axis=0).cumsum(axis=1)
            low, high = workload.lower[:, axis], workload.upper[:, axis]
            variances *= sums[high, high] - sums[low, high] - sums[high, low] + sums[low, low]
        return variances


def along_axes(array: Floats, matrices: list[Floats]) -> Floats:
    """Return the Kronecker product of some matrices, one for each axis, times an array.

    >>> along_axes(np.ones((2, 3)), [np.ones((1, 2)), np.eye(3)]).tolist()
    [[2.0, 2.0, 2.0]]
    """
    for axis, matrix in enumerate(matrices):
        array = np.moveaxis(np.tensordot(matrix, array, axes=(1, axis)), 0, axis)
    return array
