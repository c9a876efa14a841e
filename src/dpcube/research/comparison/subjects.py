"""Tables and questions of `dpcube compare`: a public table or array, the bundled table, or simulated shapes.

A subject is a table as it is, or a number of rows drawn from its shares, anew for every draw of noise. Questions are
ranges of each kind, from a seed; a cell of a marginal is a range one cell wide on some axes and whole on the others.
"""

import hashlib
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.domain import Domain
from dpcube.core.domain.text import is_text
from dpcube.core.errors import InputError
from dpcube.core.request import LedgerLocation, ledger_path
from dpcube.core.sources.open import counts_from_array
from dpcube.curator.publishing import count
from dpcube.queries import Workload
from dpcube.research.accuracy.cases import asked_ranges
from dpcube.research.processes import seed_of
from dpcube.research.tables import demo_table, shape_shares

QUESTION_KINDS = ("ranges", "prefixes", "1-way", "2-way", "3-way", "cells")


def compared_questions(domain: Domain, number: int, *, seed: int) -> dict[str, Workload]:
    """Return about `number` questions of each kind that the domain has; the marginal over all axes is its cells.

    Where there are more prefixes or cells than that, some are drawn; so of each marginal, an equal number if it has it.
    """
    shape, random = domain.shape, np.random.default_rng(seed)
    asked = {"ranges": asked_ranges(domain, number, seed=seed)}
    ends = _some_cells(shape, tuple(range(len(shape))), number, random)
    asked["prefixes"] = Workload(shape, np.zeros_like(ends), ends + 1)
    for ways in range(1, min(len(shape), 4)):
        chosen = list(combinations(range(len(shape)), ways))
        each = math.ceil(number / len(chosen))
        tables = [_of_marginal(shape, axes, _some_cells(shape, axes, each, random)) for axes in chosen]
        lower, upper = (np.concatenate(ends) for ends in zip(*tables, strict=True))
        asked[f"{ways}-way"] = Workload(shape, lower, upper)
    cells = _some_cells(shape, tuple(range(len(shape))), number, random)
    asked["cells"] = Workload(shape, cells, cells + 1)
    return {kind: asked[kind] for kind in QUESTION_KINDS if kind in asked}


def _some_cells(shape: tuple[int, ...], axes: tuple[int, ...], number: int, random: np.random.Generator) -> Ints:
    """Return the indices of all cells of a marginal, or of a random sample of them without replacement."""
    sides = tuple(shape[axis] for axis in axes)
    size = math.prod(sides)
    flat = np.arange(size) if size <= number else np.sort(random.choice(size, number, replace=False))
    return np.stack(np.unravel_index(flat, sides), axis=1).astype(np.int64)


def _of_marginal(shape: tuple[int, ...], axes: tuple[int, ...], cells: Ints) -> tuple[Ints, Ints]:
    lower = np.zeros((len(cells), len(shape)), np.int64)
    upper = np.tile(np.array(shape, np.int64), (len(cells), 1))
    lower[:, axes], upper[:, axes] = cells, cells + 1
    return lower, upper


NOT_PRIVATE_WORDS = "NOT PRIVATE: made from the exact counts of public data; nothing was released and nothing charged"
MAX_DRAWN = 10**12


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A table by its name, domain and weights: exact counts, or shares if `rows` are drawn from them."""

    name: str
    domain: Domain
    weights: Ints | Floats
    rows: int | None = None

    def sample(self, draw: int, *, seed: int) -> Ints:
        """Return exact counts: the table as it is, or its rows drawn; every method gets the same of a draw."""
        if self.rows is None:
            return np.asarray(self.weights, np.int64)
        shares = np.asarray(self.weights, np.float64).reshape(-1)
        random = np.random.default_rng(seed_of("sample", self.name, self.rows, draw, seed))
        drawn = random.multinomial(self.rows, shares / shares.sum())
        return drawn.reshape(self.domain.shape).astype(np.int64)

    @property
    def digest(self) -> str:
        """Digest of the weights and the domain, by which kept runs of other tables are recognised."""
        content = np.ascontiguousarray(self.weights).tobytes() + repr(self.domain).encode()
        return hashlib.sha256(content).hexdigest()[:16]


def public_subject(source: Path, domain: Path | None, *, public: str | None) -> Subject:
    """Return a table with its domain file, or an array of counts, that a named person declares public."""
    if public is None or not (is_text(public) and public.strip()):
        msg = (
            f"compare shows errors that are not private, so {source} must be public itself, and somebody must say so: "
            "--public 'YOUR NAME'"
        )
        raise InputError(msg)
    refuse_ledger(source)
    if source.suffix.lower() == ".npy":
        counts = _array(source)
        shaped = Domain.of_shape(counts.shape) if domain is None else Domain.load(domain)
        return Subject(source.name, shaped, counts_from_array(counts, shaped))
    if domain is None:
        msg = f"the table {source} needs a domain file (--domain D.toml); only an array (.npy) has its cells already"
        raise InputError(msg)
    declared = Domain.load(domain)
    return Subject(source.name, declared, count(source, declared))


def refuse_ledger(source: Path) -> None:
    """Refuse a table with a ledger beside it, or where that cannot be determined: its rows were private."""
    try:
        place = ledger_path(LedgerLocation.BESIDE_TABLE, source)
    except InputError as error:
        msg = f"compare is for public tables without a ledger, which cannot be verified here: {error}"
        raise InputError(msg) from None
    if place is not None and os.path.lexists(place):
        msg = (
            f"{source} has the ledger {place}, so its rows are private and compare would give them away; "
            "compare on another table, or on --shapes"
        )
        raise InputError(msg)


def _array(source: Path) -> Ints:
    try:
        counts = np.load(source, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        msg = f"cannot read {source}; it must be a .npy file of one NumPy array of counts"
        raise InputError(msg) from None
    if not isinstance(counts, np.ndarray) or counts.ndim == 0 or counts.size == 0 or counts.dtype.kind not in "iu":
        msg = f"{source} must hold an array of whole numbers with at least one cell"
        raise InputError(msg)
    return counts


def bundled_subject() -> Subject:
    """Return the bundled table, which is public."""
    table = demo_table()
    return Subject(table.name, table.domain, table.exact_counts)


def made_up_subjects(laws: Iterable[str], sides: Iterable[tuple[int, ...]], *, seed: int) -> list[Subject]:
    """Return shapes of every law with all these sides; how many rows they have is said by `at_scales`."""
    found = []
    for one in dict.fromkeys(sides):
        for law in dict.fromkeys(laws):
            shares = shape_shares(law, one, seed=seed)
            found.append(Subject(f"{law} {'x'.join(map(str, one))}", Domain.of_shape(one), shares))
    return found


def at_scales(subjects: Iterable[Subject], scales: Sequence[int]) -> list[Subject]:
    """Return subjects with each of some numbers of rows drawn from them; unchanged if no number is given."""
    if any(not 1 <= rows <= MAX_DRAWN for rows in scales):
        msg = f"a number of rows to draw is from 1 to {MAX_DRAWN:,}, got {', '.join(map(str, scales))}"
        raise InputError(msg)
    found = []
    for subject in subjects:
        if scales and not np.asarray(subject.weights).sum() > 0:
            msg = f"{subject.name} has no rows, so no others can be drawn like them; leave --rows out"
            raise InputError(msg)
        found += [replace(subject, rows=rows) for rows in dict.fromkeys(scales)] or [subject]
    return found
