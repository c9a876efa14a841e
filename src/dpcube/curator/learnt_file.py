"""The file of a learnt domain, and what is said of one before anything is spent: public numbers and noisy ones."""

import json
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.domain import Domain
from dpcube.core.domain.file import DOMAIN_FORMAT, attribute_lines, stamp_lines
from dpcube.core.sparse_histogram import ignored_rows, threshold
from dpcube.core.text_code import TextCode
from dpcube.curator.bounds import least_count
from dpcube.curator.column_readings import ColumnReading, date_grid, number_grid
from dpcube.curator.draft import MANY_CELLS
from dpcube.curator.learnt_columns import COARSE_UNITS, READING_SHARE, LearntColumn, content_epsilon

EXAMPLES = ("Male", "Private", "Married", "Schneider", "Exec-managerial", "John Smith", "ICD-10 F32.1")
SHOWN_COUNTS = 30
LEARNT_HEAD = """\
# Learnt from the table with epsilon {epsilon}, which its ledger accounts for: a release that is charged to the same
# ledger needs no signature for it. Values that were not found are counted as "(unknown)", and numbers outside of the
# bounds in the nearest bin. Numbers behind values are noisy counts; those of rare values are biased upwards.
# You may leave attributes out, and add others from public knowledge. An edited attribute must be signed as public.
"""


def learnt_text(learnt: Sequence[LearntColumn], epsilon: Fraction, domain: Domain | None) -> str:
    """Return the text of the domain file; what was not found in a column is a comment."""
    lines = [*LEARNT_HEAD.format(epsilon=epsilon).splitlines(), f"format = {DOMAIN_FORMAT}"]
    if domain is not None:
        lines += [] if domain.delimiter is None else [f"delimiter = {json.dumps(domain.delimiter)}"]
        lines += [] if domain.encoding is None else [f"encoding = {json.dumps(domain.encoding)}"]
        lines += stamp_lines(domain.learnt)
    for one in learnt:
        name = json.dumps(one.name, ensure_ascii=True)
        if one.attribute is None:
            lines += ["", f"# column {name}: nothing was found in enough rows, read as {one.reading.words}"]
            continue
        lines += ["", f"# column {name}: read as {one.reading.words}", *_counts(one), *attribute_lines(one.attribute)]
    if domain is not None:
        shape = " x ".join(map(str, domain.shape))
        much = ", too many for most tables: leave attributes out, or widen bins" if domain.size > MANY_CELLS else ""
        lines += ["", f"# {shape} = {domain.size:,} cells{much}."]
    return "\n".join(lines) + "\n"


def _counts(one: LearntColumn) -> list[str]:
    shown = [f"{json.dumps(value.text)} {value.noisy_count:,}" for value in one.noisy_counts[:SHOWN_COUNTS]]
    more = [f"and {len(one.noisy_counts) - SHOWN_COUNTS:,} more"] if len(one.noisy_counts) > SHOWN_COUNTS else []
    return [f"# {', '.join([*shown, *more])}"] if shown else []


def expectation(
    readings: Mapping[str, Sequence[ColumnReading]], share: Fraction, known: Mapping[str, Sequence[str]]
) -> str:
    """Return which counts would be found in each column with probability 0.9."""
    lines = [f"Each of {len(readings)} columns gets epsilon {float(share):.4g}."]
    alike: dict[tuple[object, ...], list[str]] = {}
    for name, tried in readings.items():
        alike.setdefault((tuple(reading.words for reading in tried), tuple(known.get(name, ()))), []).append(name)
    for names in alike.values():
        tried, epsilon = readings[names[0]], content_epsilon(share, readings[names[0]])
        lines += ["", f"{', '.join(names)}:"]
        if len(tried) > 1:
            ways = ", ".join(reading.words for reading in tried)
            lines.append(f"  how it is read is selected among {ways};")
            lines.append(f"  if it has {_selecting(share, len(tried)):,} rows that are read alike, it is read so")
        kinds = {reading.kind for reading in tried}
        if "number" in kinds:
            lines.append(f"  numbers: a third of a decade that has {_numbers(epsilon):,} rows is within the bounds")
        if "date" in kinds:
            lines.append(f"  dates: a year from 1950 to 2049 that has {_dates(epsilon):,} rows is within the bounds")
        if "text" in kinds:
            lines.append("  text: a value is found if it has")
            lines += [
                f"    {rows:>9,} rows, if it is {what}" for rows, what in _texts(epsilon, known.get(names[0], ()))
            ]
    lines += [
        "",
        "Each with probability 0.9. Nothing was read or spent. More columns need more rows for each: name those",
    ]
    lines += ["to learn (--columns), and list what is publicly known (--known COLUMN=FILE) or declare it by hand."]
    return "\n".join(lines)


def rows_for(least: int, epsilon: Fraction, probability: float = 0.9) -> int:
    """Return the least count that reaches a threshold with this probability, one half at least.

    P(Z <= -k) is q^k / (1 + q), so P(count + Z >= least) is 1 - q^(count - least + 1) / (1 + q).

    >>> rows_for(435, Fraction(1, 20))
    467
    """
    a = float(epsilon)
    return least + max(0, math.ceil(-math.log((1 - probability) * (1 + math.exp(-a))) / a) - 1)


def _texts(epsilon: Fraction, known: Sequence[str]) -> list[tuple[int, str]]:
    code, more = TextCode(known), ignored_rows(epsilon)
    words = [(code.codeword(text), f"'{text}'") for text in EXAMPLES]
    if known:
        words.insert(0, (code.codeword(known[0]), "a known value"))
    rows = [(rows_for(threshold(word[0], epsilon), epsilon) + more, what) for word, what in words if word is not None]
    return sorted(rows)


def _numbers(epsilon: Fraction) -> int:
    grid = number_grid()
    coarse = epsilon * Fraction(COARSE_UNITS, BUDGET_UNITS)
    return rows_for(least_count(float(np.median(grid.prior[grid.prior > 0.01])), coarse), coarse)


def _dates(epsilon: Fraction) -> int:
    return rows_for(least_count(float(date_grid().prior.max()), epsilon / 2), epsilon / 2)


def _selecting(share: Fraction, candidates: int) -> int:
    """Return the rows of a column, all read in one way, that is selected with probability 0.9, by the union bound.

    A row adds up to 20 to the score of a reading, and to that of the right one at least 6 more than to any other that
    would read the column otherwise: 16 with marks or a format, against 10 as text (`column_readings.py`).
    """
    return math.ceil(20 / 6 * math.log((candidates - 1) / 0.1) / float(share * READING_SHARE))
