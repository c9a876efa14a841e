"""Base class of objects that are never copied, pickled or forked, because the copy would spend or draw again."""

import os
from typing import NoReturn

_forks = 0


class Unique:
    """An object that is neither copied nor pickled, so that there is one of it in its process."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        message = f"a {type(self).__name__} is never copied or pickled, so that nothing is spent, drawn or shown twice"
        raise TypeError(message)


def this_process() -> tuple[int, int]:
    """Return an identifier of this process that differs from that of any process forked from or before it."""
    # The process number alone is not enough: a grandchild may be given the number of a dead ancestor.
    return os.getpid(), _forks


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)
