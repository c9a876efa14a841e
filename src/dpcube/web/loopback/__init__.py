"""HTTP server for local pages, on the loopback interface (127.0.0.1) only.

`access` authenticates requests and opens the user's browser, and `server` is the HTTP server. The curator's
page and the explorer are served by it, each as a `Site`. It uses the standard library only, so that no third-party
code runs in the process that holds private rows.
"""

from dpcube.web.loopback.access import opened_in_browser
from dpcube.web.loopback.server import Download, LoopbackServer, Site, serve

__all__ = ["Download", "LoopbackServer", "Site", "opened_in_browser", "serve"]
