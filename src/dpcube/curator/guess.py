"""Inference of a column's kind of attribute and of its text format, from its name or from its private values.

A name is public, and an inference from it is only a suggestion. An inference from values is as private as they are, and
goes into drafts that are marked so (`draft.py`).
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dpcube.core.domain import Attribute, Category, Date, Float, Integer
from dpcube.core.domain.reading import ISO
from dpcube.core.seal import sealed
from dpcube.core.sources import Rows

IDENTIFIERS = "id ids uuid guid key ssn mrn nhs iban email mail phone tel patient person customer user member client"
DATES = (
    "date dates day datum time timestamp at on dob born birth birthday birthdate admitted discharged created updated"
)
TRUTHS = "is has was flag active yes bool"
REALS = "price cost amount income salary weight height dose rate lat latitude lon lng longitude temp temperature ratio"
WHOLES = "age year years month months hour hours count counts number num n size score points visits children rooms km"
KIND_BY_WORD = {
    **dict.fromkeys(IDENTIFIERS.split(), "identifier"),
    **dict.fromkeys(DATES.split(), "date"),
    **dict.fromkeys(TRUTHS.split(), "boolean"),
    **dict.fromkeys(REALS.split(), "float"),
    **dict.fromkeys(WHOLES.split(), "integer"),
}
GUESSED_FORMATS = (
    *("", "iso", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%b-%Y", "%d.%m.%Y %H:%M:%S", "%d/%m/%Y %H:%M"),
    *("%m/%d/%Y %I:%M:%S %p", "%m/%d/%Y %I:%M %p", "%d %B %Y", "%B %d, %Y"),
)
MARKS = ((".", None), (".", ","), (",", None), (",", "."), (".", "'"), (",", " "))
SIGNS = (
    ("$", "prefix"),
    ("%", "suffix"),
    ("\u20ac", "suffix"),
    ("\u20ac", "prefix"),
    ("\u00a3", "prefix"),
)  # euro, pound
FORMAT_KEYS = ("format", "decimal", "thousands", "prefix", "suffix")
TRUTH_WORDS = (("true", "false"), ("yes", "no"), ("y", "n"), ("ja", "nein"), ("t", "f"))
MAX_GUESSED_NUMBER = 2**52
BLANK: dict[str, Any] = {"trim": True, "null_text": ("",)}
ENOUGH_TEXTS = 0.9  # of the texts that are not empty, for a guess
MANY = 20  # rows, from which on a column of values that are all different is taken for a name of rows


@dataclass(frozen=True, slots=True)
class Guess:
    """A kind ("integer", "float", "date", "boolean", "category", "identifier"), and how its text is read.

    `others` are formats that would fit as well, in the words of a domain file.
    """

    kind: str
    options: dict[str, object] = field(default_factory=dict)
    others: tuple[str, ...] = ()


def by_name(column: str) -> Guess:
    """Return the kind that a column's name suggests.

    >>> [by_name(name).kind for name in ("patient_id", "AdmDate", "Age (years)", "isSmoker", "ward")]
    ['identifier', 'date', 'integer', 'boolean', 'category']
    """
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", column)
    found = [KIND_BY_WORD[word] for word in map(str.lower, words) if word in KIND_BY_WORD]
    if "identifier" in found or not found:
        return Guess("identifier" if found else "category")
    return Guess(found[0] if found[0] == "boolean" else found[-1] if "date" in found else found[0])


@sealed
def by_values(rows: Rows, column: str, held: str) -> Guess:
    """Return what a column's values suggest: private. `held` is what its type holds."""
    different, filled = rows.different(column)
    guess = _by_text(rows, column) if held == "text" else by_type(held)
    names_rows = filled >= MANY and different == filled and guess.kind in ("category", "integer")
    return Guess("identifier") if names_rows or by_name(column).kind == "identifier" else guess


def by_type(held: str) -> Guess:
    """Return what a column is whose type holds more than text."""
    return Guess({"real": "float", "date": "date", "boolean": "boolean"}.get(held, "integer"))


def _by_text(rows: Rows, column: str) -> Guess:
    """Return the reading that fits most texts, of the narrowest kind that fits nearly all that are not empty."""
    tried = (_candidates(column), *(_numbers(column, key, sign) for sign, key in SIGNS))
    return next((guess for candidates in tried if (guess := _best(rows, candidates))), Guess("category"))


def _best(rows: Rows, candidates: Sequence[tuple[Guess, Attribute]]) -> Guess | None:
    found = rows.read_as([made for _, made in candidates])
    kept = {i: fates["kept"] for i, fates in enumerate(found)}
    enough = ENOUGH_TEXTS * max(1, sum(found[0].values()) - found[0]["null"])
    guesses = [guess for guess, _ in candidates]
    first = next((i for i, n in kept.items() if n >= enough), None)
    if first is None:
        return None
    best = max((i for i in kept if guesses[i].kind == guesses[first].kind), key=lambda i: kept[i])  # or the first such
    return _told_apart(best, guesses, kept, has_fractions=rows.has_fractions(candidates[best][1]))


def _told_apart(best: int, guesses: Sequence[Guess], kept: dict[int, int], *, has_fractions: bool) -> Guess:
    """Return the best guess, a whole number if no text has decimals, with the readings that fit as well and differ."""
    guess = guesses[best]
    alike = [i for i, other in enumerate(guesses) if other.kind == guess.kind and kept[i] >= kept[best]]
    if guess.kind == "float":
        if not has_fractions and len(alike) == sum(other.kind == guess.kind for other in guesses):
            return replace(guess, kind="integer")
        mark = guess.options.get("decimal", ".")
        others = [i for i in alike if guesses[i].options.get("decimal", ".") != mark]
        if not {"decimal", "thousands"} & {*guess.options}:  # no text has a comma: only a point can mean two things
            others = [i for i in others if guesses[i].options.get("thousands") == "."]
    else:
        plain = guess.kind != "date" or guess.options.get("format", ISO) == ISO
        others = [] if plain else [i for i in alike if i != best]
    texts = (
        ", ".join(f"{k} = {json.dumps(v)}" for k, v in guesses[i].options.items() if k in FORMAT_KEYS) for i in others
    )
    return replace(guess, others=tuple(texts))


def _candidates(column: str) -> Sequence[tuple[Guess, Attribute]]:
    """Return the readings to try, the narrowest first."""
    made: list[tuple[Guess, Attribute]] = []
    for yes, no in TRUTH_WORDS:
        read = {**BLANK, "case": "ignore", **({} if yes == "true" else {"true": (yes,), "false": (no,)})}
        made.append((Guess("boolean", read), Category(column, ["false", "true"], **read)))
    for form in GUESSED_FORMATS:
        made.append((guess := Guess("date", {**BLANK, **({"format": form} if form else {})}), read_by(column, guess)))
    return [*made, *_numbers(column)]


def _numbers(column: str, key: str = "", sign: str = "") -> list[tuple[Guess, Attribute]]:
    """Return the readings of numbers with each choice of marks, and with a sign beside them."""
    made: list[tuple[Guess, Attribute]] = []
    for decimal, thousands in MARKS:
        marks: dict[str, object] = {"decimal": decimal} if decimal != "." else {}
        read = {
            **BLANK,
            **marks,
            **({} if thousands is None else {"thousands": thousands}),
            **({key: sign} if key else {}),
        }
        made.append((guess := Guess("float", read), read_by(column, guess)))
    return made


def read_by(column: str, guess: Guess) -> Attribute:
    """Return an attribute wide enough for every value, that reads text as guessed."""
    options: dict[str, Any] = dict(guess.options)
    if guess.kind == "date":
        # Bins of equal length are found by one division, and those of ten thousand years by as many comparisons.
        return Date(column, "0001-01-01", "9999-12-31", every="week", **options)
    kind = Integer if guess.kind == "integer" else Float
    return kind(column, -MAX_GUESSED_NUMBER, MAX_GUESSED_NUMBER, width=MAX_GUESSED_NUMBER, **options)
