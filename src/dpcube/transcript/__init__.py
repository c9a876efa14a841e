"""What was measured, where it comes from, and the file that holds it."""

from dpcube.transcript.provenance import Provenance
from dpcube.transcript.transcript import BoxCounts, CellCounts, Transcript

__all__ = ["BoxCounts", "CellCounts", "Provenance", "Transcript"]
