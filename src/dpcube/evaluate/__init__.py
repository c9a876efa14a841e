"""Truth against release, for public data: seeded experiments, workloads and errors."""

from dpcube.estimate.metrics import Errors, errors, exact_answers
from dpcube.evaluate.arrays import experiment, release_array
from dpcube.evaluate.synthetic import Distances, SyntheticQuality, distances, synthetic_quality
from dpcube.evaluate.workloads import prefixes, ranges_of_size
from dpcube.partition import weighted_variance
from dpcube.query.random_ranges import random_ranges

__all__ = [
    "Distances",
    "Errors",
    "SyntheticQuality",
    "distances",
    "errors",
    "exact_answers",
    "experiment",
    "prefixes",
    "random_ranges",
    "ranges_of_size",
    "release_array",
    "synthetic_quality",
    "weighted_variance",
]
