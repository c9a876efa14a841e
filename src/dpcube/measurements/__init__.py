"""What was measured, where it comes from, and the file that holds it."""

from dpcube.measurements.choices import Choice
from dpcube.measurements.cuboids import Cuboid, CuboidCounts
from dpcube.measurements.measurements import BoxCounts, CellCounts, MarginalCounts, Measurement
from dpcube.measurements.provenance import Provenance
from dpcube.measurements.transcript import FINE_GRID, PERIODS, Transcript

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
