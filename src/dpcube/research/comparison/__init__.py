"""Comparison of strategies and rivals on public data: `dpcube compare`. Its results are not private.

subjects  the tables and the questions
runs      releases, their errors, seconds and memory
rows      the results as a table
files     that table as CSV and as a picture
page      recorded comparisons as docs/research/benchmark.md
"""

from dpcube.research.comparison.rows import ComparisonRow, comparison_rows
from dpcube.research.comparison.runs import compare
from dpcube.research.comparison.subjects import NOT_PRIVATE_WORDS, Subject

__all__ = ["NOT_PRIVATE_WORDS", "ComparisonRow", "Subject", "compare", "comparison_rows"]
