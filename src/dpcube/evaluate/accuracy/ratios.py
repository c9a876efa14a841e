"""Ratios of errors: what was measured enters, ratios to others with standard errors and their geometric means leave."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dpcube.evaluate.accuracy.kinds import KINDS, Kind
from dpcube.evaluate.accuracy.runs import Measured

LEAST_ERROR = 1e-9
"""Errors below it are taken for it."""
BEYOND = 2
"""Standard errors that chance is given."""


def figure(number: float, *, digits: int = 3) -> str:
    """Return a number as it is printed, without an exponent where it is large.

    >>> figure(0.01234), figure(12345.6), figure(321.4, digits=2)
    ('0.0123', '12,346', '321')
    """
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.{digits}g}"


@dataclass(frozen=True, slots=True)
class Error:
    """A mean error and its standard error; a formula has none."""

    mean: float
    stderr: float = 0.0

    def __str__(self) -> str:
        return figure(self.mean) + (f" +- {figure(self.stderr, digits=2)}" if self.stderr > 0 else "")


@dataclass(frozen=True, slots=True)
class Ratio:
    """An error over another, its standard error to first order, and what it is of."""

    name: str
    value: float
    stderr: float

    @classmethod
    def of(cls, name: str, error: Error, other: Error) -> "Ratio":
        """Return one error over another."""
        mean, least = max(error.mean, LEAST_ERROR), max(other.mean, LEAST_ERROR)
        return cls(name, mean / least, mean / least * math.hypot(error.stderr / mean, other.stderr / least))

    def is_above(self, most: float) -> bool:
        """Whether it is above a bound, and not by chance."""
        return self.value - BEYOND * self.stderr > most

    def __str__(self) -> str:
        return f"{self.value:.2f} +- {self.stderr:.2f}"


def error_of(one: Measured, kind: Kind) -> Error:
    """Return the error of one kind."""
    place = KINDS.index(kind)
    return Error(float(one.means[place]), float(one.stderrs[place]))


def has(one: Measured, kind: Kind) -> bool:
    """Whether the table of what was measured has questions of a kind."""
    return not math.isnan(one.means[KINDS.index(kind)])


def geometric_mean(name: str, ratios: Iterable[Ratio]) -> Ratio:
    """Return the geometric mean of ratios, and its standard error to first order.

    >>> geometric_mean("two", [Ratio("a", 1.0, 0.0), Ratio("b", 4.0, 0.4)])
    Ratio(name='two', value=2.0, stderr=0.1)
    """
    found = list(ratios)
    mean = math.exp(float(np.mean([math.log(ratio.value) for ratio in found])))
    relative = math.sqrt(sum((ratio.stderr / ratio.value) ** 2 for ratio in found)) / len(found)
    return Ratio(name, mean, mean * relative)


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """All that was measured on one case, by algorithm."""

    by_algorithm: dict[str, Measured]

    @property
    def any(self) -> Measured:
        """One of them, for what they have in common."""
        return next(iter(self.by_algorithm.values()))

    @property
    def name(self) -> str:
        """The table and epsilon in words."""
        return f"{self.any.case.name}, epsilon {self.any.case.epsilon}"

    def ratio(self, algorithm: str, other: str, kind: Kind) -> Ratio:
        """Return the error of one algorithm over that of another."""
        return Ratio.of(
            self.name, error_of(self.by_algorithm[algorithm], kind), error_of(self.by_algorithm[other], kind)
        )


def by_setting(found: Sequence[Measured]) -> list[Setting]:
    """Put together what was measured on one case."""
    together: dict[tuple[str, str, str], dict[str, Measured]] = {}
    for one in found:
        key = one.case.group, one.case.name, one.case.epsilon
        together.setdefault(key, {})[one.algorithm] = one
    return [Setting(of) for of in together.values()]
