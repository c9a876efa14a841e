"""The command with its streams closed, full or gone, and files that its user may not read: real processes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from forge import file_of, forged, make_release

DPCUBE = f"{sys.executable} -m dpcube"
WHOLE = file_of(make_release())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "r.dpcube").write_bytes(WHOLE)
    (tmp_path / "t.csv").write_text("age,sex\n21,F\n")
    (tmp_path / "d.toml").write_text(make_release().domain.dumps())
    return tmp_path


def shell(line: str, place: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a line of shell in which `dpcube` is the command."""
    return subprocess.run(
        ["bash", "-c", f'dpcube() {{ {DPCUBE} "$@"; }}; {line}'],
        cwd=place,
        env={**os.environ, **environment},
        capture_output=True,
        timeout=600,
        check=False,
    )


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("dpcube info r.dpcube > /dev/full", 1, "cannot be read or written: No space left on device"),
        ("dpcube count r.dpcube --json > /dev/full", 1, "No space left on device"),
        ("dpcube --help > /dev/full", 1, "No space left on device"),
        ("dpcube domain t.csv > /dev/full", 1, "No space left on device"),
        (
            "dpcube release t.csv --domain d.toml --epsilon 1 --even-if-empty -o n.dpcube > /dev/full",
            1,
            "No space left on device",
        ),
        ("dpcube info none.dpcube 2> /dev/full", 2, ""),
        ("dpcube info none.dpcube 2>&-", 2, ""),
        ("dpcube info r.dpcube >&-", 0, ""),
        ("dpcube info r.dpcube <&- >&- 2>&-", 0, ""),
        ("dpcube info r.dpcube <&-", 0, ""),
        ("set -o pipefail; dpcube info r.dpcube | true; [ $? -le 1 ]", 0, ""),
        ("dpcube info < /dev/zero", 2, "Missing argument"),
    ],
)
def test_streams_that_are_full_or_closed(place: Path, line: str, code: int, said: str) -> None:
    done = shell(line, place)
    err = done.stderr.decode()
    assert (done.returncode, err.count("\n")) == (code, 1 if said else 0), err
    assert said in err
    assert "internal error" not in err
    assert "Traceback" not in err


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii"])
def test_names_that_are_no_text_can_be_printed(place: Path, encoding: str) -> None:
    line = "dpcube release t.csv --domain d.toml --epsilon 1 -o $'\\xff\\u0142.dpcube' --no-ledger --even-if-empty"
    done = shell(line, place, PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"wrote \\udcff" in done.stdout
    assert (place / "\udcffł.dpcube").exists()


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii"])
def test_json_is_json_in_every_encoding(place: Path, encoding: str) -> None:
    domain = make_release().domain.dumps().replace("age", "größe ł")
    (place / "r2.dpcube").write_bytes(forged(WHOLE, domain=domain.encode()))
    done = shell("dpcube info r2.dpcube --json", place, PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["attributes"][0]["attribute"] == "größe ł"


def test_facts_of_a_release_cannot_steer_the_terminal(place: Path) -> None:
    hostile = "\x1b[2J\r\n\u202ex"

    def change(manifest: dict[str, dict[str, object]]) -> None:
        manifest["strategy"] = {"name": hostile, "parameters": {hostile: hostile}}
        manifest["privacy"] |= {"unit": hostile, "period": hostile}

    (place / "r2.dpcube").write_bytes(forged(WHOLE, change))
    done = shell("dpcube info r2.dpcube", place)
    assert (done.returncode, done.stderr) == (0, b"")
    lines = done.stdout.decode().split("\n")
    assert all(line.isprintable() for line in lines)
    assert sum("\\x1b[2J\\r\\n\\u202ex" in line for line in lines) == 4


def test_a_message_is_short_however_long_what_it_quotes(place: Path) -> None:
    (place / "long.toml").write_text(f'[[attribute]]\nname = "{"x" * 10**6}"\ntype = "bogus"\n')
    done = shell("dpcube release t.csv --domain long.toml --epsilon 1 -o n.dpcube", place)
    assert done.returncode == 2
    assert len(done.stderr) < 2000


# Root may read everything, unless it is told not to.
OVERRIDES = "-dac_override,-dac_read_search"
AS_OTHERS = ("setpriv", "--bounding-set", OVERRIDES, "--inh-caps", "-all") if os.geteuid() == 0 else ()
GOOD = ("--domain", "open.toml", "--epsilon", "1", "-o")


@pytest.fixture
def closed() -> Iterator[Path]:
    """A folder that may be looked into and not written to, with files that may and may not be read."""
    with TemporaryDirectory() as folder:
        place = Path(folder)
        for stem in ("open", "shut"):
            (place / f"{stem}.dpcube").write_bytes(WHOLE)
            (place / f"{stem}.csv").write_text("age,sex\n21,F\n")
            (place / f"{stem}.toml").write_text(make_release().domain.dumps())
        for path in place.glob("shut.*"):
            path.chmod(0)
        place.chmod(0o555)
        yield place
        place.chmod(0o755)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("info", "open.dpcube"), 0, ""),
        (("info", "shut.dpcube"), 2, "is not readable"),
        (("release", "open.csv", "--domain", "shut.toml", "--epsilon", "1", "-o", "n.dpcube"), 2, "is not readable"),
        (("release", "open.csv", *GOOD, "n.dpcube"), 2, "is not a directory that can be written to"),
        (("domain", "shut.csv"), 2, "check that it is complete and that you may read it"),
        (("domain", "open.csv", "-o", "n.toml"), 2, "cannot write n.toml: Permission denied"),
        (("ledger", "init", "l.ledger", "--total", "1"), 1, "cannot create the ledger l.ledger"),
        (("ledger", "open.csv"), 1, "cannot use the ledger open.csv"),
    ],
)
def test_what_may_not_be_read_or_written(closed: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    done = subprocess.run(
        [*AS_OTHERS, sys.executable, "-m", "dpcube", *arguments],
        cwd=closed,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (code, 1 if said else 0), done.stderr
    assert said in done.stderr
    assert "internal error" not in done.stderr
