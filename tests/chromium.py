"""A real browser for tests: headless Chromium, spoken to over a pipe in its own protocol; loopback is all it reaches.

It is Debian's package `chromium`, or the program that DPCUBE_CHROMIUM names. Where none is found and we are root on a
Debian machine, as in CI, it is installed: these tests are not skipped.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--mute-audio"),
    *("--remote-debugging-pipe", "--hide-scrollbars", "--disable-background-networking", "--proxy-server=127.0.0.1:9"),
    "--disable-ipc-flooding-protection",  # which passes over addresses that change faster than a person changes them
)
INSTALLING = ("apt-get", "-y", "-q", "-o", "DPkg::Lock::Timeout=600")
PATIENCE = 300.0
"""Seconds after which what is waited for will not come; how soon it comes is the machine's matter."""


class PageError(AssertionError):
    """A page failed: a script raised, or something did not happen in time."""


def chromium_program() -> str:
    """Return the path of a Chromium, which is installed if there is none: by one process, while others wait."""
    found = _found()
    if found is None and shutil.which("apt-get") and os.geteuid() == 0:
        with Path(tempfile.gettempdir(), "dpcube-chromium.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for what in (("update",), ("install", "--no-install-recommends", "chromium", "fonts-dejavu-core")):
                if _found() is None:
                    subprocess.run([*INSTALLING, *what], check=True, capture_output=True, timeout=900)
        found = _found()
    assert found is not None, (
        "tests of pages need Chromium: install it (apt-get install chromium) or set DPCUBE_CHROMIUM"
    )
    return found


def _found() -> str | None:
    return os.environ.get("DPCUBE_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def open_browser(profile: Path) -> Iterator["Browser"]:
    """Start a browser; it is gone afterwards."""
    from_us, to_browser = os.pipe()
    from_browser, to_us = os.pipe()

    def ends() -> None:  # the browser reads from 3 and writes to 4
        low, high = os.dup(from_us), os.dup(to_us)
        os.dup2(low, 3)
        os.dup2(high, 4)

    command = [chromium_program(), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
    with subprocess.Popen(
        command, preexec_fn=ends, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        os.close(from_us)
        os.close(to_us)
        browser = Browser(to_browser, from_browser)
        try:
            yield browser
        finally:
            browser.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


class Browser:
    """A running browser."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._out, self._in = to_browser, from_browser
        self._number, self._left = 0, b""
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Send one command and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        message |= {} if session is None else {"sessionId": session}
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._number:
                if "error" in answer:
                    msg = f"{method}: {answer['error']}"
                    raise PageError(msg)
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            if not select.select([self._in], [], [], PATIENCE)[0]:
                msg = f"the browser said nothing for {PATIENCE} s"
                raise PageError(msg)
            more = os.read(self._in, 1 << 20)
            if not more:
                msg = "the browser is gone"
                raise PageError(msg)
            self._left += more
        whole, _, self._left = self._left.partition(b"\0")
        message: dict[str, Any] = json.loads(whole)
        return message

    def await_event(self, method: str, session: str, *, after: int) -> None:
        """Wait for a message about a tab, of those that came after so many."""
        while not any(e["method"] == method and e.get("sessionId") == session for e in self.events[after:]):
            self.events.append(self._message())

    def page(self, address: str = "about:blank", *, width: int = 1280, height: int = 900, dark: bool = False) -> "Page":
        """Open an address in a new tab of a size."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        page = Page(self, self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"], target)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.resize(width, height)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        page.call("Emulation.setEmulatedMedia", features=features)
        page.call("Page.navigate", url=address)
        return page

    def close(self) -> None:
        """Ask it to end, and let go of the pipes."""
        with suppress(PageError, OSError):
            self.call("Browser.close")
        os.close(self._out)
        os.close(self._in)


class Page:
    """One tab."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self.browser, self.session, self.target = browser, session, target

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command about this tab."""
        return self.browser.call(method, self.session, **parameters)

    def resize(self, width: int, height: int) -> None:
        """Give the tab a size, as a phone or a desk has it."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )

    def open(self, address: str) -> None:
        """Go to an address, and wait until it and all that it loads are there."""
        before = len(self.browser.events)
        told = self.call("Page.navigate", url=address)
        if "errorText" in told:
            raise PageError(told["errorText"])
        self.browser.await_event("Page.loadEventFired", self.session, after=before)
        self.wait("document.readyState === 'complete'")  # the event may have been that of the page before

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page; promises are awaited."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise PageError(json.dumps(found["exceptionDetails"])[:2000])
        return found["result"].get("value")

    def wait(self, condition: str, *, seconds: float = PATIENCE) -> None:
        """Wait until an expression is true in the page."""
        until = time.monotonic() + seconds
        while not self.run(f"Boolean({condition})"):
            if time.monotonic() > until:
                msg = f"did not happen in {seconds} s: {condition}; {self.complaints()}"
                raise PageError(msg)
            time.sleep(0.01)

    def mouse(self, kind: str, x: float, y: float, *, pressed: bool = True) -> None:
        """Move, press or release the mouse."""
        button = {"button": "left", "buttons": 1, "clickCount": 1} if pressed else {"button": "none"}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)

    def drag(self, start: tuple[float, float], stop: tuple[float, float], *, steps: int = 8) -> None:
        """Press at one place, move to another, and let go there."""
        self.mouse("mouseMoved", *start, pressed=False)
        self.mouse("mousePressed", *start)
        for step in range(1, steps + 1):
            part = step / steps
            self.mouse("mouseMoved", *(a + (b - a) * part for a, b in zip(start, stop, strict=True)))
        self.mouse("mouseReleased", *stop)

    def click(self, selector: str) -> None:
        """Press the mouse in the middle of an element, once it is there: one that is covered gets no click."""
        self.wait(f"document.querySelector({json.dumps(selector)})")
        place = self.middle(selector)
        self.mouse("mousePressed", *place)
        self.mouse("mouseReleased", *place)

    def type(self, selector: str, text: str) -> None:
        """Put the focus into a field, replace what it holds, and tell the page."""
        field = f"document.querySelector({json.dumps(selector)})"
        self.run(f"(() => {{ {field}.focus(); {field}.select(); }})()")
        self.call("Input.insertText", text=text)
        self.run(f"{field}.dispatchEvent(new Event('change', {{bubbles: true}}))")

    def text(self, selector: str = "body") -> str:
        """Return what is written in an element."""
        return str(self.run(f"document.querySelector({json.dumps(selector)}).innerText"))

    def print(self) -> bytes:
        """Return the page as it would be printed, a PDF."""
        told = self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        return base64.b64decode(told["data"])

    def middle(self, selector: str) -> tuple[float, float]:
        """Return the middle of an element, after scrolling to it."""
        box = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center'});"
            " const b = e.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; })()"
        )
        return float(box[0]), float(box[1])

    def press(self, key: str, *, shift: bool = False) -> None:
        """Press a key."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            more = text if kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, modifiers=8 if shift else 0, **more)

    def screenshot(self, path: Path, *, width: int, selector: str = "body") -> None:
        """Save a picture of the page, or of one element, at a width; the tab is made as tall as the page."""
        self.resize(width, 1000)
        self.resize(width, int(self.run("document.documentElement.scrollHeight")))
        self.wait("document.body.dataset.told")
        box = self.run(
            f"(() => {{ const b = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
            " return { x: b.left, y: b.top, width: b.width, height: b.height, scale: 1 }; })()"
        )
        taken = self.call("Page.captureScreenshot", format="png", clip=box)
        path.write_bytes(base64.b64decode(taken["data"]))

    def complaints(self) -> list[str]:
        """Return what the tab complained of: errors of scripts, and what its policy refused."""
        self.run("1")
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            said = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                found.append(json.dumps(said["exceptionDetails"])[:1000])
            elif event["method"] == "Log.entryAdded" and said["entry"]["level"] == "error":
                found.append(said["entry"]["text"])
        return found

    def requests(self) -> list[str]:
        """Return the addresses that the tab asked for."""
        self.run("1")
        asked = [e for e in self.browser.events if e["method"] == "Network.requestWillBeSent"]
        return [e["params"]["request"]["url"] for e in asked if e.get("sessionId") == self.session]

    def close(self) -> None:
        """Close the tab."""
        self.browser.call("Target.closeTarget", targetId=self.target)
