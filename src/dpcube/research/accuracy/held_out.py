"""The strategies, and PrivTree, on tables that nobody tuned on: errors beside each other, and coverage of intervals.

Every table of `held_out_tables` is released at each epsilon; the errors of ranges and of two-way marginals are those of
`cubes`. A ratio is the error of `adaptive` over that of the best of the other algorithms, chosen afterwards: above 1, a
user would have done better with that one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product

import numpy as np

from dpcube.research import coverage
from dpcube.research.accuracy import held_out_tables
from dpcube.research.accuracy.cubes import CubeErrors, asked_ranges, compare_on
from dpcube.research.coverage import Coverage
from dpcube.research.ratios import CHANCE, ErrorRatio, MeanError, mean_ratio
from dpcube.strategies import BY_NAME, DEFAULT, Strategy, strategy_of

HELD_OUT_EPSILONS = ("0.01", "0.1", "1")
QUERIES = ("ranges", "marginals")


@dataclass(frozen=True, slots=True)
class TableErrors:
    """The errors of every algorithm on one table at one epsilon."""

    origin: str
    table: str
    rows: int
    epsilon: str
    errors: tuple[CubeErrors, ...]

    @property
    def others(self) -> list[str]:
        """The algorithms that the default strategy is compared with."""
        return [one.algorithm for one in self.errors if one.algorithm != DEFAULT]

    def ratio(self, queries: str, other: str | None = None) -> ErrorRatio:
        """Return the ratio of the errors of ranges or of marginals to those of another algorithm, or of the best."""
        of = {one.algorithm: (getattr(one, queries), getattr(one, f"{queries}_stderr")) for one in self.errors}
        best = min(self.others, key=lambda name: of[name]) if other is None else other
        return ErrorRatio.of(best, MeanError(*of[DEFAULT]), MeanError(*of[best]))

    def as_dict(self) -> dict[str, object]:
        """Return the errors and the ratios as plain values."""
        to_best = {queries: self.ratio(queries) for queries in QUERIES}
        return asdict(self) | {
            queries: {"value": one.value, "stderr": one.stderr, "best": one.name} for queries, one in to_best.items()
        }


def compare_on_held_out(
    *, draws: int, seed: int, strategies: Sequence[str | Strategy] = tuple(BY_NAME)
) -> Iterator[TableErrors]:
    """Release every table that is there with fresh noise and yield the errors, epsilon by epsilon.

    The default strategy is always among them: the others are compared with it.
    """
    chosen = [*([] if DEFAULT in strategies else [DEFAULT]), *strategies]
    random = np.random.default_rng(seed)
    for table in held_out_tables.held_out_tables():
        found = list(
            compare_on(
                table.domain, table.exact_counts, HELD_OUT_EPSILONS, draws=draws, random=random, strategies=chosen
            )
        )
        for epsilon in HELD_OUT_EPSILONS:
            errors = tuple(one for one in found if one.epsilon == epsilon)
            yield TableErrors(table.origin, table.name, int(table.exact_counts.sum()), epsilon, errors)


def cover(*, releases: int, seed: int, strategies: Sequence[str | Strategy] = tuple(BY_NAME)) -> Iterator[Coverage]:
    """Measure how often 95% intervals hold on the same tables, for the same kinds of ranges."""
    for table in held_out_tables.held_out_tables():
        asked = asked_ranges(table.domain, seed=seed)
        for epsilon in HELD_OUT_EPSILONS:
            for strategy in strategies:
                yield coverage.measure_coverage(
                    table.name,
                    [table.exact_counts],
                    epsilon=epsilon,
                    strategy=strategy_of(strategy, table.domain),
                    releases=releases,
                    asked=asked,
                )


def held_out_report(found: list[TableErrors]) -> list[str]:
    """Return the errors with their standard errors, the ratios, and their means and worst."""
    return [*_errors(found), "", *_ratios(found), "", *_summary(found), *held_out_tables.missing()]


def _errors(found: list[TableErrors]) -> list[str]:
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


def _ratios(found: list[TableErrors]) -> list[str]:
    epsilons = list(dict.fromkeys(one.epsilon for one in found))
    lines = [
        f"{DEFAULT} to the best of the others: ranges / marginals, bold where above 1 by {CHANCE} standard errors",
        "",
    ]
    lines += [f"| table | {' | '.join(f'epsilon {e}' for e in epsilons)} |", f"|{'---|' * (1 + len(epsilons))}"]
    for table in dict.fromkeys(one.table for one in found):
        ratios = (" / ".join(_shown(one.ratio(q)) for q in QUERIES) for one in found if one.table == table)
        lines.append(f"| {table} | {' | '.join(ratios)} |")
    return lines


def _summary(found: list[TableErrors]) -> list[str]:
    """Return geometric means of the ratios to the best and to each of the others, and the worst to the best."""
    columns = ["best", *found[0].others]
    lines = [f"Error of {DEFAULT} as a part of that of others: geometric means over the tables", ""]
    lines += [f"| queries | tables | epsilon | {' | '.join(columns)} | above the best | worst |"]
    lines += [f"|{'---|' * (5 + len(columns))}"]
    for queries, (origin, epsilon) in product(QUERIES, dict.fromkeys((one.origin, one.epsilon) for one in found)):
        chosen = [one for one in found if (one.origin, one.epsilon) == (origin, epsilon)]
        to_best = {one.table: one.ratio(queries) for one in chosen}
        means = [mean_ratio("", to_best.values()).value]
        means += [mean_ratio("", (one.ratio(queries, other) for one in chosen)).value for other in found[0].others]
        above, worst = sum(ratio.value > 1 for ratio in to_best.values()), max(to_best, key=lambda t: to_best[t].value)
        lines.append(
            f"| {queries} | {origin} | {epsilon} | {' | '.join(f'{mean:.2f}' for mean in means)} | "
            f"{above} of {len(chosen)} | {to_best[worst].value:.2f} {worst} |"
        )
    return lines


def _shown(ratio: ErrorRatio) -> str:
    bold = "**" if ratio.is_above(1) else ""
    return f"{bold}{ratio.value:.2f}{bold}"


def coverage_report(found: list[Coverage]) -> list[str]:
    """Return the figures of `Coverage` for every table and epsilon, and what they come to for each strategy."""
    names = list(dict.fromkeys(one.strategy for one in found))
    lines = [f"| table | epsilon | {' | '.join(names)} |", f"|{'---|' * (2 + len(names))}"]
    for start in range(0, len(found), len(names)):
        of = found[start : start + len(names)]
        lines.append(f"| {of[0].table} | {of[0].epsilon} | {' | '.join(' '.join(str(one).split()) for one in of)} |")
    return [*lines, "", *coverage.coverage_summary(found), *held_out_tables.missing()]
