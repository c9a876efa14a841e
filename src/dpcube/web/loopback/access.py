"""Authentication of requests: a one-time token, then a cookie and a key, and same-origin checks.

The threats are other pages in the same browser, and other programs on the same machine.
* The token is in the address that the terminal shows. It opens the page for the first visitor, and never again.
* The cookie is HttpOnly and SameSite=Strict. Browsers send it to every port of a host, so a server on another port may
  receive it. Therefore every call also needs a key, which the page receives with the token and stores for its own
  origin alone.
* Host must name this server, against DNS rebinding. Origin must be this page's own in every call, and Sec-Fetch-Site,
  if the browser sends it, must be same-origin.

*Opening a browser.* Every user of the machine can read a browser's command line while it runs. So the browser gets the
name of a file that only this user may read, in a directory that only this user may enter, and the file redirects to the
address.
"""

import hmac
import os
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import escape
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from tempfile import TemporaryDirectory

KEY_HEADER = "X-Dpcube-Key"
OWN_SITES = (None, "none", "same-origin")
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Headers of every response, besides the policy of its page: no caching, no framing."""


class AccessControl:
    """The secrets of one server; the cookie's name contains the port, so that two servers do not overwrite it."""

    def __init__(self, port: int) -> None:
        self.hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self.cookie_name = f"dpcube_{port}"
        self.token, self.cookie, self.key = (secrets.token_urlsafe(32) for _ in range(3))
        self._lock, self._used = threading.Lock(), False

    def __repr__(self) -> str:
        return f"<AccessControl at {self.hosts[0]}>"

    @property
    def address(self) -> str:
        """The address that opens the page, once."""
        return f"http://{self.hosts[0]}/?token={self.token}"

    def use(self, token: str) -> bool:
        """Return whether a token opens the page: it does for the first visitor, and never again."""
        with self._lock:
            opens = not self._used and _same(token, self.token)
            self._used = self._used or opens
            return opens

    def is_host(self, headers: Mapping[str, str]) -> bool:
        """Return whether the Host of a request is this server."""
        return headers.get("Host") in self.hosts

    def is_authenticated(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request has the cookie and does not come from another page."""
        try:
            sent = SimpleCookie(headers.get("Cookie", "")).get(self.cookie_name)
        except CookieError:
            return False
        return headers.get("Sec-Fetch-Site") in OWN_SITES and sent is not None and _same(sent.value, self.cookie)

    def may_call(self, headers: Mapping[str, str]) -> bool:
        """Return whether a call comes from the page itself: cookie, origin and key."""
        from_here = headers.get("Origin") == f"http://{headers.get('Host')}"
        return self.is_authenticated(headers) and from_here and _same(headers.get(KEY_HEADER, ""), self.key)

    @property
    def cookie_header(self) -> str:
        """The Set-Cookie header for a visitor with the token."""
        return f"{self.cookie_name}={self.cookie}; Path=/; HttpOnly; SameSite=Strict"


def _same(given: str, kept: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), kept.encode())


LEADING_PAGE = """\
<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}">
<title>dpcube</title>
<a href="{address}">open the page</a>
"""


@contextmanager
def leading_page(address: str) -> Iterator[Path]:
    """Yield the path of a page that redirects to an address, and delete it at the end."""
    with TemporaryDirectory(prefix="dpcube-") as folder:  # 0700
        page = Path(folder, "open.html")
        descriptor = os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(LEADING_PAGE.format(address=escape(address)))
        yield page


@contextmanager
def opened_in_browser(address: str) -> Iterator[None]:
    """Open a browser at an address, while it is being served."""
    import webbrowser

    with leading_page(address) as page:
        webbrowser.open(page.as_uri())
        yield
