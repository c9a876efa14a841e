"""Cryptographically strong random words: NumPy arrays of uniform words from an AES-256-CTR key stream.

There is no seed and no way to set one: key and first counter block come from the operating system. Distinguishing
these words from uniform ones means breaking AES-256; the noise law proved in `dpcube.core.noise` is exact up to
that assumption alone.
"""

import os
from threading import local
from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from dpcube.core.unique import Unique, this_process

KEY_LIFETIME = 1 << 32
"""Bytes drawn from one key. A CTR key stream never repeats a block, uniform words do: after 2^28 blocks the
difference is worth 2^-73 to a distinguisher."""

_ZEROS = memoryview(bytes(1 << 17))


class WordSource(Protocol):
    """A source that fills arrays with independent uniform 32-bit words."""

    def fill(self, words: NDArray[np.uint32], /) -> None:
        """Overwrite `words` with fresh ones."""


class RandomWords(Unique, local):
    """A stream of uniform words that no other stream, process, fork or thread repeats.

    Each thread has its own key in it, as the attributes of a `threading.local` are each thread's own: no two threads
    share a cipher, its count or a lock, so no words are handed out twice or torn, and a fork cannot inherit a lock.

    >>> words = np.zeros(4, dtype=np.uint32)
    >>> RandomWords().fill(words)
    >>> bool(words.any())
    True
    """

    def __init__(self) -> None:  # which runs in each thread that uses the stream
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
            if self._owner != this_process() or self._left < part.nbytes:
                self._rekey()
            # Encrypting zeros leaves the bare key stream.
            self._cipher.update_into(_ZEROS[: part.nbytes], part)
            self._left -= part.nbytes

    def _rekey(self) -> None:
        key, counter = os.urandom(32), os.urandom(16)
        self._cipher = Cipher(algorithms.AES256(key), modes.CTR(counter)).encryptor()
        self._left = KEY_LIFETIME
        self._owner = this_process()
