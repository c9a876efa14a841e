"""What fails after the charge loses no release: it is kept elsewhere, and its digest can be entered later."""

import hashlib
import importlib
import os
import shutil
import signal
import stat
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcube import Domain, Release
from dpcube.cli import main
from dpcube.core.errors import InputError, KeptReleaseError, LedgerError, ReleaseFileError
from dpcube.core.ledger.ledger import Ledger
from dpcube.core.period import Period
from dpcube.curator import publish
from dpcube.measurements.file import check_writable
from dpcube.release import rescue
from dpcube.release.ledger_record import waiting_charges

DOMAIN = Domain.of_shape((2, 3))
COUNTS = np.full((2, 3), 10_000)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let each release lose the folder it is to be written to, once it is charged."""
    (tmp_path / "gone").mkdir()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    honest = Ledger.charge_parts

    def charge_parts(ledger: Ledger, *given: Any, **more: Any) -> list[int]:
        charged = honest(ledger, *given, **more)
        shutil.rmtree(tmp_path / "gone")
        return charged

    monkeypatch.setattr(Ledger, "charge_parts", charge_parts)
    return tmp_path


def release(folder: Path, **more: Any) -> Release:
    asked: dict[str, Any] = {"epsilon": 1, "strategy": "cells", "ledger": folder / "t.ledger", **more}
    return publish(COUNTS, DOMAIN, **asked)


def test_a_release_whose_folder_is_gone_is_written_elsewhere_for_its_owner_alone(folder: Path) -> None:
    with pytest.raises(KeptReleaseError, match=r"No such file or directory.* charged for, and is in ") as caught:
        release(folder, save_to=folder / "gone" / "r.dpcube")
    kept, place = caught.value.release, caught.value.path
    assert isinstance(kept, Release)
    assert place is not None
    assert (place.parent, str(place) in str(caught.value)) == (folder / "data" / "dpcube", True)
    assert (stat.S_IMODE(place.stat().st_mode), stat.S_IMODE(place.parent.stat().st_mode)) == (0o600, 0o700)
    assert Release.open(place).digest == kept.digest
    assert [charge.digest for charge in Ledger(folder / "t.ledger").statement().charges] == [kept.digest]


def test_a_release_that_no_folder_takes_is_kept_in_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/dev/null")
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/dev/null/tmp")
    monkeypatch.setattr(rescue, "KEPT_IN_MEMORY", Path("/dev/null"))
    with pytest.raises(KeptReleaseError, match="in the memory of this process alone") as caught:
        release(folder, save_to=folder / "gone" / "r.dpcube")
    assert caught.value.path is None
    assert isinstance(caught.value.release, Release)
    digest = caught.value.release.save(folder / "r.dpcube")
    assert [charge.digest for charge in Ledger(folder / "t.ledger").statement().charges] == [digest]


TABLE = ("release", "t.csv", "--domain", "d.toml", "--epsilon", "1", "--strategy", "cells", "-o", "gone/r.dpcube")


@pytest.fixture
def nowhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let no folder take the release of the command."""
    (folder / "t.csv").write_text("age\n" + "3\n" * 1000)
    (folder / "d.toml").write_text('[[attribute]]\nname = "age"\ntype = "integer"\nmin = 0\nmax = 9\n')
    monkeypatch.chdir(folder)
    monkeypatch.setattr("dpcube.curator.publishing.save_elsewhere", lambda *_: None)
    return folder


def test_on_a_terminal_the_command_asks_until_a_place_takes_the_release(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = iter(["no/such/folder.dpcube", "t.csv", "saved.dpcube"])
    monkeypatch.setattr(importlib.import_module("dpcube.cli.analyst.registry"), "can_ask", lambda: True)
    monkeypatch.setattr("click.prompt", lambda *_, **__: next(answers))
    assert dpcube(monkeypatch, *TABLE) == 1
    told = capsys.readouterr()
    assert told.out == "wrote saved.dpcube\n"
    assert "t.csv exists" in told.err
    digest = Release.open("saved.dpcube").digest
    assert {charge.digest for charge in Ledger("t.ledger").statement().charges} == {digest}


def test_where_nobody_can_be_asked_the_command_says_that_the_release_is_lost(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.import_module("dpcube.cli.analyst.registry"), "can_ask", lambda: False)
    assert dpcube(monkeypatch, *TABLE) == 1
    assert "it is lost when this command ends" in capsys.readouterr().err


@pytest.mark.parametrize("fault", [MemoryError(), OSError(28, "No space left on device"), RuntimeError("of a library")])
def test_whatever_fails_as_it_is_written_the_release_is_kept(
    fault: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> str:
        raise fault

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(Release, "save", fail)
    with pytest.raises(KeptReleaseError, match=type(fault).__name__) as caught:
        release(tmp_path, save_to=tmp_path / "r.dpcube")
    assert caught.value.path is not None
    assert caught.value.path.is_file()


@pytest.mark.parametrize("name", ["r.dpcube", None])
def test_a_completion_that_cannot_be_recorded_loses_no_release(
    name: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        msg = "cannot use the ledger: the disk is full; the release was made"
        raise LedgerError(msg)

    place = None if name is None else tmp_path / name
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "complete_parts", full)
        with pytest.raises(KeptReleaseError, match=r"disk is full; .* dpcube ledger complete") as caught:
            release(tmp_path, save_to=place, even_if_empty=False)
    assert caught.value.path == place
    assert isinstance(caught.value.release, Release)
    book = Ledger(tmp_path / "t.ledger")
    (numbers,) = waiting_charges(caught.value.release, book.statement())
    assert len(numbers) == 2


NO_FILES = """
import resource, sys
import numpy as np
from dpcube import Domain
from dpcube.curator import publish
from dpcube.core.errors import KeptReleaseError
from dpcube.core.ledger.ledger import Ledger

honest = Ledger.charge_parts

def charge_parts(ledger, *given, **more):
    charged = honest(ledger, *given, **more)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    return charged

Ledger.charge_parts = charge_parts
try:
    publish(np.full((2, 3), 10_000), Domain.of_shape((2, 3)), epsilon=1, strategy="cells", ledger="t.ledger",
            save_to="r.dpcube")
except KeptReleaseError as kept:
    print(kept.path, kept.release.count().value > 50_000, kept)
"""


def test_a_process_that_may_write_nothing_any_more_has_the_release_in_memory(tmp_path: Path) -> None:
    command = [sys.executable, "-c", NO_FILES]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("None True cannot write r.dpcube: File too large; ")
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".ledger-journal") == ["t.ledger"]
    assert Ledger(tmp_path / "t.ledger").statement().spent == 1


FULL_DISK = """
import os, sys
from pathlib import Path
from dpcube.cli import main
from dpcube.core.ledger.ledger import Ledger

honest = Ledger.charge_parts

def charge_parts(ledger, *given, **more):
    charged = honest(ledger, *given, **more)
    filler = os.open("small/filler", os.O_CREAT | os.O_WRONLY)
    try:
        while os.write(filler, b"0" * 4096):
            pass
    except OSError:
        pass
    return charged

Ledger.charge_parts = charge_parts
main()
"""


def can_mount() -> bool:
    tried = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return (
        shutil.which("unshare") is not None and subprocess.run(tried, capture_output=True, check=False).returncode == 0
    )


@pytest.mark.slow
@pytest.mark.skipif(not can_mount(), reason="needs the right to mount a file system, to fill it")
def test_a_disk_that_fills_up_after_the_charge(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("age\n" + "3\n" * 1000)
    (tmp_path / "d.toml").write_text('[[attribute]]\nname = "age"\ntype = "integer"\nmin = 0\nmax = 9\n')
    (tmp_path / "small").mkdir()
    words = ["release", "t.csv", "--domain", "d.toml", "--epsilon", "1", "--strategy", "cells", "-o", "small/r.dpcube"]
    script = 'mount -t tmpfs -o size=1m tmpfs small && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", script, "sh", sys.executable, "-c", FULL_DISK, *words]
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path / "data")}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "cannot write small/r.dpcube: No space left on device. The release was made and charged for" in ran.stderr
    (place,) = (tmp_path / "data" / "dpcube").iterdir()
    assert f"is in {place}" in ran.stderr
    digests = {charge.digest for charge in Ledger(tmp_path / "t.ledger").statement().charges}
    assert digests == {Release.open(place).digest}


def test_a_limit_of_files_is_found_out_before_the_charge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpcube.measurements.file.largest_file", lambda: 999)
    check_writable(tmp_path / "r.dpcube", needed=999)
    with pytest.raises(ReleaseFileError, match=r"the limit of a file \(ulimit -f\) is 999 bytes"):
        check_writable(tmp_path / "r.dpcube", needed=1000)


# A process that died between the file and the ledger.

KILLED = """
import os, signal
import numpy as np
from dpcube import Domain
from dpcube.curator import account, publish

account.LedgerAccount.complete = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
publish(np.full((2, 3), 10_000), Domain.of_shape((2, 3)), epsilon=1, strategy="cells", ledger="t.ledger", total=2,
        save_to="r.dpcube", even_if_empty=False)
"""


def dpcube(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["dpcube", *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


def test_a_release_whose_process_was_killed_before_the_ledger_had_its_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, capture_output=True, check=False)
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    monkeypatch.chdir(tmp_path)
    book, made = Ledger("t.ledger"), Release.open("r.dpcube")
    assert [charge.is_open for charge in book.statement().charges] == [True, True]
    assert dpcube(monkeypatch, "ledger", "complete", "t.ledger", "r.dpcube") == 0
    assert capsys.readouterr().out == f"t.ledger: recorded the digest {made.digest[:16]} in charge 1 and 2\n"
    assert [charge.digest for charge in book.statement().charges] == [made.digest] * 2
    assert book.statement().spent == 1
    assert dpcube(monkeypatch, "ledger", "complete", "t.ledger", "r.dpcube") == 2
    assert "has the digest of this release already" in capsys.readouterr().err


@pytest.fixture
def open_book(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "t.ledger", total=Fraction(20))


def of_cells(book: Ledger, made: Release, **other: Any) -> int:
    """Charge as a release was charged, but for what is said."""
    domain = hashlib.sha256(made.domain.dumps().encode()).hexdigest()
    return book.charge(**{"epsilon": Fraction(1), "strategy": "cells", "domain": domain, **other})


def test_no_charge_of_another_kind_is_taken_for_that_of_a_release(tmp_path: Path, open_book: Ledger) -> None:
    made = release(tmp_path, ledger=tmp_path / "of_its_own.ledger")
    of_cells(open_book, made, epsilon=Fraction(1, 2))
    of_cells(open_book, made, strategy="dpcube")
    of_cells(open_book, made, domain="another")
    of_cells(open_book, made, period=Period("age", "integer", 1, 2))
    open_book.withdraw(of_cells(open_book, made))
    open_book.complete(of_cells(open_book, made), "0f" * 32)
    of_cells(open_book, made, strategy="total", epsilon=Fraction(1, 17))
    of_cells(open_book, made, epsilon=Fraction(1, 2))  # with that total it is not 1
    assert waiting_charges(made, open_book.statement()) == []
    first = of_cells(open_book, made, strategy="total", epsilon=Fraction(1, 17))
    rest = of_cells(open_book, made, epsilon=Fraction(16, 17))
    assert waiting_charges(made, open_book.statement()) == [[first, rest]]
    assert waiting_charges(made, Ledger.create(tmp_path / "p", total=Fraction(1), unit="p").statement()) == []


def test_several_charges_alike_are_told_apart_by_their_number(
    tmp_path: Path, open_book: Ledger, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = release(tmp_path, ledger=tmp_path / "of_its_own.ledger", save_to=tmp_path / "r.dpcube")
    for _ in range(2):
        of_cells(open_book, made)
    words = ("ledger", "complete", str(open_book.path), str(tmp_path / "r.dpcube"))
    assert dpcube(monkeypatch, *words) == 2
    assert "several charges" in (error := capsys.readouterr().err)
    assert "1, 2; choose one with --charge" in error
    assert dpcube(monkeypatch, *words, "--charge", "3") == 2
    assert "no open charge that matches" in capsys.readouterr().err
    assert dpcube(monkeypatch, *words, "--charge", "2") == 0
    assert [charge.digest for charge in open_book.statement().charges] == [None, made.digest]


def test_a_release_without_a_ledger_has_no_charge(tmp_path: Path, open_book: Ledger) -> None:
    with pytest.raises(InputError, match="was made without a ledger"):
        waiting_charges(release(tmp_path, ledger=None), open_book.statement())


# Who may write to what is made.


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
@pytest.mark.parametrize(("umask", "mode"), [(0o000, 0o644), (0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_nobody_else_may_write_to_a_file_that_is_made(umask: int, mode: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        made = release(tmp_path, save_to=tmp_path / "r.dpcube")
        made.domain.save(tmp_path / "d.toml")
    finally:
        os.umask(before)
    for name in ("r.dpcube", "t.ledger", "d.toml"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode, name
