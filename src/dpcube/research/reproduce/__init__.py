"""Reproduction of the paper's figures: their numbers, the paper's claims, and which of them hold.

    figure          a figure as numbers and verdicts
    theory          section 6.1, the simulation figures, from exact formulas
    measured        measured curves: the table and its three grids, means with intervals, recorded CSV
    variance        section 6.2, the weighted variance of boxes against threshold and budget, and histograms
    query_error     section 6.3, the error of random queries against threshold and budget
    against_rivals  section 6.3, the same beside other systems, against epsilon and query size
    classifiers     section 6.4, accuracy of classifiers against epsilon
    blocking        section 6.4, blocking for record linkage, against epsilon and the number of attributes
    draw            figures as SVG and PNG (needs matplotlib), and a directory of them with one page that explains them

`GROUPS` lists the groups of figures, each with a description and the functions that make its figures.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from dpcube.core.errors import InputError
from dpcube.research.reproduce import (
    against_rivals,
    blocking,
    classifiers,
    query_error,
    theory,
    variance,
)
from dpcube.research.reproduce.figure import Curve, CurvePanel, Figure, Maps, Verdict
from dpcube.research.reproduce.measured import DRAWS, WIDTHS, MeasuredFigure, Progress


class Group(NamedTuple):
    """Figures of one section of the paper: a description, and the functions that make them, by name.

    Functions of measured figures take the number of draws and a progress callback.
    """

    about: str
    figures: Mapping[str, Callable[..., Figure | Maps]]
    measured: bool = False


MEASURED: dict[str, MeasuredFigure] = {
    "variance": variance.VARIANCE,
    "query-error": query_error.QUERY_ERROR,
    "comparison": against_rivals.AGAINST_RIVALS,
}
"""The kinds of figures that are measured, each on three grids."""
_ABOUT_MEASURED = {
    "variance": "section 6.2, the weighted variance of the released boxes, against threshold and budget",
    "query-error": "section 6.3, the error of random queries, against threshold and budget",
    "comparison": "section 6.3, the error of random queries beside other systems, against epsilon and query size",
}

GROUPS = {
    "theory": Group("section 6.1, the simulation figures, from exact formulas", theory.SIMULATIONS),
    "histograms": Group("section 6.2, original and released histograms of the bundled table", variance.HISTOGRAMS),
    **{
        name: Group(about, MEASURED[name].on_every_grid(name), measured=True) for name, about in _ABOUT_MEASURED.items()
    },
    "classifiers": Group(
        "section 6.4, accuracy of classifiers against epsilon", classifiers.CLASSIFIERS, measured=True
    ),
    "blocking": Group(
        "section 6.4, blocking for record linkage, against epsilon and attributes", blocking.BLOCKING, measured=True
    ),
}


def figure_groups() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the description of each group and the names of its figures."""
    return {name: (group.about, tuple(group.figures)) for name, group in GROUPS.items()}


def make_figures(
    names: Sequence[str], *, draws: int = DRAWS, progress: Progress = lambda _: None
) -> list[Figure | Maps]:
    """Make figures by their own names, those of their groups, or "all"; each once, in the paper's order.

    Points of measured figures are means over `draws` releases.

    >>> [figure.name for figure in make_figures(["inconsistency", "query-size"])]
    ['query-size', 'inconsistency']
    """
    makers = _makers()
    how = {"draws": draws, "progress": progress}
    made_by = [makers[name] for name in named_figures(names)]
    return [make(**how) if group.measured else make() for group, make in made_by]


def named_figures(names: Sequence[str]) -> list[str]:
    """Return the figures that are meant by their own names, those of their groups, or "all", in the paper's order.

    >>> named_figures(["variance", "query-size"])
    ['query-size', 'variance-coarse', 'variance-middle', 'variance-fine']
    """
    of_group = {key: set(group.figures) for key, group in GROUPS.items()}
    figures = list(_makers())
    for name in names:
        if name not in {"all", *GROUPS, *figures}:
            message = f"there is no figure {name!r}; give {', '.join((*figures, *GROUPS))} or all"
            raise InputError(message)
    meant = set(figures) if "all" in names else set().union(*(of_group.get(name, {name}) for name in names))
    return [figure for figure in figures if figure in meant]


def _makers() -> dict[str, tuple[Group, Callable[..., Figure | Maps]]]:
    return {name: (group, make) for group in GROUPS.values() for name, make in group.figures.items()}


def recorded_figures(directory: Path) -> list[Figure]:
    """Return the figures that were measured once, from the numbers recorded in a directory, in the paper's order."""
    on_grids = [
        kind.read(grid, (directory / f"{name}-{grid}.csv").read_text(encoding="utf-8"))
        for name, kind in MEASURED.items()
        for grid in WIDTHS
    ]
    accuracy = classifiers.recorded_classification((directory / "classification.csv").read_text(encoding="utf-8"))
    blocks = blocking.recorded_blocking((directory / "blocking.csv").read_text(encoding="utf-8"))
    return [*on_grids, accuracy, blocks]


__all__ = [
    "DRAWS",
    "GROUPS",
    "MEASURED",
    "Curve",
    "CurvePanel",
    "Figure",
    "Group",
    "Maps",
    "MeasuredFigure",
    "Progress",
    "Verdict",
    "figure_groups",
    "make_figures",
    "named_figures",
    "recorded_figures",
]
