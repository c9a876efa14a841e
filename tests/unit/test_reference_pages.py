"""The reference pages of the command line, of Python and of errors are those that the code describes."""

import pytest
import reference


@pytest.mark.parametrize("name", ["cli.md", "python.md", "errors.md"])
def test_the_page_is_current(name: str) -> None:
    """`python tools/reference.py --write` writes it anew."""
    assert (reference.REFERENCE / name).read_text(encoding="utf-8") == reference.pages()[name]
