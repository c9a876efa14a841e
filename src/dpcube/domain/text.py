"""What counts as text in a declaration."""


def is_text(value: object) -> bool:
    """Say whether a value is text that a file can hold; half of a surrogate pair is not."""
    return isinstance(value, str) and value.encode(errors="ignore").decode() == value
