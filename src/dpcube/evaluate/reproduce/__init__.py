"""The paper's figures, made again: names enter, figures (numbers, the paper's claims, what holds) leave.

    figure   a figure as numbers and verdicts, drawn by nothing yet
    theory   section 6.1, the simulation figures, from exact formulas
    histograms  section 6.2, original and released histograms of the bundled table
    classifiers  section 6.4, accuracy of classifiers against epsilon
    draw     figures as SVG and PNG (needs matplotlib)
    files    a directory of pictures, numbers and one page that explains them

`GROUPS` lists the groups of figures, each with what it is and the functions that make its figures.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from dpcube.errors import InputError
from dpcube.evaluate.reproduce import classifiers, histograms, theory
from dpcube.evaluate.reproduce.figure import Curve, CurvePanel, Figure, Maps, Verdict


class Group(NamedTuple):
    """Figures of one section of the paper: what they are, and the functions that make them by their names."""

    about: str
    figures: Mapping[str, Callable[[], Figure | Maps]]


GROUPS = {
    "theory": Group("section 6.1, the simulation figures, from exact formulas", theory.SIMULATIONS),
    "histograms": Group("section 6.2, original and released histograms of the bundled table", histograms.HISTOGRAMS),
    "classifiers": Group("section 6.4, classifiers of the bundled table (minutes)", classifiers.CLASSIFIERS),
}


def figure_groups() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return what can be made: for each group what it is, and the names of its figures."""
    return {name: (about, tuple(figures)) for name, (about, figures) in GROUPS.items()}


def make_figures(names: Sequence[str]) -> list[Figure | Maps]:
    """Make figures by their own names, those of their groups, or "all"; each once, in the paper's order.

    >>> [figure.name for figure in make_figures(["inconsistency", "query-size"])]
    ['query-size', 'inconsistency']
    """
    makers = {name: (group, make) for group, (_, figures) in GROUPS.items() for name, make in figures.items()}
    known = {"all", *GROUPS, *makers}
    for name in names:
        if name not in known:
            message = f"there is no figure {name!r}; give {', '.join((*makers, *GROUPS))} or all"
            raise InputError(message)
    return [make() for name, (group, make) in makers.items() if {"all", group, name} & set(names)]


__all__ = ["GROUPS", "Curve", "CurvePanel", "Figure", "Group", "Maps", "Verdict", "figure_groups", "make_figures"]
