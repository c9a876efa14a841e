"""The explorer's server under 50 clients on loopback: `python -m benchmarks.serving [CLIENTS] [SECONDS] [RUNS]`.

Clients ask for the headline of a choice, for the bars of an attribute, and now and then for the page, each as fast as
it is answered. Printed are requests a second, the median and 95th percentile of their milliseconds, how many failed,
and the memory of the server before, at its most, and after. The server runs in a process of its own.
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
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from dpcube import Domain, Integer
from dpcube.research.arrays import experiment
from dpcube.testing import SeededNoise

ASKED = [("headline", {"asked": {"0": [[2, 9]]}}), ("bars", {"asked": {"1": [[0, 3]]}, "axis": 0})]


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


def loaded(port: int, headers: dict[str, str], clients: int, seconds: float) -> tuple[list[float], int]:
    """Return the milliseconds of all requests, and how many failed."""
    until, times, failed = time.monotonic() + seconds, [], []

    def client(number: int) -> None:
        turn = number
        while time.monotonic() < until:
            begun, turn = time.perf_counter(), turn + 1
            action, request = ASKED[turn % 2]
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


def main() -> None:
    clients, seconds, runs = (int(n) for n in [*sys.argv[1:], *("50", "10", "3")[len(sys.argv) - 1 :]])
    domain = Domain([Integer(f"n{axis}", 0, cells - 1) for axis, cells in enumerate((25, 20, 10, 2))])
    exact = np.random.default_rng(3).poisson(5.0, domain.shape)
    release = experiment(exact, epsilon="1", strategy="cells", noise=SeededNoise(5), domain=domain)
    with tempfile.TemporaryDirectory() as folder:
        release.save(Path(folder) / "cube.dpcube")
        command = [sys.executable, "-m", "dpcube", "explore", "cube.dpcube", "--no-open"]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            address = urlsplit(server.stdout.readline().rpartition(" ")[2].strip())
            assert address.port is not None
            headers = let_in(address.port, address.query)
            for _ in range(runs):
                before = memory_of(server.pid, "VmRSS")
                times, failed = loaded(address.port, headers, clients, seconds)
                most, after = (memory_of(server.pid, name) for name in ("VmHWM", "VmRSS"))
                print(
                    f"{clients} clients: {len(times) / seconds:.0f} requests/s, median {np.median(times):.0f} ms, p95 "
                    f"{np.quantile(times, 0.95):.0f} ms, {failed} of {len(times):,} failed; memory {before:.0f} MB "
                    f"before, {most:.0f} at most, {after:.0f} after",
                    flush=True,
                )
            server.send_signal(signal.SIGINT)


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


if __name__ == "__main__":
    main()
