"""Every feature for every kind of release: it works, or it is refused in the words of the table."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import dpcube
from dpcube import Domain, Float, Integer, Release
from dpcube.cli.analyst.tables import export
from dpcube.core.errors import DpcubeError
from dpcube.curator import publish
from dpcube.release import capabilities
from dpcube.release.capabilities import (
    ALL_CELLS,
    BOXES,
    CAPABILITIES,
    CLASSIFIER,
    MERGE,
    OFFLINE_PAGE,
    TABLE,
    Capability,
    ReleaseKind,
)
from dpcube.release.report import report
from dpcube.strategies import Cuboids
from dpcube.web.explorer.contents import packed_contents, served_contents

ROWS = 400


@cache
def released(kind: ReleaseKind, month: int = 0) -> Release:
    """One release of each kind; with a month, of the rows of that month."""
    generator = np.random.default_rng(5)
    a = generator.integers(0, 8, ROWS)
    columns: dict[str, Any] = {"a": a, "b": (a + generator.integers(0, 3, ROWS)) % 8, "m": a % 2 + 1}
    attributes: list[Any] = [Integer("a", 0, 7), Integer("b", 0, 7)]
    if kind is ReleaseKind.WIDE:
        columns |= {f"c{j}": (a + generator.integers(0, 4, ROWS)) % 8 for j in range(10)}
        attributes += [Integer(f"c{j}", 0, 7) for j in range(10)]
    if kind is ReleaseKind.GRID:
        columns |= {"a": generator.normal(0, 1, ROWS), "c": generator.normal(0, 1, ROWS)}
        attributes = [Float("a", -5, 5, width=0.0005), Integer("b", 0, 7), Float("c", -5, 5, width=0.0005)]
    period = ("m", month, month) if month else None
    by = Cuboids(target="b") if kind is ReleaseKind.WIDE else "adaptive"  # or it is chance which pairs have the target
    return publish(pa.table(columns), Domain(*attributes), epsilon=3, ledger=None, period=period, strategy=by)


def offline_page(release: Release, place: Path) -> object:
    return packed_contents(release, place)


def merged(release: Release, place: Path) -> object:
    kind = capabilities.kind_of(release)
    paths = [place / f"{month}.dpcube" for month in (1, 2)]
    for month, path in enumerate(paths, 1):
        released(kind, month).save(path)
    return dpcube.open(paths)


def exported(release: Release, place: Path) -> object:
    """The command, on a file of the release."""
    release.save(place / "r.dpcube")
    done = CliRunner().invoke(export, [str(place / "r.dpcube"), "-o", str(place / "cells.parquet")])
    if isinstance(done.exception, DpcubeError):
        raise done.exception
    assert done.exit_code == 0
    return done.output


TRIED: dict[str, list[Callable[[Release, Path], object]]] = {
    "counts with confidence intervals": [lambda r, _: r.count("a between 1 and 3 and b < 2").high],
    "groups, pivots and other views": [
        lambda r, _: r.dice("a = 0 and b = 1").group_by("a").table(errors=True),
        lambda r, _: r.dice("a = 0 and b = 1").group_by("a", "b").table(errors=False),
    ],
    "SQL with errors": [lambda r, _: r.sql("SELECT count(*), avg(a) FROM cube WHERE b < 2", error=True)],
    "synthetic rows": [lambda r, _: r.synthesize(20, seed=1)],
    "plots and maps": [lambda r, _: r.plot("a"), lambda r, _: r.plot("a", "b")],
    "report and explanation": [lambda r, _: r.explain(), lambda r, _: report(r)],
    "explorer, served": [lambda r, place: served_contents(r, place)],
    ALL_CELLS.name: [lambda r, _: r.cells()],
    TABLE.name: [lambda r, _: r.table(), exported],
    BOXES.name: [lambda r, _: r.boxes()],
    OFFLINE_PAGE.name: [offline_page],
    CLASSIFIER.name: [lambda r, _: r.train("b")],
    MERGE.name: [merged],
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ReleaseKind)
@pytest.mark.parametrize("feature", CAPABILITIES, ids=lambda feature: feature.name)
def test_a_feature_works_or_is_refused_as_the_table_says(
    feature: Capability, kind: ReleaseKind, tmp_path: Path
) -> None:
    release = released(kind)
    assert capabilities.kind_of(release) is kind
    wanted = capabilities.refusal(feature, release)
    for tried in TRIED[feature.name]:
        if wanted is None:
            assert tried(release, tmp_path) is not None
        else:
            with pytest.raises(DpcubeError, match=re.escape(wanted)):
                tried(release, tmp_path)


def test_each_refusal_says_why_and_what_to_do_instead() -> None:
    for feature in CAPABILITIES:
        for text in feature.refused.values():
            why, _, remedy = text.partition("; ")
            assert why, feature.name
            assert remedy, feature.name
            assert text == text.strip(" .")
        assert (feature.max_cells is None) == (not feature.too_large)


def test_the_page_has_the_table() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "capabilities.md"
    assert capabilities.capability_table() in page.read_text(encoding="utf-8")
