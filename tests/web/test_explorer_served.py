"""The explorer with Python behind it: who is let in, what it answers, and what a hostile or slow client can do."""

import csv
import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cubes import HOSTILE, MIXED, released, wide_release
from test_explorer_numbers import random_question
from test_explorer_page import SAVED, ends, shown, told
from test_studio import Client

from chromium import Browser, Page
from dpcube import Release
from dpcube.domain import Attribute
from dpcube.errors import QueryError
from dpcube.explore import ExplorerServer
from dpcube.explore.asking import PageQuestions
from dpcube.explore.sql_process import MOST_RESULT_ROWS


@contextmanager
def running(release: Release, folder: Path, **options: Any) -> Iterator[ExplorerServer]:
    path = folder / "it's a $cube.dpcube"
    release.save(path)
    server = ExplorerServer(path, **options)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def wide() -> Release:
    return wide_release()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, wide: Release) -> Iterator[ExplorerServer]:
    with running(wide, tmp_path_factory.mktemp("wide"), seconds=5) as made:
        yield made


def let_in(browser: Browser, server: ExplorerServer, **options: Any) -> Page:
    """Open the page by its address, as if for the first time."""
    server.entry._used = False
    page = browser.page(server.entry.address, **options)
    page.wait("document.body?.dataset.told")
    return page


# --- a page that asks Python ------------------------------------------------------------------------------------------


def test_a_wide_table_is_shown_with_the_answers_of_python(
    browser: Browser, server: ExplorerServer, wide: Release
) -> None:
    page = let_in(browser, server)
    assert page.run("location.search") == ""
    assert shown(page) == ends(wide.count())
    for bar in range(6):
        assert shown(page, f"#bar-0-{bar}") == ends(wide.count(x0=bar))
    page.drag(page.middle("#bar-0-2 .back"), page.middle("#bar-0-4 .back"))
    told(page)
    assert shown(page) == ends(wide.count(x0=(2, 4)))
    assert shown(page, "#bar-6-1") == ends(wide.count(x0=(2, 4), kind=HOSTILE))
    assert page.run("document.getElementById('modelled').hidden")
    page.click("#bar-6-1 .back")
    told(page)
    answer = wide.count(x0=(2, 4), kind=HOSTILE)
    assert shown(page) == ends(answer)
    assert answer.modelled
    assert not page.run("document.getElementById('modelled').hidden")
    assert "by the model" in page.run("document.getElementById('bar-2-3').getAttribute('aria-label')")
    assert "a model of the counts" in page.text("#parts")
    x, y = page.middle(".map-area svg")
    page.mouse("mouseMoved", x, y, pressed=False)
    across, up = page.run("document.getElementById('map-said').textContent.match(/x0 (\\d+), x1 (\\d+)/).slice(1)")
    asked = wide.count(x0=int(across), x1=(int(up), int(up) + 1), kind=HOSTILE)
    assert shown(page, "#map-said") == ends(asked)
    assert page.run("document.title") == "it's a $cube: a private cube"
    assert page.complaints() == []
    page.close()


def words_of_choice(attribute: Attribute, of: Any) -> str:
    """Return a page's choice as a question that `count` reads."""
    name, edges = f'"{attribute.name}"', attribute.bin_edges()
    if isinstance(of, dict):
        return f"{name} between {of['from']} and {of['to']}"
    chosen = []
    for cell, _ in of:
        if cell >= attribute.bins or attribute.scale == "position":
            label = attribute.labels()[cell].replace("'", "''")
            chosen.append(f"{name} = '{label}'")
        else:
            end = "<=" if attribute.is_continuous and cell == attribute.bins - 1 else "<"
            chosen.append(f"({name} >= {edges[cell]:.15g} and {name} {end} {edges[cell + 1]:.15g})")
    return f"({' or '.join(chosen)})"


def asked_of(question: dict[int, Any]) -> dict[str, Any]:
    return {str(axis): of for axis, of in question.items()}


@pytest.mark.parametrize("strategy", ["adaptive", "cells"])
def test_random_questions_have_the_answers_of_the_page_that_holds_its_cube(strategy: str) -> None:
    """What Python makes of a page's choice is what a command makes of the words for it: ranges that cut bins, runs."""
    release = released(MIXED, strategy)
    questions = PageQuestions(release.domain, release.estimate(), confidence=0.9)
    generator = np.random.default_rng(4)
    cut = 0
    for _ in range(60):
        asked = random_question(release.domain, generator)
        words = [words_of_choice(release.domain.attributes[axis], of) for axis, of in asked.items()]
        answer = release.count(" and ".join(words) or None, confidence=0.9)
        found = questions.headline({"asked": asked_of(asked)})["answer"]
        assert (found["value"], found["low"], found["high"]) == ends(answer)
        assert (found["stderr"], found["within"]) == pytest.approx((answer.stderr, answer.within), nan_ok=True)
        assert (found["reach"] > 0) <= bool(answer.cut)
        cut += bool(answer.cut)
    assert cut > 5


def test_quick_values_are_those_of_the_answers() -> None:
    release = released(MIXED, "adaptive")
    questions = PageQuestions(release.domain, release.estimate(), confidence=0.95)
    asked = {"0": {"from": 12, "to": 33}, "2": [[0, 1]]}
    for across, up in ((0, 1), (1, 0), (2, 0)):
        quick = questions.counts({"asked": asked, "across": across, "up": up})
        for axis, values in enumerate(quick["bars"]):
            answers = questions.bars({"asked": asked, "axis": axis})["answers"]
            assert values == pytest.approx(answers["value"])
        squares, first = [], 0
        while first < len(quick["bars"][across]):
            part = questions.squares({"asked": asked, "across": across, "up": up, "first": first})
            squares += part["answers"]["value"]
            first += part["columns"]
        assert quick["squares"] == pytest.approx(squares)


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"asked": 5},
        {"asked": {"9": [[0, 1]]}},
        {"asked": {"0": "x"}},
        {"asked": {"0": [[0]]}},
        {"asked": {"0": [[0, True]]}},
        {"asked": {"0": {"from": 0}}},
        {"asked": {"0": {"from": 0.5, "to": 3}}},
        {"asked": {"0": {"from": 9, "to": 3}}},
        {"asked": {"0": {"from": 900, "to": 901}}},
        {"asked": {"0": {"from": 10**400, "to": 10**401}}},
        {"asked": {"0": {"from": float("nan"), "to": 3}}},
        {"asked": {"2": {"from": 0, "to": 1}}},
        {"asked": {}, "axis": 3},
        {"asked": {}, "axis": -1},
        {"asked": {}, "axis": True},
    ],
    ids=str,
)
def test_a_choice_that_fits_no_attribute_is_refused(request_: dict[str, Any]) -> None:
    release = released(MIXED, "cells")
    questions = PageQuestions(release.domain, release.estimate(), confidence=0.95)
    with pytest.raises(QueryError) as refused:
        questions.bars(request_)
    assert "\n" not in str(refused.value)


# --- SQL --------------------------------------------------------------------------------------------------------------


def run_sql(page: Page, query: str) -> str:
    page.type("#statement", query)
    page.click("#run-sql")
    page.wait("document.getElementById('sql-said').dataset.done")
    return page.text("#sql-said")


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
        found = [float(cell.replace(",", "")) for cell in line[1:]]
        assert found == pytest.approx(list(row.values())[1:], rel=1e-5)
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


ENDLESS = "SELECT count(*) AS n FROM {}".format(
    ", ".join(f"(SELECT x{j}, count(*) AS n FROM cube GROUP BY x{j}, x5) AS t{k}" for k in range(4) for j in range(5))
)


def test_a_statement_that_runs_for_ever_is_stopped_and_the_page_says_so(
    browser: Browser, server: ExplorerServer
) -> None:
    page = let_in(browser, server)
    page.run("document.getElementById('sql-errors').click()")
    assert "stopped after 5 seconds" in run_sql(page, ENDLESS)
    page.type("#statement", ENDLESS)
    page.click("#run-sql")
    page.wait("!document.getElementById('stop-sql').disabled")
    page.click("#stop-sql")
    page.wait("document.getElementById('sql-said').dataset.done")
    assert page.text("#sql-said") == "the statement was stopped"
    assert run_sql(page, "SELECT count(*) AS n FROM cube") == "Done."
    assert (
        page.complaints()
        == ["Failed to load resource: the server responded with a status of 422 (Unprocessable Entity)"] * 2
    )
    page.close()


def test_a_large_result_is_cut(server: ExplorerServer) -> None:
    query = "SELECT x1, x2, x3, x4, x5, kind, count(*) AS n FROM cube GROUP BY x1, x2, x3, x4, x5, kind"
    answer = Client(server).call("sql", query=query, error=False)
    assert answer["status"] == 200, answer
    assert answer["total"] > len(answer["rows"])
    assert len(answer["rows"]) <= MOST_RESULT_ROWS


# --- synthetic rows ---------------------------------------------------------------------------------------------------


def test_synthetic_rows_are_those_of_python(browser: Browser, server: ExplorerServer, wide: Release) -> None:
    page = let_in(browser, server)
    page.run(SAVED)
    page.type("#synthetic-rows", "250")
    page.type("#synthetic-seed", "7")
    page.click("#draw-rows")
    page.wait("window.saved.length")
    header, *lines = csv.reader(io.StringIO(page.run("window.saved.at(-1).text()"), newline=""))
    expected = wide.synthesize(250, 7)
    assert header == expected.column_names
    assert lines == [[str(value) for value in row.values()] for row in expected.to_pylist()]
    page.wait("document.getElementById('synthetic-said').textContent === 'Saved 250 rows.'")
    page.type("#synthetic-rows", "5000000")
    page.click("#draw-rows")
    page.wait("document.getElementById('synthetic-said').textContent.includes('from 0 to 1,000,000')")
    page.close()
