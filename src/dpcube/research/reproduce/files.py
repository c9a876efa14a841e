"""Figures as files: each as SVG, PNG and CSV, and one page that explains them all."""

from collections.abc import Sequence
from pathlib import Path

from dpcube.core.errors import InputError
from dpcube.core.files import new_file
from dpcube.research.reproduce.draw import draw_figure
from dpcube.research.reproduce.figure import Figure, Maps

FIGURES_PAGE = "figures.md"


def figure_files(figures: Sequence[str], directory: Path, *, replace: bool = False) -> list[Path]:
    """Return the files that figures of these names are written to; one that is there is refused unless `replace`.

    Asked before figures are made, which can take hours.
    """
    names = [FIGURES_PAGE, *(f"{figure}.{ending}" for figure in figures for ending in ("svg", "png", "csv"))]
    files = [directory / name for name in names]
    taken = [file for file in files if file.exists()]
    if taken and not replace:
        message = f"{taken[0]} exists; give another directory (-o), or --replace"
        raise InputError(message)
    return files


def write_figures(figures: Sequence[Figure | Maps], directory: Path, *, replace: bool = False) -> list[Path]:
    """Write figures into a directory and return the files; a name that is taken is refused unless `replace`."""
    files = figure_files([figure.name for figure in figures], directory, replace=replace)
    contents = {FIGURES_PAGE: reproduction_page(figures).encode()}
    for figure in figures:
        contents[f"{figure.name}.csv"] = figure.csv().encode()
        contents |= {f"{figure.name}.{ending}": picture for ending, picture in draw_figure(figure).items()}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            if replace:
                (directory / name).unlink(missing_ok=True)
            with new_file(directory / name) as part:
                part.write_bytes(content)
    except OSError as error:
        message = f"cannot write figures to {directory}: {error.strerror}; give another directory (-o)"
        raise InputError(message) from None
    return files


def reproduction_page(figures: Sequence[Figure | Maps], *, pictures: str = "") -> str:
    """Return the page: each figure, the paper's claims about it, what holds and what does not.

    `pictures` goes before the name of each picture, as "folder/" does where they lie elsewhere.
    """
    return "\n".join(_section(figure, pictures) for figure in figures)


def verdicts(figure: Figure | Maps) -> list[tuple[str, str]]:
    """Return the sentences about a figure under their headings: claims, what holds, what does not, left out."""
    said = [
        pair
        for verdict in figure.verdicts
        for pair in (
            ("The paper claims", verdict.claim),
            ("What holds", verdict.holds),
            ("What does not", verdict.fails),
        )
    ]
    return [*said, ("What the paper leaves out", figure.left_out)]


def _section(figure: Figure | Maps, pictures: str) -> str:
    name = f"{pictures}{figure.name}"
    head = (
        f"## {figure.title}\n\n![{figure.title}]({name}.svg)\n\nThe paper's `{figure.label}`; {figure.setting}. "
        f"Numbers: [{figure.name}.csv]({name}.csv).\n\n"
    )
    new_claim = ("The paper claims", "What the paper leaves out")
    lines = [f"{'* ' if what in new_claim else '  '}**{what}**: {text}\n" for what, text in verdicts(figure)]
    return head + "\n".join(lines)
