"""Links of the documentation lead somewhere, and every page of the site is in its navigation."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), ROOT / "benchmarks" / "README.md"])
BLOCK = re.compile(r"^```.*?^```|<!--.*?-->", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.*)$", re.MULTILINE)


def text_of(page: Path) -> str:
    return re.sub(r"`[^`\n]*`", "code", BLOCK.sub("", page.read_text(encoding="utf-8")))


def slug(heading: str) -> str:
    """The anchor of a heading: as Python-Markdown makes it, and GitHub where no two marks meet."""
    plain = re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower()
    return re.sub(r"[-\s]+", "-", plain)


def anchors(page: Path) -> set[str]:
    return {slug(found) for found in HEADING.findall(BLOCK.sub("", page.read_text(encoding="utf-8")))}


def broken(page: Path) -> list[str]:
    found = []
    for link in LINK.findall(text_of(page)):
        if re.match(r"[a-z]+:", link):
            if not link.startswith("https://"):
                found.append(f"{link}: not https")
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            found.append(f"{link}: no such file")
        elif anchor and anchor not in anchors(target):
            found.append(f"{link}: no such heading")
        elif page.is_relative_to(DOCS) and not target.is_relative_to(DOCS):
            found.append(f"{link}: outside of the site")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files_and_headings(page: Path) -> None:
    assert broken(page) == []


def test_a_broken_link_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A b: c\n\n[one](#a-b-c) [two](#ab) [three](gone.md) [four](http://x.example)\n\n`[five](gone.md)`\n"
    )
    assert broken(page) == ["#ab: no such heading", "gone.md: no such file", "http://x.example: not https"]


def navigation(entries: object) -> Iterator[str]:
    if isinstance(entries, str):
        yield entries
    elif isinstance(entries, dict):
        for entry in entries.values():
            yield from navigation(entry)
    elif isinstance(entries, list):
        for entry in entries:
            yield from navigation(entry)


def test_every_page_is_in_the_navigation_once() -> None:
    site = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    listed = list(navigation(site["project"]["nav"]))
    assert sorted(listed) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))
