"""Write docs/research/reproduction.md from its first figure on, and the figures, as `dpcube reproduce` makes them.

Run by hand: .venv/bin/python tools/draw_reproduction.py [NAME...]

Figures that are measured are drawn from the numbers recorded beside them, unless they or their groups are named: those
are measured and recorded anew.
"""

import sys
from pathlib import Path

from dpcube.research.reproduce import GROUPS, Figure, Maps, make_figures, recorded_figures
from dpcube.research.reproduce.draw import draw_figure, reproduction_page

DOCS = Path(__file__).parents[1] / "docs" / "research"


def figures(to_measure: list[str]) -> list[Figure | Maps]:
    """Return every figure of the page, in the paper's order."""
    measured = make_figures(to_measure, progress=lambda words: print(words, file=sys.stderr)) if to_measure else []
    for figure in measured:
        (DOCS / "reproduction" / f"{figure.name}.csv").write_text(figure.csv())
    computed = make_figures([name for name, group in GROUPS.items() if not group.measured])
    return [*computed, *recorded_figures(DOCS / "reproduction")]


def main() -> None:
    made = figures(sys.argv[1:])
    for figure in made:
        (DOCS / "reproduction" / f"{figure.name}.svg").write_bytes(draw_figure(figure)["svg"])
        (DOCS / "reproduction" / f"{figure.name}.csv").write_text(figure.csv())
    text = DOCS / "reproduction.md"
    head, _, _ = text.read_text().partition("\n## ")
    text.write_text(f"{head}\n{reproduction_page(made, pictures='reproduction/')}")


if __name__ == "__main__":
    main()
