"""TRUSTED. `publish`, `learn_domain` and `explain`, the entry points to private rows; their results are noisy.

The names below are imported when they are first used: `publish` depends on strategies and releases, and importing the
gate or the sources alone must not load them (tests/architecture/test_trusted.py counts what is loaded).
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpcube.core.request import LedgerLocation
    from dpcube.core.sources import CsvDialect
    from dpcube.curator.learning import LearntDomain, explain_learning, learn_domain
    from dpcube.curator.publishing import explain, publish

_HOMES = {
    "CsvDialect": "dpcube.core.sources",
    "LearntDomain": "dpcube.curator.learning",
    "LedgerLocation": "dpcube.core.request",
    "explain": "dpcube.curator.publishing",
    "explain_learning": "dpcube.curator.learning",
    "learn_domain": "dpcube.curator.learning",
    "publish": "dpcube.curator.publishing",
}

__all__ = [
    "CsvDialect",
    "LearntDomain",
    "LedgerLocation",
    "explain",
    "explain_learning",
    "learn_domain",
    "publish",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    msg = f"module 'dpcube.curator' has no attribute '{name}'"
    raise AttributeError(msg)
