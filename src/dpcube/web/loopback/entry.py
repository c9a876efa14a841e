"""Who may come in: a token that opens the page once, a cookie and a key after that, and only from the page itself.

The threat is another page in the same browser, or another program on the same machine.
* The token is in the address that the terminal shows, is used up by the first who comes, and opens nothing twice.
* The cookie is HttpOnly and SameSite=Strict. Browsers send it to every port of a host, so a server on another port may
  be sent it; therefore every call also needs a key, which the page is given with the token and keeps for its own
  origin alone.
* Host must name this server, or a name that somebody points at 127.0.0.1 would do (DNS rebinding); Origin must be this
  page's own in every call, and a browser that says where a request comes from must say: from here.
"""

import hmac
import secrets
import threading
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie

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
"""What every answer carries, besides the policy of its page: nothing is kept, nobody frames it."""


class Doorkeeper:
    """The secrets of one server at one port. The cookie is named by it: pages of two servers do not lose theirs."""

    def __init__(self, port: int) -> None:
        self.hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self.cookie_name = f"dpcube_{port}"
        self.token, self.cookie, self.key = (secrets.token_urlsafe(32) for _ in range(3))
        self._lock, self._used = threading.Lock(), False

    def __repr__(self) -> str:
        return f"<Doorkeeper at {self.hosts[0]}>"

    @property
    def address(self) -> str:
        """The address to open, once."""
        return f"http://{self.hosts[0]}/?token={self.token}"

    def use(self, token: str) -> bool:
        """Say whether a token opens the page; it does so for the first who comes, and never again."""
        with self._lock:
            opens = not self._used and _same(token, self.token)
            self._used = self._used or opens
            return opens

    def is_host(self, headers: Mapping[str, str]) -> bool:
        """Say whether a request is meant for this server."""
        return headers.get("Host") in self.hosts

    def knows(self, headers: Mapping[str, str]) -> bool:
        """Say whether a request comes from a browser that was let in, and not from another page in it."""
        try:
            sent = SimpleCookie(headers.get("Cookie", "")).get(self.cookie_name)
        except CookieError:
            return False
        return headers.get("Sec-Fetch-Site") in OWN_SITES and sent is not None and _same(sent.value, self.cookie)

    def may_call(self, headers: Mapping[str, str]) -> bool:
        """Say whether a call comes from the page itself."""
        from_here = headers.get("Origin") == f"http://{headers.get('Host')}"
        return self.knows(headers) and from_here and _same(headers.get(KEY_HEADER, ""), self.key)

    @property
    def cookie_header(self) -> str:
        """How a browser that came with the token is told its cookie."""
        return f"{self.cookie_name}={self.cookie}; Path=/; HttpOnly; SameSite=Strict"


def _same(given: str, kept: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), kept.encode())
