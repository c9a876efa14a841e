"""Registry of rivals and strategies by name, for comparisons.

A `Listed` states the source of a system, its privacy definition, whether it can make a real release or is research
code, whether it needs the questions, and how to make it for a workload.
"""

from collections.abc import Callable
from dataclasses import dataclass

from dpcube.core.domain.attribute import listing
from dpcube.core.errors import InputError
from dpcube.queries import Workload
from dpcube.research.rivals.dawa import Dawa
from dpcube.research.rivals.hdpview import HDPView
from dpcube.research.rivals.matrix_mechanism import MatrixMechanism
from dpcube.research.rivals.mwem import Mwem
from dpcube.research.rivals.privelet import Privelet
from dpcube.research.rivals.privtree import PrivTree
from dpcube.research.rivals.rival import PURE, OfStrategy, Rival
from dpcube.strategies import BY_NAME, RIVALS, strategy_of


@dataclass(frozen=True, slots=True)
class Listed:
    """One system: `make` returns it, given the workload that it may be shown."""

    name: str
    source: str
    make: Callable[[Workload], Rival]
    privacy: str = PURE
    released_by_gate: bool = False
    """Whether `dpcube release --strategy NAME` makes a private release of it; else it is research code."""
    shown_workload: bool = False
    """Whether it needs the questions before it measures, which no release for unknown questions can have."""


CITATIONS = {
    "adaptive": "this project (docs/research/adaptive.md)",
    "dpcube": "Xiao, Xiong, Fan, Goryczka: DPCube, Algorithms 2 and 3",
    "cells": "Dwork, McSherry, Nissim, Smith 2006; DPCube, Algorithm 1",
    "uniform": "the total alone (DPBench's Uniform)",
    "hierarchical": "Hay, Rastogi, Miklau, Suciu, PVLDB 2010",
    "hb": "Qardaji, Yang, Li, PVLDB 2013",
    "quad_tree": "Cormode, Procopiuc, Srivastava, Shen, Yu, ICDE 2012",
    "ugrid": "Qardaji, Yang, Li, ICDE 2013",
    "agrid": "Qardaji, Yang, Li, ICDE 2013",
}


def _strategy(name: str) -> Listed:
    """Return a strategy as it is listed: ours by its default estimate, a rival by least squares, as published."""
    estimate = "auto" if name in BY_NAME else "tree_least_squares"
    source = CITATIONS.get(name, "docs/research/rivals.md")
    return Listed(name, source, lambda _: OfStrategy(strategy_of(name), estimate), released_by_gate=True)


LISTED = {one.name: one for one in [*map(_strategy, (*BY_NAME, *RIVALS))]}
"""Every system that there is."""
LISTED |= {
    one.name: one
    for one in (
        Listed("privelet", "Xiao, Wang, Gehrke, ICDE 2010", lambda _: Privelet()),
        Listed("matrix_mechanism", "Li and others, PODS 2010; McKenna and others, 2018", lambda _: MatrixMechanism()),
        Listed("dawa", "Li, Hay, Miklau, Wang, PVLDB 2014", Dawa, shown_workload=True),
        Listed("mwem", "Hardt, Ligett, McSherry, NIPS 2012", Mwem, shown_workload=True),
        Listed("privtree", "Zhang, Xiao, Xie, SIGMOD 2016", lambda _: PrivTree()),
        Listed("hdpview", "Kato, Takahashi, Takagi, Cao, Liew, Yoshikawa, PVLDB 2022", lambda _: HDPView()),
    )
}


def rival_of(name: str, workload: Workload) -> Rival:
    """Return a system by name, made for a workload if it is one that is shown it."""
    if name not in LISTED:
        msg = f"there is no rival '{name}'; there are {listing(list(LISTED))}"
        raise InputError(msg)
    return LISTED[name].make(workload)
