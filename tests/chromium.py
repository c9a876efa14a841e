"""Headless Chromium, driven over a pipe in its own protocol: pages are opened, clicked, read, photographed, printed.

Nothing but the Debian package `chromium` is needed, neither a driver nor a port that others could reach.
"""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALLING = ("apt-get", "-y", "-q", "-o", "DPkg::Lock::Timeout=600")
PATIENCE = 60.0
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-extensions",
)


def chromium_program() -> str:
    """Return the path of a Chromium, which is installed if there is none."""
    named = os.environ.get("DPCUBE_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None and shutil.which("apt-get") and os.geteuid() == 0:
        for what in (("update",), ("install", "--no-install-recommends", "chromium", "fonts-dejavu-core")):
            subprocess.run([*INSTALLING, *what], check=True, capture_output=True, timeout=900)
        found = shutil.which("chromium")
    assert found is not None, (
        "tests of pages need Chromium: install it (apt-get install chromium) or set DPCUBE_CHROMIUM"
    )
    return found


class PageFault(AssertionError):
    """What a page's own code raised, or what the browser refused."""


class Page:
    """One tab. `errors` are the exceptions and the refused requests that it has seen so far."""

    def __init__(self, browser: "Chromium", session: str) -> None:
        self._browser, self._session = browser, session
        self.errors: list[str] = []
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Send one message of the protocol, and return its answer."""
        return self._browser.call(method, self, **parameters)

    @property
    def session(self) -> str:
        return self._session

    def resize(self, width: int, height: int, *, phone: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def open(self, address: str) -> None:
        """Go to an address, and wait until it and all that it loads are there."""
        loads = self._browser.loads
        told = self.call("Page.navigate", url=address)
        if "errorText" in told:
            raise PageFault(told["errorText"])
        self._browser.wait(lambda: self._browser.loads > loads)

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page; of a promise what it comes to."""
        told = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in told:
            raise PageFault(json.dumps(told["exceptionDetails"])[:2000])
        return told["result"].get("value")

    def wait_for(self, condition: str, seconds: float = PATIENCE) -> None:
        """Wait until an expression in the page is true."""
        end = time.monotonic() + seconds
        while not self.run(f"!!({condition})"):
            if time.monotonic() > end:
                msg = f"never true: {condition}; errors: {self.errors}; page: {self.run('document.body.innerText')}"
                raise PageFault(msg)
            time.sleep(0.05)

    def click(self, selector: str) -> None:
        """Press the mouse in the middle of an element, as a person would: one that is covered gets no click."""
        self.wait_for(f"document.querySelector({json.dumps(selector)})")
        x, y = self.run(
            f"(() => {{const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
            "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]})()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def type(self, selector: str, text: str) -> None:
        """Put the focus into a field, replace what it holds, and tell the page."""
        self.run(f"(() => {{const e = document.querySelector({json.dumps(selector)}); e.focus(); e.select()}})()")
        self.call("Input.insertText", text=text)
        self.run(
            f"document.querySelector({json.dumps(selector)}).dispatchEvent(new Event('change', {{bubbles: true}}))"
        )

    def text(self, selector: str = "body") -> str:
        return str(self.run(f"document.querySelector({json.dumps(selector)}).innerText"))

    def photograph(self, path: Path, *, whole: bool = True) -> None:
        """Write what is seen, or the whole page, to a PNG file."""
        told = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **self._clip(whole=whole))
        path.write_bytes(base64.b64decode(told["data"]))

    def _clip(self, *, whole: bool) -> dict[str, object]:
        if not whole:
            return {}
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {**size, "scale": 1}}

    def print(self) -> bytes:
        """Return the page as it would be printed, a PDF."""
        told = self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        return base64.b64decode(told["data"])


class Chromium:
    """A browser with a profile of its own, and one message at a time to it."""

    def __init__(self, program: str, profile: Path) -> None:
        to_browser, from_browser = os.pipe(), os.pipe()

        def take_pipes() -> None:
            ends = os.dup(to_browser[0]), os.dup(from_browser[1])  # which may be 3 and 4 themselves
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self._process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"],
            preexec_fn=take_pipes,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser[0])
        os.close(from_browser[1])
        self._send, self._receive = to_browser[1], from_browser[0]
        self._rest, self._number, self.loads = b"", 0, 0
        self._pages: dict[str, Page] = {}

    def page(self) -> Page:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session)
        return page

    def call(self, method: str, page: Page | None = None, **parameters: object) -> dict[str, Any]:
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters}
        os.write(
            self._send, json.dumps(message if page is None else message | {"sessionId": page.session}).encode() + b"\0"
        )
        while (told := self._next()).get("id") != number:
            pass
        if "error" in told:
            msg = f"{method}: {told['error']}"
            raise PageFault(msg)
        return dict(told["result"])

    def wait(self, done: Any) -> None:
        while not done():
            self._next()

    def _next(self) -> dict[str, Any]:
        """Return the next message, and note what it says of a page."""
        while b"\0" not in self._rest:
            more = os.read(self._receive, 2**20)
            if not more:
                msg = "Chromium is gone"
                raise PageFault(msg)
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\0")
        told: dict[str, Any] = json.loads(line)
        page = self._pages.get(told.get("sessionId", ""))
        if told.get("method") == "Page.loadEventFired":
            self.loads += 1
        if page is not None and told.get("method") == "Runtime.exceptionThrown":
            page.errors.append(str(told["params"]["exceptionDetails"])[:500])
        if page is not None and told.get("method") == "Log.entryAdded":
            entry = told["params"]["entry"]
            page.errors += [entry["text"]] if entry["level"] == "error" else []
        return told

    def close(self) -> None:
        with contextlib.suppress(OSError, PageFault):
            self.call("Browser.close")
        for end in (self._send, self._receive):
            os.close(end)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def started() -> Iterator[Chromium]:
    """Start a browser for tests, and end it after them."""
    profile = Path(tempfile.mkdtemp(prefix="dpcube-chromium-"))
    browser = Chromium(chromium_program(), profile)
    try:
        yield browser
    finally:
        browser.close()
        shutil.rmtree(profile, ignore_errors=True)
