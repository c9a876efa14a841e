"""Strategies and rivals beside each other on public data: `dpcube compare`. Nothing that is made here is private.

`subjects` are what they are run on, `questions` what is asked, `runs` one release of each and what it errs, `rows` the
table of it all, `files` that table as CSV and as a picture, `page` what was recorded as docs/benchmark.md.
"""

from dpcube.research.comparison.rows import ComparisonRow, comparison_rows
from dpcube.research.comparison.runs import compare
from dpcube.research.comparison.subjects import NOT_PRIVATE_WORDS, Subject

__all__ = ["NOT_PRIVATE_WORDS", "ComparisonRow", "Subject", "compare", "comparison_rows"]
