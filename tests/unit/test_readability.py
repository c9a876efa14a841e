"""Guides and tutorials are written in short sentences."""

from pathlib import Path

import pytest
import readability

SHORT_PAGES = sorted(
    page
    for folder in ("tutorials", "guides", "explanation")
    for page in (readability.ROOT / "docs" / folder).glob("*.md")
)


@pytest.mark.parametrize("page", [readability.ROOT / "README.md", *SHORT_PAGES], ids=lambda page: page.stem)
def test_sentences_are_short(page: Path) -> None:
    """`python tools/readability.py --long PAGE` shows the long ones."""
    words, mean, share = readability.measured([page.read_text(encoding="utf-8")])
    assert words > 100
    assert mean <= 18
    assert share <= 0.05


def test_what_counts_as_a_sentence() -> None:
    page = (
        "# A title. Of no account\n\nOne two, e.g. `a. B`. Two words\n\n* An item\n  of two lines: here.\n\n| a | b |\n"
    )
    assert readability.sentences(page) == ["One two, e.g code.", "Two words", "An item of two lines: here."]
    assert readability.measured([" ".join(["word"] * 31) + ". Four words are few."]) == (35, 17.5, 0.5)
