"""Differentially private data cubes.

The analyst's side is here: `dpcube.open("adult.dpcube")` gives a `Release` that answers counting queries. Private rows
are opened only by importing `dpcube.curator`, so that access to them shows on the import line.

    dpcube.open            a released file, as a Release
    dpcube.Domain          the declared axes of a cube: Integer, Float, Category, Date
    dpcube.DpcubeError     whatever is raised on purpose; `dpcube.errors` draws the tree, each of its errors is here too
    dpcube.Workload        many range queries at once
    dpcube.strategy        what to measure
    dpcube.plan            what a release would be worth, before anything is spent
    dpcube.theory          the paper's formal results
    import dpcube.curator  publish a private table                     (trusted)
    import dpcube.evaluate truth against release, for public data
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpcube.analyst import Answer, Answers, Release, View
    from dpcube.domain import Category, Date, Domain, Float, Integer
    from dpcube.errors import (
        BudgetError,
        CompilerError,
        DomainError,
        DpcubeError,
        EmptyTotalError,
        HiddenError,
        InputError,
        KeptReleaseError,
        LedgerError,
        LinkageError,
        MemoryLimitError,
        QueryError,
        RefusedError,
        ReleaseFileError,
        SourceError,
    )
    from dpcube.query import Workload

    open = Release.open

__version__ = "0.1.0"

_NAMES = {
    "dpcube.analyst": ("Answer", "Answers", "Release", "View"),
    "dpcube.domain": ("Category", "Date", "Domain", "Float", "Integer"),
    "dpcube.errors": (
        *("BudgetError", "CompilerError", "DomainError", "DpcubeError", "EmptyTotalError", "HiddenError", "InputError"),
        "KeptReleaseError",
        *(
            "LedgerError",
            "LinkageError",
            "MemoryLimitError",
            "QueryError",
            "RefusedError",
            "ReleaseFileError",
            "SourceError",
        ),
    ),
    "dpcube.query": ("Workload",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

# Not `curator`: private rows are reached by importing it, so that it shows.
_SUBMODULES = ("errors", "plan", "strategy", "theory")

__all__ = [
    "Answer",
    "Answers",
    "BudgetError",
    "Category",
    "CompilerError",
    "Date",
    "Domain",
    "DomainError",
    "DpcubeError",
    "EmptyTotalError",
    "Float",
    "HiddenError",
    "InputError",
    "Integer",
    "KeptReleaseError",
    "LedgerError",
    "LinkageError",
    "MemoryLimitError",
    "QueryError",
    "RefusedError",
    "Release",
    "ReleaseFileError",
    "SourceError",
    "View",
    "Workload",
    "open",
]


def __getattr__(name: str) -> object:
    if name == "open":
        return import_module("dpcube.analyst").Release.open
    if name in _SUBMODULES:
        return import_module(f"dpcube.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    msg = f"module 'dpcube' has no attribute '{name}'"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
