"""Truth against release, for public data: seeded experiments, workloads and errors."""

from dpcube.evaluate.arrays import experiment, release_array
from dpcube.evaluate.metrics import Errors, errors, exact_answers
from dpcube.evaluate.synthetic import Distances, SyntheticQuality, distances, synthetic_quality
from dpcube.evaluate.workloads import prefixes, random_ranges, ranges_of_size
from dpcube.partition import weighted_variance

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
