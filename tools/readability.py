"""Length of the sentences of Markdown pages: mean number of words, and share of sentences above 30 words.

    python tools/readability.py                     every page of docs/, by folder, and README.md
    python tools/readability.py --long PAGE...      the long sentences of pages
    python tools/readability.py --at COMMIT         the pages of a commit

Code blocks, tables, headings, pictures and HTML are left out; code in a sentence counts as one word.
"""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONG = 30
BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HTML = re.compile(r"<[^>]+>", re.DOTALL)
PICTURE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
CODE = re.compile(r"`[^`]*`")
ITEM = re.compile(r"^\s*(?:[*-]|\d+\.)\s+", re.MULTILINE)
END = re.compile(r"(?<=[.!?:;])[\"')*_]*\s+(?=[\"'(*_]*[A-Z`0-9])|(?<=[.!?])[\"')*_]*\s+")
ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|etc|cf|vs|approx)\.", re.IGNORECASE)


def sentences(page: str) -> list[str]:
    """Return the sentences of the prose of a page; an item of a list or a paragraph ends one."""
    text = PICTURE.sub("", BLOCK.sub("\n\n", page))
    text = HTML.sub("", CODE.sub("code", text))
    text = ABBREVIATIONS.sub(r"\1", LINK.sub(r"\1", text))
    lines = ["" if line.startswith(("#", "|", "    ", "!!!", "---")) else line for line in text.splitlines()]
    found = []
    for part in re.split(r"\n\s*\n", ITEM.sub("\n\n", "\n".join(lines))):
        found += [one for one in END.split(" ".join(part.split())) if len(words(one)) > 1]
    return found


def words(sentence: str) -> list[str]:
    """Return the words of a sentence: what has a letter or a digit."""
    return [word for word in sentence.split() if re.search(r"\w", word)]


def measured(pages: list[str]) -> tuple[int, float, float]:
    """Return the number of words of pages, the mean length of their sentences, and the share of long ones."""
    lengths = [len(words(one)) for page in pages for one in sentences(page)]
    if not lengths:
        return 0, 0.0, 0.0
    return sum(lengths), sum(lengths) / len(lengths), sum(length > LONG for length in lengths) / len(lengths)


def pages_of(commit: str) -> dict[str, str]:
    """Return the pages of a commit, or those that are here, by path."""
    if not commit:
        paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
        return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    listed = _git("ls-tree", "-r", "--name-only", commit).splitlines()
    return {
        path: _git("show", f"{commit}:{path}")
        for path in listed
        if path == "README.md" or (path.startswith("docs/") and path.endswith(".md"))
    }


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True, text=True).stdout


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["--long"]:
        for name in arguments[1:]:
            for one in sentences(Path(name).read_text(encoding="utf-8")):
                if len(words(one)) > LONG:
                    print(f"{name}: {len(words(one))}: {one}")
        return
    pages = pages_of(arguments[1] if arguments[:1] == ["--at"] else "")
    folders: dict[str, list[str]] = defaultdict(list)
    print(f"{'page':45} {'words':>7} {'mean':>6} {'above ' + str(LONG):>9}")
    for name, page in pages.items():
        print("{:45} {:7,} {:6.1f} {:9.1%}".format(name, *measured([page])))
        folders[str(Path(name).parent)].append(page)
    for folder, found in folders.items():
        print("{:45} {:7,} {:6.1f} {:9.1%}".format(f"{folder}/*", *measured(found)))


if __name__ == "__main__":
    main()
