"""Write the figures of docs/reproduction.md, and its text from the first figure on, as `dpcube reproduce` makes them.

Run by hand: .venv/bin/python tools/draw_reproduction.py
"""

from pathlib import Path

from dpcube.evaluate.reproduce import make_figures
from dpcube.evaluate.reproduce.draw import draw_figure
from dpcube.evaluate.reproduce.files import reproduction_page

DOCS = Path(__file__).parents[1] / "docs"


def main() -> None:
    made = make_figures(["all"])
    for figure in made:
        (DOCS / "reproduction" / f"{figure.name}.svg").write_bytes(draw_figure(figure)["svg"])
        (DOCS / "reproduction" / f"{figure.name}.csv").write_text(figure.csv())
    text = DOCS / "reproduction.md"
    head, _, _ = text.read_text().partition("\n## ")
    text.write_text(f"{head}\n{reproduction_page(made, pictures='reproduction/')}")


if __name__ == "__main__":
    main()
