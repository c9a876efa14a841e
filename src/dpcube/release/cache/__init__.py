"""Results that follow from a released file, in the user's cache directory, so that no command computes them again.

`estimates.py` caches estimates for counts and SQL; `store.py` is the directory, and caches the output of a command.
"""

from typing import TYPE_CHECKING

from dpcube.core.lazy import lazily

if TYPE_CHECKING:
    from dpcube.release.cache.estimates import counted, domain_and_estimate
    from dpcube.release.cache.store import libraries, made_once

__all__ = ["counted", "domain_and_estimate", "libraries", "made_once"]

__getattr__ = lazily(
    __name__,
    {
        **dict.fromkeys(("counted", "domain_and_estimate"), "estimates"),
        **dict.fromkeys(("libraries", "made_once"), "store"),
    },
)
