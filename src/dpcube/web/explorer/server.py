"""The explorer served on loopback from a released file, with Python behind it.

The page is that of the file `dpcube explore -o` writes. What a page cannot hold it asks for here: counts of cubes of
very many cells (`asking.py`), SQL (`sql_process.py`), synthetic rows.
"""

import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, cast

from dpcube.core.errors import QueryError
from dpcube.release import Release
from dpcube.release.cache import made_once
from dpcube.release.plots.axis import printable
from dpcube.web.explorer.asking import PageQuestions
from dpcube.web.explorer.contents import is_held_by_a_page, noisy_stage, packed_contents, served_contents
from dpcube.web.explorer.inlined import explorer_page, page_policy
from dpcube.web.explorer.sql_process import SqlProcess, SqlSettings
from dpcube.web.loopback import Download, LoopbackServer, Site

MAX_SYNTHETIC = 1_000_000
"""Synthetic rows that a page is given; the command writes any number."""
IN_MEMORY = 2**24


class ExplorerServer(LoopbackServer):
    """The server of one released file, on a port of 127.0.0.1; 0 is any that is free."""

    def __init__(
        self, path: Path, *, estimate: str = "auto", confidence: float = 0.95, seconds: float = 30.0, port: int = 0
    ) -> None:
        self._release, self._estimate = Release.open(path), estimate
        self._contents = page_contents(self._release, path, estimate=estimate, confidence=confidence)
        self._sql = SqlProcess(SqlSettings(path, self._release.digest, estimate, confidence, seconds))
        asked = page_questions(self._release, estimate=estimate, confidence=confidence)
        page = explorer_page(None, title=page_title(path), key="{{key}}").encode()
        actions = {
            "contents": lambda _: Download(BytesIO(self._contents), len(self._contents), "application/octet-stream"),
            **{name: getattr(asked, name) for name in ("headline", "counts", "bars", "squares", "noisy")},
            "sql": self._run_sql,
            "stop": self._stop_sql,
            "rows": self._synthetic_rows,
        }
        parts = {"/": (lambda key: page.replace(b"{{key}}", key.encode()), "text/html")}
        policy = f"{page_policy(served=True)}; frame-ancestors 'none'"
        super().__init__(Site("dpcube explore", policy, parts, actions), port)

    def server_close(self) -> None:
        """Stop listening, and end the process that runs SQL."""
        super().server_close()
        self._sql.close()

    def _run_sql(self, request: dict[str, Any]) -> bytes:
        query = request.get("query")
        if not isinstance(query, str):
            msg = "a statement is text; reload the page"
            raise QueryError(msg)
        return self._sql.run(query, error=request.get("error") is True)

    def _stop_sql(self, _: dict[str, Any]) -> dict[str, Any]:
        self._sql.stop()
        return {}

    def _synthetic_rows(self, request: dict[str, Any]) -> Download:
        """Return synthetic rows as a CSV file, as `dpcube synth` writes them."""
        import pyarrow.csv

        from dpcube.release.export import spreadsheet_batches

        rows, seed = (request.get(name) for name in ("rows", "seed"))
        if type(rows) is not int or not 0 <= rows <= MAX_SYNTHETIC:
            msg = f"the number of rows must be from 0 to {MAX_SYNTHETIC:,} here; dpcube synth writes any number"
            raise QueryError(msg)
        if seed is not None and type(seed) is not int:
            msg = "a seed is a whole number of at least 0, or nothing"
            raise QueryError(msg)
        file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 (it is closed when it was sent)
        batches = spreadsheet_batches(self._release.synthesize_batches(rows, seed, estimate=self._estimate))
        with pyarrow.csv.CSVWriter(file, batches.schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        length = file.tell()
        file.seek(0)
        return Download(cast(BinaryIO, file), length, "text/csv; charset=utf-8")


def page_contents(release: Release, path: Path, *, estimate: str, confidence: float) -> bytes:
    """Return what the page of a released file needs: all of the cube if it can hold that, else what Python is asked."""
    if not is_held_by_a_page(release):
        return served_contents(release, path, estimate=estimate, confidence=confidence)
    return made_once(
        path,
        f"explore {path.name!r} {estimate} {confidence}",
        lambda: packed_contents(release, path, estimate=estimate, confidence=confidence),
    )


def page_questions(release: Release, *, estimate: str, confidence: float) -> PageQuestions:
    """Return what answers the page of a release."""
    stage = noisy_stage(release)
    noisy = None if stage is None else lambda: release.cells(stage)
    return PageQuestions(release.domain, release.estimate(estimate), confidence=confidence, noisy=noisy)


def page_title(path: Path) -> str:
    """Return the title of a file's page."""
    return f"{printable(path.stem)}: a private cube"
