"""What a file's counts need, kept in the user's cache directory: the next `dpcube count` need not work it out again.

`counting.py` counts in a file, from what is kept of it if that fits; `tree_answers.py` is what is kept; `folder.py` is
where. What is kept follows from a published file, so it is no more private than the file.
"""

from dpcube.analyst.kept.counting import counted

__all__ = ["counted"]
