"""Private rows, wherever they are: a table enters, exact counts leave, and nothing else does.

Why no row can change whether or how a run fails, or be seen in what it prints:

- What decides is declared or read from the schema: names, types, the CSV dialect. Nothing is sniffed, sampled or
  inferred from values.
- Every expression sent to the engine is total (`sql.py`): casts of text are safe casts, arithmetic is done on clamped
  values, and each value ends in a declared cell or in none.
- What the engine's readers would refuse is mended before they see it: lines of CSV are cut here (`csv.py`), text that
  is not UTF-8 and times beyond the engine's reach are made harmless (`table.py`), and Python objects become text
  (`frames.py`).
- A database counts its own rows by the same rules in its own words (`postgres.py`, `spark.py`, `dialect.py`). Whether
  a query that its owner wrote can fail on a row is the owner's to see to.
- What still fails is the file or the machine, and is reported in words of our own: no engine message is passed on or
  chained (`asked.py`).
"""

from dpcube.core.sources.counts import counts_from_array, counts_from_frame
from dpcube.core.sources.csv import CsvDialect
from dpcube.core.sources.open import open_rows
from dpcube.core.sources.rows import Rows

__all__ = ["CsvDialect", "Rows", "counts_from_array", "counts_from_frame", "open_rows"]
