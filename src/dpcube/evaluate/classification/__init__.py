"""Classifiers measured on public data: the official split of the Adult table, beside private classifiers of others.

official   the split, the cube by a rule that was written before any run, and what releases of it lead to
wide       all attributes of it as one wide release, by public conventions for bins
beside     DP-EBM and diffprivlib on the same rows, each in an environment of its own
__main__   `python -m dpcube.evaluate.classification`, which makes the table of docs/classification.md
"""

from dpcube.evaluate.classification.official import Score, cube_by_rule, official_split, released, scored

__all__ = ["Score", "cube_by_rule", "official_split", "released", "scored"]
