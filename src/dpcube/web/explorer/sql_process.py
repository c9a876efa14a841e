"""SQL in a child process, in bounded time and memory; its result is JSON.

The statement is checked, rewritten and run as by `dpcube sql`: one SELECT, in an engine without files, network,
settings or extensions. What it takes before and after the engine runs counts too, so all of it happens in a process of
its own, which is killed when the time is up or somebody stops it; the next statement gets a new one.
"""

import json
import math
import signal
import threading
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcube.core.errors import DpcubeError, InputError, QueryError, RefusedError

if TYPE_CHECKING:
    import pyarrow as pa

MAX_RESULT_ROWS = 10_000
MAX_RESULT_BYTES = 4 * 2**20
MAX_STATEMENT_MEMORY = 2 * 2**30
"""Memory that a statement may take beyond what the release itself does."""
MAX_WAITING = 8
"""Statements that wait for the one that runs."""
LONGEST_CELL = 1000
LARGEST_EXACT = 2**53
_spawn = get_context("spawn")


@dataclass(frozen=True)
class SqlSettings:
    """Which file is asked, by its digest, and how."""

    path: Path
    digest: str
    estimate: str
    confidence: float
    seconds: float
    memory: int = MAX_STATEMENT_MEMORY


class SqlProcess:
    """Runs statements one after another; a statement that takes too long takes the process with it."""

    def __init__(self, settings: SqlSettings) -> None:
        self._settings = settings
        self._turn, self._places = threading.Lock(), threading.BoundedSemaphore(1 + MAX_WAITING)
        self._change = threading.Lock()  # whoever starts or ends the process holds it
        self._process: Any = None
        self._pipe: Connection | None = None
        self._running = self._stopped = self._closed = False

    def run(self, query: str, *, error: bool) -> bytes:
        """Return the result of a statement, as JSON: its columns, its first rows, and how many there are."""
        if not self._places.acquire(blocking=False):
            msg = f"{1 + MAX_WAITING} statements are waiting already; stop one, or wait"
            raise RefusedError(msg)
        try:
            with self._turn:
                self._begin()
                try:
                    return self._asked(query, error=error)
                finally:
                    self._running = False
        finally:
            self._places.release()

    def stop(self) -> None:
        """Stop the statement that runs, if there is one; those that wait go on."""
        with self._change:
            if self._running:
                self._stopped = True
                self._kill()

    def close(self) -> None:
        """Stop for good."""
        with self._change:
            self._closed = True
            self._kill()

    def _begin(self) -> None:
        """Let the statement whose turn it is be stopped; what stopped the one before is no matter to it."""
        with self._change:
            self._running, self._stopped = True, False

    def _asked(self, query: str, *, error: bool) -> bytes:
        try:
            pipe = self._started()
            pipe.send((query, error))
            is_late = not pipe.poll(self._settings.seconds + 1)  # the engine stops by itself a little earlier
            kind, told = ("late", b"") if is_late else pipe.recv()
        except (EOFError, OSError):
            kind, told = "ended", b""
        if kind in ("late", "ended"):
            with self._change:
                self._kill()
            raise self._ended(is_late=kind == "late")
        if kind == "refused":
            raise QueryError(told)
        assert isinstance(told, bytes)
        return told

    def _ended(self, *, is_late: bool) -> RefusedError:
        if self._stopped or self._closed:
            return RefusedError("the statement was stopped")
        if is_late:
            seconds = f"{self._settings.seconds:g} seconds"
            return RefusedError(f"the statement was stopped after {seconds}; ask for less, or allow more (--seconds)")
        return RefusedError("the statement ended its process, most likely for want of memory; ask for less")

    def _started(self) -> Connection:
        """Return a pipe to a process that has opened the release; that is not counted as a statement's time."""
        with self._change:
            if self._stopped or self._closed:
                raise EOFError
            pipe, is_new = self._pipe, self._pipe is None or not self._process.is_alive()
            if pipe is None or is_new:
                self._kill()
                pipe, theirs = _spawn.Pipe()
                process = _spawn.Process(target=_serve_sql, args=(theirs, self._settings), daemon=True)
                process.start()
                theirs.close()
                self._process, self._pipe = process, pipe
        if is_new:
            kind, told = pipe.recv()
            if kind == "refused":
                raise InputError(told)
        return pipe

    def _kill(self) -> None:
        """End the process, if there is one; whoever reads from its pipe is told that it ended."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._process = self._pipe = None


def _serve_sql(pipe: Connection, settings: SqlSettings) -> None:
    """Run statements as they come, in the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends this process
    from dpcube.release import Release

    try:
        release = Release.open(settings.path)
        if release.digest != settings.digest:
            pipe.send(("refused", f"{settings.path.name} was changed since it was opened; start dpcube explore again"))
            return
        # What is loaded and compiled for any statement is no statement's time.
        release.sql("SELECT count(*) FROM cube", error=True, estimate=settings.estimate, seconds=600)
    except DpcubeError as error:
        pipe.send(("refused", str(error)))
        return
    _limit_memory(settings.memory)
    pipe.send(("ready", None))
    with suppress(EOFError, OSError):  # nobody waits any more
        while True:
            query, with_errors = pipe.recv()
            pipe.send(_answered(release, settings, query, error=with_errors))


def _answered(release: Any, settings: SqlSettings, query: str, *, error: bool) -> tuple[str, str | bytes]:
    options = {"confidence": settings.confidence, "estimate": settings.estimate, "seconds": settings.seconds}
    try:
        return "result", json.dumps(result_facts(release.sql(query, error=error, **options))).encode()
    except MemoryError:
        return "refused", "the statement needs more memory than is allowed; ask for less"
    except DpcubeError as refused:
        return "refused", " ".join(str(refused).split())
    except Exception as fault:  # noqa: BLE001, RUF100 (it is told, and the process goes on)
        return "refused", f"internal error ({type(fault).__name__}); this is a fault in dpcube, please report it"


def _limit_memory(most: int) -> None:
    """Allow statements so much memory beyond what is in use, where the system can."""
    try:
        import resource
    except ImportError:  # there are no limits on Windows; the engine has its own
        return
    status = Path("/proc/self/status")
    if status.exists():
        used = next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmData:"))
        limit, hard = used * 1024 + most, resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def result_facts(table: "pa.Table") -> dict[str, Any]:
    """Return a result as JSON has it: columns with what they hold, and as many rows as a page takes.

    >>> import pyarrow as pa
    >>> result_facts(pa.table({"n": [1.5, float("nan")], "sex": ["f", None]}))["rows"]
    [[1.5, 'f'], ['unknown', None]]
    """
    import pyarrow.types as kinds

    number = (kinds.is_integer, kinds.is_floating, kinds.is_decimal)
    columns = [
        {"name": name[:LONGEST_CELL], "number": any(is_kind(of) for is_kind in number)}
        for name, of in zip(table.column_names, table.schema.types, strict=True)
    ]
    rows: list[list[object]] = []
    size = 0
    for batch in table.slice(0, MAX_RESULT_ROWS).to_batches(max_chunksize=100):
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            size += len(json.dumps(plain := [_plain_value(value) for value in row]))
            if size > MAX_RESULT_BYTES:
                return {"columns": columns, "rows": rows, "total": table.num_rows}
            rows.append(plain)
    return {"columns": columns, "rows": rows, "total": table.num_rows}


def _plain_value(value: object) -> object:
    """Return a value as JSON and JavaScript have it: numbers that these cannot hold, and all others, as text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) <= LARGEST_EXACT:
        return value
    if isinstance(value, float):
        return "unknown" if math.isnan(value) else value if math.isfinite(value) else str(value)
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= LONGEST_CELL else f"{text[: LONGEST_CELL - 1]}\N{HORIZONTAL ELLIPSIS}"
