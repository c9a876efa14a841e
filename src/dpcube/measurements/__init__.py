"""Noisy measurements, the transcript of a release, its provenance, and its file format."""

from dpcube.measurements.measurement import CellGroups, Measurement
from dpcube.measurements.measurements import BoxCounts, Marginal, Selection
from dpcube.measurements.transcript import Layout, Provenance, Transcript

__all__ = [
    "BoxCounts",
    "CellGroups",
    "Layout",
    "Marginal",
    "Measurement",
    "Provenance",
    "Selection",
    "Transcript",
]
