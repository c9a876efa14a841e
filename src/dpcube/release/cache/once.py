"""What a command makes of a file alone is made once: the next time the same bytes are taken from the cache."""

from collections.abc import Callable
from pathlib import Path

from dpcube.core.caches import cache_folder
from dpcube.release.cache import folder
from dpcube.release.cache.keys import digest_of, key_of


def libraries(*names: str) -> str:
    """Return the versions of libraries, with which pictures change; of one that is not installed, that it is not."""
    from importlib.metadata import version
    from importlib.util import find_spec

    return " ".join(f"{name} {version(name) if find_spec(name) else 'missing'}" for name in names)


def made_once(path: Path, what: str, make: Callable[[], bytes]) -> bytes:
    """Return what `make` makes of the file at `path`, from the cache if it was made before.

    `what` names it, with all that it depends on but the file.
    """
    place, digest = cache_folder(), digest_of(path)
    if place is None or digest is None:
        return make()
    key = key_of(digest, what)
    if (kept := folder.read_entry(place, key)) is not None:
        return bytes(kept)
    made = make()
    if digest_of(path) == digest:
        folder.write_entry(place, key, made)
    return made
