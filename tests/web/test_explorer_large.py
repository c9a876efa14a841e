"""A cube that no page holds, opened by `dpcube explore` in a real browser: its views work, its numbers are Python's."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_explorer_page import ends, shown, told

from chromium import Browser, Page
from dpcube import Domain, Integer, Release
from dpcube.research.tables import experiment
from dpcube.testing import SeededNoise
from dpcube.web.explorer.server import page_questions

SIDE = 2048
MAP = Domain([Integer("east", 0, SIDE - 1), Integer("north", 0, SIDE - 1)])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of four million cells, of which boxes were counted."""
    places = np.random.default_rng(3).normal((600, 700), (120, 200), (300_000, 2)).astype(int).clip(0, SIDE - 1)
    exact = np.zeros(MAP.shape, np.int64)
    np.add.at(exact, tuple(places.T), 1)
    path = tmp_path_factory.mktemp("large") / "map.dpcube"
    experiment(exact, epsilon="0.5", strategy="agrid", noise=SeededNoise(5), domain=MAP).save(path)
    return path


@pytest.fixture(scope="module")
def page(browser: Browser, file: Path) -> Iterator[Page]:
    command = [sys.executable, "-m", "dpcube", "explore", str(file), "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            opened = browser.page(server.stdout.readline().rpartition(" ")[2].strip())
            opened.wait("document.body?.dataset.told", seconds=240)
            yield opened
            opened.close()
        finally:
            server.send_signal(signal.SIGINT)


def drawn(release: Release, bar: int) -> tuple[int, int]:
    """Return the first and last value of a drawn bar."""
    bars = page_questions(release, estimate="auto", confidence=0.95)._drawn[0]
    return int(bars.starts[bar]), int(bars.stops[bar]) - 1


@pytest.mark.slow
def test_a_cube_beyond_a_million_cells_is_dragged_over_with_the_answers_of_python(page: Page, file: Path) -> None:
    release = Release.open(file)
    assert "4,194,304 cells" in page.text("#about")
    assert shown(page) == ends(release.count())
    (low, _), (_, high) = drawn(release, 10), drawn(release, 22)
    page.drag(page.middle("#bar-0-10 .back"), page.middle("#bar-0-22 .back"), steps=20)
    told(page)
    assert shown(page) == ends(release.count(east=(low, high)))
    for bar in (15, 20, 25):
        north = drawn(release, bar)  # both attributes are drawn alike
        assert shown(page, f"#bar-1-{bar}") == ends(release.count(east=(low, high), north=north))
    x, y = page.middle(".map-area svg")
    page.mouse("mouseMoved", x, y, pressed=False)
    labels = page.run(
        "document.getElementById('map-said').textContent.match(/east (\\d+)-(\\d+), north (\\d+)-(\\d+)/)"
    )
    one, two, three, four = map(int, labels[1:])
    assert shown(page, "#map-said") == ends(release.count(east=(one, two), north=(three, four)))
    page.click("#chips .chip")
    told(page)
    assert shown(page) == ends(release.count())
    assert page.complaints() == []


@pytest.mark.slow
def test_boxes_are_outlined_and_their_noisy_counts_stand_beside_the_estimate(page: Page, file: Path) -> None:
    release = Release.open(file)
    assert page.run("document.querySelectorAll('.map .outlines *').length") > 0
    page.click("#outlines-on")
    told(page)
    assert page.run("document.querySelectorAll('.map .outlines *').length") == 0
    assert page.run("document.querySelectorAll('.map')[1].hidden")
    page.click("#noisy-on")
    told(page)
    assert not page.run("document.querySelectorAll('.map')[1].hidden")
    questions = page_questions(release, estimate="auto", confidence=0.95)
    request: dict[str, Any] = {"asked": {"0": [[100, 700]]}, "across": 1, "up": 0}
    squares = np.array(questions.noisy(request)["squares"]).reshape(-1, len(questions._drawn[0]))
    cells, bars = release.cells("uniform"), questions._drawn[1]
    for column in (7, 20):
        of = slice(bars.starts[column], bars.stops[column])
        assert squares[column].sum() == pytest.approx(cells[:, of].sum())  # a map is not narrowed by its own attributes
    assert page.complaints() == []


@pytest.mark.slow
def test_other_views_of_a_large_cube_work(page: Page, file: Path) -> None:
    release = Release.open(file)
    query = "SELECT north // 256 AS part, count(*) AS n FROM cube WHERE east < 700 GROUP BY part ORDER BY part"
    page.type("#statement", query)
    page.click("#run-sql")
    page.wait("document.getElementById('sql-said').dataset.done", seconds=240)
    assert page.text("#sql-said") == "Done."
    found = page.run("[...document.querySelectorAll('table.result tbody tr')].map((r) => r.children[1].textContent)")
    expected = release.sql(query).column("n").to_pylist()
    assert [float(cell.replace(",", "")) for cell in found] == pytest.approx(expected, rel=1e-5)
    page.type("#synthetic-rows", "10")
    page.click("#draw-rows")
    page.wait("document.getElementById('synthetic-said').textContent === 'Saved 10 rows.'")
    assert page.complaints() == []
