"""Lookup of categorical values in SQL: the position in a list of a text, number, boolean, day or time of day.

A text that is listed is its own value. Any other text matches the listed value that denotes the same number, boolean,
day or time of day (`TypedValues`); so does a value of such a type. If the list contains no values of these types, the
text is looked up and nothing else is computed.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import date, timedelta

import pyarrow as pa

from dpcube.core.domain.grammar import CLOCK, MIDNIGHT
from dpcube.core.domain.written import TypedValues
from dpcube.core.limits import MAX_COMPARED_VALUES, MAX_EXACT_WHOLE
from dpcube.core.sources.dialect import UNITS_A_SECOND, Dialect, binary_search

NOTHING = "CAST(NULL AS BIGINT)"
FIRST_DAY = date(1970, 1, 1)
Steps = tuple[tuple[str, str], ...]


def position_of_text(
    texts: Sequence[str], typed: TypedValues, text: str, t: str, dialect: Dialect
) -> tuple[Steps, str]:
    """Return steps, whose names begin with `t`, and SQL for the position of the listed value that a text denotes.

    It is NULL for a text that matches none, and at least `len(texts)` for one that denotes a null text.
    """
    listed, many = dialect.position(text, texts), len(texts)
    if not typed.positions:
        return (), listed
    found, written = f"{t}_listed", f"{t}_number"
    steps: Steps = ((found, listed),)
    cases = [f"WHEN {found} IS NOT NULL THEN {found}"]
    if numbers := typed.of_kind("number"):
        steps += ((written, f"CASE WHEN {found} IS NULL THEN {dialect.number(text)} END"),)
        cases.append(
            f"WHEN {written} IS NOT NULL THEN {_of_number(numbers, written, many, whole=False, dialect=dialect)}"
        )
    if booleans := typed.of_kind("boolean"):
        value = dialect.boolean(text)
        cases += [f"WHEN {value} = {int(key)} THEN {at}" for key, at in booleans.items()]
    readable, bare = dialect.readable(text), dialect.trimmed(text)
    if days := typed.of_kind("day"):
        written_days = {(FIRST_DAY + timedelta(int(key))).isoformat(): at for key, at in days.items()}
        place = _looked_up(f"substring({bare}, 1, 10)", written_days, many, dialect)
        cases.append(f"WHEN {readable} AND {dialect.matches(text, MIDNIGHT)} THEN {place}")
    if clocks := typed.of_kind("clock"):
        seconds = f"CASE WHEN {dialect.octets}({bare}) >= 8 THEN substring({bare}, 6, 3) ELSE ':00' END"
        written_clocks = {
            f"{int(key) // 3600:02}:{int(key) // 60 % 60:02}:{int(key) % 60:02}": at for key, at in clocks.items()
        }
        place = _looked_up(f"substring({bare}, 1, 5) || {seconds}", written_clocks, many, dialect)
        cases.append(f"WHEN {readable} AND {dialect.matches(text, CLOCK)} THEN {place}")
    return steps, f"CASE {' '.join(cases)} END"


def position_of_typed(
    typed: TypedValues, many: int, column: str, kind: str, type_: pa.DataType, dialect: Dialect
) -> str:
    """Return SQL for the position of the listed value that equals a number, a boolean, a day or a time of day."""
    if kind == "integer":
        return _of_number(typed.of_kind("number"), column, many, whole=True, dialect=dialect)
    if kind == "real":
        value = dialect.nearest_double(column, type_)
        return _of_number(typed.of_kind("number"), value, many, whole=False, dialect=dialect)
    if kind == "boolean":
        cases = " ".join(
            f"WHEN {column} = {'true' if key else 'false'} THEN {at}" for key, at in typed.of_kind("boolean").items()
        )
        return f"CAST(CASE {cases} END AS BIGINT)" if cases else NOTHING
    if kind == "time":
        scale = UNITS_A_SECOND[type_.unit]
        clocks = {str(int(key) * scale): at for key, at in typed.of_kind("clock").items()}
        return _looked_up(f"CAST({column} AS {dialect.text})", clocks, many, dialect)
    if pa.types.is_timestamp(type_) and type_.tz is not None:
        return NOTHING
    days = {str(int(key)): at for key, at in typed.of_kind("day").items()}
    found = _looked_up(f"CAST({dialect.day_of(column, type_, None)} AS {dialect.text})", days, many, dialect)
    return f"CASE WHEN {dialect.at_midnight(column, type_)} THEN {found} END" if pa.types.is_timestamp(type_) else found


def _of_number(positions: Mapping[float, int], v: str, many: int, *, whole: bool, dialect: Dialect) -> str:
    """Return the position of a number among doubles; integers beyond 2^53 are compared as the doubles they round to."""
    wholes = {
        key: at for key, at in positions.items() if math.isfinite(key) and key.is_integer() and abs(key) < 2.0**63
    }
    if whole and any(math.isfinite(key) and abs(key) > MAX_EXACT_WHOLE for key in positions):
        v, whole = f"CAST({v} AS {dialect.double})", False
    digits = f"CAST({v if whole else dialect.whole(v)} AS {dialect.text})"
    found = _looked_up(digits, {str(int(key)): at for key, at in wholes.items()}, many, dialect)
    others = {key: at for key, at in positions.items() if key not in wholes}
    if whole or not others:
        return found
    ordered = sorted(key for key in others if not math.isnan(key))
    cases = [f"WHEN {dialect.is_nan(v)} THEN {others.get(math.nan, 'NULL')}"]
    if ordered:
        edges = list(map(dialect.real, ordered))
        equal = [f"CASE WHEN {v} = {edge} THEN {others[key]} END" for edge, key in zip(edges, ordered, strict=True)]
        cases.append(f"WHEN {v} >= {edges[0]} THEN {binary_search(v, edges, equal)}")
    return f"coalesce({found}, CASE {' '.join(cases)} END)"


def _looked_up(text: str, positions: Mapping[str, int], many: int, dialect: Dialect) -> str:
    """Return SQL that looks up the position of a text; several texts may have one position."""
    if not positions:
        return NOTHING
    if len(positions) <= MAX_COMPARED_VALUES:
        cases = " ".join(f"WHEN {dialect.literal(key)} THEN {at}" for key, at in positions.items())
        return f"CAST(CASE {text} {cases} END AS BIGINT)"
    first: dict[int, str] = {}
    for key, at in positions.items():
        first.setdefault(at, key)
    listed = [first.get(at, f"#{at}") for at in range(many)]  # which no text is that is looked up here
    more = [(key, at) for key, at in positions.items() if at >= many or first[at] != key]
    found = dialect.position(text, [*listed, *(key for key, _ in more)])
    moved = " ".join(f"WHEN {many + i} THEN {at}" for i, (_, at) in enumerate(more))
    return f"CASE {found} {moved} ELSE {found} END" if moved else found
