"""What a release of very many attributes takes: `python -m benchmarks.many_attributes [ATTRIBUTES] [ROWS] [EPSILON]`.

A generated table whose attributes follow each other (`plan/made_up_rows.py`) is released from a Parquet file, opened,
asked and synthesised. Printed are the processor's seconds of each step, and the peak of memory so far, that of making
the table included.
"""

import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpcube import Domain, Integer, Release
from dpcube.curator import publish
from dpcube.plan.axes import axes_of
from dpcube.plan.made_up_rows import rows_made_up

SIDES = (2, 3, 5, 7, 12, 20, 40, 80)


def generated(attributes: int, rows: int, to: Path) -> Domain:
    """Write a table of so many attributes, and return its domain."""
    sides = np.random.default_rng(5).choice(SIDES, attributes).tolist()
    domain = Domain(*(Integer(f"a{j}", 0, side - 1) for j, side in enumerate(sides)))
    made = rows_made_up("heavy-tailed", axes_of(domain), rows=rows, most=rows, seed=0)
    columns = [column.astype(np.int16) for column in made.columns]
    pq.write_table(pa.table(dict(zip(domain.names, columns, strict=True))), to)
    return domain


def run(attributes: int, rows: int, epsilon: str) -> Iterator[str]:
    """Yield a line for each step."""
    with tempfile.TemporaryDirectory() as folder:
        table, file = Path(folder) / "wide.parquet", Path(folder) / "wide.dpcube"
        domain = generated(attributes, rows, table)
        first, second, third = domain.names[:3]
        clock = _Clock()
        publish(table, domain, epsilon=epsilon, ledger=None, save_to=file)
        yield clock.told("released")
        release = Release.open(file)
        yield clock.told("opened")
        str(release.count(f"{first} = 1 and {second} <= 2 and {third} >= 1"))
        yield clock.told("a first question, with its interval")
        for name in domain.names[3:]:
            str(release.count(f"{first} = 1 and {name} = 1"))
        yield clock.told(f"{attributes - 3} questions of two attributes")
        release.synthesize(rows)
        yield clock.told(f"{rows:,} synthetic rows")


class _Clock:
    def __init__(self) -> None:
        self.begun = time.process_time()

    def told(self, what: str) -> str:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        seconds, self.begun = time.process_time() - self.begun, time.process_time()
        return f"{what}: {seconds:.1f} CPU-seconds, peak {peak:.0f} MB"


if __name__ == "__main__":
    attributes, rows = (int(word) for word in (sys.argv[1:3] if len(sys.argv) > 2 else ("40", "300000")))
    for line in run(attributes, rows, sys.argv[3] if len(sys.argv) > 3 else "1"):
        print(line, flush=True)
