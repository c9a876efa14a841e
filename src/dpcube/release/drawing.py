"""Rows drawn from a cube that nobody could hold: an estimate and a seed enter, rows of all columns leave, in batches.

Of a fine grid rows are put into the leaves of its tree. Of a wide release they follow its model (`cuboids/drawing.py`).
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from dpcube.core.arrays import Places
from dpcube.core.domain import Domain
from dpcube.models.cuboids.drawing import drawn_cells
from dpcube.models.cuboids.estimate import CuboidsEstimate
from dpcube.models.fine_grid import GridEstimate
from dpcube.release.synthesize import BATCH_ROWS, generator_of, rows_to_draw, stratified_places, streamed_rows


def modelled_rows(
    domain: Domain,
    estimate: CuboidsEstimate,
    rows: int | None,
    seed: int | None,
    *,
    origin: Mapping[str, str] | None = None,
) -> pa.RecordBatchReader:
    """Return a stream of rows drawn from a model; as many as its total when `rows` is None."""
    count, generator = rows_to_draw(rows, estimate.beliefs.total), generator_of(seed)

    def batches() -> Iterator[tuple[Places, ...]]:
        for start in range(0, count, BATCH_ROWS):
            yield drawn_cells(estimate, min(BATCH_ROWS, count - start), generator)

    return streamed_rows(domain, batches(), generator, origin=origin)


def rows_of_boxes(
    domain: Domain,
    estimate: GridEstimate,
    rows: int | None,
    seed: int | None,
    *,
    origin: Mapping[str, str] | None = None,
) -> pa.RecordBatchReader:
    """Return a stream of rows drawn from the leaves of a grid: in each its share of them, evenly placed."""
    leaves = estimate.tree.leaf_boxes
    expected = np.maximum(estimate.totals[estimate.tree.leaves], 0.0)
    count, generator = rows_to_draw(rows, float(expected.sum())), generator_of(seed)

    def batches() -> Iterator[tuple[Places, ...]]:
        for boxes in stratified_places(expected, count, generator):
            yield tuple(generator.integers(leaves.lower[boxes], leaves.upper[boxes]).T)

    return streamed_rows(domain, batches(), generator, origin=origin)
