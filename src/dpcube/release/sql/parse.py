"""Parser of the SQL dialect: an allow list over sqlglot's syntax trees, with PIVOT and DESCRIBE of the cube.

Every allowed construct is listed, so that anything else is refused: statements that write, files, table functions,
settings, and functions whose cost or effect is unknown never reach the engine.

`PIVOT cube ON sex USING count(*) GROUP BY age` is `SELECT age, count(*) FILTER (WHERE sex = 'F') AS "F", ...`. Its
columns are the values that the domain lists, or those of `IN (...)`: no row is read to find them.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel, SqlglotError, UnsupportedError
from sqlglot.tokens import TokenType

from dpcube.core.domain import Domain
from dpcube.core.domain.attribute import listing
from dpcube.core.domain.text import spelling_hint
from dpcube.core.errors import QueryError

MAX_CHARACTERS = 100_000
DIALECT = "duckdb"
STARTS = (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN, TokenType.PIVOT)
MAX_PIVOT_COLUMNS = 100
PIVOT_FORM = "write PIVOT cube ON sex USING count(*) GROUP BY income"
DESCRIBING = re.compile(
    r"\s*(?:(?P<table>DESCRIBE|DESC|SHOW)\s+(?:TABLE\s+)?\"?cube\"?|SHOW\s+TABLES)\s*;?\s*", re.IGNORECASE
)


class Mode(exp.AggFunc):
    """The aggregate mode(x), for which sqlglot has no node."""

    arg_types = {"this": True}  # noqa: RUF012 (sqlglot's own way of declaring a node)
    _sql_names = ["MODE"]  # noqa: RUF012


AGGREGATES: dict[type[exp.Expression], str] = {
    exp.Count: "count",
    exp.CountIf: "count_if",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.Median: "median",
    exp.Quantile: "quantile",
    exp.PercentileCont: "quantile_cont",
    exp.PercentileDisc: "quantile_disc",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
    exp.Stddev: "stddev",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
    exp.Corr: "corr",
    exp.CovarPop: "covar_pop",
    exp.CovarSamp: "covar_samp",
    Mode: "mode",
}
CLAUSES = (
    *(exp.Select, exp.From, exp.Where, exp.Group, exp.Having, exp.Order, exp.Ordered, exp.Limit, exp.Offset),
    *(exp.Rollup, exp.Cube, exp.GroupingSets, exp.Grouping, exp.Qualify, exp.Distinct, exp.With, exp.CTE),
    *(exp.Subquery, exp.Union, exp.Except, exp.Intersect, exp.Join, exp.Table, exp.TableAlias, exp.Alias, exp.Column),
    *(exp.Identifier, exp.Star, exp.Literal, exp.Boolean, exp.Null, exp.Tuple, exp.Paren, exp.Var),
    *(exp.Filter, exp.WithinGroup, exp.Window, exp.WindowSpec, exp.Values, exp.Array),
)
OPERATORS = (
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.Is, exp.Exists, exp.Like, exp.ILike),
    *(exp.And, exp.Or, exp.Not, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.DPipe),
    *(exp.Case, exp.If, exp.Cast, exp.TryCast, exp.DataType, exp.DataTypeParam, exp.Interval, exp.NullSafeEQ),
    exp.NullSafeNEQ,
)
FUNCTIONS = (
    *(exp.Abs, exp.Round, exp.Floor, exp.Ceil, exp.Sqrt, exp.Ln, exp.Log, exp.Exp, exp.Pow, exp.Sign),
    *(exp.Greatest, exp.Least, exp.Coalesce, exp.Nullif, exp.Lower, exp.Upper, exp.Trim, exp.Length, exp.Substring),
    *(exp.Left, exp.Right, exp.Concat, exp.Contains, exp.StartsWith, exp.Extract, exp.Year, exp.Quarter, exp.Month),
    *(exp.Week, exp.Day, exp.DayOfMonth, exp.DayOfWeek, exp.DayOfYear, exp.DateTrunc, exp.TimestampTrunc, exp.DateDiff),
    *(exp.DateAdd, exp.TimeToStr, exp.DayOfWeekIso, exp.WeekOfYear, exp.Monthname),
    # The engine's regular expressions take time in proportion to the text, whatever the pattern.
    *(exp.SplitPart, exp.Replace, exp.RegexpLike, exp.RegexpFullMatch, exp.RegexpReplace, exp.RegexpExtract),
    *(exp.SimilarTo, exp.ConcatWs),
)
WINDOW_FUNCTIONS = (
    *(exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Ntile),
    *(exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue),
)
NAMED_FUNCTIONS = ("cell", "grouping_id", "weekday", "dayname", "trunc", "date_part")
ALLOWED_TYPES = (
    *(exp.DataType.Type.TINYINT, exp.DataType.Type.SMALLINT, exp.DataType.Type.INT, exp.DataType.Type.BIGINT),
    *(exp.DataType.Type.FLOAT, exp.DataType.Type.DOUBLE, exp.DataType.Type.DECIMAL, exp.DataType.Type.BOOLEAN),
    *(exp.DataType.Type.TEXT, exp.DataType.Type.VARCHAR, exp.DataType.Type.DATE, exp.DataType.Type.TIMESTAMP),
    exp.DataType.Type.INTERVAL,
)
SELECT_PARTS = frozenset(
    ("expressions", "from", "joins", "where", "group", "having", "qualify", "order", "limit", "offset", "distinct")
) | {"with"}
ALLOWED_NODES = frozenset((*CLAUSES, *OPERATORS, *FUNCTIONS, *WINDOW_FUNCTIONS, *AGGREGATES))
SUPPORTED = (
    "supported are SELECT with WHERE, GROUP BY (ROLLUP, CUBE, GROUPING SETS), HAVING, ORDER BY, LIMIT, CASE, "
    "sub-queries and WITH, VALUES, the aggregates count, sum, avg, min, max, mode, median, quantile_cont, "
    "quantile_disc, var_samp, var_pop, stddev, corr, covar_pop, and plain arithmetic, text and "
    "date functions (docs/guides/sql.md lists them)"
)


def parse_select(text: str, *, as_select: Callable[[exp.Expression], exp.Expression] = lambda tree: tree) -> exp.Query:
    """Return the syntax tree of `text`, one SELECT; QueryError says what in it is not allowed.

    `as_select` may return a SELECT for what was parsed, before anything in it is checked.
    """
    if len(text) > MAX_CHARACTERS:
        msg = f"the query has {len(text)} characters; at most {MAX_CHARACTERS} are read"
        raise QueryError(msg)
    try:
        tree = _one_statement(_with_limit(text), as_select)
        for call in list(tree.find_all(exp.Anonymous)):
            call.replace(_own_node(call))
        for node in tree.walk():
            _check_allowed(node)
    except RecursionError:
        msg = "the query nests too deeply; write it with fewer parentheses or sub-queries"
        raise QueryError(msg) from None
    return tree


def _with_limit(text: str) -> str:
    """Return the text with FETCH FIRST n ROWS ONLY, which the engine does not know, as LIMIT n."""
    try:
        tokens = sqlglot.tokenize(text, read=DIALECT)
    except SqlglotError:
        return text  # the parser has the clearer message
    words = [token.text.upper() for token in tokens]
    for place in range(len(tokens) - 1, -1, -1):
        if words[place] == "FETCH" and words[place + 1 : place + 2] in (["FIRST"], ["NEXT"]):
            has_number = tokens[place + 2 : place + 3] and tokens[place + 2].token_type == TokenType.NUMBER
            last = place + 4 if has_number else place + 3
            if words[last : last + 1] == ["ONLY"] and words[last - 1] in ("ROW", "ROWS"):
                count = words[place + 2] if has_number else "1"
                text = f"{text[: tokens[place].start]}LIMIT {count}{text[tokens[last].end + 1 :]}"
    return text


def _own_node(call: exp.Anonymous) -> exp.Expression:
    """Return a function that sqlglot does not parse as the node of this module, if there is one."""
    return Mode(this=call.expressions[0]) if call.name.lower() == "mode" and len(call.expressions) == 1 else call


def _one_statement(text: str, as_select: Callable[[exp.Expression], exp.Expression]) -> exp.Query:
    """Return the syntax tree of the one query in `text`, unchecked."""
    try:
        tokens = sqlglot.tokenize(text, read=DIALECT)
        first = tokens[0] if tokens else None
        # Whatever does not start like a query is not even parsed: sqlglot would log a warning about it.
        if first is None or first.token_type not in STARTS:
            msg = f"a query starts with SELECT or WITH, got {(first.text if first else '')!r}; a release is only read"
            raise QueryError(msg)
        trees = [as_select(tree) for tree in sqlglot.parse(text, read=DIALECT) if tree is not None]
    except SqlglotError as error:
        found = getattr(error, "errors", None)
        where = f" near {found[0]['highlight']!r}" if found and found[0].get("highlight") else ""
        msg = f"the query cannot be read as SQL{where}; {SUPPORTED}"
        raise QueryError(msg) from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        msg = f"one SELECT at a time, got {len(trees)} statements; a release is only read"
        raise QueryError(msg)
    return trees[0]


def _check_allowed(node: exp.Expression) -> None:
    """Refuse a node that is not on the lists above, or has parts that are not."""
    if isinstance(node, exp.Anonymous):
        allowed = node.name.lower() in NAMED_FUNCTIONS
    elif isinstance(node, exp.DataType):
        allowed = node.this in ALLOWED_TYPES
    elif isinstance(node, exp.Table):
        allowed = isinstance(node.this, exp.Identifier) and set(_given_parts(node)) <= {"this", "alias"}
    elif isinstance(node, exp.Values):
        allowed = not any(node.find_all(exp.Column, exp.Query)) and set(_given_parts(node)) <= {"expressions", "alias"}
    elif isinstance(node, exp.Array):  # of quantiles: lists have no other use here
        allowed = isinstance(node.parent, exp.Quantile | exp.PercentileCont | exp.PercentileDisc)
    else:
        allowed = type(node) in ALLOWED_NODES and not (isinstance(node, exp.Star) and any(_given_parts(node)))
    if isinstance(node, exp.With) and node.args.get("recursive"):
        allowed = False
    if isinstance(node, exp.Select) and (extra := set(_given_parts(node)) - SELECT_PARTS):
        msg = f"SELECT with {', '.join(sorted(extra)).upper()} is not supported; {SUPPORTED}"
        raise QueryError(msg)
    if not allowed:
        near = spelling_hint(node.name.lower(), _function_names()) if isinstance(node, exp.Anonymous) else ""
        msg = f"{shown(node)!r} is not supported; {SUPPORTED}{near}"
        raise QueryError(msg)


def _function_names() -> list[str]:
    functions: list[type[exp.Expression]] = [*FUNCTIONS, *WINDOW_FUNCTIONS]
    named = [name.lower() for one in functions if issubclass(one, exp.Func) for name in one.sql_names()]  # type: ignore[no-untyped-call]
    return [*AGGREGATES.values(), *NAMED_FUNCTIONS, *named]


def _given_parts(node: exp.Expression) -> Iterator[str]:
    """Return the names of the arguments of `node` that the query gives."""
    return (name for name, value in node.args.items() if value)


class UserDialect(DuckDB):
    """DuckDB's SQL with the spellings of users, for names of columns and messages."""

    class Generator(DuckDB.Generator):
        """Writes var_samp for what sqlglot calls variance."""

        TRANSFORMS = {  # noqa: RUF012 (sqlglot's own way of declaring a dialect)
            **DuckDB.Generator.TRANSFORMS,
            exp.Variance: lambda self, node: self.func("var_samp", node.this),
        }


def sql_of(node: exp.Expression) -> str:
    """Return `node` as SQL for the engine, every name in quotes."""
    try:
        return node.sql(dialect=DIALECT, identify=True, unsupported_level=ErrorLevel.RAISE)
    except UnsupportedError:
        msg = f"{shown(node)!r} cannot be written for the engine; {SUPPORTED}"
        raise QueryError(msg) from None


def text_of(node: exp.Expression) -> str:
    """Return `node`, a part of a query, as a user would write it."""
    return node.sql(dialect=UserDialect, normalize_functions="lower")


def shown(node: exp.Expression) -> str:
    """Return `node`, a part of a query, as a user would write it, cut to the length of a message."""
    text = text_of(node)
    return text if len(text) <= 60 else f"{text[:57]}..."


class Attr(exp.Column):
    """A reference to the attribute of an axis; it prints as the attribute's name."""

    arg_types = {"this": True, "axis": True}  # noqa: RUF012 (sqlglot's own way of declaring a node)

    @property
    def axis(self) -> int:
        """The attribute's axis."""
        return int(self.args["axis"])

    @classmethod
    def on_axis(cls, axis: int, name: str) -> "Attr":
        """Return a reference to the attribute of an axis."""
        return cls(this=exp.to_identifier(name), axis=axis)


Attr.key = "column"  # the generator's method that prints it


def find(name: str, known: Iterable[str], *, what: str) -> str:
    """Return the known name that matches: exactly, or else the only one that differs in case alone."""
    names = list(known)
    if name in names:
        return name
    alike = [other for other in names if other.casefold() == name.casefold()]
    if len(alike) == 1:
        return alike[0]
    if alike:
        msg = f"{what} '{name}' may be {listing(alike)}; write it in double quotes, as in \"{alike[0]}\""
        raise QueryError(msg)
    folded = {other.casefold(): other for other in names}
    near = [folded[found] for found in get_close_matches(name.casefold(), folded, n=3, cutoff=0.6)]
    hint = f"did you mean {listing(near)}?" if near else f"there are {listing(names, most=30)}"
    if what == "column" and not near:
        hint += f"; text is written in single quotes: '{name}'"
    msg = f"there is no {what} '{name}'; {hint}"
    raise QueryError(msg)


def attrs(node: exp.Expression | None) -> set[int]:
    """Return the axes that a part of a query names."""
    return set() if node is None else {found.axis for found in node.find_all(Attr)}


def is_constant(node: exp.Expression) -> bool:
    """Whether a part of a query has one value, whatever the row."""
    return not any(node.find_all(exp.Column, exp.AggFunc, exp.Window, exp.Query, exp.Star))


def bare(node: exp.Expression) -> exp.Expression:
    """Return what is inside parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def unpivoted(tree: exp.Expression, domain: Domain) -> exp.Expression:
    """Return a PIVOT of the cube as a SELECT with filters; anything else as it is."""
    if isinstance(tree, exp.Pivot):
        return _filtered_select(tree, tree.this, tree.expressions, tree.args.get("using") or [], domain)
    source = tree.args.get("from") if isinstance(tree, exp.Select) else None
    if source is None or not isinstance(source.this, exp.Table) or not (pivots := source.this.args.get("pivots")):
        return tree
    if len(pivots) > 1 or len(tree.expressions) != 1 or not isinstance(tree.expressions[0], exp.Star):
        msg = f"a PIVOT in FROM is the only one, and is selected by SELECT *; or {PIVOT_FORM}"
        raise QueryError(msg)
    made = _filtered_select(pivots[0], source.this, pivots[0].args.get("fields") or [], pivots[0].expressions, domain)
    for part in ("with", "order", "limit", "offset"):
        made.set(part, tree.args.get(part))
    return made


def _filtered_select(
    pivot: exp.Pivot,
    table: exp.Expression,
    on: list[exp.Expression],
    using: list[exp.Expression],
    domain: Domain,
) -> exp.Select:
    group = pivot.args.get("group")
    if pivot.args.get("unpivot") or len(on) != 1 or not using or group is None or table.name.casefold() != "cube":
        msg = f"a PIVOT takes cube, ON one attribute, USING aggregates, and GROUP BY; {PIVOT_FORM}"
        raise QueryError(msg)
    column, values = _pivot_values(on[0], domain)
    made = exp.Select().from_(exp.to_table("cube")).select(*(key.copy() for key in group.expressions))
    for value in values:
        for aggregate in using:
            name = (
                value.name if len(using) == 1 and not aggregate.alias else f"{value.name}_{_aggregate_name(aggregate)}"
            )
            kept = exp.Where(this=exp.EQ(this=column.copy(), expression=value.copy()))
            only = exp.Filter(this=_unnamed(aggregate).copy(), expression=kept)
            made = made.select(exp.alias_(only, name, quoted=True), copy=False)
    made.set("group", group.copy())
    return made


def _unnamed(node: exp.Expression) -> exp.Expression:
    return node.this if isinstance(node, exp.Alias) else node


def _aggregate_name(aggregate: exp.Expression) -> str:
    return aggregate.alias or aggregate.sql(dialect="duckdb", normalize_functions="lower")


def _pivot_values(on: exp.Expression, domain: Domain) -> tuple[exp.Expression, list[exp.Expression]]:
    """Return the attribute of a PIVOT, and its values: those given, or those that the domain lists."""
    if isinstance(on, exp.In):
        column, given = on.this, list(map(_unnamed, on.expressions))
    else:
        column, given = on, []
    if not isinstance(column, exp.Column) or any(not isinstance(value, exp.Literal) for value in given):
        msg = f"the columns of a PIVOT must be literal values of one attribute; {PIVOT_FORM}"
        raise QueryError(msg)
    attribute = domain[find(column.name, domain.names, what="column")]
    if not given and not attribute.has_distances:
        given = [exp.Literal.string(value) for value in attribute.labels()[: attribute.bins]]
    if not 1 <= len(given) <= MAX_PIVOT_COLUMNS:
        msg = (
            f"PIVOT ON '{attribute.name}' needs 1 to {MAX_PIVOT_COLUMNS} columns, got {len(given)}; list the values, "
            "as in PIVOT cube ON age IN (1, 2)"
        )
        raise QueryError(msg)
    return column, given


def described(text: str, domain: Domain) -> pa.Table | None:
    """Return the result of DESCRIBE cube or SHOW TABLES; None if `text` is another statement."""
    matched = DESCRIBING.fullmatch(text)
    if matched is None:
        return None
    if matched["table"] is None:
        return pa.table({"name": ["cube"]})
    rows = domain.attributes
    return pa.table(
        {
            "column_name": [a.name for a in rows],
            "column_type": [a.sql_type for a in rows],
            "values": [a.extent() for a in rows],
            "cells": [a.size for a in rows],
            "bins": ["of several values" if a.has_wide_bins else "of one value" for a in rows],
            "own_cells": [", ".join(f"({kind})" for kind in a.own_cells) for a in rows],
        }
    )
