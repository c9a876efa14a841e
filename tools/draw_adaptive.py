"""Draw docs/research/adaptive.png: a tree of the adaptive strategy on the bundled table, its budget, the estimate.

The noise has a seed, so that the picture can be made again; the table is public. Run by hand:
.venv/bin/python tools/draw_adaptive.py
"""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import PatchCollection
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from dpcube import Domain, Integer, datasets
from dpcube.core.counter import BUDGET_UNITS
from dpcube.curator.publishing import count
from dpcube.measurements import BoxCounts
from dpcube.research import experiment
from dpcube.testing import SeededNoise
from dpcube.trees.tree import BoxTree

EPSILON = "0.1"
DOMAIN = Domain((Integer(name="age", min=17, max=90), Integer(name="hours-per-week", min=1, max=99)))


def smallest_counted(boxes: BoxCounts) -> NDArray[np.float64]:
    """Return for each cell the share of the budget spent on the smallest box counted around it."""
    share = np.zeros(boxes.tree.shape)
    for row in np.argsort(-boxes.tree.sizes[boxes.node], kind="stable"):
        low, high = boxes.tree.lower[boxes.node[row]], boxes.tree.upper[boxes.node[row]]
        inside = tuple(slice(a, b) for a, b in zip(low, high, strict=True))
        same = (boxes.node == boxes.node[row]).nonzero()[0]
        share[inside] = boxes.units[same].sum() / BUDGET_UNITS
    return share


def outlines(tree: BoxTree) -> PatchCollection:
    corners = zip(tree.lower[tree.leaves], tree.upper[tree.leaves], strict=True)
    boxes = [Rectangle((17 + a[0], 1 + a[1]), b[0] - a[0], b[1] - a[1]) for a, b in corners]
    return PatchCollection(boxes, facecolor="none", edgecolor="#00000066", linewidth=0.3)


def main() -> None:
    exact = count(datasets.adult_table(), DOMAIN)
    release = experiment(exact, epsilon=EPSILON, strategy="adaptive", noise=SeededNoise(1))
    boxes = release.transcript.boxes
    assert boxes is not None
    mpl.rcParams.update({"font.size": 9, "axes.titlesize": 10, "axes.titleweight": "bold"})
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), sharey=True, layout="constrained")
    root = [np.sqrt(np.clip(panel, 0, None)) for panel in (exact, release.cells())]
    panels = [
        ("the table: never released", root[0], "Blues", 22.0),
        ("budget of the smallest box counted", smallest_counted(boxes), "Oranges", 1.0),
        ("the estimate", root[1], "Blues", 22.0),
    ]
    for axis, (title, panel, colours, top) in zip(axes, panels, strict=True):
        extent = (17, 91, 1, 100)
        shown = axis.imshow(panel.T, origin="lower", extent=extent, aspect="auto", cmap=colours, vmin=0, vmax=top)
        axis.set(title=title, xlabel="age")
        if colours == "Oranges":
            axis.add_collection(outlines(boxes.tree))
            figure.colorbar(shown, ax=axis, format="{x:.0%}", pad=0.01)
    axes[0].set_ylabel("hours per week")
    figure.savefig(Path(__file__).parent.parent / "docs" / "research" / "adaptive.png", dpi=90)


if __name__ == "__main__":
    main()
