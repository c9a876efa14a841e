"""Errors of an estimate against the truth, for public or simulated counts."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcube.models.cell_sums import range_sums, summed_area_table
from dpcube.queries import Workload


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors over a workload: mean, root mean square and largest absolute error, and the L2 error per query and row."""

    mean_abs: float
    rms: float
    largest: float
    scaled_l2: float


def exact_answers(exact_counts: ArrayLike, workload: Workload) -> NDArray[np.float64]:
    """Return the true answers of a workload."""
    table = summed_area_table(np.asarray(exact_counts, np.float64))
    return range_sums(table, workload.lower, workload.upper)


def absolute_errors(exact_counts: ArrayLike, estimated: ArrayLike, workload: Workload) -> NDArray[np.float64]:
    """Return how far estimated counts are off in each query of a workload."""
    wrong = np.asarray(estimated, np.float64) - np.asarray(exact_counts, np.float64)
    return np.abs(exact_answers(wrong, workload))


def errors(exact_counts: ArrayLike, estimated: ArrayLike, workload: Workload) -> Errors:
    """Return the errors of estimated counts over a workload."""
    wrong = absolute_errors(exact_counts, estimated, workload)
    rows = max(float(np.asarray(exact_counts, np.float64).sum()), 1.0)
    return Errors(
        mean_abs=float(wrong.mean()),
        rms=float(np.sqrt((wrong**2).mean())),
        largest=float(wrong.max()),
        scaled_l2=float(np.linalg.norm(wrong) / (len(workload) * rows)),
    )
