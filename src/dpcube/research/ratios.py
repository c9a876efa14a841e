"""Mean errors, their ratios and geometric means, with standard errors to first order."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LEAST_ERROR = 1e-9
"""Smaller errors are replaced by it: a few draws on a table of one row may have no error at all."""
CHANCE = 2
"""Standard errors within which a difference is put down to chance."""
CONFIDENCE = 0.95
"""Confidence of the interval of a mean."""


def mean_and_reach(draws: Sequence[float]) -> tuple[float, float]:
    """Return a mean and the half-width of its 95% interval by Student's t; NaN for one draw.

    >>> mean, reach = mean_and_reach([1.0, 3.0])
    >>> mean, round(reach, 3)
    (2.0, 12.706)
    """
    from scipy import stats

    number, mean = len(draws), math.fsum(draws) / len(draws)
    if number < 2:
        return mean, math.nan
    deviation = math.sqrt(math.fsum((one - mean) ** 2 for one in draws) / (number - 1))
    return mean, float(stats.t.ppf((1 + CONFIDENCE) / 2, number - 1)) * deviation / math.sqrt(number)


def short_number(number: float, *, digits: int = 3) -> str:
    """Return a number as it is printed, without an exponent where it is large.

    >>> short_number(0.01234), short_number(12345.6), short_number(321.4, digits=2)
    ('0.0123', '12,346', '321')
    """
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.{digits}g}"


@dataclass(frozen=True, slots=True)
class MeanError:
    """A mean error and its standard error, 0 for a formula."""

    mean: float
    stderr: float = 0.0

    def __str__(self) -> str:
        return short_number(self.mean) + (f" +- {short_number(self.stderr, digits=2)}" if self.stderr > 0 else "")


@dataclass(frozen=True, slots=True)
class ErrorRatio:
    """The ratio of two errors, its standard error to first order, and a name."""

    name: str
    value: float
    stderr: float

    @classmethod
    def between(cls, name: str, error: MeanError, other: MeanError) -> "ErrorRatio":
        """Return one error over another."""
        mean, least = max(error.mean, LEAST_ERROR), max(other.mean, LEAST_ERROR)
        return cls(name, mean / least, mean / least * math.hypot(error.stderr / mean, other.stderr / least))

    def is_above(self, most: float) -> bool:
        """Whether it is above a bound, and not by chance."""
        return self.value - CHANCE * self.stderr > most

    def __str__(self) -> str:
        return f"{self.value:.2f} +- {self.stderr:.2f}"


def geometric_mean(errors: Iterable[MeanError]) -> MeanError:
    """Return the geometric mean of errors, and its standard error to first order.

    >>> geometric_mean([MeanError(1.0), MeanError(4.0, 0.4)])
    MeanError(mean=2.0, stderr=0.1)
    """
    found = [(max(error.mean, LEAST_ERROR), error.stderr) for error in errors]
    mean = math.exp(sum(math.log(one) for one, _ in found) / len(found))
    return MeanError(mean, mean * math.hypot(*(stderr / one for one, stderr in found)) / len(found))


def mean_ratio(name: str, ratios: Iterable[ErrorRatio]) -> ErrorRatio:
    """Return the geometric mean of ratios, under a name of its own."""
    mean = geometric_mean(MeanError(ratio.value, ratio.stderr) for ratio in ratios)
    return ErrorRatio(name, mean.mean, mean.stderr)
