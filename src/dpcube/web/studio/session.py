"""Actions of the curator's page on one table, independent of HTTP: JSON requests and responses.

Every step is that of a command: `draft`, `plan`, `check`, `publish`. Two safeguards are added. Once the owner has
allowed the page to read values, every domain made in the session is marked as drafted from data, and nothing removes
the mark. And a release is prepared first, which returns a ticket for exactly that release; it is made when the ticket
comes back with epsilon typed again.
"""

import os
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

from dpcube.core.domain import Domain
from dpcube.core.domain.file import write_text
from dpcube.core.epsilon import parse_epsilon
from dpcube.core.errors import InputError
from dpcube.core.feasible import check_public
from dpcube.core.ledger.ledger import Ledger
from dpcube.core.request import PrivacyUnit, check_left, ledger_path
from dpcube.core.sources import open_rows
from dpcube.curator import CsvDialect, LedgerLocation, publish
from dpcube.curator.check import ENDS, check
from dpcube.curator.draft import draft
from dpcube.plan import plan
from dpcube.plan.predict import rounded_rows
from dpcube.release.pasteable import file_word, shell_word
from dpcube.strategies import Adaptive
from dpcube.web.loopback import LoopbackServer, Site
from dpcube.web.studio.form import declared_domain, drafted, whole, word

Request = Mapping[str, Any]
Response = dict[str, Any]
MAX_PLANNED_CELLS = 2**20
"""Cells of the largest cube whose errors are predicted interactively; `dpcube plan` takes larger ones."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A release that awaits confirmation: the arguments of `publish`."""

    domain: Domain
    domain_file: Path
    epsilon: str
    total: str | None
    unit: PrivacyUnit
    strategy: Adaptive
    purpose: str
    output: Path


class StudioSession:
    """The session of one table: what its owner has drafted, allowed and prepared so far."""

    def __init__(
        self,
        source: Path | str,
        *,
        csv: CsvDialect | None = None,
        query: str | None = None,
        ledger: Path | None = None,
        folder: Path | None = None,
    ) -> None:
        self._source, self._csv, self._query = source, csv, query
        self._ledger: Path | LedgerLocation = ledger or LedgerLocation.BESIDE_TABLE
        self._folder = Path.cwd() if folder is None else folder
        self._work = threading.Lock()
        self._newest_plan = 0
        self._looked = False
        self._tickets: dict[str, Prepared] = {}
        open_rows(source, csv=csv, query=query)  # raises before a page exists if the table cannot be opened

    def __repr__(self) -> str:
        return "<StudioSession>"

    def table(self, _: Request) -> Response:
        """Return the table's columns and a draft of each, from names and types only."""
        with self._work:
            rows = open_rows(self._source, csv=self._csv, query=self._query)
            text = draft(self._source, csv=self._csv, query=self._query)
        name = self._source.name if isinstance(self._source, PathLike) else "a table of a database"
        columns = [{"name": column, "type": rows.types[column]} for column in rows.columns]
        return {"table": name, "columns": columns, "attributes": drafted(text), "looked": self._looked}

    def look(self, request: Request) -> Response:
        """Return a draft from the values of chosen columns, and mark every domain from now on."""
        columns = request.get("columns")
        if not isinstance(columns, list) or not columns or not all(isinstance(name, str) for name in columns):
            msg = "choose at least one column to read"
            raise InputError(msg)
        with self._work:
            self._looked = True
            text = draft(self._source, columns=columns, from_data=True, csv=self._csv, query=self._query)
        return {"attributes": drafted(text), "looked": True}

    def size(self, request: Request) -> Response:
        """Return the shape of the declared cube."""
        domain = self._domain(request)
        return {"shape": list(domain.shape), "cells": domain.size, "signed": domain.signed_public_by}

    def plan(self, request: Request) -> Response:
        """Return predicted errors, from the form and a typed number of rows; no row is read."""
        domain, unit = self._domain(request), self._unit(request)
        if domain.size > MAX_PLANNED_CELLS:
            msg = (
                f"{domain.size:,} cells are too many for an interactive prediction, at most {MAX_PLANNED_CELLS:,}; "
                "declare fewer bins, or use dpcube plan"
            )
            raise InputError(msg)
        rows, epsilon, strategy = whole(request, "rows"), word(request, "epsilon"), _strategy(request, domain)
        self._newest_plan = number = self._newest_plan + 1
        with self._work:
            if number != self._newest_plan:
                return {"superseded": True}
            made = plan(domain, rows=rows, epsilon=epsilon, strategies=strategy, max_rows=unit.max_rows, roughly=True)
        predictions = [
            {
                "question": prediction.queries,
                "answer": rounded_rows(prediction.answer),
                "error": rounded_rows(prediction.typical),
                "low": rounded_rows(prediction.low),
                "high": rounded_rows(prediction.high),
                "stands_out": prediction.stands_out,
            }
            for prediction in made.predictions
        ]
        return {
            "predictions": predictions,
            "cells": domain.size,
            "belief": made.belief,
            "refusals": list(made.refusals),
        }

    def check(self, request: Request) -> Response:
        """Return the share of rows that each attribute would keep or drop, in rough words, for the owner only."""
        domain, unit = self._domain(request), self._unit(request)
        rows = {"unit": unit.column, "max_rows": unit.max_rows, "null_unit": unit.null}
        with self._work:
            found = check(self._source, domain, csv=self._csv, query=self._query, **rows)  # type: ignore[arg-type]
        looks = [{"attribute": look.attribute, **dict(zip(ENDS, look.shares, strict=True))} for look in found.looks]
        return {"ends": list(ENDS), "looks": looks, "counted": found.counted, "kept": found.kept}

    def save(self, request: Request) -> Response:
        """Write the domain file; one drafted from data and unsigned is readable by its owner only."""
        domain, path = self._domain(request), self._new_file(request, "domain_file", ".toml")
        write_text(path, domain.dumps(), private=domain.drafted_from_data and domain.signed_public_by is None)
        return {"domain_file": str(path)}

    def prepare(self, request: Request) -> Response:
        """Check a release without reading rows or spending budget, and return a ticket for exactly that one."""
        domain, unit = self._domain(request), self._unit(request)
        path = self._folder / word(request, "domain_file")
        if Domain.load(path) != domain:
            msg = f"{path} differs from the page; save the domain under a new name first"
            raise InputError(msg)
        check_public(domain)
        prepared = Prepared(
            domain,
            path,
            epsilon=word(request, "epsilon"),
            total=word(request, "total", needed=False) or None,
            unit=unit,
            strategy=_strategy(request, domain),
            purpose=word(request, "purpose", needed=False),
            output=self._new_file(request, "output", ".dpcube"),
        )
        amount = parse_epsilon(prepared.epsilon)
        allowed = None if prepared.total is None else parse_epsilon(prepared.total)
        place = ledger_path(self._ledger, self._source, unit=unit.column)
        assert place is not None  # a table in files has one beside it; for a database it must be named
        check_left(place, amount, total=allowed, unit=unit.column, period=None)
        left = Ledger(place).statement().remaining if os.path.lexists(place) else allowed or amount
        ticket = secrets.token_urlsafe(32)
        self._tickets = {ticket: prepared}  # older tickets are void
        return {"ticket": ticket, **_summary(prepared, place, left, amount), "command": self._command(prepared)}

    def release(self, request: Request) -> Response:
        """Make the release of a ticket, if epsilon was typed again, and charge it to the ledger."""
        prepared = self._tickets.pop(word(request, "ticket"), None)
        if prepared is None:
            msg = "this release was not prepared, or its ticket was used; prepare it again. Nothing was spent"
            raise InputError(msg)
        if word(request, "typed_epsilon", needed=False) != prepared.epsilon:
            msg = f"to confirm, type epsilon as prepared: {prepared.epsilon}. Nothing was spent; prepare it again"
            raise InputError(msg)
        with self._work:
            if Domain.load(prepared.domain_file) != prepared.domain:
                msg = f"{prepared.domain_file} has changed since the preparation; prepare it again. Nothing was spent"
                raise InputError(msg)
            made = publish(
                self._source,
                prepared.domain,
                epsilon=prepared.epsilon,
                strategy=prepared.strategy,
                ledger=self._ledger,
                total=prepared.total,
                unit=prepared.unit.column,
                max_rows=prepared.unit.max_rows,
                null_unit=prepared.unit.null,
                purpose=prepared.purpose,
                csv=self._csv,
                query=self._query,
                save_to=prepared.output,
                even_if_empty=False,
            )
        return {"release": str(prepared.output), "digest": made.digest, "epsilon": str(made.provenance.epsilon)}

    def _command(self, prepared: Prepared) -> str:
        """Return the command of the same release, without a database address, which may name a user or a host."""
        csv, kinds, unit = self._csv or CsvDialect(), prepared.strategy.queries, prepared.unit
        options = {
            "--domain": file_word(prepared.domain_file),
            "--epsilon": shell_word(prepared.epsilon),
            "--queries": None if kinds is None else ",".join(kinds),
            "--ledger": file_word(self._ledger) if isinstance(self._ledger, Path) else None,
            "--total": None if prepared.total is None else shell_word(prepared.total),
            "--unit": None if unit.column is None else shell_word(unit.column),
            "--max-rows": None if unit.column is None else str(unit.max_rows),
            "--purpose": shell_word(prepared.purpose) if prepared.purpose else None,
            "--query": None if self._query is None else shell_word(self._query),
            "--names": None if csv.columns is None else shell_word(",".join(csv.columns)),
        }
        words = [f"{option} {value}" for option, value in options.items() if value is not None]
        words += [f"--null-text {shell_word(text)}" for text in csv.null_text if csv.null_text != ("",)]
        table = file_word(self._source.absolute()) if isinstance(self._source, Path) else "TABLE"
        return " ".join(["dpcube release", table, *words, "-o", file_word(prepared.output)])

    def _domain(self, request: Request) -> Domain:
        signed = word(request, "signed_public_by", needed=False) if self._looked else ""
        lines = {} if self._csv is None else {"delimiter": self._csv.delimiter, "encoding": self._csv.declared_encoding}
        return declared_domain(request.get("attributes"), drafted_from_data=self._looked, signed=signed, **lines)

    def _unit(self, request: Request) -> PrivacyUnit:
        column = word(request, "unit", needed=False)
        return PrivacyUnit(column, whole(request, "max_rows")) if column else PrivacyUnit()

    def _new_file(self, request: Request, key: str, ending: str) -> Path:
        """Return the path of a new file, relative to the folder where the studio was started."""
        name = word(request, key)
        path = self._folder / name
        if path.suffix != ending or not name.isprintable():
            msg = f"{key.replace('_', ' ')} must be a name that ends in {ending}, got {name[:80]!r}"
            raise InputError(msg)
        if os.path.lexists(path):
            msg = f"{path} exists; choose another name"
            raise InputError(msg)
        if not path.parent.is_dir():
            msg = f"there is no directory for {path.name!r}; create it first"
            raise InputError(msg)
        return path


def _strategy(request: Request, domain: Domain) -> Adaptive:
    """Return the default strategy for the kinds of queries of each attribute, by default mixed."""
    requested = request.get("queries")
    if not isinstance(requested, list) or not all(isinstance(kind, str) for kind in requested):
        msg = "queries must be a list with a kind for each attribute; reload the page"
        raise InputError(msg)
    if not any(requested):
        return Adaptive()
    natural = Adaptive().for_domain(domain).queries
    kinds = natural if isinstance(natural, tuple) else ("mixed",) * len(domain.attributes)
    if len(requested) != len(kinds):
        msg = f"queries must be one kind for each of {len(kinds)} attributes; reload the page"
        raise InputError(msg)
    return Adaptive(queries=tuple(kind or usual for kind, usual in zip(requested, kinds, strict=True)))


def _summary(prepared: Prepared, place: Path, left: Fraction, amount: Fraction) -> Response:
    unit = prepared.unit
    protects = "one row" if unit.column is None else f"all rows of one {unit.column}, at most {unit.max_rows} of them"
    return {
        "cells": prepared.domain.size,
        "epsilon": prepared.epsilon,
        "protects": protects,
        "ledger": str(place),
        "left": str(left),
        "left_after": str(left - amount),
        "output": str(prepared.output),
    }


PARTS = {
    "/": ("index.html", "text/html"),
    "/studio.js": ("studio.js", "text/javascript"),
    "/studio.css": ("studio.css", "text/css"),
}
ACTIONS = ("table", "look", "size", "plan", "check", "save", "prepare", "release")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class StudioServer(LoopbackServer):
    """The server of one session, on a port of 127.0.0.1; 0 is any free port."""

    def __init__(self, session: StudioSession, port: int = 0) -> None:
        self.session = session
        parts = {path: (_part(name), kind) for path, (name, kind) in PARTS.items()}
        actions = {name: getattr(session, name) for name in ACTIONS}
        super().__init__(Site("dpcube studio", POLICY, parts, actions), port)


def _part(name: str) -> Callable[[str], bytes]:
    content = files("dpcube.web.studio").joinpath("page", name).read_bytes()
    return lambda key: content.replace(b"{{key}}", key.encode())
