"""Matching rules of record linkage: a TOML file that defines the program and each party's features.

    threshold = 4                # a pair matches if its comparisons that hold weigh at least this

    [[compare]]
    column = "surname"
    kind = "text"                # Dice similarity of q-grams, on Bloom filters
    similar = 0.75
    weight = 2

    [[compare]]
    column = "born"
    kind = "date"
    days = 31                    # at most so far apart

    [[compare]]
    column = "postcode"
    kind = "exact"

Texts are compared without case, accents, blanks and punctuation. Values that are missing or cannot be read match
nothing. Both parties need rules of the same meaning; their columns may have different names (`name` is then common).
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
from dpcube.core.domain.text import is_text, spelling_hint
from dpcube.core.errors import InputError
from dpcube.link.limits import (
    MAX_COMPARISONS,
    MAX_DENOMINATOR,
    MAX_FEATURE_NUMBER,
    MAX_RULE_WEIGHT,
    MAX_RULES_KEY,
    MAX_TEXT_BITS,
)
from dpcube.link.program import Comparison, Program

_HEADER = ("threshold", "key", "compare")


@dataclass(frozen=True, slots=True)
class MatchingRule:
    """Base class of rules: a name that both parties use, this party's column, and a weight."""

    kind: ClassVar[str]
    name: str
    column: str
    weight: int = 1

    @property
    def comparison(self) -> Comparison:
        """Comparison of the program."""
        return Comparison("exact", 1, self.weight)

    @property
    def attribute(self) -> Attribute | None:
        """Attribute that reads the column, None if it is read as text."""
        return None

    @property
    def reach(self) -> float:
        """Largest distance of two matching values, on the coordinate of an attribute."""
        return 0.0

    def meaning(self) -> dict[str, object]:
        """Return what both parties must agree on: all but this party's column and its text format."""
        agreed = {key: value for key, value in asdict(self).items() if key not in ("column", "format")}
        return {"kind": self.kind, **{key: value if key == "name" else str(value) for key, value in agreed.items()}}


@dataclass(frozen=True, slots=True)
class ExactRule(MatchingRule):
    """Texts that are equal without case, accents, blanks and punctuation."""

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
            steps.denominator == 1 and 0 <= steps <= MAX_FEATURE_NUMBER,
            f"comparison '{self.name}': tolerance must be a multiple of step {float(self.step):g}, up to 10^8 steps, "
            f"got {float(self.tolerance):g}; choose a smaller step",
        )

    @property
    def comparison(self) -> Comparison:
        """Comparison of whole steps with the tolerance."""
        return Comparison("number", 1, self.weight, tolerance=int(self.tolerance / self.step))

    @property
    def attribute(self) -> Attribute:
        """Real numbers of up to `MAX_FEATURE_NUMBER` steps; larger ones are missing."""
        most = float(MAX_FEATURE_NUMBER * self.step)
        return Float(self.name, -most, most, width=2 * most, column=self.column)

    @property
    def reach(self) -> float:
        """Tolerance plus the rounding to steps on both sides."""
        return float(self.tolerance + self.step)


@dataclass(frozen=True, slots=True)
class DateRule(MatchingRule):
    """Dates that are at most `days` apart; `format` lists the formats of text, as in a domain file."""

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
            _check(fault is None, f"comparison '{self.name}': format {form!r} cannot be read: {fault}")

    @property
    def comparison(self) -> Comparison:
        """Comparison of days with the tolerance."""
        return Comparison("number", 1, self.weight, tolerance=self.days)

    @property
    def attribute(self) -> Attribute:
        """Days of five centuries; others are missing."""
        return Date(
            self.name, date(1700, 1, 1), date(2199, 12, 31), every="year", column=self.column, format=self.format
        )

    @property
    def reach(self) -> float:
        """The number of days."""
        return float(self.days)


@dataclass(frozen=True, slots=True)
class TextRule(MatchingRule):
    """Similar texts: the Dice coefficient of the Bloom filters of their q-grams is at least `similar`."""

    kind: ClassVar[str] = "text"
    similar: Fraction = Fraction(4, 5)
    grams: int = 2
    bits: int = 128
    hashes: int = 2

    def __post_init__(self) -> None:
        owner = f"comparison '{self.name}': "
        ok = 0 < self.similar <= 1 and self.similar.denominator <= MAX_DENOMINATOR
        _check(ok, f"{owner}similar must be above 0 and at most 1, of up to 3 decimals, got {float(self.similar):g}")
        for key, least, most in (("grams", 1, 4), ("bits", 8, MAX_TEXT_BITS), ("hashes", 1, 16)):
            value = getattr(self, key)
            ok = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
            _check(ok, f"{owner}{key} must be a whole number from {least} to {most}, got {value!r}")

    @property
    def comparison(self) -> Comparison:
        """Comparison of bits by Dice coefficient."""
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
    """Rules of all comparisons and the threshold weight of a match; `key` is the text key of feature hashes."""

    rules: tuple[MatchingRule, ...]
    threshold: int
    key: str = ""

    def __post_init__(self) -> None:
        names = [rule.name for rule in self.rules]
        _check(
            1 <= len(names) <= MAX_COMPARISONS,
            f"rules need 1 to {MAX_COMPARISONS} [[compare]] tables, got {len(names)}",
        )
        twice = next((name for name in names if names.count(name) > 1), None)
        _check(twice is None, f"two comparisons are named '{twice}'; give each a unique name")
        whole = sum(rule.weight for rule in self.rules)
        ok = isinstance(self.threshold, int) and not isinstance(self.threshold, bool) and 1 <= self.threshold <= whole
        _check(
            ok, f"threshold must be a whole number from 1 to {whole}, the sum of the weights, got {self.threshold!r}"
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
            msg = "comparisons must be declared as [[compare]] tables"
            raise InputError(msg)
        if "threshold" not in table:
            msg = "rules need a threshold: the weight at which a pair matches, such as threshold = 3"
            raise InputError(msg)
        key = table.get("key", "")
        _check(is_text(key) and len(key) <= MAX_RULES_KEY, f"key must be a text of up to {MAX_RULES_KEY:,} characters")
        return cls(tuple(_rule(one, number) for number, one in enumerate(compare, 1)), table["threshold"], key)

    @cached_property
    def program(self) -> Program:
        """Program that the two parties run."""
        return Program(tuple(rule.comparison for rule in self.rules), self.threshold)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of what both parties must agree on; the key enters as its digest."""
        meanings = [rule.meaning() for rule in self.rules]
        key = hashlib.sha256(self.key.encode()).hexdigest()
        text = json.dumps(["dpcube rules 2", meanings, self.threshold, key], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def reach_along(self, name: str) -> float:
        """Return the largest distance of matching values of an attribute, by the comparisons of its name, if any."""
        return max((rule.reach for rule in self.rules if rule.name == name), default=0.0)


def _rule(table: Mapping[str, Any], number: int) -> MatchingRule:
    column, kind = table.get("column"), table.get("kind")
    owner = f"comparison {number}" if not is_text(column) else f"comparison {number} ('{column}')"
    if not is_text(column) or not column:
        msg = f"{owner} needs column, the name of the compared column in quotes"
        raise InputError(msg)
    if kind not in RULE_KINDS:
        msg = f"{owner}: kind must be one of {listing(list(RULE_KINDS))}, got {kind!r}"
        msg += spelling_hint(kind, list(RULE_KINDS))
        raise InputError(msg)
    _check_known(table, ("column", "name", "kind", "weight", *_KEYS[kind]), owner=f"{owner} of kind {kind}")
    name, weight = table.get("name", column), table.get("weight", 1)
    _check(is_text(name) and bool(name), f"{owner}: name must be a text that is not empty, got {name!r}")
    ok = isinstance(weight, int) and not isinstance(weight, bool) and 1 <= weight <= MAX_RULE_WEIGHT
    _check(ok, f"{owner}: weight must be a whole number from 1 to {MAX_RULE_WEIGHT}, got {weight!r}")
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
            msg = f"{owner} has no key '{key}'; its keys are {listing(list(known))}{spelling_hint(key, list(known))}"
            raise InputError(msg)


def _check(holds: bool, message: str) -> None:  # noqa: FBT001
    if not holds:
        raise InputError(message)
