"""The report and the interactive plots as a reader sees them: in a browser, on a telephone, on paper."""

from pathlib import Path

import numpy as np
import pytest

from chromium import Page
from dpcube import Domain
from dpcube.core.domain import Category, Integer
from dpcube.curator import publish
from dpcube.release import Release, plots
from dpcube.release.report import report

pytestmark = pytest.mark.slow
LONG = "how satisfied are you with the care that you were given, all in all, this year"
HOSTILE = ('</script><script>document.title="taken"</script>', "W" * 300, "it's & <b>", "\u202e", "$x$", "", "x", "y")
SMALLEST_TEXT = 7.5  # pixels: matplotlib's labels on a telephone


@pytest.fixture(scope="module")
def release() -> Release:
    attributes = (
        Category(name='"><img src=x onerror=document.title="taken">', values=[v for v in HOSTILE if v]),
        Integer(name=LONG, min=0, max=59),
        Category(name="ward", values=[f"ward number {k} of the house by the river" for k in range(30)]),
    )
    domain = Domain(attributes)
    return publish(
        np.random.default_rng(1).integers(0, 90, domain.shape), domain, epsilon="1", ledger=None, strategy="cells"
    )


@pytest.fixture(scope="module")
def address(release: Release, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(report(release, title="A report <b>"), encoding="utf-8")
    return path.as_uri()


def wider_than(page: Page) -> list[str]:
    """Return what reaches beyond the right end of the window; heads of tables are not seen on a telephone."""
    seen = "e => !e.closest('svg') && !(e.matches('th') && innerWidth <= 600)"
    beyond = "e => e.getBoundingClientRect().right > innerWidth + 1"
    told = "e => e.tagName + ': ' + e.textContent.slice(0, 40)"
    return list(page.run(f"[...document.querySelectorAll('body *')].filter({seen}).filter({beyond}).map({told})"))


@pytest.mark.parametrize("width", [1200, 390, 320])
def test_a_report_fits_its_window_and_runs_nothing(page: Page, address: str, width: int) -> None:
    page.resize(width, 844)
    page.open(address)
    assert page.run("document.title") == "A report <b>"
    assert wider_than(page) == []
    assert page.run("document.documentElement.scrollWidth") <= width
    assert page.run("document.querySelectorAll('script, img').length") == 0
    assert page.complaints() == []
    smallest = page.run(
        "Math.min(...[...document.querySelectorAll('svg text')].map(e => parseFloat(getComputedStyle(e).fontSize) * "
        "e.ownerSVGElement.getBoundingClientRect().width / e.ownerSVGElement.viewBox.baseVal.width))"
    )
    assert smallest >= SMALLEST_TEXT * min(1, width / 390)


def test_a_telephone_names_each_number(page: Page, address: str) -> None:
    page.resize(390, 844)
    page.open(address)
    said = page.run("getComputedStyle(document.querySelector('td.n'), '::before').content")
    assert said == '"rows"'


def test_on_paper_nothing_is_cut(page: Page, address: str) -> None:
    page.open(address)
    pdf = page.print()
    assert pdf.startswith(b"%PDF")
    page.call("Emulation.setEmulatedMedia", media="print")
    page.resize(680, 960)  # what A4 has between its margins
    assert wider_than(page) == []
    kept = "[...document.querySelectorAll('.panel, tr')].every(e => getComputedStyle(e).breakInside === 'avoid')"
    assert page.run(kept)
    high = page.run("Math.max(...[...document.querySelectorAll('svg')].map(e => e.getBoundingClientRect().height))")
    assert high <= 220 / 25.4 * 96 + 1


@pytest.mark.parametrize("size", [(1200, 700), (390, 844), (844, 390)])
@pytest.mark.parametrize("names", [(LONG,), (LONG, "ward")])
def test_an_interactive_plot_fits_its_window(
    page: Page, release: Release, tmp_path: Path, size: tuple[int, int], names: tuple[str, ...]
) -> None:
    plots.save(plots.picture(release, *names), tmp_path / "plot.html")
    page.resize(*size)
    page.open((tmp_path / "plot.html").as_uri())
    page.wait("document.querySelector('.main-svg')")
    seen = page.run("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
    assert seen[0] <= size[0]
    assert seen[1] <= max(size[1], 560)  # a long title and its note leave little of a window that lies on its side
    assert page.complaints() == []
