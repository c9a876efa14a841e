"""Opening a browser at an address with a token, which nobody else may see.

What is on a browser's command line, every user of the machine can read while it runs. So the browser is given the name
of a file that only this user may read, in a directory that only this user may enter, and the file leads to the address.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

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
    """Give the place of a page that leads to an address; it is there until it is left."""
    with TemporaryDirectory(prefix="dpcube-") as folder:  # 0700
        page = Path(folder, "open.html")
        descriptor = os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(LEADING_PAGE.format(address=escape(address)))
        yield page


@contextmanager
def opened_in_browser(address: str) -> Iterator[None]:
    """Open a browser at an address, for as long as what is there is served."""
    import webbrowser

    with leading_page(address) as page:
        webbrowser.open(page.as_uri())
        yield
