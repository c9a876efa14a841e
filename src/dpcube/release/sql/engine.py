"""DuckDB in a locked room: no files, no network, no extensions, no settings, bounded memory and time."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType

from dpcube.core.errors import MemoryLimitError, QueryError, RefusedError
from dpcube.core.memory import available_bytes
from dpcube.release.sql.order_statistics import ORDER_STATISTIC, ORDER_STATISTIC_ARGUMENTS, OrderStatistics

MOST_MEMORY = 4 * 2**30
LOCKED = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
}


class Engine:
    """A connection that can do nothing but compute on the tables it is handed."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, seconds: float) -> None:
        self._connection = connection
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    def add(self, name: str, table: pa.Table) -> None:
        """Let queries read a table."""
        self._connection.register(name, table)

    def allow(self, seconds: float) -> None:
        """Allow more time, for what took it was not the query."""
        self._end += seconds

    def run(self, query: str) -> pa.Table:
        """Return the result of a query that was already checked and rewritten."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise self._late()
        timer = threading.Timer(left, self._connection.interrupt)
        timer.start()
        try:
            return self._connection.sql(query).to_arrow_table()
        except duckdb.InterruptException:
            raise self._late() from None
        except duckdb.OutOfMemoryException:
            msg = "the query needs more memory than is allowed; ask for less"
            raise MemoryLimitError(msg) from None
        except duckdb.Error as error:
            words = str(error).split("\n\n")[0].replace("\n", " ").split("LINE 1")[0].strip()
            msg = f"the query cannot be run: {words}"
            raise QueryError(msg) from None
        finally:
            timer.cancel()

    def _late(self) -> RefusedError:
        return RefusedError(f"the query was stopped after {self._seconds:g} seconds; ask for less, or allow more time")


@contextmanager
def engine(*, confidence: float, seconds: float) -> Iterator[Engine]:
    """Open a locked engine, and close it."""
    free = available_bytes()
    memory = MOST_MEMORY if free is None else min(MOST_MEMORY, free // 2)
    with duckdb.connect(":memory:", config={**LOCKED, "memory_limit": f"{memory // 2**20}MiB"}) as connection:
        order_statistics = OrderStatistics(confidence)
        connection.create_function(
            ORDER_STATISTIC,
            order_statistics,
            [*ORDER_STATISTIC_ARGUMENTS],
            "DOUBLE",
            type=PythonUDFType.ARROW,
            null_handling=FunctionNullHandling.SPECIAL,
        )
        connection.execute("SET lock_configuration = true")
        locked = Engine(connection, seconds)
        try:
            yield locked
        finally:
            del locked._connection  # whoever still holds the engine does not keep the connection alive
