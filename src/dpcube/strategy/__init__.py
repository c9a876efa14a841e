"""Strategies: what to measure, decided from noisy counts alone."""

from dpcube.strategy.adaptive import Adaptive
from dpcube.strategy.cells import Cells
from dpcube.strategy.cuboids import Cuboids
from dpcube.strategy.fine_grid import FineGrid
from dpcube.strategy.outside import Outside, usual_peak_bytes
from dpcube.strategy.registry import (
    BY_NAME,
    DEFAULT,
    GRID_STRATEGY,
    NOT_COMPARED,
    RIVALS,
    WIDE_STRATEGY,
    check_room,
    releasing_strategy,
    strategy_names,
    strategy_of,
)
from dpcube.strategy.strategy import FittedStrategy, Strategy
from dpcube.strategy.two_phase import TwoPhase

__all__ = [
    "BY_NAME",
    "DEFAULT",
    "GRID_STRATEGY",
    "NOT_COMPARED",
    "RIVALS",
    "WIDE_STRATEGY",
    "Adaptive",
    "Cells",
    "Cuboids",
    "FineGrid",
    "FittedStrategy",
    "Outside",
    "Strategy",
    "TwoPhase",
    "check_room",
    "releasing_strategy",
    "strategy_names",
    "strategy_of",
    "usual_peak_bytes",
]
