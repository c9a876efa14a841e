"""Files that appear whole or not at all, on disk, and for their owner alone if they are private."""

import os
import resource
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpcube.core.files import largest_file, new_file, number_of_names


@pytest.fixture(params=[0o000, 0o022])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield int(request.param)
    os.umask(before)


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize(("private", "mode"), [(True, 0o600), (False, 0o644)])
def test_nobody_else_may_write_a_file_or_read_a_private_one(tmp_path: Path, *, private: bool, mode: int) -> None:
    with new_file(tmp_path / "new", private=private) as part:
        assert stat.S_IMODE(part.stat().st_mode) == mode, "open to others while it is written"
        part.write_text("7654321")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == mode


def test_a_new_file_and_its_name_are_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger's charge must outlive a loss of power: the directory that names it is written out too."""
    synced: list[tuple[bool, int]] = []
    fsync = os.fsync

    def kept(descriptor: int) -> None:
        found = os.fstat(descriptor)
        synced.append((stat.S_ISDIR(found.st_mode), found.st_ino))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", kept)
    with new_file(tmp_path / "new") as part:
        part.write_text("7654321")
    assert synced == [(False, (tmp_path / "new").stat().st_ino), (True, tmp_path.stat().st_ino)]


def test_a_file_has_as_many_names_as_were_given_to_it(tmp_path: Path) -> None:
    with new_file(tmp_path / "new") as part:
        part.write_text("7654321")
        os.link(part, tmp_path / "named")
        assert number_of_names(tmp_path / "named") == 1, "the place where it was written does not count"
        os.link(part, tmp_path / "also")
        assert number_of_names(tmp_path / "named") == 2


def test_the_largest_file_is_what_the_system_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, said in ((resource.RLIM_INFINITY, None), (12_345, 12_345)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, limit=limit: (limit, resource.RLIM_INFINITY))
        assert largest_file() == said
