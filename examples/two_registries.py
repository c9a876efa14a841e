"""Two registries find the people that both have, and show each other nothing of the rest.

    python examples/two_registries.py

Each party runs `dpcube link` in a process of its own, here on one machine. The rules compare columns for equality, so
the light engine `pip install 'dpcube[psi]'` is enough. Rules that tolerate typing errors need the larger one
(`dpcube link --install-engine`).
"""

import csv
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

DOMAIN = 'format = 1\n[[attribute]]\nname = "year"\ntype = "integer"\nmin = 1940\nmax = 2009\nwidth = 10\n'
RULES = """
threshold = 2               # both columns must agree

[[compare]]
column = "name"
kind = "exact"

[[compare]]
column = "year"
kind = "exact"
"""


def write_registries(people: int, folder: Path, seed: int = 1) -> set[tuple[str, str]]:
    """Write two tables that share a third of their people, and return the pairs of ids that belong together."""
    year = np.random.default_rng(seed).integers(1940, 2010, 5 * people // 3)
    hospital, cancer = range(people), range(2 * people // 3, 5 * people // 3)
    for name, own in (("hospital", hospital), ("cancer", cancer)):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["id", "name", "year"])
            rows.writerows([f"{name[0].upper()}{person}", f"Person {person}", year[person]] for person in own)
    return {(f"H{person}", f"C{person}") for person in set(hospital) & set(cancer)}


def dpcube(folder: Path, *words: str) -> "subprocess.Popen[str]":
    """Start a command of dpcube."""
    return subprocess.Popen([sys.executable, "-m", "dpcube", *words], cwd=folder, stdout=subprocess.DEVNULL)


def finished(*commands: "subprocess.Popen[str]") -> None:
    """Wait until all commands are done."""
    if any([command.wait() for command in commands]):
        sys.exit("a command failed")


def free_port() -> int:
    """Return a port on which nobody listens."""
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return int(tried.getsockname()[1])


def main(people: int = 3000, folder: Path | None = None) -> set[tuple[str, str]]:
    """Agree on blocks and rules, and link."""
    folder = folder or Path(tempfile.mkdtemp(prefix="registries-"))
    truth = write_registries(people, folder)
    (folder / "year.toml").write_text(DOMAIN)
    (folder / "rules.toml").write_text(RULES)

    # The hospital releases the years of birth. The blocks are made from that release and may be public.
    release = ("hospital.csv", "--domain", "year.toml", "--epsilon", "0.5", "--total", "1.5", "-o", "years.dpcube")
    finished(dpcube(folder, "release", *release))
    finished(dpcube(folder, "block", "years.dpcube", "--rules", "rules.toml", "--epsilon", "1", "-o", "both.blocks"))

    # Both allow a small delta, for the padding that hides the sizes of blocks, and share a key.
    finished(dpcube(folder, "ledger", "raise", "hospital.ledger", "--delta", "1e-6", "--purpose", "linkage"))
    finished(dpcube(folder, "ledger", "init", "cancer.ledger", "--total", "1", "--delta", "1e-6"))
    finished(dpcube(folder, "link", "--new-key", "shared.key"))

    port = free_port()
    parties = []
    for name, where in (("hospital", ("--listen", str(port))), ("cancer", ("--connect", f"127.0.0.1:{port}"))):
        agreed = ("--blocks", "both.blocks", "--rules", "rules.toml", "--key", "shared.key", "--id", "id")
        own = ("--session", f"{name}.session", "-o", f"{name}-links.csv")
        parties.append(dpcube(folder, "link", f"{name}.csv", *agreed, *own, *where))
    finished(*parties)

    with (folder / "hospital-links.csv").open(newline="") as file:
        links = {(row[0], row[1]) for row in list(csv.reader(file))[1:]}
    print(f"{len(links):,} links, {len(links & truth):,} of the {len(truth):,} people in both registries")
    print(f"Files are in {folder}")
    return links


if __name__ == "__main__":
    main()
