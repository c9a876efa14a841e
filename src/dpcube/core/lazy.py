"""Lazy exports of a package: the module of a name is imported when the name is first used."""

from collections.abc import Callable, Mapping
from importlib import import_module


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package whose names live in modules of its own: by name, the module.

    >>> lazily("dpcube", {"Answer": "release.answer"})("Answer").__name__
    'Answer'
    """

    def get(name: str) -> object:
        if name not in homes:
            msg = f"module '{package}' has no attribute '{name}'"
            raise AttributeError(msg)
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return get
