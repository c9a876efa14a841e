"""Hierarchies of an attribute: coarser levels of its values, such as country < region < continent.

They are declared with the domain, and so public. The functions check a declaration and map each bin to its group.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Ints
from dpcube.core.domain.text import is_text
from dpcube.core.errors import DomainError

Groups = tuple[tuple[str, tuple[str, ...]], ...]  # names of groups, and of their members one level below

TOTAL = "all"  # the level with a single group


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """One level of a hierarchy: the labels of its groups in order, and the group number of each cell."""

    name: str
    labels: tuple[str, ...]
    group: Ints

    def with_own_cells(self, labels: Sequence[str]) -> "Level":
        """Return this level with further cells, each in a group of its own."""
        own = np.arange(len(self.labels), len(self.labels) + len(labels))
        return Level(self.name, (*self.labels, *labels), np.concatenate([self.group, own]))


def named_levels(owner: str, declared: object, *, form: str) -> tuple[tuple[str, object], ...]:
    """Return declared levels as pairs of a name and its groups or edges, the finest first; DomainError if invalid."""
    pairs = tuple(declared.items()) if isinstance(declared, Mapping) else declared
    if not isinstance(pairs, tuple) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        msg = f"attribute '{owner}': hierarchy must be {form}, got {declared!r}"
        raise DomainError(msg)
    names = [name for name, _ in pairs]
    for name in names:
        if not is_text(name) or not name.strip() or name in (owner, TOTAL) or names.count(name) > 1:
            msg = f"attribute '{owner}': each level of the hierarchy needs a unique name, not blank, not '{TOTAL}' and "
            msg += f"not that of the attribute, got {name!r}"
            raise DomainError(msg)
    return pairs


def checked_groups(owner: str, level: str, groups: object, members: Sequence[str], reserved: Sequence[str]) -> Groups:
    """Return the groups of one level, which must contain each member of the level below exactly once."""
    pairs = tuple(groups.items()) if isinstance(groups, Mapping) else groups
    where = f"attribute '{owner}': level '{level}' of the hierarchy"
    if not isinstance(pairs, tuple) or not all(isinstance(p, tuple) and len(p) == 2 for p in pairs):
        msg = f'{where} must map names of groups to lists of members, such as Europe = ["France", "Italy"]'
        raise DomainError(msg)
    named = Counter(group for group, _ in pairs if isinstance(group, str))
    for group, given in pairs:
        texts = isinstance(given, list | tuple) and len(given) > 0 and all(isinstance(member, str) for member in given)
        if not is_text(group) or group in reserved or not texts or named[group] > 1:
            msg = f"{where}: group {group!r} must have a unique name and a list of at least one member, got {given!r}"
            raise DomainError(msg)
    listed = Counter(member for _, given in pairs for member in given)
    wanted = set(members)
    for member in [*members, *listed]:
        if listed[member] != 1 or member not in wanted:
            fault = f"is in {listed[member]} groups" if member in wanted else "is not a member of the level below"
            msg = f"{where}: '{member}' {fault}; list each member of the level below in one group"
            raise DomainError(msg)
    return tuple((group, tuple(given)) for group, given in pairs)


def checked_edges(owner: str, level: str, edges: object, finer: NDArray[np.float64]) -> tuple[float, ...]:
    """Return the edges of one level, which must be some of the edges of the level below, both ends among them."""
    first, last = float(finer[0]), float(finer[-1])
    if isinstance(edges, list | tuple) and all(type(e) in (int, float) and first <= e <= last for e in edges):
        given = np.asarray(edges, np.float64)
        # Edges such as 0.1 + 2 * 0.1 are written in decimals: the nearest edge is meant.
        nearest = np.searchsorted((finer[:-1] + finer[1:]) / 2, given)
        near = np.abs(finer[nearest] - given) <= 1e-6 * np.diff(finer).min()
        ends = nearest[[0, -1]].tolist() if len(edges) else []
        if near.all() and (np.diff(nearest) > 0).all() and ends == [0, len(finer) - 1]:
            return tuple(edges)
    msg = f"attribute '{owner}': level '{level}' of the hierarchy must be increasing edges of the level below, from "
    msg += f"{first:.15g} to {last:.15g}, got {edges!r}"
    raise DomainError(msg)


def group_of_bins(edges: NDArray[np.float64], coarse: Sequence[float]) -> Ints:
    """Return for each bin between consecutive edges the coarse bin that contains its midpoint."""
    middles = (edges[:-1] + edges[1:]) / 2
    return np.asarray(np.searchsorted(np.asarray(coarse, np.float64), middles, side="right") - 1, np.int64)
