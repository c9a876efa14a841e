"""Draw docs/images/cube.png, the picture of the README: the bundled census table, its noisy cells, boxes and estimate.

Run by hand: .venv/bin/python tools/draw_readme.py
"""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import PatchCollection
from matplotlib.patches import Rectangle

from dpcube import Domain, Integer, datasets
from dpcube.curator import publish
from dpcube.curator.publishing import count

EPSILON = "0.5"


def main() -> None:
    domain = Domain((Integer(name="age", min=17, max=90), Integer(name="hours-per-week", min=1, max=99)))
    exact = count(datasets.adult_table(), domain)
    release = publish(datasets.adult_table(), domain, epsilon=EPSILON, strategy="dpcube", ledger=None)
    panels = {
        "the table: never released": exact,
        "phase I: noisy cells": release.cells("cells"),
        "phase II: noisy boxes, reconciled": release.cells(),
    }
    mpl.rcParams.update({"font.size": 9, "axes.titlesize": 10, "axes.titleweight": "bold"})
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), sharey=True, layout="constrained")
    for axis, (title, panel) in zip(axes, panels.items(), strict=True):
        shown = np.sqrt(np.clip(panel, 0, None)).T
        axis.imshow(shown, origin="lower", extent=(17, 91, 1, 100), aspect="auto", cmap="Blues", vmax=22, vmin=0)
        axis.set(title=title, xlabel="age")
    counted = release.transcript.boxes
    assert counted is not None
    tree = counted.tree
    corners = zip(tree.lower[tree.leaves], tree.upper[tree.leaves], strict=True)
    boxes = [Rectangle((17 + a[0], 1 + a[1]), b[0] - a[0], b[1] - a[1]) for a, b in corners]
    axes[2].add_collection(PatchCollection(boxes, facecolor="none", edgecolor="#00000055", linewidth=0.4))
    axes[0].set_ylabel("hours per week")
    figure.savefig(Path(__file__).parent.parent / "docs" / "images" / "cube.png", dpi=110)


if __name__ == "__main__":
    main()
