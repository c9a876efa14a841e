"""Draw docs/images/example.svg: the paper's 3 x 3 example in four steps, with seeded noise.

python tools/draw_example.py
"""

from pathlib import Path

import numpy as np

from dpcube.core.arrays import Floats, Ints

COUNTS = np.array([[10, 21, 37], [20, 0, 0], [53, 0, 0]])
"""The example of section 1 of the paper: rows are incomes, highest first, and columns are ages."""
INCOMES, AGES = (">20K", "10-20K", "0-10K"), ("20-30", "30-40", "40-50")
BOXES = ((0, 0, 1, 2), (0, 2, 1, 3), (1, 0, 3, 1), (1, 1, 3, 3))
"""First row, first column, and one past the last of each, of the four boxes."""
PAGE = Path(__file__).parents[1] / "docs" / "images" / "example.svg"
PAPER = '<rect class="page" width="100%" height="100%"/>'
SIDE, LEFT, TOP, STEP, DOWN = 58, 74, 62, 240, 260
STYLE = """
  text { font: 15px system-ui, sans-serif; fill: #1c2733; }
  .number { font-size: 17px; text-anchor: middle; dominant-baseline: central; }
  .label { font-size: 12px; fill: #5b6b7b; }
  .age { text-anchor: middle; } .income { text-anchor: end; dominant-baseline: central; }
  .title { font-weight: 600; } .cell { stroke: #b9c4cf; } .box { fill: none; stroke: #1f4e8c; stroke-width: 3; }
  .page { fill: #ffffff; }
"""


def shade(value: float) -> str:
    """Return a blue that is darker the more rows there are."""
    share = min(max(value, 0) / 60, 1) ** 0.5
    red, green, blue = (round(255 - share * (255 - end)) for end in (120, 170, 225))
    return f"#{red:02x}{green:02x}{blue:02x}"


def panel(number: int, title: str, values: Ints | Floats, *, boxes: bool, totals: Ints | None = None) -> list[str]:
    """Return one square of nine cells, with its boxes, and the number of each cell or of each box."""
    left, above = LEFT + number % 2 * STEP, TOP + number // 2 * DOWN
    lines = [f'<text class="title" x="{left}" y="{above - 36}">{title}</text>']
    for column, age in enumerate(AGES):
        lines.append(f'<text class="label age" x="{left + (column + 0.5) * SIDE:g}" y="{above - 8}">{age}</text>')
    for row in range(3):
        if number % 2 == 0:
            middle = above + (row + 0.5) * SIDE
            lines.append(f'<text class="label income" x="{left - 8}" y="{middle:g}">{INCOMES[row]}</text>')
        for column in range(3):
            x, y = left + column * SIDE, above + row * SIDE
            fill = shade(float(values[row, column]))
            kind = "cell" if totals is None else "part"
            lines.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{SIDE}" height="{SIDE}" fill="{fill}"/>')
            if totals is None:
                lines.append(written(x + SIDE / 2, y + SIDE / 2, values[row, column]))
    for k, (top, first, bottom, last) in enumerate(BOXES if boxes else ()):
        x, y, width, height = left + first * SIDE, above + top * SIDE, (last - first) * SIDE, (bottom - top) * SIDE
        lines.append(f'<rect class="box" x="{x}" y="{y}" width="{width}" height="{height}"/>')
        if totals is not None:
            lines.append(written(x + width / 2, y + height / 2, totals[k]))
    return lines


def written(x: float, y: float, value: float) -> str:
    return f'<text class="number" x="{x:g}" y="{y:g}">{value:g}</text>'


def picture() -> str:
    """Return the picture: exact counts, noisy cells, noisy boxes, and the estimate."""
    random = np.random.default_rng(5)
    cells = COUNTS + random.geometric(0.3, COUNTS.shape) - random.geometric(0.3, COUNTS.shape)
    sizes = np.array([(bottom - top) * (last - first) for top, first, bottom, last in BOXES])
    exact = np.array([COUNTS[top:bottom, first:last].sum() for top, first, bottom, last in BOXES])
    totals = exact + random.geometric(0.5, 4) - random.geometric(0.5, 4)
    even = np.zeros(COUNTS.shape)
    for (top, first, bottom, last), total, size in zip(BOXES, totals, sizes, strict=True):
        even[top:bottom, first:last] = max(total, 0) / size
    lines = [
        *panel(0, "1. The table, secret", COUNTS, boxes=False),
        *panel(1, "2. Noisy cells", cells, boxes=True),
        *panel(2, "3. Noisy boxes", even, boxes=True, totals=totals),
        *panel(3, "4. The estimate", even.round(1), boxes=False),
    ]
    width, height = LEFT + STEP + 3 * SIDE + 20, TOP + DOWN + 3 * SIDE + 20
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">'
    words = "The table of nine cells; the same with noise; four boxes with noisy counts; boxes spread evenly"
    head = [opening, f"<title>{words}</title>", f"<style>{STYLE}</style>", PAPER]
    return "\n".join([*head, *lines, "</svg>", ""])


def main() -> None:
    PAGE.write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
