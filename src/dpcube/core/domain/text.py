"""What counts as text in a declaration, and which of some names a misspelt one may mean."""

from collections.abc import Sequence

from dpcube.core.domain.limits import MAX_SPELLING_WORDS


def is_text(value: object) -> bool:
    """Say whether a value is text that a file can hold; half of a surrogate pair is not."""
    return isinstance(value, str) and value.encode(errors="ignore").decode() == value


def is_delimiter(value: object) -> bool:
    """Say whether a value can divide the fields of CSV files: one ASCII character that ends no line and is no quote."""
    return isinstance(value, str) and len(value) == 1 and value.isascii() and value not in '\r\n\0"'


def meant(wrong: object, known: Sequence[str]) -> str:
    """Return a hint for a message, if a word is nearly one of some public words; nothing if it is not.

    >>> meant("nroth", ["north", "south"]), meant("west", ["north", "south"])
    ("; did you mean 'north'?", '')
    """
    from difflib import get_close_matches  # for messages only

    if not isinstance(wrong, str) or len(known) > MAX_SPELLING_WORDS:
        return ""
    folded = {word.casefold(): word for word in known}
    near = get_close_matches(wrong.casefold(), folded, n=1, cutoff=0.6)
    return f"; did you mean '{folded[near[0]]}'?" if near else ""
