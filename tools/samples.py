"""The sample outputs of the documentation: commands on the file in `notebooks/`, with what they print.

    python tools/samples.py            say which pages are not as the commands print
    python tools/samples.py --write    put what they print into the pages

In a console block, a command `$ dpcube ... notebooks/adult.dpcube ...` that writes no file is followed by its output.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/guides/sql.md", "docs/research/walks-analyst.md")
FILE = "notebooks/adult.dpcube"
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


def remade(page: str) -> tuple[str, int]:
    """Return a page with the outputs of its commands made anew, and how many commands that are."""
    ran = 0

    def block(found: re.Match[str]) -> str:
        nonlocal ran
        lines: list[str] = []
        passing_over = False
        for line in found[1].splitlines():
            if line.startswith("$ ") or not passing_over:
                passing_over = is_sample(line)
                lines += [line, *(output_of(line) if passing_over else [])]
                ran += passing_over
        return "```console\n" + "\n".join(lines) + "\n```"

    return BLOCK.sub(block, (ROOT / page).read_text(encoding="utf-8")), ran


def is_sample(line: str) -> bool:
    return line.startswith("$ dpcube ") and FILE in line and " -o " not in line


def output_of(line: str) -> list[str]:
    """Return what a command prints: the words of one that is refused, too."""
    said = printed_by(shlex.split(line.removeprefix("$ "), comments=True))
    return [text.rstrip() for text in said.splitlines()]


def printed_by(words: list[str]) -> str:
    kept = os.environ.get("DPCUBE_CACHE", "off")  # tests have a directory of their own, which spares most of the work
    environment = {**os.environ, "DPCUBE_CACHE": kept, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, env=environment, check=False
    )
    return done.stdout + done.stderr


def main() -> None:
    for page in PAGES:
        text, ran = remade(page)
        if text != (ROOT / page).read_text(encoding="utf-8"):
            print(f"{page}: not what its {ran} commands print")
            if "--write" in sys.argv:
                (ROOT / page).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
