"""Strategies: what to measure, decided from noisy counts alone."""

from dpcube.domain import Domain
from dpcube.domain.attribute import listing
from dpcube.errors import InputError
from dpcube.strategy.adaptive import Adaptive
from dpcube.strategy.cells import Cells
from dpcube.strategy.strategy import Strategy
from dpcube.strategy.two_phase import TwoPhase

BY_NAME: dict[str, type[Adaptive | Cells | TwoPhase]] = {"adaptive": Adaptive, "dpcube": TwoPhase, "cells": Cells}
DEFAULT = "adaptive"


def strategy_of(strategy: "str | Strategy", domain: Domain | None = None) -> Strategy:
    """Return a strategy by name, or as given; fitted to the attributes of a domain if it can be."""
    if isinstance(strategy, str):
        if strategy not in BY_NAME:
            msg = f"there is no strategy '{strategy}'; the strategies are {listing(list(BY_NAME))}"
            raise InputError(msg)
        strategy = BY_NAME[strategy]()
    return strategy.for_domain(domain) if isinstance(strategy, Adaptive) and domain is not None else strategy


__all__ = ["BY_NAME", "DEFAULT", "Adaptive", "Cells", "Strategy", "TwoPhase", "strategy_of"]
