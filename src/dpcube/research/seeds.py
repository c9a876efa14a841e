"""Seeds that follow from what is measured: every table, draw and strategy has noise of its own, the same every day."""

import hashlib


def seed_of(*what: object) -> int:
    """Return the seed of what is named, whatever else is run beside it.

    >>> seed_of("age x sex", "0.1", "cells", 3) == seed_of("age x sex", "0.1", "cells", 3)
    True
    >>> seed_of("age x sex", 13) == seed_of("age x sex", 1, 3)
    False
    """
    named = "\x1f".join(map(str, what))
    return int.from_bytes(hashlib.blake2b(named.encode(), digest_size=7).digest())
