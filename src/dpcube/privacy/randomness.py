"""Cryptographically strong random words: an AES-256-CTR key stream enters, NumPy arrays of uniform words leave.

There is no seed and no way to give one: key and first counter block come from the operating system. Distinguishing
these words from uniform ones means breaking AES-256; the noise law proved in `dpcube.privacy.noise` is exact up to
that assumption alone.
"""

import os
from typing import NoReturn, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

KEY_LIFETIME = 1 << 32
"""Bytes drawn from one key. A CTR key stream never repeats a block, uniform words do: after 2^28 blocks the
difference is worth 2^-73 to a distinguisher."""

_ZEROS = memoryview(bytes(1 << 17))
_forks = 0


class WordSource(Protocol):
    """Whatever fills arrays with independent uniform 32-bit words."""

    def fill(self, words: NDArray[np.uint32], /) -> None:
        """Overwrite `words` with fresh ones."""


class RandomWords:
    """A stream of uniform words that no other stream, process or fork repeats.

    >>> words = np.zeros(4, dtype=np.uint32)
    >>> RandomWords().fill(words)
    >>> bool(words.any())
    True
    """

    __slots__ = ("_cipher", "_left", "_owner")

    def __init__(self) -> None:
        self._rekey()

    def fill(self, words: NDArray[np.uint32] | NDArray[np.uint64], /) -> None:
        """Overwrite a contiguous array of unsigned words in place, without copies."""
        if words.dtype not in (np.uint32, np.uint64):
            message = f"random words fill uint32 or uint64 arrays, got {words.dtype}"
            raise TypeError(message)
        if words.size == 0:
            return
        target = words.data.cast("B")
        for start in range(0, target.nbytes, _ZEROS.nbytes):
            part = target[start : start + _ZEROS.nbytes]
            if self._owner != _this_process() or self._left < part.nbytes:
                self._rekey()
            # Encrypting zeros leaves the bare key stream.
            self._cipher.update_into(_ZEROS[: part.nbytes], part)
            self._left -= part.nbytes

    def _rekey(self) -> None:
        key, counter = os.urandom(32), os.urandom(16)
        self._cipher = Cipher(algorithms.AES256(key), modes.CTR(counter)).encryptor()
        self._left = KEY_LIFETIME
        self._owner = _this_process()

    def __reduce__(self) -> NoReturn:
        message = "a stream of random words is never copied or pickled: its copy would repeat the noise"
        raise TypeError(message)


def _this_process() -> tuple[int, int]:
    # The process number alone is not enough: a grandchild may be given the number of a dead ancestor.
    return os.getpid(), _forks


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)
