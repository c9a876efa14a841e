"""Mutual TLS credentials of the two parties: a shared key, or certificates of a private authority.

Both ways are mutual TLS 1.3 with one certificate authority of the two parties, verified by OpenSSL. With a shared key
the authority *is* the key: its Ed25519 key is derived from the 256 random bits of the file, and each session signs a
certificate of its own with it. So every holder of the key can be either party, nobody else can, and no further
challenge-response protocol is needed. A certificate names its role, so that a peer cannot be answered with its own
certificate. Host names are not checked: the authority is for these two parties alone. The key must be random, for a
peer that tries to connect sees a signature that would allow it to guess a password.
"""

import datetime
import os
import secrets
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dpcube.core.errors import InputError, LinkageError

Role = Literal["listener", "connector"]
KEY_BYTES = 32
_PURPOSES: dict[Role, x509.ObjectIdentifier] = {
    "listener": ExtendedKeyUsageOID.SERVER_AUTH,
    "connector": ExtendedKeyUsageOID.CLIENT_AUTH,
}
# Session keys end with the session, and trust is in the shared key: clock differences must not matter.
_FROM, _UNTIL = datetime.datetime(2000, 1, 1), datetime.datetime(2999, 1, 1)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials of a party, and its requirements for the peer: TLS settings for each role."""

    _contexts: dict[Role, ssl.SSLContext] = field(repr=False)

    def context(self, role: Role) -> ssl.SSLContext:
        """Return the TLS settings of a party that listens or connects."""
        return self._contexts[role]


def write_shared_key(path: Path | str) -> None:
    """Write a new random key to a new file that only its owner can read; give the peer a copy over a safe channel."""
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError as error:
        msg = f"cannot write a key to {path}: {error.strerror}"
        raise InputError(msg) from None
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{secrets.token_hex(KEY_BYTES)}\n")


def shared_key(path: Path | str) -> Credentials:
    """Return the credentials of the holder of the key in a file."""
    authority = Ed25519PrivateKey.from_private_bytes(
        HKDF(SHA256(), 32, salt=None, info=b"dpcube link authority 1").derive(_key_in(Path(path)))
    )
    root = _certificate("authority", authority, authority)
    return Credentials({role: _session_context(role, authority, root) for role in _PURPOSES})


def certificates(authority: Path | str, certificate: Path | str, key: Path | str) -> Credentials:
    """Return the credentials of the holder of a certificate; peers need one by the same private authority."""
    try:
        root = Path(authority).read_text(encoding="ascii")
        made = {role: _context(role, root, Path(certificate), Path(key)) for role in _PURPOSES}
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        msg = f"{authority}, {certificate} and {key} must be an authority, a certificate and its key in PEM ({error})"
        raise InputError(msg.replace("\n", " ")) from None
    return Credentials(made)


def _key_in(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            mode, text = os.fstat(file.fileno()).st_mode, file.read(2 * KEY_BYTES + 2)
        key = bytes.fromhex(text.decode("ascii").strip())
    except (OSError, ValueError):
        key, mode = b"", 0
    if len(key) != KEY_BYTES:
        msg = f"{path} does not contain a shared key, {2 * KEY_BYTES} hexadecimal digits; make one with "
        msg += "dpcube link --new-key (write_shared_key in Python)"
        raise InputError(msg)
    if os.name == "posix" and mode & 0o077:
        msg = f"{path} can be read by other users, so its key is not secret; make a new key, or at least chmod 600 it"
        raise LinkageError(msg)
    return key


def _session_context(role: Role, authority: Ed25519PrivateKey, root: x509.Certificate) -> ssl.SSLContext:
    own = Ed25519PrivateKey.generate()
    shown = _certificate(role, own, authority).public_bytes(Encoding.PEM)
    secret = own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with tempfile.TemporaryDirectory(prefix="dpcube-") as folder:  # 0700; OpenSSL takes a key from a file only
        path = Path(folder, "session.pem")
        path.write_bytes(shown + secret)
        return _context(role, root.public_bytes(Encoding.PEM).decode("ascii"), path, path)


def _context(role: Role, root: str, certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if role == "listener" else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED  # for the connecting side, too
    if role == "listener":
        context.num_tickets = 0
    context.load_verify_locations(cadata=root)
    context.load_cert_chain(certificate, key)
    return context


def _certificate(
    name: Role | Literal["authority"], key: Ed25519PrivateKey, authority: Ed25519PrivateKey
) -> x509.Certificate:
    """Return a certificate of the authority for a role, or for itself."""
    is_root = name == "authority"
    public, issuer = key.public_key(), authority.public_key()
    usage = x509.KeyUsage(
        not is_root, False, False, False, False, is_root, is_root, encipher_only=False, decipher_only=False
    )
    made = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name("authority"))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_FROM)
        .not_valid_after(_UNTIL)
        .add_extension(x509.BasicConstraints(ca=is_root, path_length=0 if is_root else None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer), critical=False)
    )
    if name != "authority":
        made = made.add_extension(x509.ExtendedKeyUsage([_PURPOSES[name]]), critical=True)
    return made.sign(authority, None)


def _name(label: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"dpcube link {label}")])
