"""The strategies, and PrivTree, on tables that nobody tuned on: errors beside each other, and coverage of intervals.

Every table of `held_out_tables` is released at each epsilon; the errors of ranges and of two-way marginals are those of
`cubes`. A ratio is the error of `adaptive` over that of the best of the other algorithms, chosen afterwards: above 1, a
user would have done better with that one.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np

from dpcube.evaluate import coverage
from dpcube.evaluate.accuracy import held_out_tables
from dpcube.evaluate.accuracy.cubes import CubeErrors, asked_ranges, compare_on
from dpcube.evaluate.coverage import Coverage
from dpcube.strategy import BY_NAME, DEFAULT, strategy_of

EPSILONS = ("0.01", "0.1", "1")
QUERIES = ("ranges", "marginals")


@dataclass(frozen=True, slots=True)
class Ratio:
    """The error of the default strategy over that of the best other algorithm, and the standard error of it."""

    value: float
    stderr: float
    best: str

    def __str__(self) -> str:
        bold = "**" if self.value - 2 * self.stderr > 1 else ""
        return f"{bold}{self.value:.2f}{bold} +- {self.stderr:.2f} ({self.best})"


@dataclass(frozen=True, slots=True)
class Setting:
    """The errors of every algorithm on one table at one epsilon."""

    table: str
    rows: int
    errors: tuple[CubeErrors, ...]

    @property
    def epsilon(self) -> str:
        """Epsilon of the releases."""
        return self.errors[0].epsilon

    def ratio(self, queries: str) -> Ratio:
        """Return the ratio of the errors of ranges or of marginals."""
        of = {one.algorithm: (getattr(one, queries), getattr(one, f"{queries}_stderr")) for one in self.errors}
        mean, stderr = of.pop(DEFAULT)
        best = min(of, key=lambda name: of[name])
        least, least_stderr = max(of[best][0], 1e-300), of[best][1]
        value = mean / least
        relative = np.hypot(stderr / max(mean, 1e-300), least_stderr / least)
        return Ratio(value, float(value * relative), best)

    def as_dict(self) -> dict[str, object]:
        """Return the errors and the ratios as plain values."""
        return asdict(self) | {queries: asdict(self.ratio(queries)) for queries in QUERIES}


def compare(*, draws: int, seed: int) -> Iterator[Setting]:
    """Release every table that is there with fresh noise and yield the errors, epsilon by epsilon."""
    random = np.random.default_rng(seed)
    for table in held_out_tables.tables():
        found = list(compare_on(table.domain, table.exact_counts, EPSILONS, draws=draws, random=random))
        for epsilon in EPSILONS:
            errors = tuple(one for one in found if one.epsilon == epsilon)
            yield Setting(table.name, int(table.exact_counts.sum()), errors)


def cover(*, releases: int, seed: int) -> Iterator[Coverage]:
    """Measure how often 95% intervals hold on the same tables, for the same kinds of ranges."""
    for table in held_out_tables.tables():
        asked = asked_ranges(table.domain, seed=seed)
        for epsilon in EPSILONS:
            for name in BY_NAME:
                yield coverage.measure(
                    table.name,
                    [table.exact_counts],
                    epsilon=epsilon,
                    strategy=strategy_of(name, table.domain),
                    releases=releases,
                    asked=asked,
                )


def report(found: list[Setting]) -> list[str]:
    """Return the errors with their standard errors, the ratios, and their means and worst."""
    return [*_errors(found), "", *_ratios(found), "", *_summary(found), *held_out_tables.missing()]


def _errors(found: list[Setting]) -> list[str]:
    algorithms = [one.algorithm for one in found[0].errors]
    lines = ["Errors of ranges / of two-way marginals", ""]
    lines += [f"| table | rows | cells | epsilon | {' | '.join(algorithms)} |", f"|{'---|' * (4 + len(algorithms))}"]
    for one in found:
        errors = " | ".join(
            f"{e.ranges:.3g} +- {e.ranges_stderr:.2g} / {e.marginals:.3g} +- {e.marginals_stderr:.2g}"
            for e in one.errors
        )
        lines.append(f"| {one.table} | {one.rows:,} | {np.prod(one.errors[0].shape):,} | {one.epsilon} | {errors} |")
    return lines


def _ratios(found: list[Setting]) -> list[str]:
    lines = []
    for queries in QUERIES:
        lines += [f"{DEFAULT} to the best of the others, {queries}", ""]
        lines += [f"| table | {' | '.join(f'epsilon {e}' for e in EPSILONS)} |", f"|{'---|' * (1 + len(EPSILONS))}"]
        for table in dict.fromkeys(one.table for one in found):
            ratios = (str(one.ratio(queries)) for one in found if one.table == table)
            lines.append(f"| {table} | {' | '.join(ratios)} |")
        lines.append("")
    return lines[:-1]


def _summary(found: list[Setting]) -> list[str]:
    lines = []
    for queries in QUERIES:
        for epsilon in EPSILONS:
            ratios = {one.table: one.ratio(queries) for one in found if one.epsilon == epsilon}
            values = np.array([ratio.value for ratio in ratios.values()])
            worst = max(ratios, key=lambda table: ratios[table].value)
            lines.append(
                f"{queries}, epsilon {epsilon}: geometric mean {np.exp(np.log(values).mean()):.2f}, "
                f"above 1 on {(values > 1).sum()} of {len(values)}, worst {ratios[worst]} on {worst}"
            )
    return lines


def coverage_report(found: list[Coverage]) -> list[str]:
    """Return coverage in percent, that of the worst tenth, and the width of an interval over the mean error."""
    lines = [f"| table | epsilon | {' | '.join(BY_NAME)} |", f"|{'---|' * (2 + len(BY_NAME))}"]
    for start in range(0, len(found), len(BY_NAME)):
        of = found[start : start + len(BY_NAME)]
        lines.append(f"| {of[0].table} | {of[0].epsilon} | {' | '.join(' '.join(str(one).split()) for one in of)} |")
    return [*lines, "", *coverage.summary(found), *held_out_tables.missing()]
