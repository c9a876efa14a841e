"""Matching program of record linkage: weighted comparisons with a threshold, and their reference semantics.

A record is a row of integers, its features. The first is 1 for a record and 0 for a dummy; comparisons consume the
others from left to right. A pair matches iff both are records and the weights of the comparisons that hold add up to at
least the threshold. The program is public and equal on both sides; the parties compare its `digest`.

**Nothing overflows.** The secure step compares in the integers modulo 2^32, read as -2^31 .. 2^31 - 1, so every number
that it compares must be in between:

* exact: equality of both halves, modulo 2^32 each, is equality of any two int64;
* number: tolerance + a - b, and tolerance - a + b, with |a|, |b| at most 2^28 and tolerance at most 2^27, is within
  5 2^27. A dummy must match nothing: its side treats its features as zeros and lowers both by 5 2^27 + 1 (`NEVER`).
  With one such side both are negative, with two at least -(15 2^27 + 2);
* text: `secure/terms.py` derives the number of bits;
* the score, at most 2^5 weights of at most 2^20, lowered by 2^26 for each dummy, less the threshold, is within 2^28.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal, get_args

import numpy as np

from dpcube.core.arrays import Bools, Ints
from dpcube.core.errors import InputError
from dpcube.link.limits import (
    MAX_COMPARED,
    MAX_COMPARISONS,
    MAX_DENOMINATOR,
    MAX_EXACT_COLUMNS,
    MAX_TEXT_BITS,
    MAX_TOLERANCE,
    MAX_WEIGHT,
)

Kind = Literal["exact", "number", "text"]
NEVER = 5 * 2**27 + 1
CANONICAL_FORM = "dpcube link program 1"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of one attribute: the feature columns it consumes, the condition, and its weight.

    `exact` holds iff all columns are equal; `number`, of one column, iff |a - b| <= tolerance; `text`, of 0/1 bits, iff
    both have a bit and 2 * den * (bits in common) >= num * (bits of both), where (num, den) is `dice`.

    >>> Comparison("text", columns=256, weight=2, dice=(4, 5)).weight
    2
    """

    kind: Kind
    columns: int
    weight: int
    tolerance: int = 0
    dice: tuple[int, int] = (0, 1)

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            msg = f"the kind of a comparison must be exact, number or text, got {self.kind!r}"
            raise InputError(msg)
        most = {"exact": MAX_EXACT_COLUMNS, "number": 1, "text": MAX_TEXT_BITS}[self.kind]
        _check_whole("the columns of a comparison", self.columns, 1, most)
        _check_whole("the weight of a comparison", self.weight, 1, MAX_WEIGHT)
        _check_whole("a tolerance", self.tolerance, 0, MAX_TOLERANCE if self.kind == "number" else 0)
        if self.kind == "text":
            _check_whole("the denominator of a Dice threshold", self.dice[1], 1, MAX_DENOMINATOR)
            _check_whole("the numerator of a Dice threshold", self.dice[0], 1, self.dice[1])
        elif self.dice != (0, 1):
            msg = f"a comparison of kind {self.kind} takes no Dice threshold, got {self.dice!r}"
            raise InputError(msg)


@dataclass(frozen=True, slots=True)
class Program:
    """Comparisons of a pair and the threshold weight of a match.

    >>> program = Program((Comparison("exact", 1, 1), Comparison("number", 1, 1, tolerance=2)), threshold=2)
    >>> matches(program, np.array([[1, 7, 30]]), np.array([[1, 7, 32], [1, 7, 33], [0, 7, 30]])).tolist()
    [[True, False, False]]
    """

    comparisons: tuple[Comparison, ...]
    threshold: int

    def __post_init__(self) -> None:
        _check_whole("the number of comparisons", len(self.comparisons), 1, MAX_COMPARISONS)
        _check_whole("the threshold of a program", self.threshold, 1, self.total_weight)

    @property
    def total_weight(self) -> int:
        """Weight of a pair for which every comparison holds."""
        return sum(one.weight for one in self.comparisons)

    @property
    def width(self) -> int:
        """Number of columns of a feature matrix, including the first."""
        return 1 + sum(one.columns for one in self.comparisons)

    @property
    def needs_all(self) -> bool:
        """Whether a pair matches only if every comparison holds."""
        return all(self.total_weight - one.weight < self.threshold for one in self.comparisons)

    @property
    def is_equality(self) -> bool:
        """Whether a pair matches iff all columns are equal, so that private set intersection suffices."""
        return self.needs_all and all(one.kind == "exact" for one in self.comparisons)

    def parts(self) -> Iterator[tuple[Comparison, slice]]:
        """Yield each comparison with the columns it consumes."""
        start = 1
        for one in self.comparisons:
            yield one, slice(start, start + one.columns)
            start += one.columns

    def canonical(self) -> bytes:
        """Return the program as bytes that are equal for equal programs."""
        fields = [CANONICAL_FORM, [asdict(one) for one in self.comparisons], self.threshold]
        return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()

    def digest(self) -> bytes:
        """Return the SHA-256 of the program."""
        return hashlib.sha256(self.canonical()).digest()


def check_features(program: Program, features: Ints) -> None:
    """Refuse a feature matrix outside the program's bounds.

    The code that makes features from rows keeps them inside the bounds, so that no row decides whether a run fails.
    """
    if features.dtype != np.int64 or features.ndim != 2 or features.shape[1] != program.width:
        msg = f"features must be an int64 matrix with the {program.width} columns of the program"
        raise InputError(msg)
    bits = [slice(0, 1)] + [columns for one, columns in program.parts() if one.kind == "text"]
    if any(((features[:, columns] & ~1) != 0).any() for columns in bits):
        msg = "the first feature and those of texts must be 0 or 1"
        raise InputError(msg)
    numbers = [features[:, columns] for one, columns in program.parts() if one.kind == "number"]
    if any(((column < -MAX_COMPARED) | (column > MAX_COMPARED)).any() for column in numbers):
        msg = f"features of numbers must be from -{MAX_COMPARED} to {MAX_COMPARED}; scale or clip them"
        raise InputError(msg)


def matches(program: Program, left: Ints, right: Ints) -> Bools:
    """Return a mask of the pairs that match: the reference that the secure step must equal bit for bit."""
    check_features(program, left)
    check_features(program, right)
    score = np.zeros((len(left), len(right)), np.int64)
    for one, columns in program.parts():
        score += one.weight * _holds(one, left[:, columns], right[:, columns])
    both_real = (left[:, 0, None] == 1) & (right[None, :, 0] == 1)
    found: Bools = both_real & (score >= program.threshold)
    return found


def _holds(one: Comparison, left: Ints, right: Ints) -> Bools:
    holds: Bools
    if one.kind == "text":
        sizes_left, sizes_right = left.sum(axis=1)[:, None], right.sum(axis=1)[None, :]
        numerator, denominator = one.dice
        enough = 2 * denominator * (left @ right.T) >= numerator * (sizes_left + sizes_right)
        holds = enough & (sizes_left > 0) & (sizes_right > 0)
    elif one.kind == "number":
        holds = np.abs(left - right.T) <= one.tolerance
    else:
        holds = np.ones((len(left), len(right)), bool)
        for column in range(one.columns):
            holds &= left[:, column, None] == right[None, :, column]
    return holds


def _check_whole(name: str, value: int, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        msg = f"{name} must be a whole number from {least} to {most}, got {value!r}"
        raise InputError(msg)
