"""What a file's answers need, kept in the user's cache directory: the next command need not work it out again.

`counting.py` counts in a file, from what is kept of it if that fits; `tree_answers.py` and `balanced_answers.py` are
what is kept; `estimate.py` is the same for SQL; `once.py` keeps what a command makes of a file alone: an account, a
picture, a page. `folder.py` is where, `keys.py` under what. What is kept follows from a published file, so it is no
more private than the file.
"""

from typing import TYPE_CHECKING

from dpcube.core.lazy import lazily

if TYPE_CHECKING:
    from dpcube.release.cache.counting import counted
    from dpcube.release.cache.estimate import estimate_of
    from dpcube.release.cache.once import libraries, made_once

__all__ = ["counted", "estimate_of", "libraries", "made_once"]

__getattr__ = lazily(
    __name__, {"counted": "counting", "estimate_of": "estimate", "libraries": "once", "made_once": "once"}
)
