"""Text in CSV files that a spreadsheet would run as a formula.

A spreadsheet that opens a CSV file runs text that begins like a formula. Foreign text gets an apostrophe
there, by which spreadsheets know text. Numbers do not get one, nor does a sign alone, which is no formula.
"""

import re

FORMULA = r"^[=+\-@\t\r](?s:.)"
PLAIN_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\z"


def spreadsheet_text(text: str) -> str:
    """Return a text as a CSV file has it: no spreadsheet runs it.

    >>> [spreadsheet_text(text) for text in ("=1+1", "@sum(A1)", "+1 or more", "-5", "+.5e3", "-", "north")]
    ["'=1+1", "'@sum(A1)", "'+1 or more", '-5', '+.5e3', '-', 'north']
    """
    is_formula = re.match(FORMULA, text) and not re.match(PLAIN_NUMBER.replace(r"\z", r"\Z"), text)
    return f"'{text}" if is_formula else text
