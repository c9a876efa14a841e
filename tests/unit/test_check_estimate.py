"""Every registered estimator keeps the rules of the estimate protocol, and the check of them can say no."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from dpcube import Category, Domain, Float, Integer, Release
from dpcube.core.arrays import Floats, Ints, Places
from dpcube.curator.publishing import publish
from dpcube.models.boxes import BoxEstimate
from dpcube.models.errors.parts import ErrorParts
from dpcube.models.estimators import ESTIMATORS, available, estimate
from dpcube.models.protocol import READERS, EstimateArrays, Queries
from dpcube.models.sampling import Generator
from dpcube.strategies import Adaptive
from dpcube.testing import check_estimate
from given_cells import given_cells

ROWS = 3000


@cache
def releases() -> dict[str, Release]:
    """A release of each kind, with real noise: the rules hold for any."""
    draw = np.random.default_rng(1)
    columns = {f"a{k}": draw.integers(0, 6, ROWS) for k in range(13)}
    columns["a1"] = columns["a0"] // 2
    columns |= {name: draw.normal(0.5, 0.1, ROWS).clip(0, 0.999) for name in "xy"}
    table = pa.table(columns | {"c": np.where(columns["a0"] > 2, "u", "v")})
    whole = [Integer(f"a{k}", 0, 5) for k in range(13)]
    side, real = Category("c", ["u", "v"]), [Float(name, 0.0, 1.0, width=1e-5) for name in "xy"]
    few, wide = Domain(*whole[:3], side), Domain(*whole, side)
    return {
        "tree": publish(table, Domain(*whole[:2]), epsilon=1, ledger=None, strategy="adaptive"),
        "tables": publish(table, few, epsilon=Fraction(1, 5), ledger=None, strategy=Adaptive(target="c")),
        "boxes": publish(table, few, epsilon=1, ledger=None, strategy="dpcube"),
        "cells": publish(table, few, epsilon=1, ledger=None, strategy="cells"),
        "wide": publish(table, wide, epsilon=1, ledger=None),
        "wide by class": publish(table, wide, epsilon=1, ledger=None, strategy=Adaptive(target="c")),
        "grid": publish(table, Domain(*real), epsilon=1, ledger=None),
    }


def names_of(kind: str) -> list[str]:
    """Every estimate that a release can have, asked for by name too."""
    transcript = releases()[kind].transcript
    return [one.name for one in ESTIMATORS if one.lacking(transcript) is None]


KINDS = ("tree", "tables", "boxes", "cells", "wide", "wide by class", "grid")


@pytest.mark.parametrize("kind", KINDS)
def test_every_estimator_keeps_the_rules(kind: str) -> None:
    transcript = releases()[kind].transcript
    assert set(available(transcript)) <= set(names_of(kind))
    for name in names_of(kind):
        check_estimate(estimate(transcript, name, unordered=(0,)), seed=3)


def test_every_registered_estimator_and_every_written_kind_is_checked() -> None:
    names = {name for kind in KINDS for name in names_of(kind)}
    assert names == {one.name for one in ESTIMATORS}
    written = {
        estimate(releases()[kind].transcript, name).to_arrays().kind for kind in KINDS for name in names_of(kind)
    }
    assert written == set(READERS)


class Off(BoxEstimate):
    """Ranges that are one row too many, but the whole cube."""

    def weighed_values(self, queries: object) -> Floats:
        return super().weighed_values(queries) + 1  # type: ignore[arg-type]


class Below(BoxEstimate):
    """An error below zero."""

    def errors(self, queries: Queries) -> ErrorParts:
        return ErrorParts(np.full(len(queries), -1.0), np.zeros(len(queries)))


class Short(BoxEstimate):
    """A row that is not drawn."""

    def draw(self, rows: int | None, generator: Generator, *, batch: int | None = None) -> Iterator[tuple[Places, ...]]:
        return super().draw(rows if not rows else rows - 1, generator, batch=batch)


class Apart(BoxEstimate):
    """A marginal that is not that of the cells."""

    def marginal(self, axes: Sequence[int], starts: Sequence[Ints] | None = None) -> Floats:
        return 1.01 * super().marginal(axes, starts)


class Forgetful(BoxEstimate):
    """A written form that loses the noise."""

    def to_arrays(self) -> EstimateArrays:
        written = super().to_arrays()
        return written._replace(arrays=written.arrays | {"cellVariance": np.zeros(1)})


@pytest.mark.parametrize("kind", [Off, Below, Short, Apart, Forgetful])
def test_the_check_finds_what_breaks_a_rule(kind: type[BoxEstimate]) -> None:
    sound = replace(given_cells(np.random.default_rng(2).gamma(1.0, 5.0, (5, 4, 3))), cell_variance=2.0)
    check_estimate(sound)
    broken = kind(sound.name, sound.shape, detail=sound.detail, cell_variance=2.0)
    with pytest.raises(AssertionError):
        check_estimate(broken)


def test_views_without_errors_have_the_values_of_those_with_errors() -> None:
    """Of wide tables and fine grids too, whose cells cannot be laid out."""
    for kind, attributes in (("wide", ("a0", "c")), ("grid", ()), ("tree", ("a0",))):
        view = releases()[kind].group_by(*attributes)
        plain = view.table(errors=False)
        assert "stderr" not in plain.column_names
        np.testing.assert_allclose(plain["value"].to_numpy(), view.table()["value"].to_numpy(), rtol=1e-9)
