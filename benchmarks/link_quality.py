"""How good links are, and what blocks save: two public tables whose true links are known, all of it in the clear.

    python benchmarks/link_quality.py adult [--epsilon 0.5]
    python benchmarks/link_quality.py LEFT.csv RIGHT.csv --domain D.toml --rules R.toml --id COLUMN [--epsilon 0.5]

`adult` are two tables of 6,000 rows of the bundled one, half of them in both, the second's with typos. Of two files a
true link is a pair whose ids have the same first number (rec-17-org, rec-17-dup-0). The first table is released with
epsilon, blocks are made from the release, both sides are padded with epsilon and delta 1e-6, and the rules are run on
candidate blocks as the secure step would run them; with --without-blocks once more on all pairs.
"""

import argparse
import json
import re
import tempfile
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from dpcube.arrays import Ints
from dpcube.curator import publish
from dpcube.datasets import adult_domain, adult_table
from dpcube.domain import Domain
from dpcube.link.block_file import BlockFile
from dpcube.link.measures import compared_pairs, link_quality, reduction_ratio
from dpcube.link.program import Program
from dpcube.link.program import matches as pair_matches
from dpcube.link.rules import MatchingRules
from dpcube.link.session import LinkSession, prepare_session

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
ROWS_AT_ONCE = 500
Links = set[tuple[str, str]]


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


def links_of(program: Program, sides: Sequence[Ints], ids: Sequence[Sequence[str | None]]) -> Links:
    """Return the links of two blocks, some rows at a time."""
    found: Links = set()
    for start in range(0, len(sides[0]), ROWS_AT_ONCE):
        for x, y in np.argwhere(pair_matches(program, sides[0][start : start + ROWS_AT_ONCE], sides[1])).tolist():
            found.add((str(ids[0][start + x]), str(ids[1][y])))
    return found


def measured(
    tables: tuple[pa.Table, pa.Table],
    domain: Domain,
    rules: MatchingRules,
    id_column: str,
    *,
    epsilon: str,
    without_blocks: bool,
) -> dict[str, Any]:
    release = publish(tables[0], domain, epsilon=epsilon)
    blocks = BlockFile.planned(release, rules, epsilon=epsilon, other_rows=len(tables[1]))
    with tempfile.TemporaryDirectory() as folder:
        sessions = [
            prepare_session(table, blocks, rules, Path(folder, str(n)), id_column=id_column, ledger=None)
            for n, table in enumerate(tables)
        ]
    left, right = sessions[0].features(rules, "listener"), sessions[1].features(rules, "connector")
    ids = [one.ids() for one in sessions]
    candidates = blocks.plan.candidates()
    found: Links = set()
    for i, j in candidates.tolist():
        found |= links_of(rules.program, (left[i], right[j]), (ids[0][i], ids[1][j]))
    true = together(*(table[id_column].to_pylist() for table in tables))
    placed = {(one, other) for i, j in candidates.tolist() for one, other in together(ids[0][i], ids[1][j])} & true
    quality = {"with_blocks": told(found, true)}
    if without_blocks:
        flat = [list(chain.from_iterable(one)) for one in ids]
        every = links_of(rules.program, (np.concatenate(left), np.concatenate(right)), flat)
        quality["without_blocks"] = told(every, true)
    return {
        "rows": [len(table) for table in tables],
        "epsilon": epsilon,
        "blocks": len(blocks.plan),
        "records_lost_to_padding": sum(len(t) for t in tables) - sum(real(one) for one in sessions),
        "pairs_compared": compared_pairs(sessions[0].sizes, sessions[1].sizes, candidates),
        "pairs_without_blocking": len(tables[0]) * len(tables[1]),
        "reduction_ratio": reduction_ratio(true_sizes(sessions[0]), true_sizes(sessions[1]), candidates),
        "reduction_ratio_padded": reduction_ratio(
            sessions[0].sizes, sessions[1].sizes, candidates, records=(len(tables[0]), len(tables[1]))
        ),
        "pairs_completeness": len(placed) / len(true),
        **quality,
    }


def together(left: Sequence[str | None], right: Sequence[str | None]) -> Links:
    by_number = {number_in(one): one for one in left if one is not None}
    return {(by_number[number_in(o)], o) for o in right if o is not None and number_in(o) in by_number}


def real(session: LinkSession) -> int:
    return int(true_sizes(session).sum())


def true_sizes(session: LinkSession) -> Ints:
    return np.array([sum(one is not None for one in block) for block in session.ids()])


def told(found: Links, true: Links) -> dict[str, float]:
    quality = link_quality(found, true)
    return {"links": len(found), "recall": quality.recall, "precision": quality.precision, "f1": quality.f1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+")
    parser.add_argument("--domain")
    parser.add_argument("--rules")
    parser.add_argument("--id", default="id")
    parser.add_argument("--epsilon", default="0.5")
    parser.add_argument("--without-blocks", action="store_true")
    given = parser.parse_args()
    if given.tables == ["adult"]:
        tables, rules = adult_halves(), MatchingRules.loads(ADULT_RULES)
        domain = Domain.load(adult_domain(full=True)).project(ADULT_BLOCKED_ON)
    else:
        options = pacsv.ConvertOptions(strings_can_be_null=True, null_values=[""])
        read = [pacsv.read_csv(path, convert_options=options) for path in given.tables]
        texts = [pa.table([c.cast(pa.string()) for c in one.columns], names=one.column_names) for one in read]
        tables, rules, domain = (texts[0], texts[1]), MatchingRules.load(given.rules), Domain.load(given.domain)
    how = {"epsilon": given.epsilon, "without_blocks": given.without_blocks}
    print(json.dumps(measured(tables, domain, rules, given.id, **how), indent=1))


if __name__ == "__main__":
    main()
