"""What the page knows of an attribute: what its cells are called, where its bins end, which are drawn together."""

import numpy as np

from dpcube.core.arrays import Floats
from dpcube.core.domain import Attribute
from dpcube.release.plots.axis import Axis, axis_of

MOST_COLUMNS, MOST_LINES = 60, 200
"""Bars of an attribute with an order and of one without; more have neighbours merged."""


def drawn_axis(attribute: Attribute) -> Axis:
    """Return the bins of an attribute as the page draws them."""
    return axis_of(attribute, most=MOST_COLUMNS if attribute.ordered else MOST_LINES)


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
        "texts": attribute.labels()[: attribute.bins] if attribute.scale == "position" else None,
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
    if attribute.scale == "position" or (step > 0 and bool((np.diff(edges) == step).all())):
        return None
    return list(attribute.labels()[: attribute.bins])


def edges_of(attribute: Attribute) -> Floats:
    """Return the bins' edges in the attribute's coordinate."""
    return np.asarray(attribute.bin_edges(), np.float64)
