"""SQL that a page answers by itself, by the engine inside it: its rows are those of `dpcube sql`, without a network."""

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cubes import EVEN, HOSTILE, MIXED, STRANGE, released
from test_explorer_served import run_sql

from chromium import Browser, Page
from dpcube import Release
from dpcube.cli import commands
from dpcube.core.domain import Domain
from dpcube.web.explorer.inlined import arrow_envelope
from duckdb_package import duckdb_package

ROWS = (
    """[...document.querySelectorAll('table.result tbody tr')].map((r) => [...r.children].map((e) => e.textContent))"""
)
HEADER = "[...document.querySelectorAll('table.result th')].map((e) => e.textContent)"
MIXED_STATEMENTS = [
    "SELECT count(*) AS n FROM cube",
    'SELECT "blood type", count(*) AS n FROM cube GROUP BY "blood type" ORDER BY n DESC',
    'SELECT "blood type" AS t, count(*) AS n FROM cube GROUP BY "blood type" ORDER BY t',
    "SELECT age, count(*) AS n FROM cube GROUP BY age ORDER BY age",
    "SELECT age, count(*) AS n FROM cube WHERE age BETWEEN 12 AND 33 GROUP BY age ORDER BY age",
    'SELECT age, "blood type", count(*) AS n FROM cube GROUP BY "blood type", age',
    'SELECT age, "blood type", count(*) AS n FROM cube GROUP BY age, "blood type" LIMIT 5',
    "SELECT count(*) AS n FROM cube WHERE age >= 12 AND age < 34 AND dose >= 0.1",
    "select count(*) AS n from cube where \"blood type\" in ('0', 'it''s') and age is null",
    'SELECT "blood type", age, count(*) AS n FROM cube WHERE dose BETWEEN 0 AND 0.35 GROUP BY ALL HAVING count(*) > 40 '
    "ORDER BY n DESC LIMIT 7",
    'SELECT "blood type", round(100 * count(*) / 1000, 1) AS part FROM cube GROUP BY 1 ORDER BY 1',
    'SELECT "blood type", avg(age) AS mean, sum(dose) AS doses FROM cube GROUP BY "blood type" ORDER BY "blood type"',
]
EVEN_STATEMENTS = [
    "SELECT seen, count(*) AS n FROM cube GROUP BY seen ORDER BY seen",
    "SELECT count(*) AS n FROM cube WHERE seen BETWEEN '2026-02-10' AND '2026-03-12' AND age > 20",
    "SELECT age, count(*) AS n FROM cube WHERE seen >= DATE '2026-05-01' GROUP BY age ORDER BY n",
]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return duckdb_package(tmp_path_factory.mktemp("npm"))


def opened(browser: Browser, package: Path, domain: Domain, folder: Path) -> tuple[Page, Path]:
    """Write a page by the command and open the file; the browser reaches no network."""
    path, page = folder / "cube.dpcube", folder / "cube.html"
    released(domain, "adaptive").save(path)
    options = ["-o", str(page), "--sql", "--duckdb-wasm", str(package)]
    told = CliRunner().invoke(commands, ["explore", str(path), *options])
    assert told.exit_code == 0, told.output
    shown = browser.page(page.as_uri())
    shown.wait("document.body?.dataset.told", seconds=120)
    return shown, path


@pytest.fixture(scope="module")
def mixed(browser: Browser, package: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Page, Path]]:
    page, path = opened(browser, package, MIXED, tmp_path_factory.mktemp("mixed"))
    yield page, path
    page.close()


def expected_of(release: Release, query: str, header: list[str]) -> list[list[Any]]:
    """Return the result of Python, as the page has its columns: errors of counts, and those alone."""
    table = release.sql(query, error=True)
    return [[row[name] for name in header] for row in table.to_pylist()]


def compare(page: Page, release: Release, query: str) -> None:
    assert run_sql(page, query) == "Done.", query
    header, found = page.run(HEADER), page.run(ROWS)
    expected = expected_of(release, query, header)
    assert len(found) == len(expected), query
    for line, row in zip(found, expected, strict=True):
        for cell, value in zip(line, row, strict=True):
            if isinstance(value, int | float):
                assert float(cell.replace(",", "")) == pytest.approx(value, rel=1e-5, abs=1e-6), query
            else:
                assert cell == ("\N{EN DASH}" if value is None else str(value)), query
    if re.search(r"count\(\*\) AS n\b", query):
        assert {"n_stderr", "n_nonuniformity", "n_low", "n_high"} <= set(header)


@pytest.mark.slow
def test_results_are_those_of_python(mixed: tuple[Page, Path]) -> None:
    page, path = mixed
    release = Release.open(path)
    for query in MIXED_STATEMENTS:
        compare(page, release, query)
    assert page.run("document.querySelectorAll('#sql-result svg .body').length") > 0
    assert all(address.startswith(("file:", "data:", "blob:")) for address in page.requests())
    assert page.complaints() == []


@pytest.mark.slow
def test_days_and_even_bins_are_those_of_python(browser: Browser, package: Path, tmp_path: Path) -> None:
    page, path = opened(browser, package, EVEN, tmp_path)
    for query in EVEN_STATEMENTS:
        compare(page, Release.open(path), query)
    page.close()


@pytest.mark.slow
def test_hostile_names_are_names(browser: Browser, package: Path, tmp_path: Path) -> None:
    page, path = opened(browser, package, STRANGE, tmp_path)
    release = Release.open(path)
    compare(page, release, page.run("document.getElementById('statement').value"))  # written by the page
    compare(
        page,
        release,
        'SELECT "null", count(*) AS n FROM cube WHERE "null" = \'\'\'; drop table cube; --\' GROUP BY "null"',
    )
    page.click("#bar-0-3 .back")
    page.click("#sql-chosen")
    compare(page, release, page.run("document.getElementById('statement').value"))
    compare(
        page,
        release,
        f'SELECT "{HOSTILE.replace(chr(34), 2 * chr(34))}", count(*) AS n FROM cube GROUP BY ALL ORDER BY n',
    )
    assert HOSTILE in page.run(HEADER)
    assert page.run("document.querySelectorAll('img, b, iframe').length") == 0
    assert page.run("document.title") == "cube: a private cube"
    page.run((files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8") + "; 1")
    found = page.run("axe.run(document).then((r) => r.violations.map((v) => [v.impact, v.id, v.nodes[0].html]))")
    assert [one for one in found if one[0] in ("serious", "critical")] == []
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "query",
    [
        "SELECT age FROM cube",
        "SELECT * FROM cube",
        "SELECT count(*) FROM cells",
        "SELECT count(*) FROM cube; DROP TABLE cells",
        "SELECT count(*), (SELECT 1) FROM cube",
        "WITH t AS (SELECT 1) SELECT count(*) FROM cube",
        "SELECT count(DISTINCT age) FROM cube",
        "SELECT count(*) FILTER (WHERE age > 3) FROM cube",
        "SELECT sum(count(*)) OVER () FROM cube",
        "SELECT count(*) FROM cube WHERE age > 3 OR age < 2",
        "SELECT count(*) FROM cube WHERE \"blood type\" = 'none such'",
        "SELECT count(*) + read_csv('x') FROM cube",
        "SELECT count(*) FROM cube GROUP BY age HAVING age > 3",
        "SELECT min(age) FROM cube",
        "SELECT count(*) 'x' FROM cube",
        "SELECT count(* FROM cube",
        "'",
        "",
    ],
)
def test_what_the_page_does_not_read_is_refused(mixed: tuple[Page, Path], query: str) -> None:
    page, _ = mixed
    said = run_sql(page, query)
    assert said != "Done."
    assert "\n" not in said
    assert page.run("document.querySelectorAll('table.result').length") == 0


@pytest.mark.slow
def test_a_statement_can_be_stopped_and_the_next_one_runs(mixed: tuple[Page, Path]) -> None:
    page, path = mixed
    page.run("document.getElementById('statement').value = 'SELECT age, count(*) FROM cube GROUP BY age'")
    page.run("['run-sql', 'stop-sql'].forEach((id) => document.getElementById(id).click())")
    page.wait("document.getElementById('sql-said').dataset.done")
    assert page.text("#sql-said") == "The statement was stopped."
    compare(page, Release.open(path), MIXED_STATEMENTS[1])


def test_an_engine_of_another_version_is_refused(tmp_path: Path) -> None:
    released(MIXED, "cells").save(tmp_path / "cube.dpcube")
    (tmp_path / "dist").mkdir()
    for name in ("duckdb-browser-eh.worker.js", "duckdb-eh.wasm"):
        (tmp_path / "dist" / name).write_bytes(b"alert(1)")
    (tmp_path / "broken.tgz").write_bytes(b"no archive")
    (tmp_path / "empty").mkdir()
    for options, words in (
        (["--duckdb-wasm", str(tmp_path)], "is not that of @duckdb/duckdb-wasm"),
        (["--duckdb-wasm", str(tmp_path / "broken.tgz")], "cannot be read"),
        (["--duckdb-wasm", str(tmp_path / "none.tgz")], "cannot be read"),
        (["--duckdb-wasm", str(tmp_path / "empty")], "there is no dist/"),
        ([], "npm pack"),
    ):
        output = tmp_path / "cube.html"
        told = CliRunner().invoke(
            commands,
            ["explore", str(tmp_path / "cube.dpcube"), "-o", str(output), "--sql", *options],
            env={"DPCUBE_DUCKDB_WASM": ""},
        )
        assert told.exit_code != 0
        assert words in f"{told.output} {told.exception}"
        assert not output.exists()


def test_sql_is_for_a_file(tmp_path: Path) -> None:
    released(MIXED, "cells").save(tmp_path / "cube.dpcube")
    told = CliRunner().invoke(commands, ["explore", str(tmp_path / "cube.dpcube"), "--sql"])
    assert told.exit_code == 2
    assert "add -o" in told.output


def test_the_head_of_a_stream_is_that_of_arrow() -> None:
    import base64

    import numpy as np
    import pyarrow as pa

    envelope: dict[str, Any] = arrow_envelope()
    json.dumps(envelope)
    rows = envelope["rows"]
    numbers = np.arange(2.0 * rows)
    head, batch = (base64.b64decode(envelope[name]) for name in ("schema", "batch"))
    stream = head + batch + numbers.tobytes() + b"\xff\xff\xff\xff\0\0\0\0"
    table = pa.ipc.open_stream(stream).read_all()
    assert table.column("x").to_pylist() == list(range(rows))
    assert table.column("y").to_pylist() == list(range(rows, 2 * rows))
