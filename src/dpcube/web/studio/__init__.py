"""The curator's page: domain file, plan, check and release of one private table, in a browser on this machine.

`session` has the actions, independent of HTTP, and serves them through `web.loopback`; `form` validates requests;
`page/` is the page itself. The package has no access to rows of its own: its actions are the commands `domain`,
`check`, `plan` and `release`. It uses the standard library's HTTP server, so that no third-party code runs in the
process that holds the rows.
"""

from dpcube.web.studio.session import StudioServer, StudioSession

__all__ = ["StudioServer", "StudioSession"]
