"""Linkage session: a party's records in padded blocks and random order, stored in a private file for restarts.

A session is made from a private table, blocks, rules and an (epsilon, delta). Only its owner may read the file. The
other party sees the sizes of the padded blocks.

**Why a restart reveals nothing new.** The file contains everything that the other side ever sees or computes with: the
padding, the order of rows and the features. A table is read when its session is made and never again, so a restart
reveals the same again, and the difference of two runs contains no information. With the same padding, an additional row
would show; with fresh padding, sizes could be averaged. Any other table, blocks or rules make a new session, which is
charged again.

**Privacy budget.** Padded sizes cost (epsilon, delta) for whatever one privacy unit can change (`core/padding.py`):
with `max_rows` rows per unit and one block per record, the sensitivity is max_rows. The charge is on disk before the
padding is drawn; a crash in between leaves a charge without a session. The order of rows in each block is drawn from
fresh randomness, so the position of a row is independent of its contents.
"""

import json
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpcube.core.arrays import Bools, Ints
from dpcube.core.epsilon import parse_delta, parse_epsilon
from dpcube.core.errors import InputError
from dpcube.core.files import is_special, new_file
from dpcube.core.memory import check_memory
from dpcube.core.padding import draw_padding, padding_shift
from dpcube.core.randomness import RandomWords
from dpcube.core.request import (
    LedgerLocation,
    PrivacyUnit,
    check_left,
    ledger_path,
    open_ledger,
    read_lines,
)
from dpcube.core.seal import sealed
from dpcube.core.sources import CsvDialect, Rows, open_rows
from dpcube.link.blocking import BlockFile
from dpcube.link.features import Side, feature_key, raw_features, side_features, written_texts
from dpcube.link.limits import MAX_SESSION
from dpcube.link.rules import MatchingRules, TextRule

SESSION_FORMAT = "dpcube session 1"


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """Public facts of a session: its number, the blocks and rules it was made for, and its privacy cost."""

    number: str
    blocks: str
    rules: str
    epsilon: str
    delta: str
    shift: int
    sensitivity: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LinkSession:
    """A party's padded blocks: for each row its block, whether it is a record, its id and its features."""

    facts: SessionFacts
    sizes: Ints
    _rows: pa.Table

    def __repr__(self) -> str:
        return f"<a session of {len(self.sizes)} padded blocks>"

    @classmethod
    @sealed
    def open(cls, path: Path, blocks: BlockFile, rules: MatchingRules) -> "LinkSession":
        """Reopen a session; InputError unless it was made for these blocks and rules."""
        fields, rows = _read(path)
        facts = SessionFacts(**fields["facts"])
        if (facts.blocks, facts.rules) != (blocks.digest, rules.digest):
            msg = f"the session {path} was made for other blocks or rules; use those, or make a new session under "
            msg += "another name, which is charged again"
            raise InputError(msg)
        return cls(facts, _sizes(rows["block"].to_numpy(), len(blocks.plan)), rows)

    @sealed
    def features(self, rules: MatchingRules, side: Side) -> list[Ints]:
        """Return the feature matrix of each block, including dummies, for one of the two sides."""
        real = self._rows["real"].to_numpy().astype(np.int64)
        columns = [real[:, None]]
        for place, rule in enumerate(rules.rules):
            column = self._rows[f"f{place}"]
            there = ~column.is_null().to_numpy()
            columns.append(side_features(rule, _unpacked(column, rule.comparison.columns, rule), there, side))
        whole = np.concatenate(columns, axis=1)
        whole[real == 0] = 0
        return np.split(whole, np.cumsum(self.sizes)[:-1])

    @sealed
    def ids(self) -> list[list[str | None]]:
        """Return the id of each row of each block; None for dummies."""
        every = self._rows["id"].to_pylist()
        ends = np.cumsum(self.sizes).tolist()
        return [every[stop - size : stop] for stop, size in zip(ends, self.sizes.tolist(), strict=True)]


@sealed
def prepare_session(
    source: object,
    blocks: BlockFile,
    rules: MatchingRules,
    path: Path,
    *,
    id_column: str,
    epsilon: str | Fraction | None = None,
    delta: str | Fraction | None = None,
    ledger: str | Path | LedgerLocation | None = LedgerLocation.BESIDE_TABLE,
    total: str | Fraction | None = None,
    unit: str | None = None,
    max_rows: int = 1,
    null_unit: Literal["drop", "each"] = "drop",
    purpose: str = "",
    csv: CsvDialect | None = None,
    query: str | None = None,
) -> LinkSession:
    """Read a table, charge its ledger, pad its blocks and store them in a new file that only its owner may read.

    By default, epsilon and delta are those of the blocks file.
    """
    amount = blocks.epsilon if epsilon is None else parse_epsilon(epsilon)
    slack = blocks.delta if delta is None else parse_delta(delta)
    allowed = None if total is None else parse_epsilon(total)
    protected = PrivacyUnit(unit, max_rows, null_unit)
    shift = padding_shift(amount, slack, sensitivity=max_rows)
    _check_request(path, blocks, rules, shift)
    rows = open_rows(source, csv=read_lines(blocks.plan.domain, csv), query=query)
    _check_columns(rows, rules, id_column)
    if protected.column is not None:
        rows = rows.limit(protected.column, max_rows=protected.max_rows, null=protected.null)
    place = ledger_path(ledger, source, unit=unit)
    if place is not None:
        check_left(place, amount, total=allowed, unit=unit, period=None, delta=slack)
    records = _read_records(rows, blocks, rules, id_column)
    facts = SessionFacts(secrets.token_hex(16), blocks.digest, rules.digest, str(amount), str(slack), shift, max_rows)
    book = None if place is None else open_ledger(place, amount, total=allowed, unit=unit, delta=slack)
    ledger_path(ledger, source, unit=unit)  # again: of two processes that create ledgers for the same rows, one sees it
    charge = None
    if book is not None:
        charge = book.charge(amount, delta=slack, strategy="padding", domain=blocks.digest, purpose=purpose, unit=unit)
    dummies = draw_padding(amount, slack, sensitivity=max_rows, blocks=len(blocks.plan))
    padded = _padded(records, dummies)
    _write(path, facts, padded)
    if book is not None and charge is not None:
        book.complete(charge, facts.number)
    return LinkSession(facts, _sizes(padded["block"].to_numpy(), len(blocks.plan)), padded)


def _check_request(path: Path, blocks: BlockFile, rules: MatchingRules, shift: int) -> None:
    if os.path.lexists(path):
        msg = f"{path} exists, and a session is never replaced; choose another name"
        raise InputError(msg)
    if not path.absolute().parent.is_dir():
        msg = f"{path} cannot be written: its directory does not exist"
        raise InputError(msg)
    if blocks.rules != rules.digest:
        msg = "the blocks were made for other rules; both parties must use the rules file given to `dpcube block`"
        raise InputError(msg)
    needed = 8 * rules.program.width * 2 * shift * len(blocks.plan)
    remedy = "make blocks for a larger epsilon, which need less padding"
    check_memory(needed, what=f"padding of {len(blocks.plan):,} blocks", remedy=remedy)


def _check_columns(rows: Rows, rules: MatchingRules, id_column: str) -> None:
    """Refuse a missing column before any row is read."""
    rows.check_columns([id_column, *(rule.column for rule in rules.rules)])


def _read_records(rows: Rows, blocks: BlockFile, rules: MatchingRules, id_column: str) -> pa.Table:
    """Return a table of records: the block, the id and the features of each; missing features are null."""
    texts = [rule for rule in rules.rules if rule.attribute is None]
    values = [rule for rule in rules.rules if rule.attribute is not None]
    read = [rule.attribute for rule in values if rule.attribute is not None]
    shown = [id_column, *(rule.column for rule in texts)]
    found = rows.records(blocks.plan.domain, shown, read)
    counted = np.asarray(found["cell"]) < blocks.plan.domain.size
    taken = {name: np.ma.asarray(column)[counted] for name, column in found.items()}
    cells = np.asarray(taken["cell"], np.int64)
    written = [
        written_texts(taken[f"a{place}"].tolist(), rows.kinds[name], rows.types[name])
        for place, name in enumerate(shown)
    ]
    columns = {
        "block": pa.array(blocks.plan.block_of(cells), pa.int32()),
        "real": pa.array(np.ones(len(cells), np.bool_)),
        "id": pa.array([text or "" for text in written[0]], pa.string()),
    }
    key, nothing = feature_key(rules), np.zeros(0)
    for place, rule in enumerate(rules.rules):
        if rule in values:
            number = np.ma.filled(taken[f"x{values.index(rule)}"].astype(np.float64), np.nan)
            made, there = raw_features(rule, (), np.asarray(number), key)
        else:
            made, there = raw_features(rule, written[1 + texts.index(rule)], nothing, key)
        columns[f"f{place}"] = _packed(made, there, rule)
    return pa.table(columns)


def _packed(made: Ints, there: Bools, rule: object) -> pa.Array:
    """Return features as a file column: numbers, or the bits of texts packed into bytes; null where missing."""
    if isinstance(rule, TextRule):
        octets = np.packbits(made.astype(np.uint8), axis=1)
        return pa.array(
            [row.tobytes() if is_there else None for row, is_there in zip(octets, there, strict=True)], pa.binary()
        )
    return pa.array(made[:, 0], pa.int64(), mask=~there)


def _unpacked(column: pa.ChunkedArray, columns: int, rule: object) -> Ints:
    if isinstance(rule, TextRule):
        empty = bytes(-(-columns // 8))
        octets = np.frombuffer(b"".join(value or empty for value in column.to_pylist()), np.uint8)
        return np.unpackbits(octets.reshape(len(column), -1), axis=1, count=columns).astype(np.int64)
    return np.asarray(column.fill_null(0).to_numpy(), np.int64)[:, None]


def _padded(records: pa.Table, dummies: Ints) -> pa.Table:
    """Return the records with dummies added to each block, block by block, in a fresh random order."""
    added = pa.array(np.repeat(np.arange(len(dummies)), dummies), pa.int32())
    nothing = {name: pa.nulls(len(added), records.schema.field(name).type) for name in records.column_names}
    filler = {**nothing, "block": added, "real": pa.array(np.zeros(len(added), np.bool_))}
    together = pa.concat_tables([records, pa.table(filler, schema=records.schema)])
    turns = np.empty(len(together), np.uint64)
    RandomWords().fill(turns)
    return together.take(pa.array(np.lexsort((turns, together["block"].to_numpy())))).combine_chunks()


def _sizes(blocks: Ints, number: int) -> Ints:
    return np.bincount(blocks, minlength=number).astype(np.int64)


def _write(path: Path, facts: SessionFacts, rows: pa.Table) -> None:
    fields = {"format": SESSION_FORMAT, "facts": {name: getattr(facts, name) for name in facts.__slots__}}
    marked = rows.replace_schema_metadata({"dpcube.session": json.dumps(fields)})
    with new_file(path, private=True) as part:
        pq.write_table(marked, part, compression="zstd")


def _read(path: Path) -> tuple[dict[str, Any], pa.Table]:
    """Return the header and the rows of a session file."""
    with suppress(OSError, pa.ArrowException, ValueError, KeyError, TypeError):
        if not is_special(path) and path.stat().st_size <= MAX_SESSION:
            if os.name == "posix" and path.stat().st_mode & 0o077:
                msg = f"the session {path} can be read by other users; restrict it: chmod 600 {path.name}"
                raise InputError(msg)
            rows = pq.read_table(path)
            fields = json.loads(rows.schema.metadata[b"dpcube.session"])
            if fields["format"] == SESSION_FORMAT and set(fields["facts"]) == set(SessionFacts.__slots__):
                return fields, rows
    msg = f"{path} is not a complete session file of `dpcube link`"
    raise InputError(msg)
