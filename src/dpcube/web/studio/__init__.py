"""The curator's page: a table enters, a domain file and one deliberate release leave, from a browser on this machine.

`desk` is what can be done, without HTTP; `server` puts it on loopback (`web.loopback` says who may come in); `page/`
is what the browser shows. It holds a private table, so it stands above `curator` and adds no way to rows of its own:
what it does is what the commands `domain`, `check`, `plan` and `release` do. The standard library serves it, so that no
other code than ours runs in the process that holds the rows.
"""

from dpcube.web.studio.desk import Desk
from dpcube.web.studio.server import StudioServer

__all__ = ["Desk", "StudioServer"]
