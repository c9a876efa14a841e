"""Readers of private tables: files, frames and databases behind one interface that returns exact counts only.

No row can change whether or how a run fails, and no row appears in what a run prints:

- Every decision is declared or read from the schema: names, types, the CSV dialect. Nothing is sniffed, sampled or
  inferred from values.
- Every expression sent to the engine is total (`sql.py`): casts of text are safe casts, arithmetic is done on clamped
  values, and each value ends in a declared cell or in none.
- Input that the engine's readers would refuse is repaired before they see it. Lines of CSV are cut here (`csv.py`),
  text that is not UTF-8 and times beyond the engine's range are made harmless (`table.py`), and Python objects become
  text (`frames.py`).
- A database counts its own rows by the same rules in its own dialect (`postgres.py`, `spark.py`, `dialect.py`). The
  owner of a query is responsible for whether it can fail on a row.
- Remaining failures are those of the file or the machine, and are reported in our own words: no engine message is
  passed on or chained (`aggregates.py`).
"""

from dpcube.core.sources.csv import CsvDialect
from dpcube.core.sources.open import counts_from_array, open_rows
from dpcube.core.sources.rows import Rows

__all__ = ["CsvDialect", "Rows", "counts_from_array", "open_rows"]
