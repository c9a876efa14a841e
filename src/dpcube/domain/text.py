"""What counts as text in a declaration."""


def is_text(value: object) -> bool:
    """Say whether a value is text that a file can hold; half of a surrogate pair is not."""
    return isinstance(value, str) and value.encode(errors="ignore").decode() == value


def is_delimiter(value: object) -> bool:
    """Say whether a value can divide the fields of CSV files: one ASCII character that ends no line and is no quote."""
    return isinstance(value, str) and len(value) == 1 and value.isascii() and value not in '\r\n\0"'
