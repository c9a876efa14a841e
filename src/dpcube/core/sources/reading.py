"""Text normalisation in SQL: a column's text rewritten by an attribute's reading options.

The options (`core/domain/reading.py`) rewrite text into one canonical form that every engine reads alike, so that no
later step depends on them. A number becomes digits with a point, a date YYYY-MM-DD, a date with a time and an offset
`MOMENT`, and a word for true or false becomes that value. Text in none of the declared forms becomes the empty text,
which is neither a number nor a date. The order is: trim, replace null texts by null, then the rules of the kind.

No text longer than `MAX_PARSED_TEXT` is matched or rewritten as a number or a date, none of `MAX_TEXT` bytes or more
is trimmed (some sources cut longer text and others do not), and every expression is total. So every text becomes one
text or null, and a row still lies in one cell or none. Only attributes are read so, never privacy units.
"""

from collections.abc import Callable

from dpcube.core.domain import Attribute
from dpcube.core.domain.grammar import DATE, INFINITY, NAN, WHOLE_NUMBER
from dpcube.core.domain.reading import BLANKS, ISO, Reading, is_digit, pieces
from dpcube.core.domain.scale import Scale
from dpcube.core.limits import MAX_TEXT
from dpcube.core.sources.dialect import SECONDS_A_DAY, Dialect
from dpcube.core.sources.zone import Offsets

MONTH_NAMES = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
NAMES = {
    "B": MONTH_NAMES,
    "b": tuple(name[:3] for name in MONTH_NAMES),
    "A": DAYS,
    "a": tuple(name[:3] for name in DAYS),
}
HOURS = {f"{hour % 12 or 12:02}{'ap'[hour // 12]}": f"{hour:02}" for hour in range(24)}  # 12a is 00, 01p is 13
MOMENT = "YYYY-MM-DD HH:MM:SS+HHMM"


def in_any_case(text: str) -> str:
    """Return a pattern of a text's characters, with ASCII letters of either case."""
    return "".join(f"[{c.lower()}{c.upper()}]" if c.isascii() and c.isalpha() else _escaped(c) for c in text)


def _escaped(c: str) -> str:
    return c if c.isalnum() or c == " " or not c.isascii() else f"\\{c}"


_PART = {  # as regular expressions; numbers with two digits
    **{"Y": "[0-9]{4}", "y": "[0-9]{2}", "m": "0[1-9]|1[0-2]", "d": "0[1-9]|[12][0-9]|3[01]"},
    **{
        "H": "[01][0-9]|2[0-3]",
        "I": "0[1-9]|1[0-2]",
        "p": "[aApP][mM]",
        "M": "[0-5][0-9]",
        "S": "[0-5][0-9]",
        "f": "[0-9]{1,9}",
    },
    **{directive: "|".join(map(in_any_case, names)) for directive, names in NAMES.items()},
    "z": "[zZ]|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?",
}
_SHORT = {"m": "[1-9]", "d": "[1-9]", "I": "[1-9]", **dict.fromkeys("HMS", "[0-9]")}  # and with one
_ISO_TIME = "[tT ]({H}):({M})(?::({S})(?:[.,]{f})?)?({z})?".format(**_PART)
_ISO = "({Y})-({m})-({d})(?:{time})?".format(**_PART, time=_ISO_TIME)


def text_as_read(attribute: Attribute, text: str, dialect: Dialect) -> str:
    """Return SQL for a column's text after the attribute's reading options."""
    reading = attribute.reading
    if not attribute.has_distances:
        return _category(reading, text, dialect)
    text = _trimmed(reading, text, dialect)
    return _nulled(reading, text, NORMALISERS[attribute.scale](reading, text, dialect), dialect)


def without_fraction(text: str, dialect: Dialect) -> str:
    """Return SQL for a text without the fraction of a whole number, such as that of 20260131.0."""
    short = f"{dialect.readable(text)} AND {dialect.matches(text, WHOLE_NUMBER)}"
    return f"CASE WHEN {short} THEN {dialect.group(text, WHOLE_NUMBER, 1)} ELSE {text} END"


def moment(text: str, offsets: Offsets | None, dialect: Dialect) -> str:
    """Return the days since 1970 of a normalised date or `MOMENT`, in the zone of the offsets."""

    def whole(start: int, length: int = 2) -> str:
        return dialect.whole_number(f"substring({text}, {start}, {length})")

    day = dialect.day(f"substring({text}, 1, 10)")
    clock = f"{whole(12)} * 3600 + {whole(15)} * 60 + {whole(18)}"
    apart = f"({whole(21)} * 3600 + {whole(23)} * 60) * CASE WHEN substring({text}, 20, 1) = '-' THEN -1 ELSE 1 END"
    second = f"(CAST({day} AS BIGINT) * {SECONDS_A_DAY} + {clock} - {apart})"
    moved = dialect.whole_days(second, 1, offsets)
    return f"CASE WHEN {dialect.octets}({text}) = {len(MOMENT)} THEN {moved} ELSE {dialect.day(text)} END"


def _trimmed(reading: Reading, text: str, dialect: Dialect) -> str:
    if not reading.trim:
        return text
    return f"CASE WHEN {dialect.octets}({text}) < {MAX_TEXT} THEN {dialect.trimmed(text)} ELSE {text} END"


def _folded(reading: Reading, text: str, dialect: Dialect) -> str:
    return dialect.folded(text) if reading.fold else text


def _nulled(reading: Reading, text: str, made: str, dialect: Dialect) -> str:
    if not reading.null_text:
        return made
    listed = ", ".join(dialect.literal(reading.folded(null)) for null in reading.null_text)
    return f"CASE WHEN {_folded(reading, text, dialect)} IN ({listed}) THEN NULL ELSE {made} END"


def _category(reading: Reading, column: str, dialect: Dialect) -> str:
    text = _folded(reading, _trimmed(reading, column, dialect), dialect)
    words = [(dialect.literal(reading.folded(word)), dialect.literal(value)) for word, value in reading.words]
    cases = " ".join(f"WHEN {word} THEN {value}" for word, value in words)
    made = f"CASE {text} {cases} ELSE {text} END" if cases else text
    return _nulled(reading, text, made, dialect)


def _number(reading: Reading, text: str, dialect: Dialect) -> str:
    """Rewrite a number with its own decimal and thousands marks; groups have three digits, so 1.5 is not read as 15.

    A declared prefix or suffix is removed, and a sign before the prefix is kept: -$5 is -5. Engines may split a text
    between prefix, number and suffix in different ways, but the number is the same: a longer one would have to begin
    with the whole prefix, which is more than marks, or to end with the start of the suffix; having no digit, that would
    be a point or part of "infinity".
    """
    if (reading.decimal, reading.thousands, reading.prefix, reading.suffix) == (".", None, None, None):
        return text
    # A point that is not the thousands mark is a decimal point: the text of the number 1.5 is read as 1.5.
    thousands, marks = reading.thousands, {reading.decimal, *(() if reading.thousands == "." else (".",))}
    decimal = f"[{''.join(sorted(marks))}]"
    whole = "[0-9]+" if thousands is None else f"(?:[0-9]{{1,3}}(?:[{thousands}][0-9]{{3}})+|[0-9]+)"
    digits = f"(?:{whole}(?:{decimal}[0-9]*)?|{decimal}[0-9]+)(?:[eE][+-]?[0-9]{{1,4}})?"
    before = "()" if reading.prefix is None else f"(?:([+-]?){_sign(reading, reading.prefix)}[{BLANKS}]*)?"
    after = "" if reading.suffix is None else f"(?:[{BLANKS}]*{_sign(reading, reading.suffix)})?"
    pattern = f"[{BLANKS}]*{before}([+-]?(?:{digits}|{INFINITY}|{NAN})){after}[{BLANKS}]*"
    bare = text
    if reading.prefix is not None or reading.suffix is not None:
        bare = f"coalesce({dialect.group(text, pattern, 1)}, '') || {dialect.group(text, pattern, 2)}"
    bare = bare if thousands is None else f"replace({bare}, {dialect.literal(thousands)}, '')"
    bare = f"replace({bare}, {dialect.literal(reading.decimal)}, '.')"
    word = f"WHEN {dialect.boolean(text)} IS NOT NULL THEN {text}"
    return _if_short(text, f"CASE WHEN {dialect.matches(text, pattern)} THEN {bare} {word} ELSE '' END", dialect)


def _date(reading: Reading, text: str, dialect: Dialect) -> str:
    cases = [_when(form, text, dialect) for form in reading.formats]
    cases.append(f"WHEN {dialect.matches(text, DATE)} THEN {dialect.trimmed(text)} ")
    cases += [] if ISO in reading.formats else [_when(ISO, text, dialect)]
    return _if_short(text, f"CASE {''.join(cases)}ELSE '' END", dialect)


NORMALISERS: dict[Scale, Callable[[Reading, str, Dialect], str]] = {"number": _number, "day": _date}
"""SQL that rewrites text to the canonical form of a scale."""


def _if_short(text: str, made: str, dialect: Dialect) -> str:
    return f"CASE WHEN {dialect.readable(text)} THEN {made} WHEN {text} IS NULL THEN NULL ELSE '' END"


def _when(form: str, text: str, dialect: Dialect) -> str:
    """Return the WHEN clause of a text in this format, rewritten from its parts."""
    pattern, order = _pattern(form)
    pattern = f"[{BLANKS}]*{pattern}[{BLANKS}]*"

    def part(directive: str) -> str:
        return f"coalesce({dialect.group(text, pattern, order.index(directive) + 1)}, '')"

    def padded(directive: str) -> str:
        return f"lpad({part(directive)}, 2, '0')" if directive in order else "'00'"

    hour = padded("H")
    if "I" in order:
        hour = _looked_up(f"{padded('I')} || substring({part('p')}, 1, 1)", HOURS, dialect)
    month, named = padded("m"), next((directive for directive in "bB" if directive in order), None)
    if named:
        month = _looked_up(part(named), {name: f"{i:02}" for i, name in enumerate(NAMES[named], 1)}, dialect)
    year = part("Y") if "Y" in order else ""
    if not year:
        year = f"CASE WHEN {dialect.whole_number(part('y'))} >= 69 THEN '19' ELSE '20' END || {part('y')}"
    made = f"{year} || '-' || {month} || '-' || {padded('d')}"
    if "z" in order:
        apart = f"replace(replace(replace({part('z')}, ':', ''), 'Z', '+'), 'z', '+')"
        time = f"' ' || {hour} || ':' || {padded('M')} || ':' || {padded('S')} || rpad({apart}, 5, '0')"
        made += f" || CASE WHEN {part('z')} = '' THEN '' ELSE {time} END"
    return f"WHEN {dialect.matches(text, pattern)} THEN {made} "


def _looked_up(text: str, table: dict[str, str], dialect: Dialect) -> str:
    """Return the value of a text that is a key of a table, in any case."""
    cases = " ".join(f"WHEN '{key}' THEN '{value}'" for key, value in table.items())
    return f"CASE {dialect.folded(text)} {cases} END"


def _sign(reading: Reading, sign: str) -> str:
    return in_any_case(sign) if reading.fold else "".join(map(_escaped, sign))


def _pattern(form: str) -> tuple[str, tuple[str, ...]]:
    """Return a format's regular expression, and the directive of each of its groups.

    A number of one or two digits must have two next to another digit, so that a text can be split in one way only.
    """
    if form == ISO:
        return _ISO, ("Y", "m", "d", "H", "M", "S", "z")
    parts, pattern, order = pieces(form), "", []
    for i, piece in enumerate(parts):
        if len(piece) == 1:
            pattern += _escaped(piece)
            continue
        directive = piece[1]
        beside = [parts[j] for j in (i - 1, i + 1) if 0 <= j < len(parts)]
        short = f"|{_SHORT[directive]}" if directive in _SHORT and not any(map(is_digit, beside)) else ""
        pattern += f"({_PART[directive]}{short})"
        order.append(directive)
    return pattern, tuple(order)
