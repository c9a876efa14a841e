"""Differentially private data cubes.

The analyst's side is here: `dpcube.open("adult.dpcube")` gives a `Release` that answers counting queries. Private rows
are opened only by importing `dpcube.curator`, so that access to them shows on the import line.

    dpcube.open            open a released file as a Release
    dpcube.Domain          the declared axes of a cube: Integer, Float, Category, Date
    dpcube.DpcubeError     the root of all errors; `dpcube.core.errors` draws the tree, and each error is here too
    dpcube.Workload        a workload of range queries
    dpcube.strategies      strategies: which noisy counts to measure
    dpcube.plan            expected errors of a release, without spending budget
    dpcube.theory          the paper's formal results
    import dpcube.curator  publish a private table                     (trusted)
    import dpcube.evaluate compare releases with the truth, for public data
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpcube.core.domain import Category, Date, Domain, Float, Integer
    from dpcube.core.errors import (
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
    from dpcube.queries import Workload
    from dpcube.release import Answer, Answers, Release, View

    open = Release.open

__version__ = "0.1.0"

_NAMES = {
    "dpcube.release": ("Answer", "Answers", "Release", "View"),
    "dpcube.core.domain": ("Category", "Date", "Domain", "Float", "Integer"),
    "dpcube.core.errors": (
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
    "dpcube.queries": ("Workload",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

# Not `curator`: private rows are reached by importing it, so that it shows.
_SUBMODULES = ("plan", "strategies", "theory")

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
        return import_module("dpcube.release").Release.open
    if name in _SUBMODULES:
        return import_module(f"dpcube.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    msg = f"module 'dpcube' has no attribute '{name}'"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
