"""For tests: conformance suites of strategies, estimates and sources, and noise that is silent or seeded.

A plug-in passes if its suite raises no AssertionError: `check_strategy(strategy)` of docs/guides/strategies.md,
`check_estimate(estimate)`, and `check_source(load)`. The built-in ones are held to the same suites.
"""

from dpcube.testing.estimates import check_estimate
from dpcube.testing.noise import SeededNoise, SilentNoise
from dpcube.testing.sources import check_source
from dpcube.testing.strategies import check_strategy

__all__ = ["SeededNoise", "SilentNoise", "check_estimate", "check_source", "check_strategy"]
