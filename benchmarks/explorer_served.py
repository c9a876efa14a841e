"""How long Python behind the explorer's page takes to answer a drag, in Chromium.

`python -m benchmarks.explorer_served [RUNS] [FILE ...]`. Without files it makes two releases: 2048 x 2048 cells,
and 14 attributes of the bundled census table. A step is timed from the moment its choice is known to the headline with
its interval, and to the counts of every bar and square. Only what is chosen last is asked for, so that a drag has fewer
answers than steps. The server is the command `dpcube explore`, in a process of its own.
"""

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.explorer_drag import drag_map
from dpcube import Domain, Integer
from dpcube.curator import publish
from dpcube.datasets import adult_domain, adult_table
from dpcube.research.arrays import experiment
from dpcube.testing import SeededNoise

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from chromium import Browser, open_browser

PATIENCE = 300


def made_releases(folder: Path) -> list[Path]:
    """Return a cube of four million cells and a wide table, as files."""
    generator = np.random.default_rng(3)
    places = generator.normal((600, 700), (120, 200), (900_000, 2)).astype(int).clip(0, 2047)
    exact = np.zeros((2048, 2048), np.int64)
    np.add.at(exact, tuple(places.T), 1)
    domain = Domain([Integer("east", 0, 2047), Integer("north", 0, 2047)])
    experiment(exact, epsilon="0.5", noise=SeededNoise(5), domain=domain).save(folder / "map.dpcube")
    whole = Domain.load(adult_domain(full=True))
    wide = Domain([attribute for attribute in whole.attributes if attribute.name != "fnlwgt"])
    publish(adult_table(), wide, epsilon="1", ledger=None).save(folder / "wide.dpcube")
    return [folder / "map.dpcube", folder / "wide.dpcube"]


def dragged(browser: Browser, address: str) -> dict[str, list[float]]:
    """Return the milliseconds of each answered step: to the headline, to all counts; and to all intervals."""
    page = browser.page(address)
    page.wait("document.body?.dataset.told", seconds=PATIENCE)
    page.run("performance.clearMeasures()")
    start, stop = page.middle("#bar-0-3 .back"), page.middle("#bar-0-30 .back")
    page.drag(start, stop, steps=20)
    page.drag(stop, start, steps=20)
    drag_map(page)
    page.wait("document.body.dataset.told", seconds=PATIENCE)
    times = {
        name: page.run(f"performance.getEntriesByName('{name}').map((one) => one.duration)")
        for name in ("headline", "counts", "told")
    }
    assert page.complaints() == []
    page.close()
    return times


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    with tempfile.TemporaryDirectory() as folder:
        for path in map(Path, sys.argv[2:]) if len(sys.argv) > 2 else made_releases(Path(folder)):
            for run in range(runs):
                command = [sys.executable, "-m", "dpcube", "explore", str(path), "--no-open"]
                with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
                    assert server.stdout is not None
                    address = server.stdout.readline().rpartition(" ")[2].strip()
                    try:
                        with open_browser(Path(folder) / f"profile-{path.stem}-{run}") as browser:
                            times = dragged(browser, address)
                    finally:
                        server.send_signal(signal.SIGINT)
                told = ", ".join(
                    f"{name} median {np.median(of):.0f} p95 {np.quantile(of, 0.95):.0f} ms ({len(of)})"
                    for name, of in times.items()
                )
                print(f"{path.name}: {told}", flush=True)


if __name__ == "__main__":
    main()
