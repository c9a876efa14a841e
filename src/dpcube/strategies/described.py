"""What a release of a wide table or of a fine grid does, in words: a strategy and a domain enter, sentences leave."""

from fractions import Fraction

from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.domain import Domain
from dpcube.strategies.cuboids import (
    CHOICE_SHARE,
    CHOICE_SHARE_BESIDE,
    FIRST_SHARE,
    SHARE_BY_TARGET,
    Cuboids,
    rounds_for,
    units_of_ones,
)
from dpcube.strategies.fine_grid import FineGrid, grid_levels
from dpcube.trees.halving import depth


def what_is_done(
    strategy: Cuboids | FineGrid, domain: Domain, *, rows: int | None = None, epsilon: Fraction = Fraction(1)
) -> list[str]:
    """Return sentences on what a release would count; roughly how many tables, if it is known how many rows there are.

    >>> print(what_is_done(FineGrid(), Domain.of_shape((10**6, 10**6)))[1])
    From the whole down, boxes that stand out are cut in halves four times over and counted: 10 looks at most.
    """
    if isinstance(strategy, FineGrid):
        looks = len(list(grid_levels(depth(domain.shape))))
        return [
            f"{domain.size:,} cells: released as a fine grid, boxes of cells alone, from one count of the rows that "
            "are alike (docs/grids.md).",
            "From the whole down, boxes that stand out are cut in halves four times over and counted: "
            f"{looks} looks at most.",
        ]
    return [
        f"{domain.size:,} cells: released as cuboids, tables over few attributes each, from one count of the rows that "
        "are alike (docs/wide.md).",
        _first_tables(strategy, domain),
        _further_tables(strategy, domain, None if rows is None else float(rows * epsilon)),
    ]


def _first_tables(strategy: Cuboids, domain: Domain) -> str:
    if strategy.target is not None:
        return f"First each attribute by '{strategy.target}': {_percent(SHARE_BY_TARGET)} of epsilon, alike for all."
    units = units_of_ones(domain.shape, Fraction(1, BUDGET_UNITS))
    parts = ", ".join(
        f"{name} {_percent(Fraction(of, BUDGET_UNITS))}" for name, of in zip(domain.names, units, strict=True)
    )
    return f"First each attribute by itself: {_percent(FIRST_SHARE)} of epsilon ({parts})."


def _further_tables(strategy: Cuboids, domain: Domain, rows_times_epsilon: float | None) -> str:
    beside = strategy.target is not None
    left = 1 - (SHARE_BY_TARGET if beside else FIRST_SHARE)
    if strategy.cuboids:
        tables = "; ".join(", ".join(table) for table in strategy.cuboids)
        return f"Then, in groups of cells that hold enough rows, the tables named ({tables}): {_percent(left)}, alike."
    choosing = left * (CHOICE_SHARE_BESIDE if beside else CHOICE_SHARE)
    many = ""
    if rows_times_epsilon is not None:
        few, most = rounds_for(rows_times_epsilon, domain.shape, beside=beside)
        many = f", about {few} of them" if few == most else f", about {few} to {most} of them"
    return (
        f"Then, in groups of cells that hold enough rows, pairs of attributes{many}: each time the one that departs "
        f"most from the model is chosen ({_percent(choosing)} of epsilon for all choices) and counted "
        f"({_percent(left - choosing)} for all tables)."
    )


def _percent(share: Fraction) -> str:
    return f"{100 * float(share):.3g}%"
