"""The picture of a plan: predicted error against epsilon."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcube.core.errors import InputError
from dpcube.plan.planning import Plan
from dpcube.plan.queries import IN_WORDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURE_ENDINGS = (".svg", ".png", ".pdf")
# Strategies differ in their dashes and marks, so the picture can be read without colours.
STYLES = (("-", "o"), ("--", "s"), (":", "^"), ("-.", "D"), ("-", "x"), ("--", "v"))
COLOURS = ("#0072b2", "#d55e00", "#009e73")  # distinguishable with any colour vision


def check_picture(path: Path) -> None:
    """Refuse a picture that could not be drawn, before anything is computed for it."""
    if path.suffix.lower() not in PICTURE_ENDINGS:
        msg = f"a picture is written as {', '.join(PICTURE_ENDINGS)}, by the ending of its name, got {path.name}"
        raise InputError(msg)
    if not path.absolute().parent.is_dir():
        msg = f"there is no directory {path.parent} to put {path.name} in"
        raise InputError(msg)
    if path.is_dir():
        msg = f"{path} is a directory; name a file to draw into"
        raise InputError(msg)
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        msg = "drawing needs matplotlib: pip install 'dpcube[plot]'"
        raise InputError(msg) from None


def _plain(value: float, _: float = 0.0) -> str:
    """Return a tick as people write it: 0.01 and 1,000, not powers of ten."""
    return f"{value:,.0f}" if value >= 1 else f"{value:.6g}"


def _mark(axes: "Axes", plan: Plan) -> None:
    """Mark the requested epsilon and the wanted error, with labels at the ends of their lines."""
    behind: dict[str, Any] = {"color": "0.6", "lw": 1, "zorder": 1}
    axes.axvline(float(plan.epsilon), **behind)
    at_top, at_right = axes.get_xaxis_transform(), axes.get_yaxis_transform()
    words: dict[str, Any] = {"fontsize": "small", "color": "0.3"}
    asked = f" asked: {float(plan.epsilon):.3g}"
    axes.text(float(plan.epsilon), 0.99, asked, va="top", transform=at_top, **words)
    if plan.accuracy is not None:
        axes.axhline(plan.accuracy, **behind)
        wanted = f"wanted: {_plain(plan.accuracy)} rows"
        axes.text(0.99, plan.accuracy, wanted, ha="right", va="bottom", transform=at_right, **words)


def draw(plan: Plan, path: str | Path) -> None:
    """Draw the curve of a plan made with `curve=True`; bands span the simulated tables."""
    check_picture(Path(path))
    if not plan.curve:
        msg = "this plan has no curve to draw; make it with plan(..., curve=True)"
        raise InputError(msg)
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for position, name in enumerate(dict.fromkeys(p.strategy for p in plan.curve)):
        points = [p for p in plan.curve if p.strategy == name]
        epsilons = [float(p.epsilon) for p in points]
        dashes, mark = STYLES[position % len(STYLES)]
        colour = COLOURS[position % len(COLOURS)]
        axes.fill_between(epsilons, [p.low for p in points], [p.high for p in points], color=colour, alpha=0.18, lw=0)
        axes.plot(epsilons, [p.typical for p in points], dashes, marker=mark, color=colour, label=name, zorder=3)
    axes.set(
        xscale="log", yscale="log", xlabel="epsilon", ylabel=f"expected error of {IN_WORDS[plan.queries]}, in rows"
    )
    _mark(axes, plan)
    axes.set_title(f"{plan.domain.size:,} cells, about {plan.rows:,} rows", loc="left", fontsize="medium")
    axes.set_title("bands: simulated tables of different distributions", loc="right", fontsize="small")
    axes.legend(loc="lower left")  # errors fall, so this corner is the empty one
    axes.grid(visible=True, which="major", color="0.9")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(_plain)
        axis.set_minor_formatter(NullFormatter())
    try:
        figure.savefig(path)
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror}"
        raise InputError(msg) from None
