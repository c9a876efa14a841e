"""The explorer: a page that shows a release and answers questions about it by itself.

`contents.py` packs what the page needs: facts of the attributes and the arrays from which counts and their errors
follow. `page/` is the page, plain modules of JavaScript; `inlined.py` makes one file of it, with the engine for SQL.
`server.py` serves it on loopback with Python behind it, which answers what a page cannot hold (`asking.py`), runs SQL
(`sql_process.py`) and draws synthetic rows.
"""

from typing import TYPE_CHECKING

from dpcube.core.lazy import lazily

if TYPE_CHECKING:
    from dpcube.web.explorer.contents import packed_contents
    from dpcube.web.explorer.inlined import explorer_page
    from dpcube.web.explorer.server import ExplorerServer

__all__ = ["ExplorerServer", "explorer_page", "packed_contents"]

__getattr__ = lazily(__name__, {"ExplorerServer": "server", "packed_contents": "contents", "explorer_page": "inlined"})
