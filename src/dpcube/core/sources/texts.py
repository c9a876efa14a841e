"""The text of a value as SQL, alike in columns of every type: what the values of a text column are learnt by.

A value that is missing or blank has the text `NULL`, which no other value has. A value without a text is in no group.

Where types are declared apart from the rows, a value's text is its own, without blanks around it. Elsewhere a library
may have inferred the type of the column from its rows, and one row more may change it for all others. There a value
has the text of what it denotes (`core/domain/written.py`): whole numbers below 2^53 are digits, booleans the words
true and false, and other numbers, dates and times have none, nor has a text that a library may read as one of these.
So a row's text is the same in a column of each type that can contain its value, and one row changes one text.
"""

from dpcube.core.domain.grammar import UNKNOWN
from dpcube.core.limits import MAX_EXACT_WHOLE
from dpcube.core.sources.dialect import Dialect
from dpcube.core.sources.sql import Cell, Column, value_type
from dpcube.core.text_code import MAX_OCTETS, NULL

TYPED_BY_LIBRARIES = (
    "[0-9]{1,6}[-/.][0-9A-Za-z]{1,9}[-/.][0-9].*"  # dates, also with the names of months
    "|[+-]?[0-9]{4,6}-[0-9]{1,2}(?:-.*)?"
    "|[tT]?[0-9]{1,2}:[0-9].*"
    "|[-+0-9.eE]*[0-9.][dDfF]"  # a double of Java
)
"""Texts that are not whole numbers or booleans, and that some library reads as a number, a date or a time."""


def text_group(column: Column) -> Cell:
    """Return the text of a value as a cell whose value is the text, kept if there is one."""
    name, dialect = column.name, column.dialect
    if column.kind == "text":
        text = f"CAST({name} AS {dialect.text})"
        fits = f"{dialect.octets}({text}) <= {MAX_OCTETS}"
        trimmed = f"CASE WHEN {fits} THEN {dialect.trimmed(text)} END"
        value = _of_text("t_trimmed", name, dialect, declared=column.declared)
        return Cell(value, "0", "v0 IS NOT NULL", parsed=True, steps=(("t_trimmed", trimmed), *_number(column)))
    if column.kind == "boolean":
        known = column.text()
    elif column.kind == "integer":
        known = f"CASE WHEN {_exact(name)} THEN CAST({name} AS {dialect.text}) END"
    elif column.kind == "real":
        number = dialect.nearest_double(name, value_type(column.type))
        known = f"CASE WHEN {_exact(number)} THEN CAST({dialect.whole(number)} AS {dialect.text}) END"
    else:
        known = f"CAST(NULL AS {dialect.text})"
    value = f"CASE WHEN {name} IS NULL THEN {dialect.literal(NULL)} ELSE {known} END"
    return Cell(value, "0", "v0 IS NOT NULL", parsed=True)


def _number(column: Column) -> tuple[tuple[str, str], ...]:
    """Return the step that reads a text as a number, where that matters."""
    return () if column.declared else (("t_number", column.dialect.number("t_trimmed")),)


def _of_text(text: str, column: str, dialect: Dialect, *, declared: bool) -> str:
    null = f"WHEN {column} IS NULL OR {text} = '' THEN {dialect.literal(NULL)}"
    if declared:
        return f"CASE {null} ELSE {text} END"
    digits = f"CASE WHEN {_exact('t_number')} THEN CAST({dialect.whole('t_number')} AS {dialect.text}) END"
    word = f"CASE {dialect.boolean(text)} WHEN 1 THEN 'true' WHEN 0 THEN 'false' END"
    without = f"{text} = {dialect.literal(UNKNOWN)} OR {dialect.matches(text, TYPED_BY_LIBRARIES)}"
    cases = f"{null} WHEN t_number IS NOT NULL THEN {digits} WHEN {dialect.boolean(text)} IS NOT NULL THEN {word}"
    return f"CASE {cases} WHEN {without} THEN NULL ELSE {text} END"


def _exact(number: str) -> str:
    return f"{number} BETWEEN -{MAX_EXACT_WHOLE} AND {MAX_EXACT_WHOLE}"
