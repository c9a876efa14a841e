"""Every kind of measurement, by its name in a file."""

from dpcube.measurements.choices import Choice
from dpcube.measurements.cuboids import CuboidCounts
from dpcube.measurements.measurements import BoxCounts, CellCounts, MarginalCounts, Measurement

MEASUREMENT_KINDS: dict[str, type[Measurement]] = {
    kind.kind: kind for kind in (CellCounts, BoxCounts, MarginalCounts, Choice, CuboidCounts)
}
