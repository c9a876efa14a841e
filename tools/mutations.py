"""Small faults of the kind that people make: the source of a module enters, every one of its mutants leaves.

A mutant replaces one expression or statement by another: a comparison by its neighbour, a sum by a difference, a number
by the next one, a condition by its opposite, a filter or an argument by nothing, a word of SQL by its opposite. What
only people read (docstrings, messages, annotations, `repr`) is left alone. mutmut and its like do not serve here: they
pass over decorated functions (every kernel and every property) and over constants, and know nothing of SQL in strings.
"""

import ast
import copy
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from os.path import commonprefix

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "floor": "ceil", "ceil": "floor"}
SQL = [
    (r"<=", "<"),
    (r">=", ">"),
    (r"<(?![=>\w/ ]*>)", "<="),
    (r"(?<![=<>-])>(?!=)", ">="),
    (r"\bAND\b", "OR"),
    (r"\bOR\b", "AND"),
    (r"\bIS NULL\b", "IS NOT NULL"),
    (r"\bIS NOT NULL\b", "IS NULL"),
    (r"\bNOT LIKE\b", "LIKE"),
    (r"\bleast\b", "greatest"),
    (r"\bgreatest\b", "least"),
    (r"\bfloor\b", "ceil"),
    (r"\btrue\b", "false"),
    (r"\bfalse\b", "true"),
    (r" \+ ", " - "),
    (r" - ", " + "),
    (r" \* ", " / "),
    (r"\bEXTRA\b", "OFF"),
    (r"\bIMMEDIATE\b", "DEFERRED"),
    (r"(?<=\w )\d+\b", "1"),
]
SQL_WORDS = re.compile(r"\b(SELECT|CASE|WHEN|CAST|WHERE|BETWEEN|PRAGMA|BEGIN|least|greatest|floor|CHECK|SET)\b|[<>]=")
UNREAD = {"__repr__", "__str__", "__all__"}
TYPE = re.compile(r"_?[A-Z]([A-Z]?[a-z]+)*")  # what is called so is an alias of a type, or a variable for one


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault: what stood at a place of a module, and what stands there now."""

    module: str
    line: int
    owner: str
    text: str
    before: str
    after: str
    source: str
    number: int = 0

    @property
    def name(self) -> str:
        """How the mutant is told in reports and in the list of equivalent ones: by its line's text, not its number."""
        start = max(0, len(commonprefix([self.before, self.after])) - 30)  # noqa: RUF071 (of text)
        fault = f"{self.before[start:][:60]} -> {self.after[start:][:60]}"
        number = f" (number {self.number})" if self.number else ""
        return f"{self.module}: {self.owner}: {self.text}: {fault}{number}"


def mutants_of(module: str, source: str) -> list[Mutant]:
    """Return every mutant of a module, in the order of its lines; each is a source that Python can read."""
    found: dict[str, Mutant] = {}
    starts, lines = [0], source.splitlines()
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    octets = source.encode()
    for owner, node, text in _faults(ast.parse(source)):
        last, stop = node.end_lineno or 0, node.end_col_offset or 0  # which a parsed node always has
        start, end = starts[node.lineno - 1] + node.col_offset, starts[last - 1] + stop
        mutated = (octets[:start] + text.encode() + octets[end:]).decode()
        before = octets[start:end].decode()
        if mutated == source or mutated in found or not _reads(mutated):
            continue
        before, after = (" ".join(part.split()).removeprefix("(").removesuffix(")") for part in (before, text))
        found[mutated] = Mutant(module, node.lineno, owner, lines[node.lineno - 1].strip(), before, after, mutated)
    return _told_apart(sorted(found.values(), key=lambda mutant: mutant.line))


def _told_apart(mutants: list[Mutant]) -> list[Mutant]:
    """Number the mutants of one name (`3 -> 4` at two places of a line), which the name alone would not tell apart."""
    seen: Counter[str] = Counter()
    for mutant in mutants:
        seen[mutant.name] += 1
    again: Counter[str] = Counter()
    for i, mutant in enumerate(mutants):
        if seen[mutant.name] > 1:
            again[mutant.name] += 1
            mutants[i] = replace(mutant, number=again[mutant.name])
    return mutants


def _reads(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def _faults(tree: ast.Module) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    """Yield the function or class that a node stands in, the node, and the text to put in its place."""
    stack: list[tuple[str, ast.AST]] = [("", tree)]
    while stack:
        owner, node = stack.pop()
        if _unread(node):
            continue
        inside = f"{owner}.{node.name}".lstrip(".") if isinstance(node, ast.FunctionDef | ast.ClassDef) else owner
        passed = [
            getattr(node, "annotation", None),
            getattr(node, "returns", None),
            *getattr(node, "decorator_list", ()),
        ]
        stack += [(inside, child) for child in ast.iter_child_nodes(node) if child not in passed]
        if isinstance(node, ast.expr):
            yield from ((owner, node, f"({ast.unparse(other)})") for other in _expressions(node))
        if isinstance(node, ast.Constant | ast.JoinedStr):
            yield from ((owner, node, text) for text in _words(node))
        if isinstance(node, ast.stmt):
            yield from ((owner, node, text) for text in _statements(node))


def _unread(node: ast.AST) -> bool:
    """Say whether only people read what stands here, or the type checker."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.FunctionDef) and node.name in UNREAD:
        return True
    if isinstance(node, ast.Assign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        return any(name in {"msg", "message", *UNREAD} or TYPE.fullmatch(name) for name in names)
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return True
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return True
    return isinstance(node, ast.Import | ast.ImportFrom | ast.arg)


def _expressions(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.Compare):
        for i, operator in enumerate(node.ops):
            changed = copy.deepcopy(node)
            changed.ops[i] = COMPARED[type(operator)]()
            yield changed
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        yield from node.values if len(node.values) == 2 else ()
    elif isinstance(node, ast.BinOp) and type(node.op) in COMPUTED:
        yield ast.BinOp(node.left, COMPUTED[type(node.op)](), node.right)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand
    elif isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse
    elif isinstance(node, ast.Constant):
        yield from _constants(node.value)
    elif isinstance(node, ast.Name) and node.id in NAMES and isinstance(node.ctx, ast.Load):
        yield ast.Name(NAMES[node.id])
    elif isinstance(node, ast.Attribute) and node.attr in NAMES and isinstance(node.ctx, ast.Load):
        yield ast.Attribute(node.value, NAMES[node.attr])
    elif isinstance(node, ast.Call):
        yield from _calls(node)
    elif isinstance(node, ast.List | ast.Tuple) and isinstance(node.ctx, ast.Load) and len(node.elts) > 1:
        yield from (type(node)(kept, ast.Load()) for kept in (node.elts[1:], node.elts[:-1]))
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp) and any(g.ifs for g in node.generators):
        unfiltered = copy.deepcopy(node)
        for generator in unfiltered.generators:
            generator.ifs = []
        yield unfiltered


def _constants(value: object) -> Iterator[ast.expr]:
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield ast.Constant(value + 1)
        if value > 1:
            yield ast.Constant(value - 1)
    elif isinstance(value, float):
        yield ast.Constant(value * 1.05)


def _calls(node: ast.Call) -> Iterator[ast.expr]:
    """Leave out a keyword; put the first argument in place of the call, if there are two."""
    for keyword in node.keywords:
        if keyword.arg == "strict":  # of zip, where lengths are equal anyway
            continue
        yield ast.Call(node.func, node.args, [other for other in node.keywords if other is not keyword])
    if len(node.args) == 2 and not any(isinstance(argument, ast.Starred) for argument in node.args):
        yield node.args[0]


def _words(node: ast.Constant | ast.JoinedStr) -> Iterator[str]:
    """Yield SQL with one word changed; the node's text is changed as it stands, braces and quotes included."""
    text = ast.unparse(node)
    if not text.lstrip("fFrRbB").startswith(("'", '"')) or not SQL_WORDS.search(text):
        return
    for pattern, other in SQL:
        for found in re.finditer(pattern, text):
            yield text[: found.start()] + other + text[found.end() :]


def _statements(node: ast.stmt) -> Iterator[str]:
    """Leave a statement out if what it does is its effect; do not take a branch."""
    waits = isinstance(node, ast.Expr) and isinstance(node.value, ast.Yield)
    writes = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute | ast.Subscript)
    if writes or (isinstance(node, ast.Expr | ast.Raise | ast.AugAssign | ast.Continue | ast.Break) and not waits):
        yield "pass"
    elif isinstance(node, ast.If) and not isinstance(node.test, ast.Compare | ast.BoolOp | ast.UnaryOp):
        changed = copy.deepcopy(node)
        changed.test = ast.UnaryOp(ast.Not(), node.test)
        yield ast.unparse(changed).replace("\n", "\n" + " " * node.col_offset)


@cache
def kernel_lines(source: str) -> frozenset[int]:
    """Return the lines of the functions that Numba compiles."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and "compiled" in map(ast.unparse, node.decorator_list):
            lines.update(range(node.lineno, (node.end_lineno or 0) + 1))
    return frozenset(lines)
