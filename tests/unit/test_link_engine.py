"""The watch over the engine: whatever becomes of the child, dpcube ends soon and with one line. No engine needed."""

import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dpcube.core.errors import InputError, LinkageError
from dpcube.link.secure import environment
from dpcube.link.secure.channel import Channel, FrameKind, await_peer, open_listener, reach_peer
from dpcube.link.secure.credentials import shared_key, write_shared_key
from dpcube.link.secure.engine import EngineWatch, _end_tunnel, pairs_at_once, run_engine
from dpcube.link.secure.environment import engine_folder, engine_python, install_engine


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[tuple[Channel, Channel]]:
    write_shared_key(tmp_path / "key")
    key = shared_key(tmp_path / "key")
    with open_listener("127.0.0.1", 0) as listener, ThreadPoolExecutor(1) as pool:
        awaited = pool.submit(await_peer, listener, key, seconds=300)
        connector = reach_peer("127.0.0.1", listener.getsockname()[1], key)
        with awaited.result() as made, connector:
            yield made, connector


def fake(tmp_path: Path, script: str) -> Path:
    """A program in the place of the engine's Python."""
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return path


def slow(tmp_path: Path, script: str = "") -> Path:
    """A program that would take a minute, and leave a file then."""
    return fake(tmp_path, f"{script}\nsleep 600; touch {tmp_path}/late")


def outcome(channel: Channel, python: Path, **limits: float) -> str:
    """What is said of an engine that fails; none was waited for to its end."""
    with pytest.raises(LinkageError) as error:
        run_engine(channel, {"task": "compare"}, {}, EngineWatch(python, **limits))  # type: ignore[arg-type]
    assert not python.with_name("late").exists()
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("exit 3", "stopped before its work was done"),
        (r"printf 'F\0\0\0\0\0\0\0\012ValueError'", "stopped before its work was done (ValueError)"),
    ],
)
def test_an_engine_that_fails_is_told(ends: tuple[Channel, Channel], tmp_path: Path, script: str, told: str) -> None:
    assert told in outcome(ends[0], slow(tmp_path, script))


def test_an_engine_that_stands_still_is_stopped(ends: tuple[Channel, Channel], tmp_path: Path) -> None:
    assert "made no progress for 1 s" in outcome(ends[0], slow(tmp_path, "cat >/dev/null &"), stalled=1)


@pytest.mark.parametrize("pauses", [(0, 0), (0, 0.3), (0.3, 0)])
def test_two_engines_that_end_at_any_time_end_the_session_alike(
    ends: tuple[Channel, Channel], tmp_path: Path, pauses: tuple[float, float]
) -> None:
    """Both are told all that was answered, and the next message is the next message, whoever was done first."""

    def program(role: str, pause: float) -> Path:
        (place := tmp_path / role).mkdir()
        answers = r"'B\0\0\0\0\0\0\0\002abB\0\0\0\0\0\0\0\0D\0\0\0\0\0\0\0\0'"
        return fake(place, f"cat >/dev/null & sleep {pause}; printf {answers}; sleep 30")

    def party(channel: Channel, python: Path) -> tuple[list[bytes], bytes]:
        try:
            answered = run_engine(channel, {"task": "compare"}, {}, EngineWatch(python))
            return answered, channel.exchange(channel.role.encode())
        except LinkageError:
            channel.close()  # the other side shall not wait
            raise

    # Both files are written before either is started: a file that a fork still holds open cannot be.
    programs = [program(end.role, pause) for end, pause in zip(ends, pauses, strict=True)]
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(party, end, python) for end, python in zip(ends, programs, strict=True)]
        assert [one.result() for one in both] == [([b"ab", b""], b"connector"), ([b"ab", b""], b"listener")]


def test_what_an_engine_writes_is_written_in_a_folder_of_its_own_and_goes_with_it(
    ends: tuple[Channel, Channel], tmp_path: Path
) -> None:
    script = (
        f'echo x > "$TMPDIR/left"; pwd > {tmp_path}/where; stat -c %a . >> {tmp_path}/where; ls >> {tmp_path}/where'
    )
    outcome(ends[0], fake(tmp_path, script))
    where, mode, *names = (tmp_path / "where").read_text().split()
    assert (mode, "left" in names) == ("700", True)
    assert not Path(where).exists()


def test_an_engine_whose_party_is_gone_goes_too_and_leaves_nothing(tmp_path: Path) -> None:
    """A party that is killed cannot tidy up: its engine's standard input ends, and the engine does."""
    (tmp_path / "left").mkdir()
    (tmp_path / "left" / "items").write_text("x")
    script = "import sys; from dpcube.link.secure.worker import end_with; end_with(sys.stdin.buffer, sys.argv[1])"
    command = [sys.executable, "-c", script, str(tmp_path / "left")]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, timeout=300, check=False)
    assert done.returncode == 3
    assert not (tmp_path / "left").exists()


def test_an_engine_that_is_not_there_is_told(ends: tuple[Channel, Channel], tmp_path: Path) -> None:
    assert "cannot be started" in outcome(ends[0], tmp_path / "none")


def test_an_environment_without_the_engine_is_told_by_the_kind_of_fault(ends: tuple[Channel, Channel]) -> None:
    assert "(ModuleNotFoundError)" in outcome(ends[0], Path(sys.executable))


@pytest.mark.parametrize(
    ("kind", "told"), [(FrameKind.MESSAGE, "an unexpected frame"), (FrameKind.ABORT, "ended the session")]
)
def test_a_peer_that_ends_or_errs_ends_the_engine(
    ends: tuple[Channel, Channel], tmp_path: Path, kind: FrameKind, told: str
) -> None:
    ends[1].queue(kind)
    ends[1].flush()
    assert told in outcome(ends[0], slow(tmp_path))


def test_a_silent_peer_ends_the_engine(ends: tuple[Channel, Channel], tmp_path: Path) -> None:
    assert "silent for 1 s" in outcome(ends[0], slow(tmp_path), silence=1)


def test_what_the_engines_sent_last_is_passed_over(ends: tuple[Channel, Channel]) -> None:
    for kind in (FrameKind.DATA, FrameKind.OPEN, FrameKind.CLOSE, FrameKind.DONE):
        ends[1].queue(kind, struct.pack(">I", 1))
    ends[1].send(b"next")
    ends[1].flush()
    _end_tunnel(ends[0])
    assert ends[0].receive() == b"next"
    ends[1].send(b"too early")
    ends[1].flush()
    with pytest.raises(LinkageError, match="an unexpected frame"):
        _end_tunnel(ends[0])


def test_after_the_engines_the_next_message_is_the_next_message(ends: tuple[Channel, Channel], tmp_path: Path) -> None:
    """A peer whose engine closes its streams after both are done: that is passed over before anything else is read."""
    python = fake(tmp_path, r"cat >/dev/null & printf 'D\0\0\0\0\0\0\0\0'; sleep 30")

    def peer(channel: Channel) -> None:
        channel.queue(FrameKind.DONE)
        assert channel.receive_frame().kind == FrameKind.DONE
        channel.queue(FrameKind.CLOSE, struct.pack(">I", 1))
        channel.queue(FrameKind.DONE)
        channel.send(b"next")
        channel.flush()
        assert channel.receive_frame().kind == FrameKind.DONE  # and it is told that nothing of ours follows

    with ThreadPoolExecutor(1) as pool:
        played = pool.submit(peer, ends[1])
        assert run_engine(ends[0], {"task": "compare"}, {}, EngineWatch(python)) == []
        assert ends[0].receive() == b"next"
        played.result(timeout=300)


def test_fewer_pairs_are_decided_at_once_the_more_is_compared() -> None:
    assert [pairs_at_once(conditions) for conditions in (1, 9, 100, 4096)] == [2**19, 57_344, 4096, 4096]


def test_where_the_engine_is_looked_for(tmp_path: Path) -> None:
    places = {"DPCUBE_CACHE": str(tmp_path)}
    assert engine_python({**places, "DPCUBE_LINK_ENGINE": "/opt/python"}) == Path("/opt/python")
    with pytest.raises(InputError, match="--install-engine"):
        engine_python(places)
    folder = engine_folder(places)
    assert folder == tmp_path / "engine-spu-0.9.5"
    folder.mkdir(mode=0o700)
    (folder / "ready").touch()
    assert engine_python(places) == folder / "bin" / "python"
    with pytest.raises(InputError, match="DPCUBE_LINK_ENGINE"):
        engine_folder({"DPCUBE_CACHE": "off"})


@pytest.mark.parametrize(("place", "mode"), [("", 0o755), ("", 0o770), ("", 0o701), ("..", 0o775), ("..", 0o1777)])
def test_an_engine_where_others_could_have_put_code_is_not_run(tmp_path: Path, place: str, mode: int) -> None:
    places = {"DPCUBE_CACHE": str(tmp_path / "cache")}
    folder = engine_folder(places)
    folder.mkdir(mode=0o700, parents=True)
    (folder / "ready").touch()
    assert engine_python(places) == folder / "bin" / "python"
    (folder / place).chmod(mode)
    with pytest.raises(InputError, match="is not run, because other users could have put code there"):
        engine_python(places)


def test_an_engine_of_another_user_or_behind_a_link_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = {"DPCUBE_CACHE": str(tmp_path / "cache")}
    folder = engine_folder(places)
    folder.mkdir(mode=0o700, parents=True)
    (folder / "ready").touch()
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="is not run"):
        engine_python(places)
    folder.unlink()
    (tmp_path / "elsewhere").rename(folder)
    assert engine_python(places) == folder / "bin" / "python"
    for others in ([12_345, os.geteuid()], [os.geteuid(), 12_345]):  # the cache directory, or the engine's in it
        users = iter(others)
        monkeypatch.setattr("os.geteuid", lambda users=users: next(users))
        with pytest.raises(InputError, match="is not run"):
            engine_python(places)
        monkeypatch.undo()


def test_what_is_installed_in_the_cache_is_for_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPCUBE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(environment, "_python_3_11", lambda: sys.executable)
    monkeypatch.setattr(environment, "_run", lambda *_: None)
    before = os.umask(0)
    try:
        install_engine()
    finally:
        os.umask(before)
    assert engine_folder().stat().st_mode & 0o777 == 0o700
    engine_folder().chmod(0o777)
    with pytest.raises(InputError, match="is not run"):
        install_engine()


def test_half_an_installation_is_made_anew_and_a_failure_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "engine"
    (folder / "half").mkdir(parents=True)
    monkeypatch.setattr(environment, "_python_3_11", lambda: sys.executable)
    ran: list[tuple[str, ...]] = []

    def run(*command: str) -> None:
        ran.append(command[1:3])
        folder.mkdir(exist_ok=True)

    monkeypatch.setattr(environment, "_run", run)
    assert install_engine(folder) == folder / "bin" / "python"
    assert not (folder / "half").exists()
    assert ran[:2] == [("-m", "venv"), ("-m", "pip")]
    assert install_engine(folder) == folder / "bin" / "python"
    assert len(ran) == 3  # what is there is not made again
    monkeypatch.undo()
    with pytest.raises(LinkageError, match=r"the engine cannot be installed: .*no such option") as error:
        environment._run(sys.executable, "-m", "pip", "--no-such-option")
    assert "\n" not in str(error.value)
