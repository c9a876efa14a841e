"""SQL on a release: the cube is a table `cube`, and aggregates are of estimated counts.

Text -> `parse` (allow-list) -> `scope` (rows or results) -> `rewrite` (weighted aggregates; `demand`, `aggregates`) ->
`relation` (rows from the estimate; `axes`) -> `engine` (DuckDB, locked; `picks`) -> `errors` -> an Arrow table.
"""

from dpcube.analyst.sql.run import run

__all__ = ["run"]
