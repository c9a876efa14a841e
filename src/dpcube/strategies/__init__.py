"""Strategies: what to measure, decided from noisy counts alone."""

from dpcube.strategies.adaptive import Adaptive
from dpcube.strategies.cells import Cells
from dpcube.strategies.cuboids import Cuboids
from dpcube.strategies.external import ExternalStrategy, usual_peak_bytes
from dpcube.strategies.fine_grid import FineGrid
from dpcube.strategies.registry import (
    BUILT_IN,
    BY_NAME,
    DEFAULT,
    NOT_COMPARED,
    RIVALS,
    check_room,
    releasing_strategy,
    strategy_names,
    strategy_of,
    strategy_with,
)
from dpcube.strategies.strategy import FittedStrategy, Strategy
from dpcube.strategies.two_phase import TwoPhase

__all__ = [
    "BUILT_IN",
    "BY_NAME",
    "DEFAULT",
    "NOT_COMPARED",
    "RIVALS",
    "Adaptive",
    "Cells",
    "Cuboids",
    "ExternalStrategy",
    "FineGrid",
    "FittedStrategy",
    "Strategy",
    "TwoPhase",
    "check_room",
    "releasing_strategy",
    "strategy_names",
    "strategy_of",
    "strategy_with",
    "usual_peak_bytes",
]
