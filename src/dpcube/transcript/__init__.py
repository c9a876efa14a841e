"""What was measured, where it comes from, and the file that holds it."""

from dpcube.transcript.choices import Choice
from dpcube.transcript.cuboids import Cuboid, CuboidCounts
from dpcube.transcript.measurements import BoxCounts, CellCounts, MarginalCounts, Measurement
from dpcube.transcript.provenance import Provenance
from dpcube.transcript.transcript import FINE_GRID, PERIODS, Transcript

__all__ = [
    "FINE_GRID",
    "PERIODS",
    "BoxCounts",
    "CellCounts",
    "Choice",
    "Cuboid",
    "CuboidCounts",
    "MarginalCounts",
    "Measurement",
    "Provenance",
    "Transcript",
]
