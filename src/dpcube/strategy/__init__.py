"""Strategies: what to measure, decided from noisy counts alone."""

from dpcube.domain.attribute import listing
from dpcube.errors import InputError
from dpcube.strategy.cells import Cells
from dpcube.strategy.strategy import Strategy
from dpcube.strategy.two_phase import TwoPhase

BY_NAME: dict[str, type[Cells | TwoPhase]] = {"cells": Cells, "dpcube": TwoPhase}
DEFAULT = "dpcube"


def strategy_of(strategy: "str | Strategy") -> Strategy:
    """Return a strategy by name, or as given."""
    if not isinstance(strategy, str):
        return strategy
    if strategy not in BY_NAME:
        msg = f"there is no strategy '{strategy}'; the strategies are {listing(list(BY_NAME))}"
        raise InputError(msg)
    return BY_NAME[strategy]()


__all__ = ["BY_NAME", "DEFAULT", "Cells", "Strategy", "TwoPhase", "strategy_of"]
