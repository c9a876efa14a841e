"""The matrix mechanism (Li, Hay, Rastogi, Miklau, McGregor, PODS 2010) in its practical form, HDMM's (PVLDB 2018).

Each axis has a p-identity matrix A_i, optimised for all ranges (or prefixes) of the axis; what is measured is the
Kronecker product of them times the counts, one axis at a time. Columns of the product add up to 1, so Laplace noise of
scale 1/epsilon is epsilon-DP. The estimate is least squares, one axis at a time too.

It measures weighted sums, which the gate does not count, so it is research code.

*p-Identity strategies*, optimised for ranges or prefixes, are from McKenna, Miklau, Hay and Machanavajjhala
("Optimizing error of high-dimensional statistical queries", PVLDB 2018). A p-identity matrix is A = [I; T] D for a T >=
0 of p rows, D dividing each column by 1 + its sum in T, so that every column of A adds up to 1: its L1 sensitivity is 1
whatever T is. With Laplace noise of scale 1/epsilon on A x and least squares, the total squared error over a workload
of Gram matrix G is 2/epsilon^2 times

    tr(G (A'A)^-1),    (A'A)^-1 = D^-1 M D^-1,    M = I - T'(I + T T')^-1 T,

a smooth function of T with a gradient in O(p n^2), minimised here by L-BFGS from a fixed start. No data enters.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from dpcube.core.arrays import Floats, Ints
from dpcube.queries import Workload
from dpcube.research.rivals.rival import PURE, checked

AxisWorkload = Literal["ranges", "prefixes"]
LONGEST_AXIS = 256
"""Longer axes take the strategy of a shorter one, its rows stretched: the optimum itself would take minutes."""
SEARCH_STARTS = ((16, 1.0), (16, 0.1), (8, 1.0))
"""Starts of the search: cells for each row of T (HDMM has 16 for ranges), and the largest entry."""
MAX_ITERATIONS = 300


@dataclass(frozen=True, slots=True, eq=False)
class PIdentity:
    """The matrix [I; T] D, by its rows T."""

    rows: Floats

    @property
    def scale(self) -> Floats:
        """The divisor of each column: 1 + its sum in T, shape (cells,)."""
        scale: Floats = 1 + self.rows.sum(axis=0)
        return scale

    def matrix(self) -> Floats:
        """Return A, shape (cells + p, cells); every column adds up to 1."""
        return np.vstack([np.eye(self.rows.shape[1]), self.rows]) / self.scale

    def covariance(self) -> Floats:
        """Return (A'A)^-1: what the least-squares counts vary by, over the variance of the noise."""
        return self.scale[:, None] * _inner_inverse(self.rows) * self.scale

    def total_error(self, gram: Floats) -> float:
        """Return tr(G (A'A)^-1): the summed variance of a workload's answers, over the variance of the noise."""
        return float((gram * self.covariance()).sum())


def gram_of(cells: int, asked: AxisWorkload) -> Floats:
    """Return the Gram matrix of all ranges or all prefixes of an axis: how many of them contain both of two cells.

    >>> gram_of(3, "ranges")
    array([[3., 2., 1.],
           [2., 4., 2.],
           [1., 2., 3.]])
    """
    place = np.arange(cells, dtype=np.float64)
    later = np.maximum(place[:, None], place)
    if asked == "prefixes":
        return cells - later
    gram: Floats = (np.minimum(place[:, None], place) + 1) * (cells - later)
    return gram


@lru_cache(maxsize=64)
def optimised(cells: int, asked: AxisWorkload = "ranges") -> PIdentity:
    """Return a p-identity matrix of little error for all ranges or prefixes of an axis, never above the identity's."""
    if cells == 1:
        return PIdentity(np.zeros((1, 1)))
    if cells > LONGEST_AXIS:
        return _stretched(optimised(LONGEST_AXIS, asked), cells, gram_of(cells, asked))
    gram = gram_of(cells, asked)
    found = [_searched(gram, rows=math.ceil(cells / share), most=most) for share, most in SEARCH_STARTS]
    return min([PIdentity(np.zeros((1, cells))), *found], key=lambda one: one.total_error(gram))


def _searched(gram: Floats, *, rows: int, most: float) -> PIdentity:
    """Return what L-BFGS finds from a start that is the same for everybody: it is no noise."""
    start = most * np.random.default_rng(0).random((rows, len(gram)))

    def loss(flat: Floats) -> tuple[float, Floats]:
        value, slope = error_and_gradient(flat.reshape(start.shape), gram)
        return value, slope.reshape(-1)

    within, options = [(0, None)] * start.size, {"maxiter": MAX_ITERATIONS}
    found = minimize(loss, start.reshape(-1), jac=True, method="L-BFGS-B", bounds=within, options=options)
    return PIdentity(np.asarray(found.x, np.float64).reshape(start.shape))


def error_and_gradient(rows: Floats, gram: Floats) -> tuple[float, Floats]:
    """Return tr(G (A'A)^-1) as a function of T, and its gradient.

    With s = 1 + column sums and H = G scaled by s on both sides the error is <H, M>, M = (I + T'T)^-1. Its gradient is
    -2 T M H M by T in M, and 2 (G * M) s in every row by s.
    """
    scale = 1 + rows.sum(axis=0)
    inverse = _inner_inverse(rows)
    weighted = gram * inverse
    towards = weighted @ scale
    reached = np.linalg.solve(np.eye(len(rows)) + rows @ rows.T, rows)  # T M
    of_inverse = ((reached * scale) @ gram * scale) @ inverse
    return float(scale @ towards), 2 * (towards - of_inverse)


def _inner_inverse(rows: Floats) -> Floats:
    """Return M = (I + T'T)^-1 through the p by p matrix I + T T'."""
    reached = np.linalg.solve(np.eye(len(rows)) + rows @ rows.T, rows)
    inverse: Floats = np.eye(rows.shape[1]) - rows.T @ reached
    return inverse


def _stretched(shorter: PIdentity, cells: int, gram: Floats) -> PIdentity:
    """Return a strategy of a longer axis: the rows of a shorter one stretched, times the factor of least error."""
    place = np.arange(cells) * shorter.rows.shape[1] // cells
    rows = shorter.rows[:, place]
    found = minimize_scalar(
        lambda power: PIdentity(rows * math.exp(power)).total_error(gram), bounds=(-3, 3), options={"xatol": 0.1}
    )
    return PIdentity(rows * math.exp(float(found.x)))


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
