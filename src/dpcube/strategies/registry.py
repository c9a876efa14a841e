"""Registry of strategies: those built in, those that installed packages offer, and any class named as MODULE:CLASS.

A strategy of an installed package (its entry point in the group `dpcube.strategies`) is loaded when its name is
requested, never otherwise; listing the names loads nothing. Whatever is loaded runs in this process with its rights:
see docs/explanation/threat-model.md.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from dpcube.core.domain import Domain
from dpcube.core.domain.attribute import listing
from dpcube.core.errors import InputError
from dpcube.core.feasible import check_fits
from dpcube.core.memory import check_memory
from dpcube.core.regions import MAX_GRID_CELLS
from dpcube.strategies.adaptive import Adaptive
from dpcube.strategies.cells import Cells
from dpcube.strategies.cuboids import MAX_ATTRIBUTE_CELLS, Cuboids
from dpcube.strategies.external import ExternalStrategy, in_one_line
from dpcube.strategies.fine_grid import MAX_GRID_ATTRIBUTES, FineGrid
from dpcube.strategies.strategy import FittedStrategy, Strategy
from dpcube.strategies.two_phase import TwoPhase

BY_NAME: dict[str, type[FittedStrategy]] = {"adaptive": Adaptive, "dpcube": TwoPhase, "cells": Cells}
OF_ROWS: dict[str, type[FittedStrategy]] = {"cuboids": Cuboids, "fine_grid": FineGrid}
"""The strategies of ours that release from rows. A built-in name takes precedence over an installed strategy's."""
RIVALS = {
    "uniform": "dpcube.research.strategies.grids:Uniform",
    "hierarchical": "dpcube.research.strategies.hierarchical:Hierarchical",
    "hb": "dpcube.research.strategies.hierarchical:HB",
    "quad_tree": "dpcube.research.strategies.hierarchical:QuadTree",
    "ugrid": "dpcube.research.strategies.grids:UGrid",
    "agrid": "dpcube.research.strategies.grids:AGrid",
    "median_tree": "dpcube.research.strategies.median_tree:MedianTree",
}
"""Systems reimplemented in research/ (docs/research/rivals.md): each is loaded when its name is requested."""
DEFAULT = "adaptive"
NOT_COMPARED = tuple(OF_ROWS)
"""Strategies that release a table, but that no command compares with others."""
MAX_CUBE_CELLS = 2**28
"""Domains of more cells are released as a grid's boxes, or as cuboids: a cube would take some 20 GB."""
BUILT_IN = (*BY_NAME.values(), *OF_ROWS.values())
GROUP = "dpcube.strategies"
"""The group of entry points by which an installed package offers strategies."""
OF_MODULE = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")


def strategy_names() -> list[str]:
    """Return the names of all strategies of releases: ours, built-in rivals, then those of installed packages."""
    built_in = [*BY_NAME, *NOT_COMPARED, *RIVALS]
    return [*built_in, *sorted({one.name for one in _installed()} - set(built_in))]


def releasing_strategy(strategy: str | Strategy, domain: Domain) -> FittedStrategy:
    """Return the strategy of a release, fitted to its domain: one of rows if the default's cube is too large.

    Whether it is follows from the domain alone, so that a table is released alike on every machine.
    """
    fitted = fitted_strategy(strategy, domain)
    default = Adaptive() if strategy == DEFAULT else strategy
    if type(default) is not Adaptive or default.queries is not None or default.questions:
        return fitted
    if domain.size <= MAX_CUBE_CELLS:
        return fitted
    few = sum(side > 1 for side in domain.shape) <= MAX_GRID_ATTRIBUTES
    if few and domain.size <= MAX_GRID_CELLS and default.target is None:
        return FineGrid().for_domain(domain)
    if max(domain.shape) > MAX_ATTRIBUTE_CELLS:
        return fitted
    return Cuboids(target=default.target).for_domain(domain)


def strategy_with(name: str | None, options: Mapping[str, object]) -> str | Strategy:
    """Return a strategy by name with options of its own, or the first of ours that takes them all.

    An option is a field of the strategy, and one that is None is not given.
    """
    given = {option: value for option, value in options.items() if value is not None}
    if not given:
        return name or DEFAULT
    takers = [(maker, takes) for maker in BUILT_IN if given.keys() <= (takes := {one.name for one in fields(maker)})]  # type: ignore[arg-type] # all of ours are dataclasses
    if not takers:
        msg = f"no strategy takes all of {_flags(given)}; leave some of them out"
        raise InputError(msg)
    for maker, _ in takers:
        if name is None or maker in (BY_NAME.get(name), OF_ROWS.get(name)):
            return maker(**given)
    maker, takes = takers[0]
    msg = f"{_flags(option for option in options if option in takes)} are options of the strategy {maker().name}, not "
    msg += f"of {name}; leave --strategy or them out"
    raise InputError(msg)


def _flags(options: Iterable[str]) -> str:
    *others, last = (f"--{option}" for option in options)
    return f"{', '.join(others)} and {last}" if others else last


def check_room(strategy: FittedStrategy, domain: Domain) -> None:
    """Raise MemoryLimitError if a release by a strategy needs more memory than there is."""
    peak_bytes = strategy.peak_bytes(domain.shape)
    if strategy.store == "rows":
        what = f"a release by {strategy.name} of {domain.size:,} cells"
        check_memory(peak_bytes, what=what, remedy="use a larger machine, or wider bins")
    else:
        check_fits(domain, peak_bytes=peak_bytes)


def strategy_of(strategy: str | Strategy, domain: Domain | None = None) -> FittedStrategy:
    """Return a strategy of cubes by name, as MODULE:CLASS or as given; fitted to a domain if it can be."""
    found = fitted_strategy(strategy, None)
    if isinstance(strategy, str) and found.store == "rows":
        tables = "fine grids" if found.workload == "grid" else "wide tables"
        msg = f"the strategy {found.name} makes releases of {tables}, which are not compared yet; name another"
        raise InputError(msg)
    return fitted_strategy(found, domain)


def fitted_strategy(strategy: str | Strategy, domain: Domain | None) -> FittedStrategy:
    """Return a strategy of any kind by name, as MODULE:CLASS or as given; fitted to a domain if it can be."""
    found: object = _named(strategy) if isinstance(strategy, str) else strategy
    built_in = type(found) in BUILT_IN or isinstance(found, ExternalStrategy)
    fitted: FittedStrategy = found if built_in else ExternalStrategy(found)  # type: ignore[arg-type, assignment] # it checks
    fit: Callable[[Domain], FittedStrategy] | None = getattr(fitted, "for_domain", None)
    return fitted if fit is None or domain is None else fit(domain)


def _named(name: str) -> object:
    if name in BY_NAME:
        return BY_NAME[name]()
    if name in OF_ROWS:
        return OF_ROWS[name]()
    if name in RIVALS:
        return _attribute(RIVALS[name])()  # type: ignore[operator] # a class, as listed
    offered = [one for one in _installed() if one.name == name]
    if len({one.value for one in offered}) > 1:
        places = listing(sorted({one.value for one in offered}))
        msg = f"the strategy '{name}' is offered by several installed packages; name the one meant: {places}"
        raise InputError(msg)
    if offered:
        return _loaded(offered[0].load, f"strategy '{name}' ({offered[0].value}) of an installed package")
    if OF_MODULE.fullmatch(name):
        return _loaded(lambda: _attribute(name), f"strategy '{name}'")
    msg = f"there is no strategy '{name}'; the strategies are {listing(strategy_names())}, or MODULE:CLASS of your own"
    raise InputError(msg)


def _installed() -> list[EntryPoint]:
    return list(entry_points(group=GROUP))


def _attribute(name: str) -> object:
    """Return what MODULE:CLASS names; the current directory is searched after everything that is installed."""
    module, _, attribute = name.partition(":")
    with _current_directory_last():
        found: object = import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    return found


@contextmanager
def _current_directory_last() -> Iterator[None]:
    here = str(Path.cwd())
    sys.path.append(here)
    try:
        yield
    finally:
        for place in range(len(sys.path) - 1, -1, -1):
            if sys.path[place] == here:
                del sys.path[place]
                break


def _loaded(load: Callable[[], object], what: str) -> object:
    """Load what was named, and make an object of it if it is a class."""
    try:
        found = load()
        return found() if isinstance(found, type) else found
    except (Exception, SystemExit) as error:
        msg = f"{what} cannot be loaded: {in_one_line(error)}"
        raise InputError(msg) from error
