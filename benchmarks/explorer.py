"""Response times of the explorer's page and server.

    python -m benchmarks.explorer drag [RUNS]                    the offline page, dragged in Chromium
    python -m benchmarks.explorer served [RUNS] [FILE ...]       the page with Python behind it, dragged in Chromium
    python -m benchmarks.explorer load [CLIENTS] [SECONDS] [RUNS]  the server under many clients on loopback

A step of a drag is timed from the pointer's event to all counts and the headline's interval ("work"), and to the frame
that shows them ("frame"). Served, it is timed from the choice to the headline with its interval, and to the counts of
every bar and square; only the last choice is asked for, so a drag has fewer answers than steps. Clients ask for the
headline of a choice, for the bars of an attribute, and now and then for the page, each as fast as it is answered.
"""

import http.client
import json
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from dpcube import Domain, Integer
from dpcube.curator import publish
from dpcube.datasets import adult_domain, adult_table
from dpcube.research.tables import experiment
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
    """Return the page of a simulated cube."""
    domain = Domain([Integer(f"number {axis}", 0, cells - 1) for axis, cells in enumerate(shape)])
    generator = np.random.default_rng(3)
    exact = generator.poisson(12 * generator.gamma(0.4, 2.5, shape))
    release = experiment(exact, epsilon="0.02", strategy="adaptive", noise=SeededNoise(5), domain=domain)
    return explorer_page(packed_contents(release, Path("cube.dpcube")), title="a cube")


def dragged_offline(browser: Browser, path: Path) -> tuple[list[float], list[float], list[float]]:
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


def drag(runs: int = 3) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, shape in SHAPES.items():
            path = Path(folder) / "cube.html"
            path.write_text(page_of(shape), encoding="utf-8")
            for run in range(runs):
                with open_browser(Path(folder) / f"profile-{name}-{run}") as browser:
                    work, frames, told = dragged_offline(browser, path)
                print(
                    f"{name} cells, page {path.stat().st_size / 1e6:.1f} MB, {len(work)} steps: work median "
                    f"{np.median(work):.1f} p95 {np.quantile(work, 0.95):.1f} ms; frame median {np.median(frames):.1f} "
                    f"p95 {np.quantile(frames, 0.95):.1f} ms; all intervals {told[-1]:.0f} ms",
                    flush=True,
                )


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


def dragged_served(browser: Browser, address: str) -> dict[str, list[float]]:
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


def served(runs: int = 3, *, files: Sequence[str] = ()) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for path in map(Path, files) if files else made_releases(Path(folder)):
            for run in range(runs):
                profile = Path(folder) / f"profile-{path.stem}-{run}"
                with explorer(path) as (_, address), open_browser(profile) as browser:
                    times = dragged_served(browser, address)
                figures = ", ".join(
                    f"{name} median {np.median(of):.0f} p95 {np.quantile(of, 0.95):.0f} ms ({len(of)})"
                    for name, of in times.items()
                )
                print(f"{path.name}: {figures}", flush=True)


@contextmanager
def explorer(path: Path) -> Iterator[tuple[int, str]]:
    """Serve a release by the command, in a process of its own: its number and the address of its page."""
    command = [sys.executable, "-m", "dpcube", "explore", str(path), "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.pid, server.stdout.readline().rpartition(" ")[2].strip()
        finally:
            server.send_signal(signal.SIGINT)


REQUESTS = [("headline", {"asked": {"0": [[2, 9]]}}), ("bars", {"asked": {"1": [[0, 3]]}, "axis": 0})]


def memory_of(process: int, name: str) -> float:
    """Return the memory of a process in MB, as it is (VmRSS) or at its most (VmHWM)."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


def sent(port: int, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> tuple[int, bytes, str]:
    """Return status, content and cookie of one request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body or None, headers)
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers.get("Set-Cookie") or ""
    finally:
        connection.close()


def under_load(port: int, headers: dict[str, str], clients: int, seconds: float) -> tuple[list[float], int]:
    """Return the milliseconds of all requests, and how many failed."""
    until, times, failed = time.monotonic() + seconds, [], []

    def client(number: int) -> None:
        turn = number
        while time.monotonic() < until:
            begun, turn = time.perf_counter(), turn + 1
            action, request = REQUESTS[turn % 2]
            asked = ("GET", "/", b"") if turn % 20 == 0 else ("POST", f"/do/{action}", json.dumps(request).encode())
            try:
                status = sent(port, asked[0], asked[1], headers, asked[2])[0]
            except OSError:
                status = 0
            times.append(1000 * (time.perf_counter() - begun))
            failed.extend([status] if status != 200 else [])

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times, len(failed)


def let_in(port: int, query: str) -> dict[str, str]:
    """Return the headers of a page that was opened with its token."""
    _, page, cookie = sent(port, "GET", f"/?{query}", {})
    found = re.search(rb'name="key" content="([^"]+)"', page)
    assert found is not None
    return {
        "Cookie": cookie.partition(";")[0],
        "X-Dpcube-Key": found[1].decode(),
        "Origin": f"http://127.0.0.1:{port}",
        "Content-Type": "application/json",
    }


def load(clients: int = 50, seconds: int = 10, runs: int = 3) -> None:
    domain = Domain([Integer(f"n{axis}", 0, cells - 1) for axis, cells in enumerate((25, 20, 10, 2))])
    exact = np.random.default_rng(3).poisson(5.0, domain.shape)
    release = experiment(exact, epsilon="1", strategy="cells", noise=SeededNoise(5), domain=domain)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cube.dpcube"
        release.save(path)
        with explorer(path) as (process, page):
            address = urlsplit(page)
            assert address.port is not None
            headers = let_in(address.port, address.query)
            for _ in range(runs):
                before = memory_of(process, "VmRSS")
                times, failed = under_load(address.port, headers, clients, seconds)
                most, after = (memory_of(process, name) for name in ("VmHWM", "VmRSS"))
                print(
                    f"{clients} clients: {len(times) / seconds:.0f} requests/s, median {np.median(times):.0f} ms, p95 "
                    f"{np.quantile(times, 0.95):.0f} ms, {failed} of {len(times):,} failed; memory {before:.0f} MB "
                    f"before, {most:.0f} at most, {after:.0f} after",
                    flush=True,
                )


def main(part: str = "drag", *given: str) -> None:
    if part == "served":
        served(*map(int, given[:1]), files=given[1:])
    elif part == "load":
        load(*map(int, given))
    else:
        drag(*map(int, given))


if __name__ == "__main__":
    main(*sys.argv[1:])
