"""Evaluation on public data: experiments with seeded noise, rivals, the paper's theory and figures.

Nothing that production imports is here but through the verbs of research; what is made here is not private.
"""

from typing import TYPE_CHECKING

from dpcube.core.lazy import lazily

if TYPE_CHECKING:
    from dpcube.models.metrics import Errors, errors, exact_answers
    from dpcube.queries.random_ranges import random_ranges
    from dpcube.research.arrays import experiment, release_array
    from dpcube.research.synthetic import Distances, SyntheticQuality, distances, synthetic_quality
    from dpcube.research.workloads import prefixes, ranges_of_size
    from dpcube.trees.growth import weighted_variance

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

_HOMES = {
    **dict.fromkeys(("Errors", "errors", "exact_answers"), "models.metrics"),
    **dict.fromkeys(("experiment", "release_array"), "research.arrays"),
    **dict.fromkeys(("Distances", "SyntheticQuality", "distances", "synthetic_quality"), "research.synthetic"),
    **dict.fromkeys(("prefixes", "ranges_of_size"), "research.workloads"),
    "random_ranges": "queries.random_ranges",
    "weighted_variance": "trees.growth",
}
__getattr__ = lazily("dpcube", _HOMES)
