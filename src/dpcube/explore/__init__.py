"""The explorer: a release enters; a page that shows and answers it by itself leaves.

`contents.py` packs what the page needs: facts of the attributes (`attributes.py`) and the arrays from which counts and
their errors follow (`models.py`). `page/` is the page, plain modules of JavaScript; `inlined.py` makes one file of it.
"""

from typing import TYPE_CHECKING

from dpcube.lazy import lazily

if TYPE_CHECKING:
    from dpcube.explore.contents import packed_contents
    from dpcube.explore.inlined import explorer_page

__all__ = ["explorer_page", "packed_contents"]

__getattr__ = lazily(__name__, {"packed_contents": "contents", "explorer_page": "inlined"})
