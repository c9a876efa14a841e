"""Recursive-descent parser of predicates such as `age between 30 and 39 and sex = 'Female'`.

Conditions on different attributes may be joined by `and`. Because a query is a product of one selection per attribute,
`or` and `not` apply within one attribute. Logic is three-valued, as in SQL: a comparison with a value that has no bin
(null, outside, ...) is neither true nor false. Names may contain hyphens; names with other characters go in double
quotes or backticks, and text values in single quotes.
"""

import re
from dataclasses import dataclass, field
from functools import reduce
from typing import NoReturn

from dpcube.core.domain import Attribute, Domain, Scalar, ValueSet
from dpcube.core.errors import DomainError, QueryError

MAX_EXPRESSION = 10_000
MAX_DEPTH = 50
GRAMMAR = "use =, !=, <, <=, >, >=, between ... and ..., in (...), is null, and, or, not"

TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>[+-]?(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?(?!\w))
    | '(?P<text>(?:[^']|'')*)'
    | "(?P<quoted>(?:[^"]|"")+)" | `(?P<ticked>[^`]+)`
    | (?P<word>[^\W\d][\w-]*)
    | (?P<sign><=|>=|!=|<>|==|[=<>(),])
    )""",
    re.VERBOSE,
)

Selections = dict[str, ValueSet]
Token = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Truth:
    """The values of one attribute for which a condition is true, and those for which it is false."""

    true: ValueSet
    false: ValueSet

    def __and__(self, other: "_Truth") -> "_Truth":
        return _Truth(self.true & other.true, self.false | other.false)

    def __or__(self, other: "_Truth") -> "_Truth":
        return _Truth(self.true | other.true, self.false & other.false)

    def __invert__(self) -> "_Truth":
        return _Truth(self.false, self.true)


Truths = dict[str, _Truth]


def parse(text: str, domain: Domain) -> Selections:
    """Return the selection of each attribute that an expression names.

    >>> from dpcube.core.domain import Integer
    >>> parse("age >= 3 and age < 5", Domain((Integer(name="age", min=0, max=9),)))
    {'age': ValueSet(intervals=((3.0, 5.0),), own_cells=frozenset())}
    """
    if len(text) > MAX_EXPRESSION:
        msg = f"the expression has {len(text)} characters; at most {MAX_EXPRESSION} are read"
        raise QueryError(msg)
    parser = _Parser(_tokens(text), domain)
    truths = parser.disjunction(0)
    if parser.tokens[parser.position][0] != "end":
        parser.refuse("expected 'and' or the end")
    return {name: truth.true for name, truth in truths.items()}


def _tokens(text: str) -> list[Token]:
    tokens: list[Token] = []
    position = 0
    end = len(text.rstrip())
    while position < end:
        match = TOKEN.match(text, position)
        if match is None:
            msg = f"cannot read the expression at {text[position:].strip()[:20]!r}; {GRAMMAR}"
            raise QueryError(msg)
        kind = str(match.lastgroup)
        value = match.group(kind)
        position = match.end()
        mark = {"text": "'", "quoted": '"'}.get(kind)
        unquoted = value if mark is None else value.replace(2 * mark, mark)
        tokens.append(("name" if kind in ("quoted", "ticked") else kind, unquoted))
    return [*tokens, ("end", "")]


@dataclass
class _Parser:
    tokens: list[Token]
    domain: Domain
    position: int = field(default=0)

    def disjunction(self, depth: int) -> Truths:
        parts = [self.conjunction(depth)]
        while self.accept("or"):
            parts.append(self.conjunction(depth))
        if len(parts) == 1:
            return parts[0]
        name = self.single_name(parts, "or")
        return {name: reduce(_Truth.__or__, (part[name] for part in parts))}

    def conjunction(self, depth: int) -> Truths:
        joined: Truths = dict(self.term(depth))
        while self.accept("and"):
            for name, truth in self.term(depth).items():
                joined[name] = joined[name] & truth if name in joined else truth
        return joined

    def term(self, depth: int) -> Truths:
        if depth > MAX_DEPTH:
            msg = f"the expression nests parentheses and 'not' more than {MAX_DEPTH} deep; write it with fewer"
            raise QueryError(msg)
        if self.accept("not"):
            negated = self.term(depth + 1)
            name = self.single_name([negated], "not")
            return {name: ~negated[name]}
        if self.accept("("):
            inside = self.disjunction(depth + 1)
            self.expect(")")
            return inside
        return self.comparison()

    def comparison(self) -> Truths:
        attribute = self.attribute()
        if self.accept("is"):
            return {attribute.name: self.null(attribute)}
        negated = self.accept("not")
        if self.accept("between"):
            low = self.literal()
            self.expect("and")
            selection = attribute.range(low, self.literal())
        elif self.accept("in"):
            selection = self.members(attribute)
        elif negated:
            self.refuse("expected 'between' or 'in' after 'not'")
        else:
            negated = self.tokens[self.position] in (("sign", "!="), ("sign", "<>"))
            selection = self.relation(attribute)
        truth = _Truth(selection, attribute.complement(selection))
        return {attribute.name: ~truth if negated else truth}

    def relation(self, attribute: Attribute) -> ValueSet:
        """Return the selection of a comparison; of "not equal", its complement."""
        kind, sign = self.tokens[self.position]
        if kind != "sign" or sign in "(),":
            self.refuse("expected a comparison")
        self.position += 1
        value = self.literal()
        if sign in ("=", "==", "!=", "<>"):
            return attribute.equal(value)
        if sign.startswith("<"):
            return attribute.range(None, value, high_open=sign == "<")
        return attribute.range(value, None, low_open=sign == ">")

    def members(self, attribute: Attribute) -> ValueSet:
        self.expect("(")
        chosen = attribute.equal(self.literal())
        while self.accept(","):
            chosen |= attribute.equal(self.literal())
        self.expect(")")
        return chosen

    def null(self, attribute: Attribute) -> _Truth:
        negated = self.accept("not")
        self.expect("null")
        if "null" not in attribute.own_cells and not negated:
            msg = f"nulls of '{attribute.name}' were dropped by the domain, so they cannot be counted"
            raise QueryError(msg)
        everything, nulls = attribute.everything(), frozenset({"null"})
        truth = _Truth(ValueSet(own_cells=nulls), ValueSet(everything.intervals, everything.own_cells - nulls))
        return ~truth if negated else truth

    def attribute(self) -> Attribute:
        kind, name = self.tokens[self.position]
        if kind not in ("word", "name"):
            self.refuse("expected the name of an attribute")
        self.position += 1
        if name not in self.domain.names:  # as in SQL: the only name that differs in case alone
            alike = [other for other in self.domain.names if other.casefold() == name.casefold()]
            name = alike[0] if len(alike) == 1 else name
        try:
            return self.domain[name]
        except DomainError as error:
            raise QueryError(str(error)) from None

    def literal(self) -> Scalar:
        kind, value = self.tokens[self.position]
        if kind == "name":
            self.refuse("double quotes and backticks are for names of attributes; write text in single quotes")
        if kind not in ("number", "text"):
            self.refuse("expected a number, or text in single quotes")
        self.position += 1
        if kind == "text":
            return value
        return int(value) if re.fullmatch(r"[+-]?\d{1,18}", value) else float(value)

    def accept(self, word: str) -> bool:
        kind, value = self.tokens[self.position]
        found = kind in ("word", "sign") and value.lower() == word
        self.position += found
        return found

    def expect(self, word: str) -> None:
        if not self.accept(word):
            self.refuse(f"expected '{word}'")

    def single_name(self, parts: list[Truths], word: str) -> str:
        names = {name for part in parts for name in part}
        if len(names) != 1:
            msg = f"'{word}' must be of one attribute, here it is of {', '.join(sorted(names))}; ask two questions"
            raise QueryError(msg)
        return names.pop()

    def refuse(self, expected: str) -> NoReturn:
        kind, value = self.tokens[self.position]
        found = "the end" if kind == "end" else repr(value)
        before = self.tokens[self.position - 1][1] if self.position else ""
        if kind == "number" and value.startswith("-") and len(before) == 4 and before.isdigit():  # of 2026-03-01
            msg = f"{expected}, found {found}; a date is written in quotes, such as '2026-01-31'"
            raise QueryError(msg)
        msg = f"{expected}, found {found}; {GRAMMAR}"
        raise QueryError(msg)
