"""The picture of a plan: predicted error against epsilon."""

from pathlib import Path

from dpcube.errors import InputError
from dpcube.plan.planning import Plan
from dpcube.plan.queries import IN_WORDS

PICTURE_ENDINGS = (".svg", ".png", ".pdf")
# Strategies differ in their dashes and marks, so the picture can be read without colours.
STYLES = (("-", "o"), ("--", "s"), (":", "^"), ("-.", "D"), ("-", "x"), ("--", "v"))
GREYS = ("0.0", "0.35", "0.55")


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


def draw(plan: Plan, path: str | Path) -> None:
    """Draw the curve of a plan made with `curve=True`; bands span the stand-ins."""
    check_picture(Path(path))
    if not plan.curve:
        msg = "this plan has no curve to draw; make it with plan(..., curve=True)"
        raise InputError(msg)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for position, name in enumerate(dict.fromkeys(p.strategy for p in plan.curve)):
        points = [p for p in plan.curve if p.strategy == name]
        epsilons = [float(p.epsilon) for p in points]
        dashes, mark = STYLES[position % len(STYLES)]
        grey = GREYS[position % len(GREYS)]
        axes.fill_between(epsilons, [p.low for p in points], [p.high for p in points], color=grey, alpha=0.15, lw=0)
        axes.plot(epsilons, [p.typical for p in points], dashes, marker=mark, color=grey, label=name)
    if plan.accuracy is not None:
        axes.axhline(plan.accuracy, color="0.7", lw=1)
        at_left = axes.get_yaxis_transform()  # across in shares of the picture, up in rows
        axes.text(0.01, plan.accuracy, "wanted", fontsize="small", va="bottom", transform=at_left)
    axes.axvline(float(plan.epsilon), color="0.7", lw=1)  # the asked epsilon
    axes.set(
        xscale="log", yscale="log", xlabel="epsilon", ylabel=f"expected error of {IN_WORDS[plan.queries]}, in rows"
    )
    axes.set_title(f"{plan.domain.size:,} cells, about {plan.rows:,} rows; bands span the stand-ins", fontsize="medium")
    axes.legend()
    axes.grid(visible=True, which="major", color="0.9")
    try:
        figure.savefig(path)
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror}"
        raise InputError(msg) from None
