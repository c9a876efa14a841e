"""Measured errors as tables: ratios to plain noisy cells, to recorded rivals and to the best of the others."""

import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from dpcube.core.errors import InputError
from dpcube.research.accuracy import dpbench
from dpcube.research.accuracy.runs import (
    ERROR_KINDS,
    ERROR_WORDS,
    PLAIN_CELLS,
    ErrorKind,
    Setting,
    error_of,
    has,
    laplace_error,
)
from dpcube.research.ratios import ErrorRatio, MeanError, geometric_mean, mean_ratio

MAX_OVER_CELLS = 1.10
SHOWN_ABOVE = 12
WIDE_KINDS: tuple[ErrorKind, ...] = ("m1", "m2", "tv3", "ranges", "cells")
LAPLACE = "Laplace"
RECORDED_AS = {
    "age x hours-per-week x education-num": "adult3",
    "education-num x workclass x marital-status x race x sex x income": "adult6",
}
"""Names in recorded results of rivals of two cubes of the bundled table."""
COLUMNS: dict[ErrorKind, str] = {"ranges": "range", "cells": "cell", "m1": "m1", "m2": "m2", "m3": "m3", "tv3": "tv3"}
"""Columns of recorded results of rivals."""

Recorded = dict[tuple[str, str, float], dict[ErrorKind, MeanError]]


def to_plain_cells(found: Sequence[Setting], algorithm: str) -> list[str]:
    """Return ratios to plain cells by kind: geometric means, the worst, how many are above 1.10 beyond chance."""
    lines = [f"{algorithm} to plain cells", ""]
    lines += [
        f"| queries | settings | mean | worst | settings above {MAX_OVER_CELLS} | families above {MAX_OVER_CELLS} |",
        "|---|---|---|---|---|---|",
    ]
    above: list[str] = []
    for kind in ERROR_KINDS:
        chosen = [one for one in found if has(one.any, kind)]
        if not chosen or kind == "tv3":
            continue
        ratios = [one.ratio(algorithm, PLAIN_CELLS, kind) for one in chosen]
        worst, families = max(ratios, key=lambda ratio: ratio.value), _families(chosen, algorithm, kind)
        high = sorted((one for one in ratios if one.is_above(MAX_OVER_CELLS)), key=lambda one: -one.value)
        high_families = [one for one in families if one.is_above(MAX_OVER_CELLS)]
        counts = f"{len(high)} of {len(ratios)} | {len(high_families)} of {len(families)}"
        lines.append(
            f"| {ERROR_WORDS[kind]} | {len(ratios)} | {mean_ratio('', ratios)} | {worst} ({worst.name}) | {counts} |"
        )
        above += [f"{ERROR_WORDS[kind]} above: {one.name}: {one}" for one in (*high_families, *high[:SHOWN_ABOVE])]
    return [*lines, *([""] if above else []), *above]


def _families(found: Sequence[Setting], algorithm: str, kind: ErrorKind) -> list[ErrorRatio]:
    """Return the geometric mean ratio of each family of cases."""
    names = dict.fromkeys(one.any.case.family for one in found)
    return [
        mean_ratio(
            f"all of {name}", [s.ratio(algorithm, PLAIN_CELLS, kind) for s in found if s.any.case.family == name]
        )
        for name in names
    ]


def by_size(found: Sequence[Setting], algorithm: str) -> list[str]:
    """Return geometric means of ratios to plain cells by the number of rows and epsilon."""
    kinds = [kind for kind in ERROR_KINDS if kind != "tv3"]
    lines = [f"| rows | epsilon | {' | '.join(ERROR_WORDS[kind] for kind in kinds)} |", f"|{'---|' * (2 + len(kinds))}"]
    sizes = sorted({(_magnitude(one), one.any.case.epsilon) for one in found})
    for rows, epsilon in sizes:
        chosen = [one for one in found if (_magnitude(one), one.any.case.epsilon) == (rows, epsilon)]
        means = []
        for kind in kinds:
            ratios = [one.ratio(algorithm, PLAIN_CELLS, kind) for one in chosen if has(one.any, kind)]
            means.append(str(mean_ratio("", ratios)) if ratios else "-")
        lines.append(f"| 1e{rows} | {epsilon} | {' | '.join(means)} |")
    return lines


def _magnitude(one: Setting) -> int:
    return round(math.log10(max(int(one.any.case.samples[0].sum()), 1)))


def dpbench_section(found: Sequence[Setting], algorithms: Sequence[str], bench: dpbench.Bench) -> list[str]:
    """Return geometric means of errors by scale, beside plain cells (with the worst set) and the recorded rivals."""
    lines = []
    for dims, queries in dict.fromkeys(_recorded_key(one)[:2] for one in found):
        chosen, rivals = [one for one in found if _recorded_key(one)[:2] == (dims, queries)], dpbench.SHOWN_RIVALS[dims]
        columns = ["strategy", queries, "of cells (worst)", "single cells", "of cells (worst)", *rivals]
        lines += ["", f"| {dims}-D | {' | '.join([*columns, 'worst to the best rival'])} |"]
        lines += [f"|{'---|' * (7 + len(rivals))}"]
        for family in dict.fromkeys(one.any.case.family for one in chosen):
            of = [one for one in chosen if one.any.case.family == family]
            others = [f"{_recorded_mean(of, rival, bench):.4g}" for rival in rivals]
            for algorithm in algorithms:
                figures: list[str] = []
                for kind in ("ranges", "cells"):
                    mean = geometric_mean(error_of(one.by_algorithm[algorithm], kind) for one in of)
                    ratios = [one.ratio(algorithm, PLAIN_CELLS, kind) for one in of]
                    worst = max(ratio.value for ratio in ratios)
                    figures += [str(mean), f"{mean_ratio('', ratios)} ({worst:.2f})"]
                figures += [*others, _worst_to_best(of, algorithm, bench)]
                lines.append(f"| {family} | {algorithm} | {' | '.join(figures)} |")
    return lines[1:]


def _recorded_key(one: Setting) -> dpbench.Key:
    key = one.any.case.recorded
    assert key is not None
    return key


def _recorded_mean(found: Sequence[Setting], rival: str, bench: dpbench.Bench) -> float:
    """Return the geometric mean of a rival's recorded errors over the same sets."""
    errors = [bench.rivals[_recorded_key(one)._replace(algorithm=rival)] for one in found]
    return float(np.exp(np.mean(np.log(errors))))


def _worst_to_best(found: Sequence[Setting], algorithm: str, bench: dpbench.Bench) -> str:
    """Return the largest ratio of errors to those of the best rival of a set, with the set and the rival."""
    ratios = []
    for one in found:
        rival, least = bench.best_rival(_recorded_key(one))
        ratios.append((error_of(one.by_algorithm[algorithm], "ranges").mean / least, rival, _recorded_key(one).name))
    ratio, rival, name = max(ratios)
    return f"{ratio:.2f} ({name}, {rival})"


def recorded_rivals(path: Path, names: Sequence[str]) -> Recorded:
    """Return recorded errors of some rivals, by table, algorithm and epsilon.

    The file has columns table, algorithm, epsilon, and m1, m2, m3, tv3, range and cell, each with its `_se`.
    """
    found: Recorded = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if row["algorithm"] in names:
                    errors = {
                        kind: MeanError(float(row[column]), float(row[f"{column}_se"] or 0))
                        for kind, column in COLUMNS.items()
                        if row[column]
                    }
                    found[row["table"], row["algorithm"], float(row["epsilon"])] = errors
    except (OSError, KeyError, ValueError):
        msg = (
            f"cannot read results of rivals from {path}; its columns are table, algorithm, epsilon, m1, m1_se and so on"
        )
        raise InputError(msg) from None
    return found


def on_wide(found: Sequence[Setting], algorithm: str, recorded: Recorded, rivals: Sequence[str]) -> list[str]:
    """Return errors by table beside plain cells, Laplace marginals and recorded rivals, and ratios to the best."""
    lines = _wide_ratios(found, algorithm, recorded)
    columns = [algorithm, PLAIN_CELLS, LAPLACE, *rivals, "to the best"]
    lines += ["", f"| table | epsilon | queries | {' | '.join(columns)} |", f"|{'---|' * (3 + len(columns))}"]
    for one in found:
        for kind in [kind for kind in WIDE_KINDS if has(one.any, kind)]:
            others = _others(one, kind, recorded)
            shown = [str(others[name]) if name in others else "-" for name in columns[1:-1]]
            case, ratio = one.any.case, _to_best(one, algorithm, kind, recorded)
            errors = " | ".join([str(error_of(one.by_algorithm[algorithm], kind)), *shown, str(ratio)])
            lines.append(f"| {_short(one)} | {case.epsilon} | {ERROR_WORDS[kind]} | {errors} ({ratio.name}) |")
    return lines


def _wide_ratios(found: Sequence[Setting], algorithm: str, recorded: Recorded) -> list[str]:
    lines = [f"{algorithm} to the best of the others, for 1-way marginals to plain Laplace marginals", ""]
    lines += ["| queries | epsilon | tables | mean | worst | above 1.3 |", "|---|---|---|---|---|---|"]
    for kind in WIDE_KINDS:
        for epsilon in dict.fromkeys(one.any.case.epsilon for one in found):
            chosen = [one for one in found if one.any.case.epsilon == epsilon and has(one.any, kind)]
            if not chosen:
                continue
            ratios = {_short(one): _to_best(one, algorithm, kind, recorded) for one in chosen}
            worst = max(ratios, key=lambda name: ratios[name].value)
            above = sum(ratio.is_above(1.3) for ratio in ratios.values())
            figures = f"{mean_ratio('', ratios.values())} | {ratios[worst]} ({worst}) | {above} of {len(ratios)}"
            lines.append(f"| {ERROR_WORDS[kind]} | {epsilon} | {len(ratios)} | {figures} |")
    return lines


def _short(one: Setting) -> str:
    return RECORDED_AS.get(one.any.case.name, one.any.case.name)


def _others(one: Setting, kind: ErrorKind, recorded: Recorded) -> dict[str, MeanError]:
    """Return the errors of plain cells, of plain Laplace marginals, and of recorded rivals.

    Plain Laplace marginals are all 1-way and 2-way ones, epsilon split equally over them.
    """
    case = one.any.case
    found = {PLAIN_CELLS: error_of(one.by_algorithm[PLAIN_CELLS], kind)}
    if kind in ("m1", "m2"):
        attributes = len(case.domain.names)
        found[LAPLACE] = MeanError(laplace_error(float(case.epsilon), attributes + math.comb(attributes, 2)))
    for (table, rival, epsilon), errors in recorded.items():
        if (table, epsilon) == (_short(one), float(case.epsilon)) and kind in errors:
            found[rival] = errors[kind]
    return found


def _to_best(one: Setting, algorithm: str, kind: ErrorKind, recorded: Recorded) -> ErrorRatio:
    """Return the ratio to the best of plain cells and the rivals; of 1-way marginals, to plain Laplace marginals."""
    others = _others(one, kind, recorded)
    among = {LAPLACE: others[LAPLACE]} if kind == "m1" else {n: e for n, e in others.items() if n != LAPLACE}
    best = min(among, key=lambda name: among[name].mean)
    return ErrorRatio.between(best, error_of(one.by_algorithm[algorithm], kind), among[best])


def beside_each_other(found: Sequence[Setting], algorithm: str) -> list[str]:
    """Return errors of every algorithm, and the ratios of one to the best of the others, chosen after the fact."""
    names = list(found[0].by_algorithm)
    lines = [f"| table | epsilon | queries | {' | '.join(names)} | {algorithm} to the best |"]
    lines += [f"|{'---|' * (4 + len(names))}"]
    kinds: tuple[ErrorKind, ...] = ("ranges", "cells", "m1", "m2")
    ratios: dict[tuple[str, str, str], list[ErrorRatio]] = {}
    for one in found:
        for kind in [kind for kind in kinds if has(one.any, kind)]:
            errors, case = {name: error_of(one.by_algorithm[name], kind) for name in names}, one.any.case
            best = min((name for name in names if name != algorithm), key=lambda name: errors[name].mean)
            ratio = ErrorRatio.between(case.name, errors[algorithm], errors[best])
            ratios.setdefault((ERROR_WORDS[kind], case.family, case.epsilon), []).append(ratio)
            shown = " | ".join(str(errors[name]) for name in names)
            lines.append(f"| {case.name} | {case.epsilon} | {ERROR_WORDS[kind]} | {shown} | {ratio} ({best}) |")
    lines += [
        "",
        f"| queries | family | epsilon | {algorithm} to the best | above 1 | worst |",
        "|---|---|---|---|---|---|",
    ]
    for (queries, family, epsilon), of in ratios.items():
        worst, above = max(of, key=lambda ratio: ratio.value), sum(ratio.is_above(1) for ratio in of)
        figures = f"{mean_ratio('', of)} | {above} of {len(of)} | {worst} {worst.name}"
        lines.append(f"| {queries} | {family} | {epsilon} | {figures} |")
    return lines


def seconds_line(found: Sequence[Setting], algorithms: Sequence[str]) -> str:
    """Return how long a release took in the mean."""
    means = [f"{name} {np.mean([one.by_algorithm[name].seconds for one in found]):.2g} s" for name in algorithms]
    return f"a release and its estimate: {', '.join(means)}"


def csv_rows(found: Sequence[Setting]) -> Iterator[dict[str, object]]:
    """Yield every error as a row: for a CSV file."""
    for setting in found:
        for name, one in setting.by_algorithm.items():
            for kind in [kind for kind in ERROR_KINDS if has(one, kind)]:
                error, case = error_of(one, kind), one.case
                ratio = setting.ratio(name, PLAIN_CELLS, kind)
                row = {"group": case.group, "family": case.family, "table": case.name, "epsilon": case.epsilon}
                row |= {
                    "algorithm": name,
                    "queries": kind,
                    "releases": str(one.releases),
                    "seconds": f"{one.seconds:.4g}",
                }
                figures = {"error": error.mean, "stderr": error.stderr}
                figures |= {"to_cells": ratio.value, "to_cells_stderr": ratio.stderr}
                yield {**row, **figures}
