"""How accurate the strategies are, measured: `python -m dpcube.research.accuracy`, or `make accuracy`.

Enters: arrays of the DPBench study with its results for other algorithms, or the bundled table. Leaves: errors with
fresh noise beside those of the rivals (`dpbench`), over epsilon and the number of rows (`sweeps`), on cubes of more
attributes (`cubes`), and with one part of the adaptive strategy left out at a time (`ablation`).
"""

from dpcube.research.accuracy.dpbench import Bench, measure_errors, summaries

__all__ = ["Bench", "measure_errors", "summaries"]
