"""Categorical attribute: a list of values of text."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpcube.core.domain.attribute import Attribute, Destination, listing
from dpcube.core.domain.hierarchy import Groups, Level, checked_groups, named_levels
from dpcube.core.domain.reading import Case, Reading
from dpcube.core.domain.scale import Scalar, Scale
from dpcube.core.domain.text import is_text, spelling_hint
from dpcube.core.domain.written import TypedValues
from dpcube.core.errors import DomainError, QueryError


@dataclass(frozen=True, slots=True, init=False)
class Category(Attribute):
    """Listed values of text, matched exactly.

    Parameters
    ----------
    values
        Values from public knowledge, in order.
    ordered
        Whether queries may use ranges of the values.
    null, unknown
        Destinations of nulls and of other values: `"drop"` or `"cell"`.
    hierarchy
        Coarser levels, the finest first. Each maps its groups to lists of members of the level below:
        `{"region": {"Europe": ["France", "Italy"], "Asia": ["Japan"]}}`.
    true, false
        Synonyms of the values `"true"` and `"false"`.

    Examples
    --------
    >>> Category("sex", ["Female", "Male"]).size
    2

    """

    kind: ClassVar[str] = "category"
    scale: ClassVar[Scale] = "position"
    arrow_type: ClassVar[str] = "string"
    lists: ClassVar[tuple[str, ...]] = ("values",)
    values: tuple[str, ...]
    ordered: bool = False
    null: Destination = "drop"
    unknown: Destination = "drop"
    hierarchy: Mapping[str, Mapping[str, Sequence[str]]] | tuple[tuple[str, Groups], ...] = ()
    true: tuple[str, ...] = ()
    false: tuple[str, ...] = ()

    def __init__(
        self,
        name: str,
        values: Iterable[str],
        *,
        ordered: bool = False,
        null: Destination = "drop",
        unknown: Destination = "drop",
        hierarchy: Mapping[str, Mapping[str, Sequence[str]]] | tuple[tuple[str, Groups], ...] = (),
        true: Sequence[str] = (),
        false: Sequence[str] = (),
        column: str | None = None,
        trim: bool = False,
        case: Case = "exact",
        null_text: Sequence[str] = (),
    ) -> None:
        declared = {"values": values, "ordered": ordered, "hierarchy": hierarchy, "null": null, "unknown": unknown}
        read = {"column": column, "trim": trim, "case": case, "null_text": null_text, "true": true, "false": false}
        self._declare(name=name, **declared, **read)

    def _reading(self) -> Reading:
        words = [(word, value) for value in ("true", "false") for word in getattr(self, value)]
        return replace(Attribute._reading(self), words=tuple(words))

    @property
    def bins(self) -> int:
        """Number of listed values."""
        return len(self.values)

    def bin_edges(self) -> NDArray[np.float64]:
        """Return the positions 0, 1, ... up to the number of values."""
        return np.arange(len(self.values) + 1, dtype=np.float64)

    def coordinate(self, value: Scalar) -> float:
        """Return the position of a listed value; a number denotes the one value that is written as that number."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            at = _positions_of_numbers(self).get(value)
            if at is not None:
                return float(at)
        if not isinstance(value, str) or value not in self.values:
            msg = f"attribute '{self.name}' has no value {value!r}; its values are {listing(self.labels())}"
            msg += spelling_hint(value, self.values)
            raise QueryError(msg)
        return float(self.values.index(value))

    def values_at(self, coordinates: NDArray[Any]) -> NDArray[Any]:
        """Return the values at these positions."""
        return np.array(self.values, object)[coordinates.astype(np.int64)]

    def own_value(self, irregular: str) -> str | None:
        """Return the label of an irregular kind's cell, which is text like the values; null for nulls."""
        return None if irregular == "null" else f"({irregular})"

    def bin_label(self, low: float, high: float) -> str:  # noqa: ARG002 (a category's bins are its values)
        """Return the value itself."""
        return self.values[int(low)]

    def extent(self) -> str:
        """Return the first values."""
        return listing(self.values)

    def _check(self) -> None:
        self._check_destinations(null=("drop", "cell"), unknown=("drop", "cell"))
        if isinstance(self.values, str):
            msg = f"attribute '{self.name}': values must be a list of texts, got a single text {self.values!r}"
            raise DomainError(msg)
        if not isinstance(self.values, Iterable) or isinstance(self.values, Set | Mapping | bytes):
            msg = f"attribute '{self.name}': values must be an ordered list of texts, got {self.values!r}"
            raise DomainError(msg)
        plain = tuple(value.item() if isinstance(value, np.generic) else value for value in self.values)
        object.__setattr__(self, "values", plain)
        if not self.values:
            msg = f"attribute '{self.name}' needs values, a list of at least one text"
            raise DomainError(msg)
        for value in self.values:
            if not is_text(value):
                msg = f"attribute '{self.name}': values must be texts in quotes, got {value!r}"
                raise DomainError(msg)
            if value[1:-1] in self.own_cells and value == f"({value[1:-1]})":
                msg = (
                    f"attribute '{self.name}' lists the value '{value}', which is the label of its cell for such values"
                )
                msg += "; rename one of the two"
                raise DomainError(msg)
        if len(set(self.values)) < len(self.values):
            twice = next(value for value, times in Counter(self.values).items() if times > 1)
            msg = f"attribute '{self.name}' lists the value '{twice}' twice; list each value once"
            raise DomainError(msg)
        self._check_words()
        if not isinstance(self.ordered, bool):
            msg = f"attribute '{self.name}': ordered must be true or false, got {self.ordered!r}"
            raise DomainError(msg)
        self._check_hierarchy()

    def _check_words(self) -> None:
        """Refuse texts that denote two values, or synonyms of a value that is not listed."""
        for key in ("true", "false"):
            self._set_texts(key)
            if getattr(self, key) and key not in self.values:
                msg = f"attribute '{self.name}' has synonyms for '{key}', which is not among its values; add it to them"
                raise DomainError(msg)
        self._refuse_untrimmed("values", self.values)
        meant: dict[str, str | None] = {}
        read = [(value, value) for value in self.values] + [*self.reading.words]
        for text, value in (*read, *((null, None) for null in self.null_text)):
            if meant.setdefault(self.reading.folded(text), value) != value:
                msg = (
                    f"attribute '{self.name}': the text '{text}' denotes two different values; declare it for one only"
                )
                raise DomainError(msg)

    def _check_hierarchy(self) -> None:
        members, levels = self.values, []
        own = [f"({kind})" for kind in self.own_cells]
        for name, groups in named_levels(self.name, self.hierarchy, form="a table of levels"):
            levels.append((name, checked_groups(self.name, name, groups, members, own)))
            members = tuple(group for group, _ in levels[-1][1])
        object.__setattr__(self, "hierarchy", tuple(levels))

    def _coarser(self) -> list[Level]:
        levels: list[Level] = []
        members, below = self.values, np.arange(self.bins)
        for name, declared in dict(self.hierarchy).items():
            groups = dict(declared)
            of_member = {member: number for number, grouped in enumerate(groups.values()) for member in grouped}
            below = np.array([of_member[member] for member in members])[below]
            members = tuple(groups)
            levels.append(Level(name, members, below))
        return levels


@lru_cache(maxsize=16)
def _positions_of_numbers(attribute: Category) -> dict[float, int]:
    """Return the positions of the listed values that are numbers in text, as tables with numbers are read."""
    numbers = TypedValues.from_attribute(attribute).of_kind("number")
    return {number: at for number, at in numbers.items() if at < attribute.bins}
