"""Private record linkage: two parties find the records they have in common, and reveal nothing else to each other.

`program.py` defines the computation in the clear; `secure/` computes the same between two processes that do not trust
each other with their rows.
"""

from dpcube.link.program import Comparison, Program, matches

__all__ = ["Comparison", "Program", "matches"]
