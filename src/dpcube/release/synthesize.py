"""Synthetic rows of a release: values drawn in the cells that `Estimate.draw` samples, in batches.

Rows are post-processing, so they cost no privacy however many are drawn. Inside its bin a value is uniform.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcube.core.arrays import Floats, Ints, Places
from dpcube.core.domain import Attribute, Domain
from dpcube.core.errors import QueryError
from dpcube.models import Estimate

BYTES_A_SYNTHETIC_VALUE = 24  # at most about this much, unless texts are long


def synthetic_rows(
    domain: Domain,
    estimate: Estimate,
    rows: int | None,
    seed: int | None,
    *,
    origin: Mapping[str, str] | None = None,
) -> pa.RecordBatchReader:
    """Return a stream of rows drawn from an estimate; as many as it estimates when `rows` is None.

    What `origin` says of the rows goes into the metadata of the schema, which Parquet files keep.
    """
    generator = generator_of(seed)
    return streamed_rows(domain, estimate.draw(rows, generator), generator, origin=origin)


def generator_of(seed: int | None) -> np.random.Generator:
    """Return the generator of a seed, or a QueryError that says what a seed is."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        msg = f"a seed must be a whole number of at least 0, or None for a fresh one, got {seed!r}"
        raise QueryError(msg) from None


def streamed_rows(
    domain: Domain,
    batches_of_places: Iterator[tuple[Places, ...]],
    generator: np.random.Generator,
    *,
    origin: Mapping[str, str] | None,
) -> pa.RecordBatchReader:
    """Return a stream of rows with values drawn in given cells, batch by batch: the cells of each row on every axis."""
    columns = [_column(attribute) for attribute in domain.attributes]
    schema = pa.schema([(a.name, pa.type_for_alias(a.arrow_type)) for a in domain.attributes], metadata=origin)

    def batches() -> Iterator[pa.RecordBatch]:
        for places in batches_of_places:
            arrays = [column.draw(place, generator) for column, place in zip(columns, places, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


@dataclass(frozen=True, slots=True, eq=False)
class _Singles:
    """A column of an attribute each of whose cells holds one value: the values of the cells in order."""

    values: pa.Array

    def draw(self, place: Places, generator: np.random.Generator) -> pa.Array:  # noqa: ARG002 (one value a cell)
        return self.values.take(pa.array(place))


@dataclass(frozen=True, slots=True, eq=False)
class _Reals:
    """A column of real numbers: the lower edge, width and greatest number of each cell, and whether it is null."""

    low: Floats
    width: Floats
    greatest: Floats
    null: NDArray[np.bool_]

    def draw(self, place: Places, generator: np.random.Generator) -> pa.Array:
        values = self.low[place] + self.width[place] * generator.random(len(place))
        # The upper edge is the next bin's, and rounding must not reach it.
        values = np.minimum(values, self.greatest[place])
        return pa.array(values, mask=self.null[place], from_pandas=False)


@dataclass(frozen=True, slots=True, eq=False)
class _Wholes:
    """A column of an attribute whose bins hold several values: where each cell starts, how many values it holds.

    Cells of their own are null.
    """

    attribute: Attribute
    low: Ints
    width: Ints

    def draw(self, place: Places, generator: np.random.Generator) -> pa.Array:
        values = self.attribute.values_at(self.low[place] + generator.integers(self.width[place]))
        return pa.array(values, self.attribute.arrow_type, mask=place >= self.attribute.bins)


def _column(attribute: Attribute) -> _Singles | _Reals | _Wholes:
    """Return how to draw values of an attribute; what no value of its type can say of a cell of its own is null."""
    edges, own = attribute.bin_edges(), [attribute.own_value(kind) for kind in attribute.own_cells]
    if attribute.is_continuous:
        stands = np.array([0.0 if value is None else value for value in own], np.float64)
        low = np.append(edges[:-1], stands)
        greatest = np.append(np.nextafter(edges[1:], edges[:-1]), stands)
        null = np.array([False] * attribute.bins + [value is None for value in own])
        return _Reals(low, np.append(np.diff(edges), np.zeros(len(own))), greatest, null)
    low, width = edges[:-1], np.diff(edges)
    if not attribute.has_wide_bins:
        bins = pa.array(attribute.values_at(low), attribute.arrow_type)
        return _Singles(pa.concat_arrays([bins, pa.array(own, attribute.arrow_type)]))
    low, width = np.append(low, [low[0]] * len(own)), np.append(width, [1] * len(own))
    return _Wholes(attribute, low.astype(np.int64), width.astype(np.int64))
