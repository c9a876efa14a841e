"""Draw docs/cube.png, the picture of the README: the bundled census table, what was counted of it, and the estimate.

Run by hand: .venv/bin/python tools/draw_readme.py
"""

from dataclasses import replace
from io import BytesIO
from pathlib import Path

from PIL import Image

from dpcube import Domain, Integer, datasets
from dpcube.analyst.plots.static import draw
from dpcube.curator import publish
from dpcube.curator.publish import count
from dpcube.evaluate.report import beside_truth

EPSILON = "0.5"


def main() -> None:
    domain = Domain((Integer(name="age", min=17, max=90), Integer(name="hours-per-week", min=1, max=99)))
    release = publish(datasets.adult_table(), domain, epsilon=EPSILON, ledger=None)
    shown = beside_truth(release, count(datasets.adult_table(), domain), *domain.names)
    titles = ("the table: never released", "what was released: noisy boxes", "what answers come from")
    panels = tuple(replace(panel, title=title) for panel, title in zip(shown.panels, titles, strict=True))
    drawn = Image.open(BytesIO(draw(replace(shown, panels=panels), "png", titled=False)))
    drawn.convert("RGB").quantize(200).save(Path(__file__).parents[1] / "docs" / "cube.png", optimize=True)


if __name__ == "__main__":
    main()
