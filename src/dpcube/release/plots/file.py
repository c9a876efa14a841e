"""Output files of pictures: the extension decides the format."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from dpcube.core.errors import InputError
from dpcube.core.files import new_file

if TYPE_CHECKING:
    from dpcube.release.plots.picture import Picture

ENDINGS = ("html", "svg", "png")


def check_ending(path: Path, endings: tuple[str, ...] = ENDINGS) -> str:
    """Return the extension of an output file; refuse one that cannot be written, before anything is computed."""
    ending = path.suffix.lower().removeprefix(".")
    if ending not in endings:
        allowed = ", ".join(f".{known}" for known in endings)
        msg = f"the extension of {path.name} must be one of {allowed}, it decides the format"
        raise InputError(msg)
    if not path.absolute().parent.is_dir():
        msg = f"there is no directory {path.parent} for {path.name}; create it first"
        raise InputError(msg)
    if os.path.lexists(path):
        msg = f"{path} exists, and is not replaced; choose another name"
        raise InputError(msg)
    return ending


def save(picture: "Picture", path: str | Path) -> None:
    """Write a picture to a new file: .html by Plotly, .svg or .png by matplotlib."""
    write_picture(Path(path), picture_bytes(picture, check_ending(Path(path))))


def picture_bytes(picture: "Picture", ending: str) -> bytes:
    """Return a picture in the format of an extension."""
    if ending == "html":
        from dpcube.release.plots.interactive import plotly_page

        return plotly_page(picture)
    from dpcube.release.plots.static import draw_picture

    return draw_picture(picture, ending)


def write_picture(path: Path, content: bytes) -> None:
    """Write a new file atomically."""
    try:
        with new_file(path) as part:
            part.write_bytes(content)
    except (OSError, ValueError) as error:
        msg = f"cannot write {path}: {getattr(error, 'strerror', None) or 'no file can have this name'}"
        raise InputError(msg) from None
