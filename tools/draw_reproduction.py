"""Write the figures of docs/reproduction.md, and its text from the first figure on, as `dpcube reproduce` makes them.

Run by hand: .venv/bin/python tools/draw_reproduction.py
"""

from pathlib import Path

from dpcube.evaluate.reproduce import figures
from dpcube.evaluate.reproduce.draw import draw
from dpcube.evaluate.reproduce.files import page

DOCS = Path(__file__).parents[1] / "docs"


def main() -> None:
    made = figures(["all"])
    for figure in made:
        (DOCS / "reproduction" / f"{figure.name}.svg").write_bytes(draw(figure)["svg"])
        (DOCS / "reproduction" / f"{figure.name}.csv").write_text(figure.csv())
    text = DOCS / "reproduction.md"
    head, _, _ = text.read_text().partition("\n## ")
    text.write_text(f"{head}\n{page(made, pictures='reproduction/')}")


if __name__ == "__main__":
    main()
