"""Classifiers from a release: training data for any of them, one good default, and the paper's ID3.

Nothing here reaches rows of a private table: an estimate of a released cube enters. The rows that `predict` takes are
the analyst's own.
"""

from typing import TYPE_CHECKING

from dpcube.core.lazy import lazily

if TYPE_CHECKING:
    from dpcube.learn.classifier import CubeClassifier
    from dpcube.learn.features import Features
    from dpcube.learn.id3 import HistogramID3
    from dpcube.learn.model_file import TrainedModel
    from dpcube.learn.training import Training

__all__ = ["CubeClassifier", "Features", "HistogramID3", "TrainedModel", "Training"]

__getattr__ = lazily(
    __name__,
    {
        "CubeClassifier": "classifier",
        "Features": "features",
        "HistogramID3": "id3",
        "TrainedModel": "model_file",
        "Training": "training",
    },
)
