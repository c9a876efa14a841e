"""SQL on the explorer's page: results are Python's, statements read the cube alone, and none runs for ever."""

import csv
import io
import json
import threading
import time
from pathlib import Path

import pytest
from cubes import HOSTILE, MIXED, released, wide_release
from test_explorer_page import SAVED
from test_explorer_served import let_in, run_sql, running, server, wide
from test_studio import Client

from chromium import PATIENCE, Browser
from dpcube import Release
from dpcube.core.errors import DpcubeError, InputError, RefusedError
from dpcube.web.explorer import ExplorerServer
from dpcube.web.explorer.sql_process import MAX_RESULT_ROWS, MAX_WAITING, SqlProcess, SqlSettings

__all__ = ["server", "wide"]  # fixtures


def test_sql_has_the_result_of_python_in_a_table_and_as_bars(
    browser: Browser, server: ExplorerServer, wide: Release
) -> None:
    page = let_in(browser, server)
    query = "SELECT kind, count(*) AS n FROM cube GROUP BY kind ORDER BY n"
    assert run_sql(page, query) == "Done."
    expected = wide.sql(query, error=True).to_pylist()
    header = page.run("[...document.querySelectorAll('table.result th')].map((e) => e.textContent)")
    assert header == list(expected[0])
    lines = page.run(
        "[...document.querySelectorAll('table.result tbody tr')].map((r) => [...r.children].map((e) => e.textContent))"
    )
    assert [line[0] for line in lines] == [row["kind"] for row in expected]
    for line, row in zip(lines, expected, strict=True):
        for cell, value in zip(line[1:], list(row.values())[1:], strict=True):
            found = cell == "true" if isinstance(value, bool) else float(cell.replace(",", ""))
            assert found == pytest.approx(value, rel=1e-5)
    assert page.run("document.querySelectorAll('#sql-result svg .body').length") == 3
    assert page.run("document.querySelectorAll('#sql-result svg .whisker').length") == 3
    assert page.run("document.querySelectorAll('img, iframe').length") == 0  # a value is hostile
    page.run(SAVED)
    page.click("#sql-result .saving button")
    saved = list(csv.reader(io.StringIO(page.run("window.saved.at(-1).text()"), newline="")))
    assert saved[0] == header
    assert {line[0] for line in saved[1:]} == {"red", HOSTILE, "'=1+1"}
    assert page.complaints() == []
    page.close()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT count(*) FROM cube; SELECT 1",
        "ATTACH '/tmp/x.db'",
        "COPY cube TO '/tmp/x.csv'",
        "INSTALL httpfs",
        "SET memory_limit = '1TB'",
        "SELECT current_setting('memory_limit') FROM cube",
        "SELECT * FROM duckdb_settings()",
        "SELECT getenv('HOME') FROM cube",
        "PRAGMA database_list",
        "CREATE TABLE t AS SELECT 1",
        "SELECT * FROM read_text('http://127.0.0.1:1/')",
        "x" * 200_000,
    ],
    ids=lambda query: query[:40],
)
def test_a_statement_reads_nothing_but_the_cube(server: ExplorerServer, query: str) -> None:
    answer = Client(server).call("sql", query=query, error=False)
    assert answer["status"] == 422
    assert set(answer) == {"status", "error"}
    assert "\n" not in answer["error"]


ENDLESS = (
    "WITH t AS (SELECT x1, x2, x3, x4, x5, kind, count(*) AS n FROM cube GROUP BY x1, x2, x3, x4, x5, kind) "
    "SELECT count(*) AS n FROM t AS a, t AS b, t AS c WHERE a.n + b.n + c.n < 0"
)


@pytest.mark.slow
def test_a_statement_that_runs_for_ever_is_stopped_and_the_page_says_so(
    browser: Browser, wide: Release, tmp_path: Path
) -> None:
    with running(wide, tmp_path, seconds=5) as limited:
        page = let_in(browser, limited)
        page.run("document.getElementById('sql-errors').click()")
        assert "stopped after 5 seconds" in run_sql(page, ENDLESS)
        assert page.complaints()[0].startswith("Failed to load resource: the server responded with a status of 422")
        page.close()


@pytest.mark.slow
def test_a_statement_is_stopped_by_a_button(browser: Browser, server: ExplorerServer) -> None:
    page = let_in(browser, server)
    page.run("document.getElementById('sql-errors').click()")
    page.type("#statement", ENDLESS)
    page.click("#run-sql")
    until = time.monotonic() + PATIENCE
    while not server._sql._running and time.monotonic() < until:  # what is not running yet is not stopped
        time.sleep(0.01)
    page.click("#stop-sql")
    page.wait("document.getElementById('sql-said').dataset.done")
    assert page.text("#sql-said") == "the statement was stopped"
    assert run_sql(page, "SELECT count(*) AS n FROM cube") == "Done."
    page.close()


def test_a_large_result_is_cut(server: ExplorerServer) -> None:
    query = "SELECT x1, x2, x3, x4, x5, kind, count(*) AS n FROM cube GROUP BY x1, x2, x3, x4, x5, kind"
    answer = Client(server).call("sql", query=query, error=False)
    assert answer["status"] == 200, answer
    assert answer["total"] > len(answer["rows"])
    assert len(answer["rows"]) <= MAX_RESULT_ROWS


def process_of(release: Release, path: Path, *, seconds: float = 60, memory: int = 2**30) -> SqlProcess:
    release.save(path)
    return SqlProcess(SqlSettings(path, release.digest, "auto", 0.95, seconds, memory))


SORTED = "SELECT a.x1 AS p, b.x2 AS q, c.n FROM {}, {}, {} ORDER BY c.n, q, p".format(
    *(f"(SELECT x1, x2, x3, x4, count(*) AS n FROM cube GROUP BY x1, x2, x3, x4) AS {name}" for name in "abc")
)


@pytest.mark.slow
def test_a_statement_that_needs_too_much_memory_is_refused_and_the_next_is_answered(tmp_path: Path) -> None:
    process = process_of(wide_release(), tmp_path / "r.dpcube", memory=200 * 2**20)
    try:
        with pytest.raises(DpcubeError, match="memory"):
            process.run(SORTED, error=False)
        told = json.loads(process.run("SELECT count(*) AS n FROM cube", error=False))
        assert (told["total"], told["columns"]) == (1, [{"name": "n", "number": True}])
    finally:
        process.close()


@pytest.mark.slow
def test_a_file_that_was_changed_is_not_asked(tmp_path: Path) -> None:
    path = tmp_path / "r.dpcube"
    process = process_of(released(MIXED, "cells"), path)
    path.unlink()
    released(MIXED, "cells", seed=6).save(path)
    with pytest.raises(InputError, match="was changed since it was opened"):
        process.run("SELECT count(*) FROM cube", error=False)
    process.close()


def test_more_statements_than_may_wait_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(SqlProcess, "_asked", lambda *_, **__: b"{}" if go_on.wait(300) else b"")
    process = SqlProcess(SqlSettings(tmp_path / "none.dpcube", "", "auto", 0.95, 5))
    told: list[bytes] = []
    waiting = [
        threading.Thread(target=lambda: told.append(process.run("", error=False))) for _ in range(1 + MAX_WAITING)
    ]
    for thread in waiting:
        thread.start()
    while process._places._value:
        pass
    with pytest.raises(RefusedError, match="9 statements are waiting already"):
        process.run("", error=False)
    go_on.set()
    for thread in waiting:
        thread.join()
    assert told == [b"{}"] * 9
