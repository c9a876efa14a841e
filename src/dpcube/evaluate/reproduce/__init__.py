"""The paper's figures, made again: names enter, figures (numbers, the paper's claims, what holds) leave.

    figure   a figure as numbers and verdicts, drawn by nothing yet
    theory   section 6.1, the simulation figures, from exact formulas
    histograms  section 6.2, original and released histograms of the bundled table
    draw     figures as SVG and PNG (needs matplotlib)
    files    a directory of pictures, numbers and one page that explains them

A group of figures is a module with a dictionary FIGURES of the functions that make them; `GROUPS` lists the groups.
"""

from collections.abc import Sequence
from types import ModuleType

from dpcube.errors import InputError
from dpcube.evaluate.reproduce import histograms, theory
from dpcube.evaluate.reproduce.figure import Curve, CurvePanel, Figure, Maps, Verdict

GROUPS: dict[str, ModuleType] = {"theory": theory, "histograms": histograms}


def figure_groups() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return what can be made: for each group what it is, and the names of its figures."""
    return {name: (module.ABOUT, tuple(module.FIGURES)) for name, module in GROUPS.items()}


def make_figures(names: Sequence[str]) -> list[Figure | Maps]:
    """Make figures by their own names, those of their groups, or "all"; each once, in the paper's order.

    >>> [figure.name for figure in make_figures(["inconsistency", "query-size"])]
    ['query-size', 'inconsistency']
    """
    makers = {name: (group, make) for group, module in GROUPS.items() for name, make in module.FIGURES.items()}
    known = {"all", *GROUPS, *makers}
    for name in names:
        if name not in known:
            message = f"there is no figure {name!r}; give {', '.join((*makers, *GROUPS))} or all"
            raise InputError(message)
    return [make() for name, (group, make) in makers.items() if {"all", group, name} & set(names)]


__all__ = ["GROUPS", "Curve", "CurvePanel", "Figure", "Maps", "Verdict", "figure_groups", "make_figures"]
