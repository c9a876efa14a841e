"""`dpcube block` and `dpcube link` as commands: what they write, what they refuse, and two processes that link."""

import csv
import json
import os
import socket
import stat
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from dpcube.core.ledger.ledger import Ledger
from dpcube.link.secure import install_engine
from dpcube.link.secure.environment import ENGINE_SWITCH
from forked import dpcube
from nightly import at_night

RULES = """
threshold = 2
[[compare]]
column = "name"
kind = "exact"
[[compare]]
column = "year"
kind = "exact"
"""
ALLOWED = Fraction(1, 10_000)
DOMAIN = 'format = 1\n[[attribute]]\nname = "year"\ntype = "integer"\nmin = 1950\nmax = 1999\n'


def run(folder: Path, *words: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return dpcube(*words, cwd=folder, **(environment or {}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables, rules, a release of the first, blocks and a key."""
    place = tmp_path_factory.mktemp("link")
    for name, first in (("a", 0), ("b", 150)):
        rows = [f"{name}{i},person {i},{1950 + i % 50}" for i in range(first, first + 300)]
        (place / f"{name}.csv").write_text("\n".join(["id,name,year", *rows, ""]))
    (place / "rules.toml").write_text(RULES)
    (place / "domain.toml").write_text(DOMAIN)
    release = ("release", "a.csv", "--domain", "domain.toml", "--epsilon", "2", "--total", "10", "-o", "r.dpcube")
    block = ("block", "r.dpcube", "--rules", "rules.toml", "--epsilon", "3", "-o", "blocks.json")
    for words in (release, block, ("link", "--new-key", "key")):
        made = run(place, *words)
        assert made.returncode == 0, made.stderr
    return place


def link_words(name: str, *more: str) -> list[str]:
    return ["link", f"{name}.csv", "--blocks", "blocks.json", "--rules", "rules.toml", "--id", "id", *more]


def test_blocks_tell_what_they_cost_before_anything_is_spent(folder: Path) -> None:
    words = ("block", "r.dpcube", "--rules", "rules.toml", "--epsilon", "3", "--json", "-o", "again.json")
    told = json.loads(run(folder, *words).stdout)
    assert told["blocks"] > 5
    assert told["dummies_of_a_block"] == 5
    assert told["predicted_pairs"] < told["predicted_pairs_without_blocking"] / 3
    assert (folder / "again.json").read_text() == (folder / "blocks.json").read_text()
    assert Ledger(folder / "a.ledger").statement().spent == 2
    again = run(folder, *words)
    assert again.returncode == 2
    assert "never overwrites" in again.stderr


def test_a_session_is_made_once_and_charged_once(folder: Path) -> None:
    ledger = Ledger(folder / "a.ledger")
    ledger.raise_total(ledger.statement().total, delta=ALLOWED, purpose="linkage")
    made = run(folder, *link_words("a", "--session", "alone.session", "--json"))
    assert made.returncode == 0, made.stderr
    told = json.loads(made.stdout)
    assert told["new"]
    assert stat.S_IMODE((folder / "alone.session").stat().st_mode) == 0o600
    spent = Ledger(folder / "a.ledger").statement()
    assert [spent.spent, len(spent.charges)] == [5, 3]  # a release is charged in two parts
    again = json.loads(run(folder, *link_words("a", "--session", "alone.session", "--json")).stdout)
    assert not again["new"]
    assert again["padded_sizes"] == told["padded_sizes"]
    assert Ledger(folder / "a.ledger").statement().spent == 5
    shown = run(folder, "ledger", "a.ledger").stdout
    assert "3, delta 1e-06" in shown
    assert "1e-06 of 0.0001 spent" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["link"], "needs --blocks, --rules and --session"),
        (link_words("a", "--session", "s", "--listen", "1", "--connect", "h:1"), "--listen or --connect"),
        (link_words("a", "--session", "s", "--listen", "7600"), "-o links.csv"),
        (link_words("a", "--session", "s", "--listen", "7600", "-o", "l.csv"), "--key FILE, or --authority"),
        (link_words("a", "--session", "s", "--connect", "7600", "-o", "l.csv", "--key", "key"), "must be HOST:PORT"),
        (link_words("a", "--session", "s", "--connect", "h:99999", "-o", "l.csv", "--key", "key"), "must be HOST:PORT"),
        (link_words("a", "--session", "s", "--listen", "7600", "-o", "a.csv", "--key", "key"), "choose another name"),
        (link_words("a", "--session", "s", "--connect", "h:1", "--wait", "nan"), "--wait must be from 0"),
        (link_words("a", "--session", "s", "--no-ledger", "--total", "3"), "--no-ledger cannot be combined"),
        (link_words("nowhere", "--session", "s"), "there is no file"),
        (["link", "--blocks", "blocks.json", "--rules", "rules.toml", "--session", "s"], "name the TABLE"),
        (["link", "--blocks", "rules.toml", "--rules", "rules.toml", "--session", "s"], "is not a blocks file"),
        (["link", "--blocks", "blocks.json", "--rules", "a.csv", "--session", "s"], "not a TOML file"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_and_nothing_is_made(folder: Path, words: list[str], said: str) -> None:
    done = run(folder, *words, environment={ENGINE_SWITCH: sys.executable})
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "person" not in done.stderr
    assert not (folder / "s").exists()


@pytest.mark.slow
@pytest.mark.parametrize("turns", [("first",), at_night(("first", "second"))])
def test_two_processes_link_and_write_the_same_links(folder: Path, turns: tuple[str, ...]) -> None:
    """With the real engine, which is installed once; a second start with the same sessions finds the same."""
    environment = {
        **os.environ,
        ENGINE_SWITCH: os.environ.get(ENGINE_SWITCH) or str(install_engine(Path(sys.prefix, "link-engine"))),
    }
    for turn in turns:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1])
        parties = []
        for name, where in (("a", ["--listen", port]), ("b", ["--connect", f"127.0.0.1:{port}"])):
            files = [
                "--session",
                f"{name}-{len(turns)}.session",
                "-o",
                f"{name}-{turn}-of-{len(turns)}.csv",
                "--key",
                "key",
                "--no-ledger",
            ]
            words = link_words(name, *files, *where)
            command = [sys.executable, "-m", "dpcube", *words]
            parties.append(
                subprocess.Popen(
                    command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                )
            )
        for party in parties:
            told = party.communicate(timeout=1800)
            assert party.returncode == 0, told
            assert "150 links" in told[0]
    expected = {(f"a{i}", f"b{i}") for i in range(150, 300)}
    for turn in turns:
        ours, theirs = (read(folder / f"{name}-{turn}-of-{len(turns)}.csv") for name in ("a", "b"))
        assert set(ours) == expected
        assert theirs == [(b, a) for a, b in ours]
        assert stat.S_IMODE((folder / f"a-{turn}-of-{len(turns)}.csv").stat().st_mode) == 0o600


def read(path: Path) -> list[tuple[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["own_id", "peer_id"]
    return [(row[0], row[1]) for row in rows]
