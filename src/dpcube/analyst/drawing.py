"""Rows drawn from the model of a wide release: its beliefs and a seed enter, rows of all columns leave, in batches."""

from collections.abc import Iterator, Mapping

import pyarrow as pa

from dpcube.analyst.synthesize import BATCH_ROWS, generator_of, rows_to_draw, streamed_rows
from dpcube.arrays import Places
from dpcube.domain import Domain
from dpcube.estimate.cuboids.drawing import drawn_cells
from dpcube.estimate.cuboids.estimate import CuboidsEstimate


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
