"""Write the tables of docs/research/classification.md from the runs recorded in docs/classification, and record runs.

.venv/bin/python tools/classification.py                       # the tables, from what is recorded
.venv/bin/python tools/classification.py NAME FILE PYTHON...   # keep the runs of a file first, made by
                                                               # `python -m dpcube.research.classification NAME`

The interpreters are those of the rivals, of which versions are kept.
"""

import datetime
import json
import subprocess
import sys
from pathlib import Path

from benchmark import machine_words, version_words

from dpcube.research.classification.measure import RUN_COLUMNS, read_runs
from dpcube.research.classification.page import ahead_words, classification_table, runs_words

ROOT = Path(__file__).parents[1]
RECORDED = ROOT / "docs" / "research" / "classification"
HOW_IT_WAS_MADE = RECORDED / "recorded.json"
PAGE = ROOT / "docs" / "research" / "classification.md"
TABLES = ("adult", "fair", "randhie")
RIVALS = ("dp-ebm", "diffprivlib")
PACKAGES = ("interpret-core", "diffprivlib", "scikit-learn", "statsmodels")
ASKED = """
import importlib.metadata as known, sys
for name in sys.argv[1:]:
    try: print(name, known.version(name))
    except known.PackageNotFoundError: pass
"""


def record(name: str, file: Path, pythons: list[str]) -> None:
    """Keep the runs of a file in the order of methods, epsilons and runs, and how they were made."""
    order = [*RIVALS, "dpcube", "wide", "majority", "boosting"].index
    rows = sorted(read_runs(file), key=lambda row: (order(row["method"]), float(row["epsilon"] or 0), int(row["run"])))
    lines = [",".join(RUN_COLUMNS), *(",".join(row[column] for column in RUN_COLUMNS) for row in rows)]
    RECORDED.mkdir(exist_ok=True)
    (RECORDED / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    known = how_it_was_made()
    known[name] = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%-d %B %Y"),
        "machine": machine_words(),
        "versions": version_words(),
        "rivals": "; ".join(_versions(python) for python in pythons),
    }
    HOW_IT_WAS_MADE.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def _versions(python: str) -> str:
    ran = subprocess.run([python, "-c", ASKED, *PACKAGES], capture_output=True, check=True, text=True)
    return " beside ".join(ran.stdout.splitlines())


def how_it_was_made() -> dict[str, dict[str, str]]:
    """Return how each recorded table was made, by name."""
    if not HOW_IT_WAS_MADE.exists():
        return {}
    known: dict[str, dict[str, str]] = json.loads(HOW_IT_WAS_MADE.read_text(encoding="utf-8"))
    return known


def section(name: str) -> str:
    """Return what the page says of a recorded table, between its marks."""
    rows, made = read_runs(RECORDED / f"{name}.csv"), how_it_was_made()[name]
    rivals = [rival for rival in RIVALS if any(row["method"] == rival for row in rows)]
    said = " ".join(ahead_words(rows, rival) for rival in rivals)
    return (
        f"<!-- runs of {name} -->\n"
        f"Accuracy / AUC on test rows, means and standard errors over {runs_words(rows)} "
        f"([numbers](classification/{name}.csv); {made['date']}, {made['machine']}; {made['versions']}; rivals: "
        f"{made['rivals']}):\n\n{classification_table(rows)}\n{said} "
        f"A difference is one beyond twice its standard error.\n"
        f"<!-- end of {name} -->"
    )


def written(page: str) -> str:
    """Return the page with the sections of what is recorded in their places."""
    for name in how_it_was_made():
        head, mark, rest = page.partition(f"<!-- runs of {name} -->")
        _, end, tail = rest.partition(f"<!-- end of {name} -->")
        if not mark or not end:
            sys.exit(f"docs/research/classification.md has no place for {name}")
        page = head + section(name) + tail
    return page


def main() -> None:
    if len(sys.argv) > 1:
        record(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
