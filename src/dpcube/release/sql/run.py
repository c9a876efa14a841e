"""Execution of SQL on an estimated cube: each SELECT from the cube is rewritten, and its rows made, as it is met."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property

import numpy as np
import pyarrow as pa
from sqlglot import exp

from dpcube.core.domain import Domain
from dpcube.core.errors import QueryError
from dpcube.models import Estimate
from dpcube.release.sql.axes import pieces_of
from dpcube.release.sql.constancy import check_constancy, check_numbers, cut_at_steps
from dpcube.release.sql.describe import described
from dpcube.release.sql.engine import Engine, engine
from dpcube.release.sql.errors import error_columns, scaled_errors
from dpcube.release.sql.lookup import looked_up
from dpcube.release.sql.names import Attr
from dpcube.release.sql.needs import Needs
from dpcube.release.sql.parse import parse_select, shown, sql_of
from dpcube.release.sql.pivot import unpivoted
from dpcube.release.sql.products import TooManyWaysError
from dpcube.release.sql.quantile_errors import quantile_errors
from dpcube.release.sql.quotient_errors import quotient_errors
from dpcube.release.sql.relation import Relation
from dpcube.release.sql.rewrite import Erring, Rewriter, Rewritten, written
from dpcube.release.sql.scope import (
    CUBE,
    NO_ROWS_TO_LIST,
    CubeRows,
    Scope,
    SelectSource,
    grouped_if_distinct,
    has_aggregates,
    listed_rows,
    with_column_names,
)
from dpcube.release.sql.stated import inlined
from dpcube.release.sql.written import QUANTILE, Written, WrittenQuotient

MOST_SUBQUERY_ROWS = 10_000
MOST_SELECTS = 100
ONLY_ERRORS_OF = (
    "errors are stated for count, sum, avg, their multiples, sums and ratios, and for medians in the outermost SELECT, "
    "when it is FROM cube and not DISTINCT"
)


def run(
    text: str,
    domain: Domain,
    infer: Callable[[], Estimate],
    *,
    error: bool,
    confidence: float,
    seconds: float,
) -> pa.Table:
    """Return the result of the query `text` on the cube of an estimate, which is inferred once the query is checked.

    With `error`, counts, sums, averages, ratios and medians have errors and intervals of this `confidence` beside them.
    A query that takes longer than `seconds` is stopped.
    """
    if (about := described(text, domain)) is not None:
        return about
    tree = parse_select(text, as_select=lambda parsed: unpivoted(parsed, domain))
    with engine(confidence=confidence, seconds=seconds) as locked:
        session = Session(domain, infer, locked, error=error, confidence=confidence)
        try:
            return session.result(tree)
        except RecursionError:
            msg = "the query nests too deeply; write it with fewer parentheses, conditions or sub-queries"
            raise QueryError(msg) from None


@dataclass
class Session:
    """One query that is being rewritten: the engine it will run in, and what is known of it so far.

    `selects_made` counts its SELECTs from rows of the cube. `_stating_errors` is the outermost of them, with its rows,
    if errors are asked for; `_names` are the names of its columns as the user wrote them.
    """

    domain: Domain
    infer: Callable[[], Estimate]
    engine: Engine
    error: bool
    confidence: float
    selects_made: int = field(default=0)
    _stating_errors: tuple[Rewritten, Relation] | None = field(default=None)
    _names: list[str] = field(default_factory=list)

    @cached_property
    def estimate(self) -> Estimate:
        """The estimate, inferred when the first rows are made: a mistake in a query costs no inference."""
        begun = time.monotonic()
        made = self.infer()
        self.engine.allow(time.monotonic() - begun)
        return made

    def result(self, tree: exp.Query) -> pa.Table:
        """Return what the engine makes of the query: rows of the cube are given to it, and aggregates are weighted."""
        columns: dict[str, exp.Expression] = {name: Attr.of(axis, name) for axis, name in enumerate(self.domain.names)}
        tree = inlined(tree) if self.error else tree
        query = self._rewrite_to_result(tree, Scope({CUBE: CubeRows(columns)}), outermost=True)
        if self.error and self._stating_errors is None:
            raise QueryError(ONLY_ERRORS_OF)
        return self._with_errors_and_names(self.engine.run(sql_of(query)))

    def _rewrite_query(self, query: exp.Expression, scope: Scope, *, outermost: bool = False) -> CubeRows | exp.Query:
        """Return the rows of the cube that a query lists; or, if it makes a result, the query rewritten."""
        scope, named = scope.copy(), []
        if clause := query.args.get("with"):
            for cte in clause.expressions:
                made = self._rewrite_query(cte.this, scope)
                scope.define(cte, made)
                named += [] if isinstance(made, CubeRows) else [cte]
            query.set("with", None)
        if isinstance(query, exp.SetOperation):
            for side in ("this", "expression"):
                query.set(side, self._rewrite_to_result(query.args[side], scope))
        elif isinstance(query, exp.Subquery):
            query.set("this", self._rewrite_to_result(query.this, scope))
        elif not isinstance(query, exp.Select):
            msg = f"{shown(query)!r} is no SELECT; a release is only read by SELECT"
            raise QueryError(msg)
        else:
            selected = self._rewrite_select(query, scope, outermost=outermost)
            if isinstance(selected, CubeRows):
                return selected
            query = selected
        if named:
            query.set("with", exp.With(expressions=named))
        return query

    def _rewrite_to_result(self, query: exp.Expression, scope: Scope, *, outermost: bool = False) -> exp.Query:
        """Return a query rewritten; refuse one that lists rows of the cube."""
        made = self._rewrite_query(query, scope, outermost=outermost)
        if isinstance(made, CubeRows):
            raise QueryError(NO_ROWS_TO_LIST)
        return made

    def _rewrite_select(self, select: exp.Select, scope: Scope, *, outermost: bool) -> CubeRows | exp.Select:
        """Rewrite one SELECT: from rows of the cube to rows or to weighted aggregates; from results it stays."""
        joins = select.args.get("joins") or []
        tables = [part.this for part in [select.args.get("from"), *joins] if part is not None]
        rows = [(table, found) for table in tables if (found := self._rows_of(table, scope)) is not None]
        if not rows:
            for nested in _subqueries(select):
                nested.replace(self._rewrite_to_result(nested, scope))
            return select
        table, found = rows[0]
        if len(rows) > 1 or table is not tables[0]:
            msg = "rows of the cube can be joined with results and VALUES only, and come first: FROM cube JOIN ..."
            raise QueryError(msg)
        source = SelectSource(with_column_names(found, table), table.alias_or_name)
        for join in joins:
            source = looked_up(source, join, self._table_of(join.this, scope), self.domain)
        select.set("joins", None)
        self._replace_subqueries(select, scope)
        return (
            self._rewrite_aggregates(grouped_if_distinct(select), source, outermost=outermost)
            if has_aggregates(select) or select.args.get("distinct")
            else listed_rows(select, source)
        )

    def _table_of(self, table: exp.Expression, scope: Scope) -> pa.Table:
        """Return a table that the cube is joined with: VALUES, or a result."""
        query = exp.select("*").from_(table.copy())
        if scope.results:
            query.set("with", exp.With(expressions=[cte.copy() for cte in scope.results.values()]))
        found = self.engine.run(sql_of(query))
        if found.num_rows > MOST_SUBQUERY_ROWS:
            msg = (
                f"a table that the cube is joined with has at most {MOST_SUBQUERY_ROWS:,} rows, here {found.num_rows:,}"
            )
            raise QueryError(msg)
        return found

    def _rows_of(self, table: exp.Expression, scope: Scope) -> CubeRows | None:
        """Return the rows of the cube that a SELECT takes from `table`; None if that is a result."""
        if isinstance(table, exp.Table):
            return scope.rows_of(table)
        if isinstance(table, exp.Values):
            return None
        if not isinstance(table, exp.Subquery):
            msg = "a SELECT takes its rows from cube, a WITH clause or a sub-query"
            raise QueryError(msg)
        made = self._rewrite_query(table.this, scope)
        if isinstance(made, CubeRows):
            return made
        table.set("this", made)
        return None

    def _rewrite_aggregates(self, select: exp.Select, source: SelectSource, *, outermost: bool) -> exp.Select:
        """Rewrite a SELECT with aggregates over rows of the cube, and make its rows.

        Where errors are stated, rows of count zero are made too, and hidden columns list the rows of each aggregate.
        """
        complete = outermost and self.error
        if complete and select.args.get("distinct"):
            raise QueryError(ONLY_ERRORS_OF)
        self.selects_made += 1
        if self.selects_made > MOST_SELECTS:
            msg = f"the query selects from the cube more than {MOST_SELECTS} times; ask several queries"
            raise QueryError(msg)
        name = f"dpcube rows {self.selects_made}"
        rewriter = Rewriter(source, Needs(self.domain, self.fold), complete=complete, outermost=outermost)
        rewritten = rewriter.rewrite(select, name)
        relation = self._add_rows(name, rewritten, complete=complete)
        if outermost and len(set(rewritten.names)) == len(rewritten.names):
            self._names = rewritten.names  # the engine takes names that differ in case for the same
        if complete:
            self._stating_errors = rewritten, relation
            for place, made in enumerate(_erring_aggregates(rewritten)):
                for name, what in ((_hidden_name(place), made.parts()), (_hidden_value(place), made.sql)):
                    rewritten.select.select(exp.alias_(written(what), name, quoted=True), copy=False)
        return rewritten.select

    def _add_rows(self, name: str, rewritten: Rewritten, *, complete: bool) -> Relation:
        """Make the rows that a rewritten SELECT needs, and give them to the engine as the table `name`."""
        needs = rewritten.needs
        cut_at_steps(self.engine, needs)
        pieces = {axis: pieces_of(self.domain.attributes[axis], needs.uses[axis]) for axis in sorted(needs.uses)}
        relation = Relation(self.domain, self.estimate, pieces, complete)
        self.engine.add(name, relation.table(needs.columns, needs.noises))
        check_numbers(self.engine, name, rewritten.numbers)
        check_constancy(self.engine, pieces, rewritten.constant_in_bins, needs.columns)
        return relation

    def _replace_subqueries(self, select: exp.Select, scope: Scope) -> None:
        """Run the sub-queries in conditions and columns, and put their values there: they do not depend on the row."""
        for nested in _subqueries(select):
            query = self._rewrite_to_result(nested.copy(), scope)
            named = [cte.copy() for cte in scope.results.values()]
            inner = query.args.get("with")
            if named:
                query.set("with", exp.With(expressions=[*named, *(inner.expressions if inner else [])]))
            table, parent = self.engine.run(sql_of(query)), nested.parent
            if isinstance(parent, exp.Exists):
                parent.replace(exp.true() if table.num_rows else exp.false())
            elif isinstance(parent, exp.In):
                parent.set("query", None)
                parent.set(
                    "expressions",
                    [exp.convert(value) for value in _values_of_only_column(table, MOST_SUBQUERY_ROWS)] or [exp.null()],
                )
            else:
                values = _values_of_only_column(table, 1)
                nested.replace(exp.convert(values[0]) if values else exp.null())

    def fold(self, node: exp.Expression) -> object:
        """Return the value of an expression without columns."""
        if isinstance(node, exp.Literal):
            return node.name if node.is_string else int(node.name) if node.is_int else Decimal(node.name)
        if isinstance(node, exp.Null):
            return None
        return self.engine.run(f"SELECT {sql_of(node)} AS v").column(0)[0].as_py()

    def _with_errors_and_names(self, table: pa.Table) -> pa.Table:
        """Return the engine's result with errors in place of the hidden columns, or with the user's names."""
        if self._stating_errors is None:
            return table.rename_columns(self._names) if self._names else table
        rewritten, relation = self._stating_errors
        columns = {name: table[name] for name in table.column_names[: len(rewritten.names)]}
        made: dict[str, pa.Array] = {}
        hidden = (
            tuple(table[of(place)].combine_chunks() for of in (_hidden_value, _hidden_name))
            for place in range(len(_erring_aggregates(rewritten)))
        )
        for name, values in columns.items():
            made[name] = values
            if name in rewritten.errors:
                found = self._errors(relation, rewritten.errors[name], hidden)
                made |= {f"{name}_{what}": column for what, column in found.items()}
        return pa.table(made)

    def _errors(
        self, relation: Relation, of: Erring, hidden: Iterator[tuple[pa.Array, pa.Array]]
    ) -> dict[str, pa.Array]:
        """Return the errors of a column, given the value and the rows of each of its aggregates in turn."""
        taken = [next(hidden) for _ in of.aggregates]
        if isinstance(of, Written) and of.kind != QUANTILE:
            found = error_columns(relation, *taken[0], of=of, confidence=self.confidence)
        else:
            try:
                found = (
                    quotient_errors(relation, of, taken, confidence=self.confidence)
                    if isinstance(of, WrittenQuotient)
                    else quantile_errors(relation, *taken[0], of=of, confidence=self.confidence)
                )
            except TooManyWaysError:
                found = dict.fromkeys(
                    ("stderr", "nonuniformity", "low", "high"), pa.array(np.full(len(taken[0][0]), np.nan))
                )
        return scaled_errors(found, scale=of.scale, offset=of.offset)


def _subqueries(select: exp.Select) -> list[exp.Expression]:
    """Return the outermost queries inside a SELECT's columns and conditions, not those it selects from."""
    found: list[exp.Expression] = []

    def visit(node: exp.Expression) -> None:
        if isinstance(node, exp.Query):
            found.append(node)
            return
        for child in node.iter_expressions():
            visit(child)

    for part in select.iter_expressions():
        if not isinstance(part, exp.From | exp.With):
            visit(part.args["on"] if isinstance(part, exp.Join) and part.args.get("on") else part)
    return [node for node in found if not isinstance(node.parent, exp.Join)]


def _values_of_only_column(table: pa.Table, most: int) -> list[object]:
    """Return the values of the result of a sub-query in a condition, which has one column and at most `most` rows."""
    if table.num_columns != 1 or table.num_rows > most:
        msg = (
            f"a sub-query in a condition gives one column and at most {most:,} rows, "
            f"here {table.num_columns} columns and {table.num_rows:,} rows"
        )
        raise QueryError(msg)
    values: list[object] = table.column(0).to_pylist()
    return values


def _erring_aggregates(rewritten: Rewritten) -> list[Written]:
    """Return the aggregates whose errors are stated, column by column."""
    return [aggregate for column in rewritten.errors.values() for aggregate in column.aggregates]


def _hidden_name(place: int) -> str:
    """Return the name of the hidden column that lists the rows of an aggregate, by its place among them."""
    return f"dpcube error {place}"


def _hidden_value(place: int) -> str:
    """Return the name of the hidden column that holds an aggregate itself, of which a column is a multiple."""
    return f"dpcube value {place}"
