"""What was measured on one case, algorithm by algorithm: measured cases enter, settings with ratios of errors leave."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpcube.research.accuracy.kinds import ERROR_KINDS, ErrorKind
from dpcube.research.accuracy.runs import MeasuredCase
from dpcube.research.ratios import ErrorRatio, MeanError


def error_of(one: MeasuredCase, kind: ErrorKind) -> MeanError:
    """Return the error of one kind."""
    place = ERROR_KINDS.index(kind)
    return MeanError(float(one.means[place]), float(one.stderrs[place]))


def has(one: MeasuredCase, kind: ErrorKind) -> bool:
    """Whether the table of what was measured has questions of a kind."""
    return not math.isnan(one.means[ERROR_KINDS.index(kind)])


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """All that was measured on one case, by algorithm."""

    by_algorithm: dict[str, MeasuredCase]

    @property
    def any(self) -> MeasuredCase:
        """One of them, for what they have in common."""
        return next(iter(self.by_algorithm.values()))

    @property
    def name(self) -> str:
        """The table and epsilon in words."""
        return f"{self.any.case.name}, epsilon {self.any.case.epsilon}"

    def ratio(self, algorithm: str, other: str, kind: ErrorKind) -> ErrorRatio:
        """Return the error of one algorithm over that of another."""
        return ErrorRatio.of(
            self.name, error_of(self.by_algorithm[algorithm], kind), error_of(self.by_algorithm[other], kind)
        )


def by_setting(found: Sequence[MeasuredCase]) -> list[Setting]:
    """Put together what was measured on one case."""
    together: dict[tuple[str, str, str], dict[str, MeasuredCase]] = {}
    for one in found:
        key = one.case.group, one.case.name, one.case.epsilon
        together.setdefault(key, {})[one.algorithm] = one
    return [Setting(of) for of in together.values()]
