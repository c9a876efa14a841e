"""The strategy of docs/research/walks-researcher.md, run as printed: boxes first, cells after, and both are used."""

import re
from pathlib import Path

import numpy as np
import pytest

from dpcube import Domain, Release
from dpcube.measurements import BoxCounts, Marginal, Transcript
from dpcube.models.metrics import absolute_errors
from dpcube.queries.random_ranges import random_ranges
from dpcube.research import experiment, release_array
from dpcube.strategies import Strategy
from dpcube.testing import SeededNoise

PAGE = (Path(__file__).parents[2] / "docs" / "research" / "walks-researcher.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
COUNTS = np.random.default_rng(1).poisson(np.linspace(0, 20, 12 * 10).reshape(12, 10))


@pytest.fixture(scope="module")
def slabs() -> Strategy:
    space: dict[str, object] = {}
    exec(BLOCKS[0], space)
    return space["Slabs"]()  # type: ignore[operator, no-any-return]


def of(slabs: Strategy, seed: int) -> Release:
    return experiment(COUNTS, epsilon=1, strategy=slabs, noise=SeededNoise(seed))


def test_boxes_that_were_counted_first_are_put_together_with_the_cells(slabs: Strategy, tmp_path: Path) -> None:
    release = of(slabs, 1)
    assert release.estimates == ("weighted_least_squares", "least_squares", "cells")
    release.save(tmp_path / "r.dpcube")
    assert Release.open(tmp_path / "r.dpcube").estimates == release.estimates
    assert np.isfinite(release.cells("consistent")).all()  # by name it can still be had


def test_cells_that_were_counted_first_may_have_chosen_the_boxes(slabs: Strategy) -> None:
    kept = of(slabs, 1).transcript
    turned = Transcript(kept.shape, kept.epsilon_per_unit, kept.measurements[::-1])
    assert [type(one) for one in turned.measurements] == [Marginal, BoxCounts]
    release = Release(Domain.of_shape(kept.shape), turned, of(slabs, 1).provenance)
    assert release.estimates[0] == "consistent"


def test_what_was_counted_of_the_inside_of_boxes_is_used(slabs: Strategy) -> None:
    asked = random_ranges(COUNTS.shape, 300, seed=2)
    error = {
        name: np.mean([absolute_errors(COUNTS, of(slabs, seed).cells(name), asked).mean() for seed in range(5)])
        for name in ("auto", "cells", "consistent")
    }
    assert error["auto"] < error["cells"] < error["consistent"]


def test_the_arrays_of_the_page_are_released() -> None:
    assert release_array(np.arange(64).reshape(8, 8), epsilon=0.1, strategy="adaptive", seed=7).shape == (8, 8)
