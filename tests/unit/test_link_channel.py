"""Who gets in, who does not, and what ends a session: real sockets and TLS on loopback, no engine."""

import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from dpcube.core.errors import InputError, LinkageError
from dpcube.link.limits import MAX_PAYLOAD
from dpcube.link.program import Comparison, Program
from dpcube.link.secure import channel as channel_module
from dpcube.link.secure.agreement import Agreement, agree
from dpcube.link.secure.channel import Channel, FrameKind, await_peer, open_listener, reach_peer
from dpcube.link.secure.credentials import (
    Credentials,
    Role,
    _certificate,
    certificates,
    shared_key,
    write_shared_key,
)

GIVE_UP = 300.0
"""Seconds after which what is waited for will not come; how soon it comes is the machine's matter."""
PROGRAM = Program((Comparison("exact", 1, 2), Comparison("number", 1, 1, tolerance=3)), 2)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    path = tmp_path_factory.mktemp("ours") / "key"
    write_shared_key(path)
    return shared_key(path)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    path = tmp_path_factory.mktemp("theirs") / "key"
    write_shared_key(path)
    return shared_key(path)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with open_listener("127.0.0.1", 0) as made:
        yield made


def port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


@pytest.fixture
def ends(listener: socket.socket, ours: Credentials) -> Iterator[tuple[Channel, Channel]]:
    with ThreadPoolExecutor(1) as pool:
        awaited = pool.submit(await_peer, listener, ours, seconds=GIVE_UP)
        connector = reach_peer("127.0.0.1", port_of(listener), ours)
        with awaited.result() as made, connector:
            yield made, connector


def both(first: Callable[[], object], second: Callable[[], object]) -> tuple["Future[object]", "Future[object]"]:
    with ThreadPoolExecutor(2) as pool:
        return pool.submit(first), pool.submit(second)


def test_messages_of_any_size_arrive(ends: tuple[Channel, Channel]) -> None:
    sizes = (0, 1, MAX_PAYLOAD - 1, MAX_PAYLOAD, MAX_PAYLOAD + 1, 5 * MAX_PAYLOAD)
    for size in sizes:
        message = np.random.default_rng(size).bytes(size)
        one, other = both(partial(ends[0].exchange, message), partial(ends[1].exchange, message[::-1]))
        assert other.result() == message
        assert one.result() == message[::-1]
    assert ends[0].bytes_sent == ends[1].bytes_received > sum(sizes)


def refused(first: Callable[[], object], second: Callable[[], object]) -> list[str]:
    """What both sides were told; neither may have got anywhere."""
    return [str(future.exception()) for future in both(first, second)]


class OneVisitor:
    """A listener to whom one connection comes, however late, and no other."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener, self._has_come = listener, False

    def settimeout(self, seconds: float) -> None:
        self._listener.settimeout(seconds)

    def accept(self) -> tuple[socket.socket, Any]:
        if self._has_come:
            raise TimeoutError
        self._has_come = True
        return self._listener.accept()


def await_one(listener: socket.socket, credentials: Credentials) -> Channel:
    """Wait for the one who comes, and give up once it was refused."""
    return await_peer(OneVisitor(listener), credentials, seconds=GIVE_UP)  # type: ignore[arg-type]


def test_a_peer_with_another_key_is_refused_by_both(
    listener: socket.socket, ours: Credentials, theirs: Credentials
) -> None:
    told = refused(
        lambda: await_one(listener, ours),
        lambda: reach_peer("127.0.0.1", port_of(listener), theirs),
    )
    assert "no peer authenticated within 300 s; the peer at" in told[0]
    assert "has neither our key nor a certificate of our authority" in told[1]
    assert "the peer at 127.0.0.1 was refused: it " in told[0]


def test_an_impostor_who_lets_anybody_in_is_refused_by_who_connects(
    listener: socket.socket, ours: Credentials, theirs: Credentials
) -> None:
    """Here nobody but the connector checks."""
    careless = theirs.context("listener")
    careless.verify_mode = ssl.CERT_NONE
    told = refused(
        lambda: await_one(listener, Credentials({"listener": careless})),
        lambda: reach_peer("127.0.0.1", port_of(listener), ours),
    )
    careless.verify_mode = ssl.CERT_REQUIRED
    assert "has neither our key nor a certificate of our authority" in told[1]


def test_a_peer_without_a_certificate_is_refused(listener: socket.socket, ours: Credentials) -> None:
    def connect() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with socket.create_connection(("127.0.0.1", port_of(listener))) as plain, context.wrap_socket(plain) as stream:
            stream.settimeout(GIVE_UP)
            assert stream.recv(1) == b""

    told = refused(lambda: await_one(listener, ours), connect)
    assert "does not" in told[0]


def pem_files(folder: Path, authority: Ed25519PrivateKey, role: Role) -> tuple[Path, Path, Path]:
    """An authority, a certificate of it for a role, and the certificate's key, as files."""
    own = Ed25519PrivateKey.generate()
    made = {
        "ca.pem": _certificate("authority", authority, authority).public_bytes(Encoding.PEM),
        f"{role}.pem": _certificate(role, own, authority).public_bytes(Encoding.PEM),
        f"{role}.key": own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    }
    for name, content in made.items():
        (folder / name).write_bytes(content)
    return folder / "ca.pem", folder / f"{role}.pem", folder / f"{role}.key"


def test_certificates_of_one_authority_let_each_other_in(listener: socket.socket, tmp_path: Path) -> None:
    authority = Ed25519PrivateKey.generate()
    with ThreadPoolExecutor(1) as pool:
        awaited = pool.submit(
            await_peer, listener, certificates(*pem_files(tmp_path, authority, "listener")), seconds=GIVE_UP
        )
        shown = certificates(*pem_files(tmp_path, authority, "connector"))
        with reach_peer("127.0.0.1", port_of(listener), shown) as connector, awaited.result() as made:
            assert (connector.role, made.role) == ("connector", "listener")


@pytest.mark.parametrize("fault", ["role", "authority"])
def test_a_certificate_of_another_role_or_authority_is_refused(
    listener: socket.socket, tmp_path: Path, fault: str
) -> None:
    """By its role, nobody can be answered with its own certificate."""
    authority = Ed25519PrivateKey.generate()
    ours = certificates(*pem_files(tmp_path, authority, "listener"))
    if fault == "authority":
        (other := tmp_path / "other").mkdir()
        shown = pem_files(other, Ed25519PrivateKey.generate(), "connector")
        turned = certificates(tmp_path / "ca.pem", *shown[1:])
    else:
        turned = ours
    told = refused(
        lambda: await_one(listener, ours),
        lambda: reach_peer("127.0.0.1", port_of(listener), turned),
    )
    assert "has neither our key nor a certificate of our authority" in told[0]
    assert told[1].startswith("the peer at 127.0.0.1 was refused: it ")


@pytest.mark.parametrize("words", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + bytes(200), bytes(65536)])
def test_a_peer_that_speaks_no_tls_is_refused(listener: socket.socket, ours: Credentials, words: bytes) -> None:
    def connect() -> None:
        with socket.create_connection(("127.0.0.1", port_of(listener)), timeout=GIVE_UP) as plain:
            plain.sendall(words)
            plain.settimeout(GIVE_UP)
            while plain.recv(4096):
                pass

    told = refused(lambda: await_one(listener, ours), connect)
    assert "was refused: it" in told[0]


def test_a_silent_peer_is_refused_in_time(
    listener: socket.socket, ours: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "HANDSHAKE_SECONDS", 0.5)
    with (
        socket.create_connection(("127.0.0.1", port_of(listener))),
        pytest.raises(LinkageError, match="did not authenticate"),
    ):
        await_one(listener, ours)


def test_a_listener_to_whom_nobody_comes_says_so(listener: socket.socket, ours: Credentials) -> None:
    with pytest.raises(LinkageError, match=r"^no peer authenticated within 0 s$"):
        await_peer(listener, ours, seconds=0.1)


def test_a_wrong_peer_does_not_keep_the_right_one_out(
    listener: socket.socket, ours: Credentials, theirs: Credentials
) -> None:
    heard: list[str] = []
    with ThreadPoolExecutor(1) as pool:
        awaited = pool.submit(await_peer, listener, ours, seconds=GIVE_UP, tell=heard.append)
        with pytest.raises(LinkageError, match="refused"):
            reach_peer("127.0.0.1", port_of(listener), theirs)
        with reach_peer("127.0.0.1", port_of(listener), ours) as connector, awaited.result() as made:
            connector.send(b"here")
            connector.flush()
            assert made.receive() == b"here"
    assert len(heard) == 1
    assert "\n" not in heard[0]


def test_nobody_there_is_said_in_one_line(listener: socket.socket, ours: Credentials) -> None:
    port = port_of(listener)
    listener.close()
    with pytest.raises(LinkageError, match=f"no party listens at 127.0.0.1 port {port}"):
        reach_peer("127.0.0.1", port, ours, seconds=0.5)


def test_a_port_that_is_taken_is_said(listener: socket.socket) -> None:
    with pytest.raises(LinkageError, match="cannot listen"):
        open_listener("127.0.0.1", port_of(listener))


def test_what_a_peer_sends_out_of_turn_ends_the_session(ends: tuple[Channel, Channel]) -> None:
    ends[0].queue(FrameKind.DONE)
    ends[0].flush()
    with pytest.raises(LinkageError, match=r"something other than|unexpected frame"):
        ends[1].receive()


def test_a_replayed_frame_ends_the_session(ends: tuple[Channel, Channel]) -> None:
    ends[0].send(b"once")
    ends[0]._unsent += bytes(ends[0]._unsent)
    ends[0].flush()
    assert ends[1].receive() == b"once"
    with pytest.raises(LinkageError, match="repeated or out of order"):
        ends[1].receive()


def test_a_message_without_end_is_refused(ends: tuple[Channel, Channel], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "MAX_MESSAGE", 2 * MAX_PAYLOAD)

    def pour() -> None:
        for _ in range(3):
            ends[0].queue(FrameKind.MESSAGE, bytes(MAX_PAYLOAD))
        ends[0].flush()

    told = refused(pour, ends[1].receive)
    assert "something other than the expected message" in told[1]


def test_a_message_in_crumbs_is_refused(ends: tuple[Channel, Channel]) -> None:
    for _ in range(2):
        ends[0].queue(FrameKind.MESSAGE, b"")
    ends[0].flush()
    with pytest.raises(LinkageError, match="something other than the expected message"):
        ends[1].receive()


def test_a_peer_that_goes_or_keeps_silent_ends_the_session(ends: tuple[Channel, Channel]) -> None:
    with pytest.raises(LinkageError, match="in time"):
        ends[1].receive(seconds=0.2)
    with pytest.raises(LinkageError, match="silent"):
        ends[1].beat(0.1)
    ends[0].close(reason=True)
    with pytest.raises(LinkageError, match="ended the session early"):
        ends[1].receive()
    with pytest.raises(LinkageError, match="closed the connection"):
        ends[1].receive()


def test_beats_are_heard_and_are_no_messages(ends: tuple[Channel, Channel], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "BEAT_SECONDS", 0.0)
    ends[0].beat()
    ends[0].send(b"after")
    ends[0].flush()
    assert ends[1].receive() == b"after"


# What both compare before they start.


def agreed(ends: tuple[Channel, Channel], first: dict[str, object], second: dict[str, object]) -> list[object]:
    usual = {"program": PROGRAM, "candidates": [(0, 0), (1, 0)], "engine": "e"}

    def one(end: Channel, sizes: list[int], changed: dict[str, object]) -> Callable[[], object]:
        return lambda: agree(end, sizes=sizes, **{**usual, **changed})  # type: ignore[arg-type]

    ends_of_it = both(one(ends[0], [3, 4], first), one(ends[1], [5], second))
    return [future.exception() or future.result() for future in ends_of_it]


def test_both_sides_agree_on_sizes(ends: tuple[Channel, Channel]) -> None:
    made = agreed(ends, {"peer_sizes": [5]}, {})
    assert made[0] == made[1] == Agreement(PROGRAM, ((0, 0), (1, 0)), (3, 4), (5,))
    assert isinstance(made[0], Agreement)
    assert made[0].pairs == 35


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"program": Program(PROGRAM.comparisons, 3)}, "rules"),
        ({"candidates": [(0, 0)]}, "candidate blocks"),
        ({"engine": "another"}, "engine"),
    ],
)
def test_a_difference_is_named_before_sizes_are_told(
    ends: tuple[Channel, Channel], changed: dict[str, object], named: str
) -> None:
    told = agreed(ends, {}, changed)
    assert [str(one) for one in told] == [
        f"the two sides differ in: {named}; nothing was compared; use the same on both sides"
    ] * 2
    assert ends[0].next_frame() is None
    assert ends[1].next_frame() is None


def test_a_peer_is_held_to_the_sizes_it_published(ends: tuple[Channel, Channel]) -> None:
    told = agreed(ends, {"peer_sizes": [6]}, {})
    assert "other sizes" in str(told[0])


@pytest.mark.parametrize("candidates", [[(0, 1)], [(2, 0)], [(-1, 0)], [(0, 0), (0, 0)]])
def test_candidates_are_distinct_blocks_that_are_there(
    ends: tuple[Channel, Channel], candidates: list[tuple[int, int]]
) -> None:
    told = agreed(ends, {"candidates": candidates}, {"candidates": candidates})
    assert all(isinstance(one, InputError) for one in told)


@pytest.mark.parametrize("told", [b"", b"{}", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"rules": 3}'])
def test_a_statement_that_is_none_is_refused(ends: tuple[Channel, Channel], told: bytes) -> None:
    ends[1].send(told)
    ends[1].flush()
    with pytest.raises(LinkageError, match="the two sides differ in"):
        agree(ends[0], PROGRAM, [(0, 0)], [3], engine="e")


@pytest.mark.parametrize("sizes", [b"abc", b"\xff\xff\xff\xff"])
def test_sizes_that_cannot_be_are_refused(ends: tuple[Channel, Channel], sizes: bytes) -> None:
    def peer() -> None:
        ends[1].send(ends[1].receive())  # the same statement
        ends[1].exchange(sizes)

    told = refused(lambda: agree(ends[0], PROGRAM, [(0, 0)], [3], engine="e"), peer)
    assert "the session is over" in told[0]


# Keys and certificates.


def test_a_key_is_a_new_file_of_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "key"
    write_shared_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.read_text()
    with pytest.raises(InputError, match="File exists"):
        write_shared_key(path)
    assert path.read_text() == before
    path.chmod(0o640)
    with pytest.raises(LinkageError, match="chmod 600"):
        shared_key(path)


@pytest.mark.parametrize("content", [b"", b"password\n", b"0" * 63, b"0" * 65, b"\xff" * 64])
def test_what_is_no_key_is_refused_without_being_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(InputError, match="does not contain a shared key") as error:
        shared_key(path)
    assert "password" not in str(error.value)


def test_files_that_are_no_certificates_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must be an authority"):
        certificates(tmp_path / "ca", tmp_path / "crt", tmp_path / "key")


@pytest.mark.parametrize("role", ["listener", "connector"])
def test_only_the_newest_tls_is_spoken_and_no_session_is_resumed(role: Role, ours: Credentials) -> None:
    context = ours.context(role)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_3
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert role == "connector" or context.num_tickets == 0


def test_certificates_say_what_they_are_for_and_that_it_matters() -> None:
    """An authority signs certificates and nothing below it does; a side signs and is of one role."""
    authority, own = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    root, leaf = _certificate("authority", authority, authority), _certificate("listener", own, authority)
    for certificate, is_root in ((root, True), (leaf, False)):
        basic = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
        usage = certificate.extensions.get_extension_for_class(x509.KeyUsage)
        assert (basic.critical, basic.value.ca, basic.value.path_length) == (True, is_root, 0 if is_root else None)
        assert usage.critical
        assert usage.value.key_cert_sign == usage.value.crl_sign == is_root
        assert usage.value.digital_signature != is_root
        others = (usage.value.content_commitment, usage.value.key_encipherment, usage.value.data_encipherment)
        assert not any((*others, usage.value.key_agreement))
    purpose = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    assert purpose.critical
    assert list(purpose.value) == [x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]


@pytest.mark.parametrize("mode", [0o601, 0o610, 0o640, 0o604, 0o602])
def test_a_key_that_others_may_open_is_refused(tmp_path: Path, mode: int) -> None:
    write_shared_key(tmp_path / "key")
    (tmp_path / "key").chmod(mode)
    with pytest.raises(LinkageError, match="chmod 600"):
        shared_key(tmp_path / "key")
