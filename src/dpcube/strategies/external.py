"""Adapter of a strategy that is not built in: any object with a name and `run` becomes a `FittedStrategy`.

Optional methods that it lacks get defaults, and the values of the others are checked before anything is spent.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction
from typing import get_args

from dpcube.core.counter import NoisyCounter
from dpcube.core.domain import Domain
from dpcube.core.errors import DpcubeError, InputError
from dpcube.measurements import Transcript
from dpcube.strategies.marginals import peak_bytes_of_tables
from dpcube.strategies.strategy import STARTING, UNIT_EPSILON, Parameter, Store, Strategy, WorkloadKind

MAX_NAME_LENGTH = 100
FACTS = ("name", "store", "workload")
"""Attributes of a strategy that are no parameters."""


@dataclass(frozen=True, slots=True, eq=False)
class ExternalStrategy:
    """A strategy that is not built in; one of materialised cubes, unless it states another store."""

    strategy: Strategy
    is_fitted: bool = False
    name: str = field(init=False)
    store: Store = field(init=False)
    workload: WorkloadKind = field(init=False)
    chosen: dict[str, Parameter] = field(init=False)
    """Its parameters, as they were before it ran."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", _name_of(self.strategy))
        for what, kinds in (("store", get_args(Store)), ("workload", get_args(WorkloadKind))):
            object.__setattr__(self, what, _one_of(self.strategy, what, kinds, self.name))
        if (self.store == "cells") is not (self.workload == "cube"):
            msg = f"strategy '{self.name}': a strategy of rows has the workload 'wide' or 'grid', one of cells 'cube'"
            raise InputError(msg)
        with _as_input_error(f"strategy '{self.name}': its parameters() failed"):
            object.__setattr__(self, "chosen", _parameters_of(self.strategy, self.name))

    def for_domain(self, domain: Domain) -> "ExternalStrategy":
        """Return the strategy fitted to a domain: once, if it can be."""
        fit = getattr(self.strategy, "for_domain", None)
        if fit is None or self.is_fitted:
            return self
        with _as_input_error(f"strategy '{self.name}': its for_domain() failed"):
            fitted = fit(domain)
        return ExternalStrategy(fitted, is_fitted=True)

    def description(self, domain: Domain, *, rows: int | None = None, epsilon: Fraction = UNIT_EPSILON) -> list[str]:
        """Return its sentences on what a release would measure, if it has any."""
        describe = getattr(self.strategy, "description", None)
        if describe is None:
            return []
        with _as_input_error(f"strategy '{self.name}': its description() failed"):
            return list(map(str, describe(domain, rows=rows, epsilon=epsilon)))

    def parameters(self) -> dict[str, Parameter]:
        """Return its parameters."""
        return dict(self.chosen)

    def peak_bytes(self, shape: tuple[int, ...]) -> int:
        """Return its own `peak_bytes`, or the memory of the largest tree that a strategy is likely to make."""
        announced = getattr(self.strategy, "peak_bytes", None)
        if announced is None and self.store == "rows":
            msg = f"strategy '{self.name}': a strategy of rows must have peak_bytes(shape), the memory that it needs"
            raise InputError(msg)
        if announced is None:
            return usual_peak_bytes(shape)
        with _as_input_error(f"strategy '{self.name}': its peak_bytes() failed"):
            needed = announced(shape)
        if not isinstance(needed, int) or isinstance(needed, bool) or needed < 0:
            msg = f"strategy '{self.name}': its peak_bytes() must be a whole number of bytes, got {needed!r:.50}"
            raise InputError(msg)
        return needed

    def run(self, counter: NoisyCounter) -> Transcript:
        """Measure, and check that the transcript is of this cube and this noise.

        Of an exception only the type is shown: its text may quote noisy counts, which were not released.
        """
        try:
            found = self.strategy.run(counter)
        except DpcubeError:
            raise
        except Exception as error:
            msg = (
                f"strategy '{self.name}' failed as it measured ({type(error).__name__}); what was charged stays "
                "charged; dpcube plan runs it without charge"
            )
            raise DpcubeError(msg) from error
        if not isinstance(found, Transcript):
            msg = f"strategy '{self.name}' must return a Transcript of what it measured, not {type(found).__name__}"
            raise DpcubeError(msg)
        if (found.shape, found.epsilon_per_unit) != (counter.shape, counter.epsilon_per_unit):
            msg = f"strategy '{self.name}' must return a Transcript of the counter's shape and epsilon_per_unit"
            raise DpcubeError(msg)
        return found


def usual_peak_bytes(shape: tuple[int, ...]) -> int:
    """Return the memory of a tree of two nodes for every cell, with the bounds and the posterior of each.

    It is what `Adaptive.peak_bytes` would be if its tree had no bound and it selected no plan.
    """
    cells, axes = math.prod(shape), len(shape)
    of_nodes = 2 * cells * max(200 + 16 * axes, 140 + 32 * axes)
    return STARTING + 26 * cells + 100 * sum(shape) + peak_bytes_of_tables(shape) + of_nodes


def _name_of(strategy: object) -> str:
    if isinstance(strategy, type):
        msg = f"{strategy.__name__} is a class; a strategy is an object of it: {strategy.__name__}()"
        raise InputError(msg)
    name = getattr(strategy, "name", None)
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_LENGTH or not name.isprintable():
        msg = f"a strategy must have a name, a text of up to {MAX_NAME_LENGTH} characters; {_kind(strategy)} has none"
        raise InputError(msg)
    if not callable(getattr(strategy, "run", None)):
        msg = f"strategy '{name}' must have a method run(counter) that returns a Transcript; {_kind(strategy)} has none"
        raise InputError(msg)
    return name


def _one_of(strategy: object, what: str, kinds: Sequence[str], name: str) -> str:
    """Return a declared fact of a strategy, the first of its kinds unless it is stated."""
    stated = getattr(strategy, what, kinds[0])
    if not isinstance(stated, str) or stated not in kinds:
        msg = f"strategy '{name}': its {what} must be one of {', '.join(kinds)}, got {stated!r:.50}"
        raise InputError(msg)
    return stated


def _kind(strategy: object) -> str:
    return f"this object of {type(strategy).__name__}"


def _parameters_of(strategy: object, name: str) -> dict[str, Parameter]:
    said = getattr(strategy, "parameters", None)
    given = _attributes(strategy) if said is None else said()
    if not isinstance(given, dict):
        msg = f"strategy '{name}': its parameters() must be a dict of plain values"
        raise InputError(msg)
    for key, value in given.items():
        if not isinstance(key, str) or not _is_plain(value):
            msg = (
                f"strategy '{name}': its parameter '{key}' is no text, number, truth value or None, so it "
                "cannot be stored in a release; add a method parameters() that returns a dict of such values"
            )
            raise InputError(msg)
    return dict(given)


def _attributes(strategy: object) -> dict[str, object]:
    """Return the public attributes of an object but its `FACTS`: the fields of a dataclass, or what it was given."""
    if is_dataclass(strategy):
        found = {one.name: getattr(strategy, one.name) for one in fields(strategy)}
    else:
        found = dict(getattr(strategy, "__dict__", {}))
    return {key: value for key, value in found.items() if key not in FACTS and not key.startswith("_")}


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))


@contextmanager
def _as_input_error(what: str) -> Iterator[None]:
    """Raise an exception of external code as an InputError of one line; no row has been read by then."""
    try:
        yield
    except DpcubeError:
        raise
    except Exception as error:
        msg = f"{what}: {in_one_line(error)}"
        raise InputError(msg) from error


def in_one_line(error: BaseException) -> str:
    """Return the type and the text of an exception in one line.

    >>> in_one_line(ValueError("no such      thing"))
    'ValueError: no such thing'
    """
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:500] if text else type(error).__name__
