"""Evaluation of classifiers on public data, beside private classifiers of others.

task       a table with a class, its split, what is public of it; scores
official   the official split of the Adult table, and its cube by a rule that was written before any run
wide       all attributes of it as one wide release, by public conventions for bins
others     two public tables that statsmodels carries, on which nothing was developed
beside     DP-EBM and diffprivlib on the same rows, each in an environment of its own
measure    every method on a task, run by run, into a CSV that can be gone on with
__main__   `python -m dpcube.research.classification`, which makes what is recorded in docs/classification
"""

from dpcube.research.classification.task import Score, Task, cube_by_rule, official_split, official_task, score

__all__ = ["Score", "Task", "cube_by_rule", "official_split", "official_task", "score"]
