"""Accuracy of strategies by groups of public and simulated tables: `python -m dpcube.research.accuracy`.

cases            the groups of tables, with an epsilon and the ranges to ask
dpbench          the arrays of the DPBench study and the recorded errors of its algorithms
held_out_tables  public tables on which nothing was tuned
runs             seeded releases and their errors by kind of query, kept in a file if one is named
report           the errors as tables, beside plain noisy cells and rivals
"""

__all__: list[str] = []
