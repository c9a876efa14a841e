"""Opening a browser at an address with a secret token.

Every user of the machine can read a browser's command line while it runs. So the browser gets the name of a file that
only this user may read, in a directory that only this user may enter, and the file redirects to the address.
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
