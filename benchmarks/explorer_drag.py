"""How long a step of a drag takes on the explorer's page, in Chromium: `python -m benchmarks.explorer_drag [RUNS]`.

A step is from the pointer's event to all counts and the headline's interval ("work"), and to the frame that shows
them ("frame"). Each run opens the page anew and drags over the first attribute and back, then over a map.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from dpcube import Domain, Integer
from dpcube.research.arrays import experiment
from dpcube.testing import SeededNoise
from dpcube.web.explorer import explorer_page, packed_contents

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from chromium import Browser, Page, open_browser

SHAPES = {"10^4": (25, 20, 10, 2), "10^6": (100, 64, 16, 10)}
FRAMES = """
window.frames_ = [];
const noted = new PerformanceObserver((list) => list.getEntries().forEach((entry) => {
  if (entry.name !== "shown") return;
  requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => window.frames_.push(performance.now() - entry.startTime);
    channel.port2.postMessage(0);
  });
}));
noted.observe({ entryTypes: ["measure"] });
"""


def page_of(shape: tuple[int, ...]) -> str:
    """Return the page of a made-up cube."""
    domain = Domain([Integer(f"number {axis}", 0, cells - 1) for axis, cells in enumerate(shape)])
    generator = np.random.default_rng(3)
    exact = generator.poisson(12 * generator.gamma(0.4, 2.5, shape))
    release = experiment(exact, epsilon="0.02", strategy="adaptive", noise=SeededNoise(5), domain=domain)
    return explorer_page(packed_contents(release, Path("cube.dpcube")), title="a cube")


def dragged(browser: Browser, path: Path) -> tuple[list[float], list[float], list[float]]:
    """Return milliseconds of work and until a frame for each step of drags, and until all intervals are there."""
    page = browser.page(path.as_uri())
    page.wait("document.body?.dataset.told", seconds=120)
    page.run(FRAMES)
    page.run("performance.clearMeasures()")
    start, stop = page.middle("#bar-0-3 .back"), page.middle("#bar-0-20 .back")
    page.drag(start, stop, steps=20)
    page.drag(stop, start, steps=20)
    drag_map(page)
    page.wait("document.body.dataset.told", seconds=120)
    work = page.run("performance.getEntriesByName('shown').map((one) => one.duration)")
    told = page.run("performance.getEntriesByName('told').map((one) => one.duration)")
    frames = page.run("window.frames_")
    page.close()
    return work, frames, told


def drag_map(page: Page) -> None:
    """Drag over a part of the map."""
    left, top, width, height = page.run(
        "(() => { const e = document.querySelector('.map-area canvas'); e.scrollIntoView({block: 'center'});"
        " const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()"
    )
    page.drag((left + width * 0.2, top + height * 0.8), (left + width * 0.7, top + height * 0.3), steps=20)


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    with tempfile.TemporaryDirectory() as folder:
        for name, shape in SHAPES.items():
            path = Path(folder) / "cube.html"
            path.write_text(page_of(shape), encoding="utf-8")
            for run in range(runs):
                with open_browser(Path(folder) / f"profile-{name}-{run}") as browser:
                    work, frames, told = dragged(browser, path)
                print(
                    f"{name} cells, page {path.stat().st_size / 1e6:.1f} MB, {len(work)} steps: work median "
                    f"{np.median(work):.1f} p95 {np.quantile(work, 0.95):.1f} ms; frame median {np.median(frames):.1f} "
                    f"p95 {np.quantile(frames, 0.95):.1f} ms; all intervals {told[-1]:.0f} ms",
                    flush=True,
                )


if __name__ == "__main__":
    main()
