"""Every kind of measurement, by its name in a file."""

from dpcube.transcript.choices import Choice
from dpcube.transcript.cuboids import CuboidCounts
from dpcube.transcript.measurements import BoxCounts, CellCounts, MarginalCounts, Measurement

MEASUREMENT_KINDS: dict[str, type[Measurement]] = {
    kind.kind: kind for kind in (CellCounts, BoxCounts, MarginalCounts, Choice, CuboidCounts)
}
