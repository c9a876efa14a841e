"""The embedded engine: a scan and its SQL enter, the columns of the answer leave.

Each query has a DuckDB connection of its own that can open no file but the table's, and that installs and logs nothing.
Rows that do not fit in memory while a unit's are chosen go to a directory of their own, which only this user may enter
and which is removed with the connection.
"""

from concurrent.futures import ThreadPoolExecutor, wait
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
from numpy.typing import NDArray

from dpcube.core.memory import half_of_free
from dpcube.core.sources.dialect import literal
from dpcube.core.sources.table import Scan

CONFIG: dict[str, Any] = {"autoload_known_extensions": False, "autoinstall_known_extensions": False}
SETTINGS = """
SET enable_external_access = false;
SET python_enable_replacements = false;
SET enable_progress_bar = false;
SET perfect_ht_threshold = 20;
SET disabled_optimizers = '{disabled}';
SET lock_configuration = true;
"""
# Filters stay where they are written: pushed down, each would compute anew the expressions that it is about. A Parquet
# file's statistics leave NaN out, and from them the engine would conclude that NaN lies between bounds that hold for
# all other rows, and that isnan() is false: then one row more could move every NaN to another cell.


def run_in_duckdb(scan: Scan, sql: str) -> dict[str, NDArray[Any]]:
    """Ask an engine of our own, in a thread: an interruption then reaches us, who wait, and we stop the engine."""
    allowed = ", ".join(map(literal, scan.paths))
    disabled = "filter_pushdown" if scan.bounds_hold else "filter_pushdown,statistics_propagation"
    with (
        TemporaryDirectory(prefix="dpcube-") as spilled,  # which nobody else may enter
        duckdb.connect(config={"memory_limit": half_of_free(), **CONFIG, "temp_directory": spilled}) as connection,
        ThreadPoolExecutor(1) as thread,
    ):
        connection.execute(f"SET allowed_paths = [{allowed}]; {SETTINGS.format(disabled=disabled)}")
        if scan.stream is not None:
            connection.register("stream", scan.stream())
        asked = thread.submit(lambda: connection.execute(sql).fetchnumpy())
        try:
            return asked.result()
        finally:
            while not asked.done():
                connection.interrupt()
                wait([asked], timeout=0.01)
