"""Visual style shared by both back ends: one hue of evenly falling lightness, line styles, the scale of counts.

Colours keep their order in grey-scale print and for colour-blind readers.
"""

import numpy as np

from dpcube.core.arrays import Floats
from dpcube.release.plots.axis import in_rows

RAMP = ("#f6faff", "#c4dfff", "#8ec4fe", "#5ea9f0", "#348dd9", "#1b73b8", "#1f588e", "#273f60", "#25282f")
"""From nothing to the largest count, in even steps of lightness (CIE L* 98 to 16)."""
BAR = "#8ec4fe"
INK = "#25282f"
QUIET = "#5b6470"
GRID = "#d9dee5"
LINE_WIDTHS = (0.3, 0.5, 0.8)
OPACITIES = (0.25, 0.35, 0.5)
STROKES = (("#ffffff", 2.5, 0.8), (INK, 1.0, 1.0))
"""A line is dark, over a wider light one that makes it visible on dark: colour, width and opacity of each."""
MAX_TICKS = {True: 10, False: 25}
"""Labels on an axis of a map, by whether its values are ordered."""


def shades(counts: Floats) -> Floats:
    """Return counts on the scale of colours, one row for each value of y: square roots, so that small counts show."""
    return np.asarray(np.sqrt(np.clip(counts, 0, None)).T)


def colour_scale(top: float) -> tuple[Floats, list[str]]:
    """Return the places of labels on the scale of colours up to the count `top`, and the labels."""
    counts = scale_ticks(top)
    return np.sqrt(counts), [in_rows(count) if count else "0 or less" for count in counts]


def scale_ticks(top: float) -> list[float]:
    """Return round counts up to `top`, about evenly spaced on a scale of square roots, and `top` itself.

    >>> scale_ticks(8000)
    [0.0, 50.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 8000]
    """
    steps = [0.0, *(m * 10.0**e for e in range(-1, 19) for m in (1, 2, 5))]
    chosen = [0.0]
    for step in steps:
        if step <= top and np.sqrt(step) - np.sqrt(chosen[-1]) >= 0.07 * np.sqrt(top):
            chosen.append(step)
    if np.sqrt(top) - np.sqrt(chosen[-1]) < 0.07 * np.sqrt(top):
        chosen.pop()
    return [*chosen, top]
