"""Drafting a domain file: a table's column names and types enter, the text of a domain file to be filled in leaves.

Names and types are public by convention (they are the table's declaration); values are not. Only `from_data=True`
looks at values, and what it writes is stamped so that `publish` refuses it until its owner signs it as public.
"""

import json
from collections.abc import Sequence

from dpcube.curator.sources import CsvDialect, Rows, open_rows
from dpcube.domain.attribute import listing
from dpcube.domain.file import FORMAT
from dpcube.errors import SourceError
from dpcube.privacy.seal import sealed

ADVICE = """\
# A draft. Fill in each line marked with "?", from what is publicly known and not from the data; remove attributes
# you do not need: fewer and coarser cells are counted more accurately at the same epsilon.
#   null, unknown, nan = "drop" or "cell"          outside, infinite = "drop", "clip" or "cell"
"""
WARNING = """\
# DRAFTED FROM THE PRIVATE DATA: its bounds and values may give rows away. Replace each by what is publicly known,
# then sign below. It is refused for a release until it is signed.
drafted_from_data = true
# signed_public_by = "?"
"""
MOST_VALUES = 200
WANTED_BINS = 50


@sealed
def draft(
    source: object,
    *,
    columns: Sequence[str] | None = None,
    from_data: bool = False,
    csv: CsvDialect | None = None,
    query: str | None = None,
) -> str:
    """Return the text of a draft domain file for a table."""
    rows = open_rows(source, csv=csv, query=query)
    chosen = rows.columns if columns is None else tuple(columns)
    for name in chosen:
        if name not in rows.columns:
            msg = f"the table has no column '{name}'; its columns are {listing(rows.columns, most=30)}"
            raise SourceError(msg)
    tables = [_attribute(rows, name, from_data=from_data) for name in chosen]
    return f"{ADVICE}format = {FORMAT}\n{WARNING if from_data else ''}" + "".join(f"\n{table}" for table in tables)


def _attribute(rows: Rows, name: str, *, from_data: bool) -> str:
    kind = rows.kinds[name]
    if kind is None:
        return f"# column {json.dumps(name, ensure_ascii=False)} has the type {rows.types[name]}, which has no cells\n"
    lines = ["[[attribute]]", f"name = {json.dumps(name, ensure_ascii=False)}"]
    if kind == "text":
        values = rows.distinct(name, most=MOST_VALUES) if from_data else None
        lines += _category(values, from_data=from_data)
    elif kind == "boolean":
        lines += ['type = "category"', 'values = ["false", "true"]']
    elif kind == "date":
        lines += ['type = "date"', *_bounds(rows, name, ("start", "end"), from_data=from_data), 'every = "month"']
    else:
        lines += _number(rows, name, "integer" if kind == "integer" else "float", from_data=from_data)
    return "\n".join([*lines, 'null = "drop"']) + "\n"


def _category(values: Sequence[str] | None, *, from_data: bool) -> list[str]:
    if values:
        return ['type = "category"', f"values = {json.dumps(list(values), ensure_ascii=False)}", 'unknown = "drop"']
    why = f"   # more than {MOST_VALUES} values: too many to list, or numbers written as text" if from_data else ""
    return [
        'type = "category"         # or "integer", "float", "date"',
        f'# values = ["?", "?"]{why}',
        'unknown = "drop"',
    ]


def _number(rows: Rows, name: str, kind: str, *, from_data: bool) -> list[str]:
    bounds = _bounds(rows, name, ("min", "max"), from_data=from_data)
    width = "# width = ?"
    if not bounds[0].startswith("#"):
        low, high = (float(line.partition(" = ")[2]) for line in bounds)
        width = f"width = {_round_width((high - low) / WANTED_BINS, whole=kind == 'integer')}"
    return [f'type = "{kind}"', *bounds, width, 'outside = "clip"']


def _bounds(rows: Rows, name: str, keys: tuple[str, str], *, from_data: bool) -> list[str]:
    extremes = rows.extremes(name) if from_data else None
    if extremes is None:
        return [f"# {key} = ?" for key in keys]
    return [f"{key} = {value}" for key, value in zip(keys, extremes, strict=True)]


def _round_width(width: float, *, whole: bool) -> str:
    """Return the least of 1, 2, 5, 10, 20, 50, ... (or decimal parts of them) that is not below `width`."""
    power = 1.0 if whole else 1e-6
    while True:
        for digit in (1, 2, 5):
            if digit * power >= width:
                return f"{digit * power:.10g}"
        power *= 10
