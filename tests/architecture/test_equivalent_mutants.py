"""The list of equivalent mutants argues about lines that stand in trusted code today, each once."""

import ast
import tomllib
from collections.abc import Iterator
from functools import cache

from audit import path_of, trusted_modules
from mutants import EQUIVALENT, ROOT

ENTRIES: list[dict[str, str]] = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["equivalent"]


@cache
def starts(module: str) -> frozenset[str]:
    """Return how the name of a mutant may begin: its module, its function or class, and the text of its line."""
    source = (ROOT / module).read_text(encoding="utf-8")
    lines = source.splitlines()
    found = {f"{module}: : {line.strip()}: " for line in lines}
    for owner, node in owners(ast.parse(source)):
        within = lines[node.lineno - 1 : node.end_lineno]
        found |= {f"{module}: {owner}: {line.strip()}: " for line in within}
    return frozenset(found)


def owners(tree: ast.AST, above: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.ClassDef]]:
    for node in ast.iter_child_nodes(tree):
        name = above
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            name = f"{above}.{node.name}".lstrip(".")
            yield name, node
        yield from owners(node, name)


def stands(mutant: str) -> bool:
    """Return whether the line that a mutant changes is in the function or class that its name states."""
    module = mutant.partition(": ")[0]
    return (ROOT / module).exists() and any(mutant.startswith(start) for start in starts(module))


def test_every_entry_quotes_a_line_of_trusted_code() -> None:
    """One that does not is removed, or argued for the line as it is now."""
    trusted = {str(path_of(module).relative_to(ROOT)) for module in trusted_modules()}
    assert [entry["mutant"] for entry in ENTRIES if entry["mutant"].partition(": ")[0] not in trusted] == []
    assert [entry["mutant"] for entry in ENTRIES if not stands(entry["mutant"])] == []


def test_every_entry_gives_a_reason() -> None:
    assert [entry for entry in ENTRIES if set(entry) != {"mutant", "why"} or len(entry["why"].split()) < 3] == []


def test_no_mutant_is_argued_twice() -> None:
    assert len({entry["mutant"] for entry in ENTRIES}) == len(ENTRIES)


def test_an_entry_of_another_line_or_function_is_noticed() -> None:
    mutant = ENTRIES[0]["mutant"]
    module, owner, rest = mutant.split(": ", 2)
    assert stands(mutant)
    assert not stands(f"{module}: {owner}_before: {rest}")
    assert not stands(f"{module}: {owner}: was_{rest}")
    assert not stands(mutant.replace(".py", "_of_old.py", 1))
