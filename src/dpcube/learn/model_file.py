"""The model file: a trained model as JSON, without pickle.

It has the domain of its release, the target, the numbers of the model with their covariances, where it comes from, and
what the release can tell of its quality. A file that is damaged, hostile or of a future version gets one InputError;
its size, and every number in it, is bounded before anything is made of it.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.domain import Domain
from dpcube.core.domain.attribute import listing
from dpcube.core.errors import InputError
from dpcube.core.files import is_special, new_file
from dpcube.learn.additive import MAX_PARAMETERS, Additive
from dpcube.learn.features import Features
from dpcube.learn.model import ClassModel, Origin
from dpcube.learn.terms import Term

MODEL_FORMAT = 1
KIND = "dpcube classifier"
MAX_MODEL_FILE_BYTES = 2**28
MAX_PARAMETER = 1e6
KEPT_DIGITS = 7
"""Significant digits of numbers in a file: a log-odds has no more to say."""
MODEL_KEYS = ("kind", "format", "private", "origin", "target", "classes", "quality", "domain", "models")


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A model with all that goes with it: its domain and target, where it comes from, what is known of its quality."""

    domain: Domain
    target: str
    model: ClassModel
    origin: Origin
    quality: Mapping[str, float | str | None]

    @property
    def features(self) -> Features:
        """How rows are read."""
        return Features.from_domain(self.domain, self.target)

    def save(self, path: str | Path) -> None:
        """Write a new file; one that is there already is never replaced."""
        text = self.dumps()
        try:
            with new_file(Path(path)) as part:
                part.write_text(text, encoding="utf-8")
        except FileExistsError:
            msg = f"{path} exists, and a model never overwrites a file; choose another name"
            raise InputError(msg) from None
        except (OSError, ValueError) as error:
            msg = f"cannot write {path}: {getattr(error, 'strerror', None) or 'no file can have this name'}"
            raise InputError(msg) from None

    def dumps(self) -> str:
        """Return the text of a file."""
        origin = self.origin
        return json.dumps(
            {
                "kind": KIND,
                "format": MODEL_FORMAT,
                "private": origin.private,
                "origin": {"release": origin.release, "epsilon": origin.epsilon, "protects": origin.protects},
                "target": self.target,
                "classes": self.features.classes.tolist(),
                "quality": {key: _plain(value) for key, value in self.quality.items()},
                "domain": self.domain.dumps(),
                "models": [_written(one) for one in self.model.models],
            },
            ensure_ascii=False,
            allow_nan=False,
            indent=1,
        )

    @classmethod
    def open(cls, path: str | Path) -> "TrainedModel":
        """Read a file."""
        path = Path(path)
        try:
            if is_special(path) or path.stat().st_size > MAX_MODEL_FILE_BYTES:
                msg = f"{path} is no model file: it is larger than one can be, or no plain file"
                raise InputError(msg)
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            msg = f"cannot read {path}: {getattr(error, 'strerror', None) or 'it is not text in UTF-8'}"
            raise InputError(msg) from None
        try:
            return cls.loads(text)
        except InputError as error:
            msg = f"{path} is no whole model file: {error}"
            raise InputError(msg) from None

    @classmethod
    def loads(cls, text: str) -> "TrainedModel":
        """Read the text of a file; InputError says what is wrong with it."""
        try:
            held = json.loads(text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            msg = "it is not JSON"
            raise InputError(msg) from None
        if not isinstance(held, dict) or held.get("kind") != KIND:
            msg = f'it has no "kind": "{KIND}"'
            raise InputError(msg)
        if held.get("format") != MODEL_FORMAT or type(held["format"]) is not int:
            msg = f"its format is not {MODEL_FORMAT}; a newer dpcube may read it"
            raise InputError(msg)
        if set(held) != set(MODEL_KEYS):
            msg = f"its keys must be {listing(MODEL_KEYS)}"
            raise InputError(msg)
        domain = Domain.loads(_is(held, "domain", str))
        features = Features.from_domain(domain, _is(held, "target", str))
        if held["classes"] != features.classes.tolist():
            msg = "its classes are not the values of its target"
            raise InputError(msg)
        quality = _is(held, "quality", dict)
        if not all(isinstance(value, float | int | str | None) for value in quality.values()):
            msg = "its quality must be numbers and texts"
            raise InputError(msg)
        return cls(domain, held["target"], _models(held, features), _origin(held), quality)


def _origin(held: Mapping[str, Any]) -> Origin:
    origin, private = _is(held, "origin", dict), _is(held, "private", bool)
    texts = [origin.get(key) for key in ("release", "epsilon", "protects")]
    if len(origin) != 3 or not all(isinstance(text, str | None) for text in texts):
        msg = "its origin must have a release, an epsilon and what it protects, in quotes or null"
        raise InputError(msg)
    if private and texts[0] is None:
        msg = "it calls itself private and names no release; only a release is private"
        raise InputError(msg)
    return Origin(private, *texts)


def _models(held: Mapping[str, Any], features: Features) -> ClassModel:
    classes, models = len(features.classes), _is(held, "models", list)
    if len(models) != (1 if classes == 2 else classes):
        msg = f"{classes} classes need {1 if classes == 2 else classes} models"
        raise InputError(msg)
    return ClassModel(classes, tuple(_read(one, features) for one in models))


def _written(model: Additive) -> dict[str, object]:
    """Return a model as plain values; of the covariance, which is symmetric, each row up to the diagonal."""
    terms = [{"features": list(term.axes), "groups": [of.tolist() for of in term.groups]} for term in model.terms]
    rows = [[_short(value) for value in row[: number + 1]] for number, row in enumerate(model.covariance.tolist())]
    return {"terms": terms, "numbers": list(map(_short, model.numbers.tolist())), "covariance": rows}


def _read(one: object, features: Features) -> Additive:
    if not isinstance(one, dict) or set(one) != {"terms", "numbers", "covariance"}:
        msg = "a model must have terms, numbers and a covariance"
        raise InputError(msg)
    terms = tuple(_term(term, features.shape) for term in _is(one, "terms", list))
    size = 1 + sum(term.size for term in terms)
    rows = _is(one, "covariance", list)
    if size > _most(features) or len(rows) != size:
        msg = "a model's terms, numbers and covariance do not fit one another"
        raise InputError(msg)
    numbers, covariance = _numbers(one["numbers"], size), np.zeros((size, size))
    for number, row in enumerate(rows):
        covariance[number, : number + 1] = _numbers(row, number + 1)
    return Additive(terms, numbers, covariance + np.tril(covariance, -1).T)


def _most(features: Features) -> int:
    """Return how many numbers a model can have: those of single terms are never left out for want of room."""
    return MAX_PARAMETERS + 1 + sum(features.shape)


def _term(term: object, shape: tuple[int, ...]) -> Term:
    axes = term.get("features") if isinstance(term, dict) else None
    if not isinstance(term, dict) or set(term) != {"features", "groups"} or not isinstance(axes, list):
        msg = "a term must have features and groups"
        raise InputError(msg)
    plain = all(type(axis) is int and 0 <= axis < len(shape) for axis in axes)
    groups = _is(term, "groups", list)
    if not plain or not 1 <= len(axes) <= 2 or axes != sorted(set(axes)) or len(groups) != len(axes):
        msg = f"a term must be of one or two of the features 0 to {len(shape) - 1}, ascending, with groups for each"
        raise InputError(msg)
    return Term(tuple(axes), tuple(_groups(of, shape[axis]) for of, axis in zip(groups, axes, strict=True)))


def _groups(of: object, cells: int) -> Ints:
    """Return the group of each cell: numbers from 0 without a gap; groups of a wide table are no runs of cells."""
    found = of if isinstance(of, list) and len(of) == cells and all(type(group) is int for group in of) else []
    if not found or set(found) != set(range(len(set(found)))):
        msg = f"the groups of a feature of {cells} cells must be {cells} whole numbers, from 0 without a gap"
        raise InputError(msg)
    return np.array(found, np.int64)


def _numbers(given: object, size: int) -> Floats:
    if not isinstance(given, list) or len(given) != size or not all(type(x) in (int, float) for x in given):
        msg = f"{size} numbers must stand in a list"
        raise InputError(msg)
    if not all(abs(x) <= MAX_PARAMETER for x in given):
        msg = f"a number is beyond {MAX_PARAMETER:.0f}, which no model has"
        raise InputError(msg)
    return np.array(given, np.float64)


def _is(held: Mapping[str, Any], key: str, kind: type) -> Any:
    if type(held.get(key)) is not kind:
        msg = f"its {key} must be a {kind.__name__}"
        raise InputError(msg)
    return held[key]


def _refuse_constant(text: str) -> None:
    msg = f"{text} is no number"
    raise ValueError(msg)


def _short(value: float) -> float:
    return float(f"{value:.{KEPT_DIGITS}g}")


def _plain(value: float | str | None) -> float | str | None:
    """Return a number in few digits, and null for one that is not known: JSON has no NaN."""
    if isinstance(value, float):
        return _short(value) if math.isfinite(value) else None
    return value
