"""How good links are, and what blocks save: two public tables whose true links are known.

    python -m benchmarks.link_quality adult [--epsilon 0.5] [--rows 500] [--without-blocks] [--in-secret]
    python -m benchmarks.link_quality FOLDER ...

Tables are those of `link_tables.py`; FOLDER holds FEBRL 4. The first table is released with epsilon, blocks are made
from the release, both sides are padded with epsilon and delta 1e-6, and the rules are run on candidate blocks in the
clear; with --without-blocks once more on all pairs. With --in-secret two `dpcube link` processes do it on the same
sessions, over loopback; it is said whether both wrote the links of the clear, and what it took. Needs the engine then.
"""

import argparse
import csv
import json
import os
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

from benchmarks.link_tables import KnownLinks, Links, known_links, together
from dpcube.core.arrays import Ints
from dpcube.curator import publish
from dpcube.link.blocking import BlockFile
from dpcube.link.linking import compared_pairs, link_quality, reduction_ratio
from dpcube.link.program import Program
from dpcube.link.program import matches as pair_matches
from dpcube.link.secure import write_shared_key
from dpcube.link.session import LinkSession, prepare_session

ROWS_AT_ONCE = 500


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
    """Return what blocks save and what links are worth."""
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
        "with_blocks": told(found, true),
    }


def true_sizes(side: Sequence[Sequence[str | None]]) -> Ints:
    return np.array([sum(one is not None for one in block) for block in side])


def told(found: Links, true: Links) -> dict[str, float]:
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
        **told(set(ours), prepared.known.true_links()),
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
            every = told(prepared.links_without_blocks(), known.true_links())
            print(json.dumps({"without_blocks": every}, indent=1), flush=True)
        if given.in_secret:
            print(json.dumps({"in_secret": linked_in_secret(prepared, clear)}, indent=1))


if __name__ == "__main__":
    main()
