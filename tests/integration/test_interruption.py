"""Ctrl-C while rows are counted: one line, exit code 130, nothing charged, nothing left behind, no query left alone."""

import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import duckdb
import psycopg
import pytest

AGES = '[[attribute]]\nname = "age"\ntype = "integer"\nmin = 0\nmax = 99\n'
LINE = "dpcube: interrupted; no output file is incomplete"


def start(folder: Path, table: str, *more: str, stderr: int = subprocess.PIPE) -> "subprocess.Popen[bytes]":
    (folder / "d.toml").write_text(AGES)
    (folder / "tmp").mkdir()
    command = [sys.executable, "-m", "dpcube", "release", table, "--domain", "d.toml", "--epsilon", "1"]
    command += ["-o", "r.dpcube", *more]
    environment = {**os.environ, "TMPDIR": str(folder / "tmp")}
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=stderr, env=environment)


GIVE_UP = 600.0
"""Seconds after which what is waited for will not come; how soon it comes is the machine's matter."""


def wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + GIVE_UP
    while not condition():
        assert time.monotonic() < end, "what was waited for did not come"
        time.sleep(0.02)


def worked(process: "subprocess.Popen[bytes]") -> float:
    """Seconds of the processor that a process has used, in all of its threads."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_until_counting(process: "subprocess.Popen[bytes]", folder: Path) -> None:
    """Wait until the engine has made its folder and, since then, worked for some time; counting takes much more."""
    wait_for(lambda: process.poll() is not None or list((folder / "tmp").iterdir()))
    before = worked(process)
    wait_for(lambda: process.poll() is not None or worked(process) > before + 0.5)
    assert process.poll() is None


@pytest.fixture(scope="module", params=["parquet", "csv"])
def slow_table(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A table that takes many seconds to count by unit: few bytes a row, and all rows are sorted.

    CSV is read by Python code in the engine's threads.
    """
    path = tmp_path_factory.mktemp("slow") / f"slow.{request.param}"
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT r % 100 AS age, hash(r)::UBIGINT::VARCHAR AS unit FROM range(15000000) t(r)) TO '{path}'"
        )
    return path


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_while_a_file_is_counted(slow_table: Path, tmp_path: Path, ending: signal.Signals) -> None:
    with start(tmp_path, str(slow_table), "--unit", "unit", "--ledger", "t.ledger") as process:
        wait_until_counting(process, tmp_path)
        process.send_signal(ending)
        out, err = process.communicate(timeout=GIVE_UP)
    assert (process.returncode, out, err.decode().strip()) == (130, b"", LINE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.toml", "tmp"]
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.slow
def test_while_postgres_counts(postgres: str, tmp_path: Path) -> None:
    """The query is cancelled in the server, too."""
    running = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dpcube' AND state = 'active'"
    slow = "SELECT i % 100 AS age, pg_sleep(0.01)::text AS s FROM generate_series(1, 1000000) AS t(i)"
    with (
        psycopg.connect(postgres, autocommit=True) as server,
        start(tmp_path, postgres, "--query", slow, "--unit", "s", "--ledger", "t.ledger") as process,
    ):
        wait_for(lambda: server.execute(running).fetchall() == [(1,)])
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=GIVE_UP)
        wait_for(lambda: server.execute(running).fetchall() == [(0,)])
    assert (process.returncode, out, err.decode().strip()) == (130, b"", LINE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.toml", "tmp"]


@pytest.mark.slow
def test_a_terminal_is_told_stages_and_seconds_and_nothing_else(slow_table: Path, tmp_path: Path) -> None:
    terminal, theirs = pty.openpty()
    with start(tmp_path, str(slow_table), "--unit", "unit", "--no-ledger", stderr=theirs) as process:
        os.close(theirs)
        said = b""
        while b" 1 s" not in said:
            said += os.read(terminal, 1000)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=GIVE_UP) == 130
        with suppress(OSError):  # which is how a terminal ends
            while more := os.read(terminal, 10_000):
                said += more
    os.close(terminal)
    lines = re.split(r"\r\x1b\[K", said.decode())
    assert re.fullmatch(rf"{LINE}\r\n", lines[-1])
    assert all(re.fullmatch(r"counting the rows \.\.\.( \d+ s)?", line) for line in lines[1:-2])
