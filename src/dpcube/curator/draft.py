"""Draft of a domain file from a table's column names and types, to be filled in by its owner.

Names and types are public by convention (they are the table's declaration); values are not. Only `from_data=True`
reads values, and its draft is marked so that `publish` refuses it until its owner signs it as public.
"""

import json
from collections.abc import Sequence
from datetime import date

from dpcube.core.domain import Domain
from dpcube.core.domain.file import DOMAIN_FORMAT
from dpcube.core.domain.reading import BLANKS
from dpcube.core.domain.text import is_text
from dpcube.core.errors import DomainError, InputError, SourceError
from dpcube.core.seal import sealed
from dpcube.core.sources import CsvDialect, Rows, open_rows
from dpcube.core.sources.names import delimiter_hint
from dpcube.curator.guess import Guess, by_name, by_type, by_values, read_by

ADVICE = """\
# A draft. Fill in each line marked with "?", from what is publicly known and not from the data.
# Which attributes to keep: those that one question will name together, two to five of them. The cube has as many
# cells as all their bins multiplied, and fewer cells are counted more accurately at the same epsilon: stay below the
# number of rows, by leaving attributes out first and by wider bins then. Leave out names, free text and whatever is
# nearly unique. What is never asked together can be released apart, and the epsilons add up. `dpcube plan` says what
# a cube is worth, before anything is spent.
#   null, unknown, nan = "drop" or "cell"          outside, infinite = "drop", "clip" or "cell"
# Types, from which to choose another than the draft does:
#   type = "integer" or "float"   min = ?  max = ?  width = ? (or bins = ?, or edges = [?, ?, ?])
#   type = "category"             values = ["?", "?"]  (or values_from = "FILE", a value a line)
#   type = "date"                 start = YYYY-MM-DD  end = YYYY-MM-DD  every = "month"  (day, week, quarter, year)
# How text is read: column, trim, case, null_text, decimal, thousands, prefix, suffix, format, true, false; above the
# attributes, delimiter and encoding (docs/guides/sources.md).
"""
WARNING = """\
# DRAFTED FROM THE PRIVATE DATA: its bounds and values may give rows away. Replace each by what is publicly known,
# then sign below. It is refused for a release until it is signed.
drafted_from_data = true
# signed_public_by = "?"
"""
PUBLIC = """\
# Drafted from the data, which the one who signs says is public: nobody in it needs to be protected from this file.
drafted_from_data = true
signed_public_by = {name}
"""
MAX_DRAFT_VALUES = 200
MANY_CELLS = 2**20
MAX_QUANTILES = 1000
WANTED_BINS = 50


@sealed
def draft(
    source: object,
    *,
    columns: Sequence[str] | None = None,
    from_data: bool = False,
    csv: CsvDialect | None = None,
    query: str | None = None,
    public: str | None = None,
    quantiles: int | None = None,
) -> str:
    """Return the text of a draft domain file for a table.

    `public` signs what is drafted from data that is public itself, by a name. Only then may bins be `quantiles` of the
    rows, so many for each attribute of numbers: an edge is some row's own value, and moves with the rows.
    """
    _check_public(from_data=from_data, public=public, quantiles=quantiles)
    rows = open_rows(source, csv=csv, query=query).as_declared()
    _refuse_one_column(rows)
    chosen = rows.columns if columns is None else tuple(columns)
    rows.check_columns(chosen)
    tables = [_attribute(rows, name, from_data=from_data, quantiles=quantiles) for name in chosen]
    divided = _lines_as_declared(csv or CsvDialect())
    stamp = "" if not from_data else WARNING if public is None else PUBLIC.format(name=_toml(public))
    return _with_size(f"{ADVICE}format = {DOMAIN_FORMAT}\n{divided}{stamp}" + "".join(f"\n{table}" for table in tables))


def _lines_as_declared(csv: CsvDialect) -> str:
    """Return what a draft says of how its CSV file is written, so that it need not be said again."""
    said = "" if csv.delimiter is None else f"delimiter = {_toml(csv.delimiter)}\n"
    return said + ("" if csv.declared_encoding is None else f"encoding = {_toml(csv.declared_encoding)}\n")


def _check_public(*, from_data: bool, public: str | None, quantiles: int | None) -> None:
    if public is not None and not (is_text(public) and public.strip()):
        msg = f"who says that the data is public signs by a name, got {public!r}"
        raise InputError(msg)
    if public is not None and not from_data:
        msg = "a draft from names and types alone needs nobody to say that the data is public; add --from-data, or not"
        raise InputError(msg)
    if quantiles is None:
        return
    if public is None:
        msg = (
            "quantiles as bins give rows away, for edges are values of rows: they are for a table that is public "
            "itself. If it is, say so with --from-data --public 'YOUR NAME'; else declare edges that are known"
        )
        raise InputError(msg)
    if not isinstance(quantiles, int) or not 2 <= quantiles <= MAX_QUANTILES:
        msg = f"quantiles must be a whole number of bins from 2 to {MAX_QUANTILES}, got {quantiles!r}"
        raise InputError(msg)


def _with_size(text: str) -> str:
    """Return a draft, and at its end how many cells it has, if it says enough for that."""
    try:
        domain = Domain.loads(text)
    except DomainError:
        return text
    shape = " x ".join(map(str, domain.shape))
    much = ", too many for most tables: leave attributes out, or widen bins" if domain.size > MANY_CELLS else ""
    return f"{text}\n# As drafted: {shape} = {domain.size:,} cells{much}. Fewer than rows is a good start.\n"


def _refuse_one_column(rows: Rows) -> None:
    """Tell of a delimiter that is likely wrong."""
    if hint := delimiter_hint(rows.columns):
        msg = f"the table has one column; {hint}"
        raise SourceError(msg)


def _attribute(rows: Rows, name: str, *, from_data: bool, quantiles: int | None) -> str:
    held, written = rows.kinds[name], json.dumps(name, ensure_ascii=False)
    if held is None:
        return f"# column {written} has the type {rows.types[name]}, which has no cells\n"
    guess = by_values(rows, name, held) if from_data else _by_schema(name, held)
    if guess.kind == "identifier":
        return (
            f"# column {written} looks like an identifier: no attribute, but whom to protect, if a person may have\n"
            f"# several rows: dpcube release TABLE --unit {written} --max-rows K ...\n"
        )
    lines = ["[[attribute]]", f"name = {written}"]
    if guess.kind == "category":
        values = rows.distinct(name, most=MAX_DRAFT_VALUES) if from_data else None
        lines += _category(values, from_data=from_data, text=held == "text")
    elif guess.kind == "boolean":
        lines += ['type = "category"', 'values = ["false", "true"]', *_words(held, from_data=from_data)]
    elif guess.kind == "date":
        lines += [
            'type = "date"',
            *_bounds(rows, name, guess, ("start", "end"), from_data=from_data),
            'every = "month"',
        ]
        lines += (
            []
            if held == "date" or from_data
            else ['# format = "iso"   # or such as "%d.%m.%Y"; YYYY-MM-DD unless given']
        )
    else:
        edges = None if quantiles is None else rows.quantiles(read_by(name, guess), quantiles)
        lines += _number(rows, name, guess, from_data=from_data) if edges is None else _edges(edges, guess)
    lines += [f"{key} = {_toml(value)}" for key, value in guess.options.items()]
    lines += [f"# or, which fits as well: {other or 'without these marks'}" for other in guess.others]
    return "\n".join([*lines, 'null = "drop"']) + "\n"


def _by_schema(name: str, held: str) -> Guess:
    """Return what a column is by its type, or by its name where everything is text."""
    named = by_name(name)
    if named.kind == "identifier":
        return named
    return named if held == "text" else by_type(held)


def _words(held: str, *, from_data: bool) -> list[str]:
    return (
        []
        if held == "boolean" or from_data
        else ['# true = ["?"]   # words for true, such as "yes"', '# false = ["?"]']
    )


def _category(values: Sequence[str] | None, *, from_data: bool, text: bool) -> list[str]:
    if values:
        bare = sorted({value.strip(BLANKS) for value in values} - {""})
        trim = ["trim = true"] if bare != sorted(set(values) - {""}) else []
        return ['type = "category"', f"values = {json.dumps(bare, ensure_ascii=False)}", *trim, 'unknown = "drop"']
    why = f"   # more than {MAX_DRAFT_VALUES} values: too many to list, or free text" if from_data else ""
    other = '         # or "integer", "float", "date"' if text else ""
    return [f'type = "category"{other}', f'# values = ["?", "?"]{why}', 'unknown = "drop"']


def _number(rows: Rows, name: str, guess: Guess, *, from_data: bool) -> list[str]:
    bounds = _bounds(rows, name, guess, ("min", "max"), from_data=from_data)
    width = "# width = ?"
    if not bounds[0].startswith("#"):
        low, high = (float(line.partition(" = ")[2]) for line in bounds)
        width = f"width = {round_width((high - low) / WANTED_BINS, whole=guess.kind == 'integer')}"
    return [f'type = "{guess.kind}"', *bounds, width, 'outside = "clip"']


def _edges(edges: Sequence[float], guess: Guess) -> list[str]:
    """Return bins between quantiles; the last of whole numbers ends behind the greatest."""
    ends = [*edges[:-1], edges[-1] + 1] if guess.kind == "integer" else edges
    return [f'type = "{guess.kind}"', f"edges = {json.dumps(list(ends))}", 'outside = "clip"']


def _bounds(rows: Rows, name: str, guess: Guess, keys: tuple[str, str], *, from_data: bool) -> list[str]:
    extremes = rows.extremes(read_by(name, guess)) if from_data else None
    if extremes is None:
        return [f"# {key} = ?" for key in keys]
    return [f"{key} = {value}" for key, value in zip(keys, extremes, strict=True)]


def round_width(width: float, *, whole: bool) -> str:
    """Return the least of 1, 2, 5, 10, 20, 50, ... (or decimal parts of them) that is not below `width`."""
    power = 1.0 if whole else 1e-6
    while True:
        for digit in (1, 2, 5):
            if digit * power >= width:
                return f"{digit * power:.10g}"
        power *= 10


def _toml(value: object) -> str:
    if isinstance(value, bool | date):
        return str(value).lower()
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
