"""What the page stores of a release: facts of the attributes and arrays, which a few lines of JavaScript unpack.

They are packed as estimates are (`models/protocol.py`) and compressed by zlib. Everything follows from the released
file, so the page is no more private than the file. The arrays from which the offline page answers are the written form
of an estimate: `page/estimates.js` does with each kind what the estimate does. Of an estimate of another kind the page
stores the cells alone, and states that their errors are unknown.
"""

import zlib
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Floats
from dpcube.core.domain import Attribute
from dpcube.models import Estimate
from dpcube.models.errors.biases import BIAS, MAX_NOISE, OUTLIER_BIAS, OUTLIERS
from dpcube.models.errors.walks import COVERED
from dpcube.models.protocol import DENSE_CELLS, Arrays, arrays_to_bytes
from dpcube.noise.law import discrete_variance, dl_sum_quantile
from dpcube.release import Release
from dpcube.release.answer import deviations_for
from dpcube.release.capabilities import OFFLINE_PAGE, refusal, require
from dpcube.release.pasteable import KEYWORDS, file_word
from dpcube.release.plots.axis import Axis, axis_of, printable
from dpcube.release.plots.outlines import outlines
from dpcube.release.plots.picture import stages_of
from dpcube.web.explorer.inlined import arrow_envelope

MAX_COLUMNS, MAX_LINES = 60, 200
"""Bars of an attribute with an order and of one without; more have neighbours merged."""


def drawn_axis(attribute: Attribute) -> Axis:
    """Return the bins of an attribute as the page draws them."""
    return axis_of(attribute, most=MAX_COLUMNS if attribute.ordered else MAX_LINES)


def attribute_facts(attribute: Attribute) -> dict[str, object]:
    """Return an attribute as plain values; its edges travel as an array.

    >>> from dpcube.core.domain import Integer
    >>> facts = attribute_facts(Integer("age", 0, 9, width=5, null="cell"))
    >>> facts["bins"], facts["own"], facts["drawn"]["labels"]
    (2, ['null'], ['0-4', '5-9', '(null)'])
    """
    axis = drawn_axis(attribute)
    return {
        "name": attribute.name,
        "shown": axis.name,
        "scale": attribute.scale,
        "ordered": attribute.ordered,
        "even": attribute.is_even,
        "step": attribute.step,
        "bins": attribute.bins,
        "own": list(attribute.own_cells),
        "texts": attribute.labels()[: attribute.bins] if not attribute.has_distances else None,
        "labels": wide_labels(attribute),
        "drawn": {
            "labels": list(axis.labels),
            "starts": axis.starts.tolist(),
            "stops": axis.stops.tolist(),
            "numbers": list(axis.numbers),
        },
    }


def wide_labels(attribute: Attribute) -> list[str] | None:
    """Return the names of bins that hold several values, by which SQL knows them; none where each holds one.

    >>> from dpcube.core.domain import Integer
    >>> wide_labels(Integer("age", 0, 9, width=5)), wide_labels(Integer("age", 0, 9))
    (['0-4', '5-9'], None)
    """
    edges, step = edges_of(attribute), attribute.step
    if not attribute.has_distances or (step > 0 and bool((np.diff(edges) == step).all())):
        return None
    return list(attribute.labels()[: attribute.bins])


def edges_of(attribute: Attribute) -> Floats:
    """Return the bins' edges in the attribute's coordinate."""
    return np.asarray(attribute.bin_edges(), np.float64)


PAGE_KINDS = ("tree", "balanced", "boxes")
"""Kinds of written estimates from which the page answers with errors."""
CONSTANTS = {"covered": COVERED, "bias": BIAS, "oddBias": OUTLIER_BIAS, "odd": OUTLIERS, "largestNoise": MAX_NOISE}


class PageModel(NamedTuple):
    """What a page answers from: a few numbers, and arrays by name."""

    facts: dict[str, object]
    arrays: Arrays


def page_model(estimate: Estimate, *, confidence: float) -> PageModel:
    """Return what answers of an estimate need."""
    kind, facts, arrays = estimate.to_arrays()
    if kind not in PAGE_KINDS:
        return PageModel({"kind": "cells"}, {"cells": estimate.cells().reshape(-1)})
    alpha = facts.get("alpha")
    if alpha is not None:
        counts = int(np.sum(arrays["end"] == np.arange(1, len(arrays["end"]) + 1))) if "end" in arrays else 0
        arrays |= {"quantiles": _deviations_of_sums(alpha, counts or int(np.prod(estimate.shape)), confidence)}
    return PageModel({**CONSTANTS, **facts, "kind": kind}, arrays)


def _deviations_of_sums(alpha: float, counts: int, confidence: float) -> Floats:
    """Return how many standard errors a sum of n noises is off at most, for each n: `Answers.half_width` has it so."""
    numbers = np.arange(1, counts + 1)
    quantiles = np.asarray(dl_sum_quantile(confidence, numbers, alpha=alpha)).reshape(-1)
    deviations = np.sqrt(numbers * discrete_variance(np.float64(alpha)))
    return np.asarray(quantiles / deviations, np.float64)


MAX_OUTLINED = 45
"""Pairs of attributes for which outlines of boxes travel."""


def is_held_by_a_page(release: Release) -> bool:
    """Say whether a page can hold all of a release and answer by itself."""
    return refusal(OFFLINE_PAGE, release) is None


def packed_contents(
    release: Release, path: Path, *, estimate: str = "auto", confidence: float = 0.95, sql: bool = False
) -> bytes:
    """Return all that a page needs of a release, for its own SQL too if asked; commands name its file alone."""
    require(OFFLINE_PAGE, release)
    model = page_model(release.estimate(estimate), confidence=confidence)
    drawn, lines = _outlined(release)
    facts = _facts(release, path, estimate, confidence) | {"model": model.facts, "outlines": drawn}
    facts |= {"envelope": arrow_envelope()} if sql else {}
    return packed(facts, {**model.arrays, **_edges(release), **lines, **_noisy_boxes(release)})


def served_contents(release: Release, path: Path, *, estimate: str = "auto", confidence: float = 0.95) -> bytes:
    """Return what a page needs that asks a server for every count; it has the outlines of boxes."""
    drawn, lines = _outlined(release)
    model = {"kind": "served", "noisy": noisy_stage(release) is not None}
    facts = _facts(release, path, estimate, confidence) | {"model": model, "outlines": drawn}
    return packed(facts, {**_edges(release), **lines})


def noisy_stage(release: Release) -> str | None:
    """Return the estimate that shows what was counted, with its noise: boxes if there are, else cells, else none."""
    if release.transcript.is_wide or release.domain.size > DENSE_CELLS:
        return None
    stages = stages_of(release).values()
    return next((stage for stage in ("uniform", "cells") if stage in stages), None)


def _facts(release: Release, path: Path, estimate: str, confidence: float) -> dict[str, object]:
    return {
        "name": printable(path.stem),
        "path": path.name,
        "file": file_word(Path(path.name)),
        "made": _made(release),
        "cells": cells_in_words(release.domain.size),
        "estimate": None if estimate == "auto" else estimate,
        "confidence": confidence,
        "deviations": deviations_for(confidence),
        "keywords": sorted(KEYWORDS),
        "shape": list(release.domain.shape),
        "attributes": [attribute_facts(a) for a in release.domain.attributes],
    }


def _edges(release: Release) -> Arrays:
    return {f"edges{k}": edges_of(a) for k, a in enumerate(release.domain.attributes)}


def cells_in_words(cells: int) -> str:
    """Return a number of cells as it is shown; a wide table has more than one would read.

    >>> cells_in_words(8960), cells_in_words(45 * 10**15)
    ('8,960', '4.5 * 10^16')
    """
    if cells < 10**12:
        return f"{cells:,}"
    power = len(str(cells)) - 1
    return f"{cells // 10 ** (power - 1) / 10:g} * 10^{power}"


def packed(facts: Mapping[str, object], arrays: Arrays) -> bytes:
    """Return facts and arrays as compressed bytes."""
    return zlib.compress(arrays_to_bytes(facts, arrays), 6)


def _made(release: Release) -> dict[str, object]:
    made, boxes = release.provenance, release.transcript.boxes
    protects = "one row" if made.unit is None else f"all rows of one {made.unit} (at most {made.max_rows} counted)"
    return {
        "private": made.private,
        "epsilon": float(made.epsilon),
        "protects": protects,
        "strategy": made.strategy,
        "library": made.library,
        "period": made.period,
        "digest": release.digest,
        "boxes": 0 if boxes is None else len(boxes.tree.leaves),
    }


def _noisy_boxes(release: Release) -> Arrays:
    """Return the boxes that were counted and their noisy counts, if each was; else the noisy cells, if there are."""
    stage = noisy_stage(release)
    if stage == "uniform":
        assert release.transcript.boxes is not None
        tree = release.transcript.boxes.tree
        counted, _ = release.transcript.boxes.by_node(release.transcript.epsilon_per_unit)
        bounds = {"boxLower": tree.lower[tree.leaves], "boxUpper": tree.upper[tree.leaves]}
        arrays: Arrays = {name: of.astype(np.int32).reshape(-1) for name, of in bounds.items()}
        return arrays | {"boxCounts": _floats(counted[tree.leaves])}
    return {"noisyCells": _floats(release.cells("cells")).reshape(-1)} if stage == "cells" else {}


def _floats(numbers: NDArray[np.generic]) -> Floats:
    return np.asarray(numbers, np.float64)


def _outlined(release: Release) -> tuple[list[object], Arrays]:
    """Return where boxes end on the map of each pair of attributes: how many lines of each strength, and the lines."""
    boxes = release.transcript.boxes
    if boxes is None:
        return [], {}
    axes = [drawn_axis(attribute) for attribute in release.domain.attributes]
    drawn: list[object] = []
    lines: list[Floats] = [np.zeros(0)]
    for one, other in list(combinations(range(len(axes)), 2))[:MAX_OUTLINED]:
        found = outlines(boxes.tree, (one, axes[one]), (other, axes[other]))
        drawn.append({"axes": [one, other], "lines": [len(of) for of in found.lines], "boxes": found.boxes})
        lines += [of.reshape(-1) for of in found.lines]
    return drawn, {"outlines": np.concatenate(lines)}
