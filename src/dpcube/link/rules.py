"""Matching rules: a small TOML file enters, the program that the two parties run and how each makes its features leave.

    threshold = 4                # a pair matches if what holds weighs as much

    [[compare]]
    column = "surname"
    kind = "text"                # q-grams alike by Dice's measure, on Bloom filters
    similar = 0.75
    weight = 2

    [[compare]]
    column = "born"
    kind = "date"
    days = 31                    # apart, at most

    [[compare]]
    column = "postcode"
    kind = "exact"

A text is compared without case, accents, blanks and marks. What is missing, or cannot be read, holds for nothing.
Both parties need rules of the same meaning: the columns may be called otherwise (`name` is then what both call it).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from dpcube.core.domain import Attribute, Date, Float
from dpcube.core.domain.attribute import listing
from dpcube.core.domain.file import read_text, toml_table
from dpcube.core.domain.reading import fault_of_format
from dpcube.core.domain.text import is_text, meant
from dpcube.core.errors import InputError
from dpcube.link.program import LARGEST_DENOMINATOR, MOST_COMPARISONS, MOST_TEXT_BITS, Comparison, Program

LARGEST_KEPT = 10**8
"""Numbers and tolerances are kept to this, far from what stands for a missing one (2^28, `features.py`)."""
LARGEST_WEIGHT_WRITTEN = 1000
LONGEST_KEY = 1000
_HEADER = ("threshold", "key", "compare")


@dataclass(frozen=True, slots=True)
class MatchingRule:
    """What every comparison has: a name that both parties use, one's own column, and a weight."""

    kind: ClassVar[str]
    name: str
    column: str
    weight: int = 1

    @property
    def comparison(self) -> Comparison:
        """What the program compares."""
        return Comparison("exact", 1, self.weight)

    @property
    def attribute(self) -> Attribute | None:
        """What reads the column, if it is not read as text."""
        return None

    @property
    def reach(self) -> float:
        """How far apart two values may be, in the coordinate of an attribute."""
        return 0.0

    def meaning(self) -> dict[str, object]:
        """Return what both parties must agree on: everything but one's own column and how its text is read."""
        told = {key: value for key, value in asdict(self).items() if key not in ("column", "format")}
        return {"kind": self.kind, **{key: value if key == "name" else str(value) for key, value in told.items()}}


@dataclass(frozen=True, slots=True)
class ExactRule(MatchingRule):
    """Values that are equal once case, accents, blanks and marks are taken off."""

    kind: ClassVar[str] = "exact"


@dataclass(frozen=True, slots=True)
class NumberRule(MatchingRule):
    """Numbers, rounded to whole steps, that are at most `tolerance` apart."""

    kind: ClassVar[str] = "number"
    tolerance: Fraction = Fraction(0)
    step: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        ok = Fraction(1, 10**9) <= self.step <= 10**9
        _check(ok, f"comparison '{self.name}': step must be from 1e-9 to 1e9, got {float(self.step):g}")
        steps = self.tolerance / self.step
        _check(
            steps.denominator == 1 and 0 <= steps <= LARGEST_KEPT,
            f"comparison '{self.name}': tolerance must be a whole number of steps of {float(self.step):g}, up to 10^8, "
            f"got {float(self.tolerance):g}; choose a smaller step",
        )

    @property
    def comparison(self) -> Comparison:
        """Whole steps, apart at most the tolerance."""
        return Comparison("number", 1, self.weight, tolerance=int(self.tolerance / self.step))

    @property
    def attribute(self) -> Attribute:
        """Real numbers as far as whole steps are kept; those beyond are missing."""
        most = float(LARGEST_KEPT * self.step)
        return Float(self.name, -most, most, width=2 * most, column=self.column)

    @property
    def reach(self) -> float:
        """The tolerance, and what rounding to steps may add on both sides."""
        return float(self.tolerance + self.step)


@dataclass(frozen=True, slots=True)
class DateRule(MatchingRule):
    """Dates at most some `days` apart; `format` is how text is written, as in a domain file."""

    kind: ClassVar[str] = "date"
    days: int = 0
    format: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check(
            isinstance(self.days, int) and 0 <= self.days <= 100_000,
            f"comparison '{self.name}': days must be a whole number from 0 to 100,000, got {self.days!r}",
        )
        for form in self.format:
            fault = fault_of_format(form)
            _check(fault is None, f"comparison '{self.name}': format {form!r} {fault}")

    @property
    def comparison(self) -> Comparison:
        """Days, apart at most so many."""
        return Comparison("number", 1, self.weight, tolerance=self.days)

    @property
    def attribute(self) -> Attribute:
        """Days of four centuries; others are missing."""
        return Date(
            self.name, date(1700, 1, 1), date(2199, 12, 31), every="year", column=self.column, format=self.format
        )

    @property
    def reach(self) -> float:
        """The days themselves."""
        return float(self.days)


@dataclass(frozen=True, slots=True)
class TextRule(MatchingRule):
    """Texts whose q-grams are alike: Dice's measure of their Bloom filters is at least `similar`."""

    kind: ClassVar[str] = "text"
    similar: Fraction = Fraction(4, 5)
    grams: int = 2
    bits: int = 128
    hashes: int = 2

    def __post_init__(self) -> None:
        told = f"comparison '{self.name}': "
        ok = 0 < self.similar <= 1 and self.similar.denominator <= LARGEST_DENOMINATOR
        _check(ok, f"{told}similar must be above 0 and at most 1, of up to 3 decimals, got {float(self.similar):g}")
        for key, least, most in (("grams", 1, 4), ("bits", 8, MOST_TEXT_BITS), ("hashes", 1, 16)):
            value = getattr(self, key)
            ok = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
            _check(ok, f"{told}{key} must be a whole number from {least} to {most}, got {value!r}")

    @property
    def comparison(self) -> Comparison:
        """Bits, alike enough."""
        return Comparison("text", self.bits, self.weight, dice=self.similar.as_integer_ratio())


RULE_KINDS: dict[str, type[MatchingRule]] = {one.kind: one for one in (ExactRule, NumberRule, DateRule, TextRule)}
_KEYS = {
    "exact": (),
    "number": ("tolerance", "step"),
    "date": ("days", "format"),
    "text": ("similar", "grams", "bits", "hashes"),
}
_FRACTIONS = ("similar", "tolerance", "step")


@dataclass(frozen=True)
class MatchingRules:
    """The comparisons of a pair and the weight at which it matches; `key` is a text for the hashes of features."""

    rules: tuple[MatchingRule, ...]
    threshold: int
    key: str = ""

    def __post_init__(self) -> None:
        names = [rule.name for rule in self.rules]
        _check(1 <= len(names) <= MOST_COMPARISONS, f"rules need from 1 to {MOST_COMPARISONS} [[compare]] tables")
        twice = next((name for name in names if names.count(name) > 1), None)
        _check(twice is None, f"two comparisons are named '{twice}'; give each a name of its own")
        whole = sum(rule.weight for rule in self.rules)
        ok = isinstance(self.threshold, int) and not isinstance(self.threshold, bool) and 1 <= self.threshold <= whole
        _check(
            ok, f"threshold must be a whole number from 1 to {whole}, what all weigh together, got {self.threshold!r}"
        )

    @classmethod
    def load(cls, path: str | Path) -> "MatchingRules":
        """Read a file of rules (TOML)."""
        text = read_text(Path(path))
        try:
            return cls.loads(text)
        except InputError as error:
            msg = f"{path}: {error}"
            raise InputError(msg) from None

    @classmethod
    def loads(cls, text: str) -> "MatchingRules":
        """Read rules from the text of a file."""
        table = toml_table(text, of="rules")
        _check_known(table, _HEADER, owner="a file of rules")
        compare = table.get("compare", [])
        if not isinstance(compare, list) or not all(isinstance(one, dict) for one in compare):
            msg = "comparisons are written as [[compare]] tables"
            raise InputError(msg)
        if "threshold" not in table:
            msg = "rules need a threshold: the weight at which a pair matches, such as threshold = 3"
            raise InputError(msg)
        key = table.get("key", "")
        _check(is_text(key) and len(key) <= LONGEST_KEY, f"key must be a text of up to {LONGEST_KEY:,} characters")
        return cls(tuple(_rule(one, number) for number, one in enumerate(compare, 1)), table["threshold"], key)

    @cached_property
    def program(self) -> Program:
        """What the two parties compute."""
        return Program(tuple(rule.comparison for rule in self.rules), self.threshold)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of what both parties must agree on; the key goes in by its digest."""
        told = [rule.meaning() for rule in self.rules]
        key = hashlib.sha256(self.key.encode()).hexdigest()
        text = json.dumps(["dpcube rules 2", told, self.threshold, key], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def reach_along(self, name: str) -> float:
        """Return how far apart two matching values of an attribute may be, by the comparison of its name, if any."""
        return max((rule.reach for rule in self.rules if rule.name == name), default=0.0)


def _rule(table: Mapping[str, Any], number: int) -> MatchingRule:
    column, kind = table.get("column"), table.get("kind")
    owner = f"comparison {number}" if not is_text(column) else f"comparison {number} ('{column}')"
    if not is_text(column) or not column:
        msg = f"{owner} needs column, the name of the column that is compared, in quotes"
        raise InputError(msg)
    if kind not in RULE_KINDS:
        msg = f"{owner}: kind must be one of {listing(list(RULE_KINDS))}, got {kind!r}{meant(kind, list(RULE_KINDS))}"
        raise InputError(msg)
    _check_known(table, ("column", "name", "kind", "weight", *_KEYS[kind]), owner=f"{owner} of kind {kind}")
    name, weight = table.get("name", column), table.get("weight", 1)
    _check(is_text(name) and bool(name), f"{owner}: name must be a text that is not empty, got {name!r}")
    ok = isinstance(weight, int) and not isinstance(weight, bool) and 1 <= weight <= LARGEST_WEIGHT_WRITTEN
    _check(ok, f"{owner}: weight must be a whole number from 1 to {LARGEST_WEIGHT_WRITTEN}, got {weight!r}")
    given = {key: _value(key, table[key], owner) for key in _KEYS[kind] if key in table}
    return RULE_KINDS[kind](name, column, weight, **given)


def _value(key: str, value: object, owner: str) -> object:
    if key in _FRACTIONS:
        ok = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**53
        _check(ok, f"{owner}: {key} must be a number, got {value!r}")
        return Fraction(str(value))
    if key == "format":
        forms = [value] if isinstance(value, str) else value
        ok = isinstance(forms, list) and all(is_text(form) for form in forms)
        _check(ok, f"{owner}: format must be a text in quotes or a list of texts, got {value!r}")
        return tuple(forms)  # type: ignore[arg-type]
    return value


def _check_known(table: Mapping[str, Any], known: Sequence[str], *, owner: str) -> None:
    for key in table:
        if key not in known:
            msg = f"{owner} has no key '{key}'; its keys are {listing(list(known))}{meant(key, list(known))}"
            raise InputError(msg)


def _check(holds: bool, message: str) -> None:  # noqa: FBT001
    if not holds:
        raise InputError(message)
