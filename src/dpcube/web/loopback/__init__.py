"""Pages on this machine only: what a page shows and can ask for enters; a server on 127.0.0.1 leaves.

`entry` is who may come in; `server` joins it with HTTP; `opening` leads the user's browser there. The curator's page
and the explorer are served by it, each with a `Site` of its own. The standard library serves them, so that no other
code than ours runs beside what they hold.
"""

from dpcube.web.loopback.opening import opened_in_browser
from dpcube.web.loopback.server import Download, LoopbackServer, Site, serve

__all__ = ["Download", "LoopbackServer", "Site", "opened_in_browser", "serve"]
