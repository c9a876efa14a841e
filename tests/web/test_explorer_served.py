"""The explorer with Python behind it: who is let in, what it answers, and what a hostile or slow client can do."""

import csv
import http.client
import io
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from click.testing import CliRunner
from cubes import HOSTILE, MIXED, STRANGE, released, wide_release
from test_explorer_numbers import random_question
from test_explorer_page import SAVED, ends, shown, told
from test_studio import Client

from chromium import Browser, Page
from dpcube import Release
from dpcube.cli import commands
from dpcube.core.domain import Attribute
from dpcube.core.errors import QueryError
from dpcube.core.spreadsheets import spreadsheet_text
from dpcube.web.explorer import ExplorerServer
from dpcube.web.explorer.asking import PageQuestions
from dpcube.web.loopback.access import KEY_HEADER, leading_page


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
    with running(wide, tmp_path_factory.mktemp("wide"), seconds=60) as made:
        yield made


def let_in(browser: Browser, server: ExplorerServer, **options: Any) -> Page:
    """Open the page by its address, as if for the first time."""
    server.access._used = False
    page = browser.page(server.access.address, **options)
    page.wait("document.body?.dataset.told")
    return page


def run_sql(page: Page, query: str) -> str:
    page.type("#statement", query)
    page.click("#run-sql")
    page.wait("document.getElementById('sql-said').dataset.done")
    return page.text("#sql-said")


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
    assert shown(page) == ends(wide.count(x0=(2, 4), kind=HOSTILE))
    page.click("#bar-5-1 .back")
    told(page)
    answer = wide.count(x0=(2, 4), x5=(2, 3), kind=HOSTILE)
    assert shown(page) == ends(answer)
    assert answer.modelled
    assert not page.run("document.getElementById('modelled').hidden")
    assert "by the model" in page.run("document.getElementById('bar-2-3').getAttribute('aria-label')")
    assert "error of the model of the counts" in page.text("#parts")
    x, y = page.middle(".map-area svg")
    page.mouse("mouseMoved", x, y, pressed=False)
    across, up = page.run("document.getElementById('map-said').textContent.match(/x0 (\\d+), x1 (\\d+)/).slice(1)")
    asked = wide.count(x0=int(across), x1=(int(up), int(up) + 1), x5=(2, 3), kind=HOSTILE)
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
        assert (found["stderr"], found["nonuniformity"]) == pytest.approx(
            (answer.stderr, answer.nonuniformity), nan_ok=True
        )
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
    assert lines == [[spreadsheet_text(str(value)) for value in row.values()] for row in expected.to_pylist()]
    page.wait("document.getElementById('synthetic-said').textContent === 'Saved 250 rows.'")
    page.type("#synthetic-rows", "5000000")
    page.click("#draw-rows")
    page.wait("document.getElementById('synthetic-said').textContent.includes('from 0 to 1,000,000')")
    page.close()


# --- a page that holds its cube, served -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExplorerServer]:
    with running(released(STRANGE, "adaptive"), tmp_path_factory.mktemp("strange")) as made:
        yield made


def test_hostile_names_are_text_in_results_and_in_statements(browser: Browser, strange: ExplorerServer) -> None:
    page = let_in(browser, strange)
    told(page)
    assert run_sql(page, page.run("document.getElementById('statement').value")) == "Done."  # written by the page
    assert HOSTILE in page.run("[...document.querySelectorAll('table.result th')].map((e) => e.textContent)")
    assert "<b>bold</b>" in page.text("table.result")
    page.click("#bar-0-3 .back")
    told(page)
    page.click("#sql-chosen")
    assert run_sql(page, page.run("document.getElementById('statement').value")) == "Done."
    found = page.run("document.querySelector('table.result tbody td').textContent").replace(",", "")
    assert float(found) == pytest.approx(shown(page)[0], rel=1e-5)
    assert page.run("document.querySelectorAll('img, b, iframe').length") == 0
    assert page.run("document.title") == "it's a $cube: a private cube"
    assert page.complaints() == []
    page.close()


def test_a_reload_is_let_in_and_another_browser_is_not(browser: Browser, strange: ExplorerServer) -> None:
    page = let_in(browser, strange)
    page.click("#bar-0-1 .back")
    page.wait("decodeURIComponent(location.hash).includes('[[1,1]]') && document.body.dataset.told")
    before = shown(page)
    page.run("window.isOld = true")
    page.call("Page.reload")
    page.wait("!window.isOld && document.body?.dataset.told")
    assert shown(page) == before
    page.close()
    client = Client(strange)
    assert client.send("GET", "/", {"Host": client.host})[0] == 403
    assert client.send("GET", "/?token=" + strange.access.token, {"Host": client.host})[0] == 403  # it was used


@pytest.mark.parametrize("action", ["contents", "headline", "counts", "bars", "squares", "sql", "stop", "rows"])
def test_every_action_needs_the_page(strange: ExplorerServer, action: str) -> None:
    client = Client(strange)
    for change, status in (
        ({"Origin": "http://evil.example"}, 403),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 421),
        ({"Cookie": ""}, 403),
        ({KEY_HEADER: "wrong"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Length": str(2**30)}, 413),
    ):
        told_status, headers, _ = client.send("POST", f"/do/{action}", client.calling | change, b"{}")
        assert told_status == status
        assert headers["Cache-Control"] == "no-store"
        assert "script-src 'sha256-" in headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert client.send("GET", f"/do/{action}", client.let_in)[0] == 404


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_what_is_served(browser: Browser, server: ExplorerServer, theme: str) -> None:
    page = let_in(browser, server, dark=theme == "dark")
    assert run_sql(page, "SELECT kind, x0, count(*) AS n FROM cube GROUP BY kind, x0") == "Done."
    page.run((files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8") + "; 1")
    found = page.run("axe.run(document).then((r) => r.violations.map((v) => [v.impact, v.id, v.nodes[0].html]))")
    assert [one for one in found if one[0] in ("serious", "critical")] == []
    page.resize(390, 844)
    assert page.run("document.documentElement.scrollWidth") <= 390
    page.close()


def test_the_command_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    released(MIXED, "cells").save(tmp_path / "cube.dpcube")
    command = [sys.executable, "-m", "dpcube", "explore", "cube.dpcube", "--no-open"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = urlsplit(process.stdout.readline().rpartition(" ")[2].strip())
        connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=600)
        connection.request("GET", f"/?{address.query}")
        assert connection.getresponse().status == 200
        connection.close()
        process.send_signal(signal.SIGINT)
        said, complained = process.communicate(timeout=600)
        assert (process.returncode, complained) == (0, "")
        assert said.splitlines()[-1] == "ended"


@pytest.mark.parametrize("option", [["--port", "0"], ["--no-open"], ["--seconds", "5"]])
def test_options_of_a_served_page_do_not_go_with_a_file(tmp_path: Path, option: list[str]) -> None:
    released(MIXED, "cells").save(tmp_path / "cube.dpcube")
    told = CliRunner().invoke(
        commands, ["explore", str(tmp_path / "cube.dpcube"), "-o", str(tmp_path / "c.html"), *option]
    )
    assert told.exit_code == 2
    assert "leave them or -o out" in told.output
    assert not (tmp_path / "c.html").exists()


# --- the browser that the command opens -------------------------------------------------------------------------------


def test_a_browser_is_led_to_the_page_and_keeps_it(browser: Browser, server: ExplorerServer, wide: Release) -> None:
    server.access._used = False
    with leading_page(server.access.address) as path:
        page = browser.page(path.as_uri())
        page.wait("location.protocol == 'http:' && document.body?.dataset.told")
    assert page.run("location.search") == ""
    assert shown(page) == ends(wide.count())
    assert page.run("document.referrer") == ""
    page.run("window.before = true; location.reload()")
    page.wait("window.before === undefined && document.body?.dataset.told")
    assert shown(page) == ends(wide.count())
    page.close()


def test_the_token_is_on_no_command_line_and_in_no_file_of_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wide: Release
) -> None:
    opened: list[tuple[str, int, int, str]] = []

    def open_page(address: str) -> bool:
        page = Path(address.removeprefix("file://"))
        opened.append((address, page.stat().st_mode & 0o777, page.parent.stat().st_mode & 0o777, page.read_text()))
        raise KeyboardInterrupt

    wide.save(tmp_path / "wide.dpcube")
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", open_page)
    said = CliRunner().invoke(commands, ["explore", str(tmp_path / "wide.dpcube")]).output
    [(address, of_file, of_folder, page)] = opened
    token = said.partition("token=")[2].split()[0]
    assert len(token) > 40
    assert token not in address
    assert f"/?token={token}" in page
    assert (of_file, of_folder) == (0o600, 0o700)
    assert not Path(address.removeprefix("file://")).parent.exists()
