"""SQL enters, an Arrow table leaves: each SELECT from the cube is rewritten, and its rows made, as it is met."""

from dataclasses import dataclass, field
from decimal import Decimal

import pyarrow as pa
from sqlglot import exp

from dpcube.analyst.sql.axes import pieces_of
from dpcube.analyst.sql.constancy import check_constancy, check_numbers, cut_at_steps
from dpcube.analyst.sql.engine import Engine, engine
from dpcube.analyst.sql.errors import error_columns
from dpcube.analyst.sql.names import Attr
from dpcube.analyst.sql.needs import Needs
from dpcube.analyst.sql.parse import parse_select, shown, sql_of
from dpcube.analyst.sql.relation import Relation
from dpcube.analyst.sql.rewrite import Rewriter, Rewritten, written
from dpcube.analyst.sql.scope import CUBE, HOW, CubeRows, Scope, SelectSource, has_aggregates, listed_rows, renamed
from dpcube.domain import Domain
from dpcube.errors import QueryError
from dpcube.estimate import Estimate

MOST_LISTED = 10_000
MOST_SELECTS = 100
ERRORS_OF = "errors are stated for count, sum and avg in the outermost SELECT, when it is FROM cube and not DISTINCT"


def run(text: str, domain: Domain, estimate: Estimate, *, error: bool, confidence: float, seconds: float) -> pa.Table:
    """Return the result of a query on a cube, with columns of errors if they are asked for."""
    tree = parse_select(text)
    with engine(confidence=confidence, seconds=seconds) as locked:
        session = Session(domain, estimate, locked, error=error, confidence=confidence)
        try:
            return session.result(tree)
        except RecursionError:
            msg = "the query nests too deeply; write it with fewer parentheses, conditions or sub-queries"
            raise QueryError(msg) from None


@dataclass
class Session:
    """One query on its way: the engine it runs in, and the rows made for it so far."""

    domain: Domain
    estimate: Estimate
    engine: Engine
    error: bool
    confidence: float
    made: int = field(default=0)
    _erring: tuple[Rewritten, Relation] | None = field(default=None)
    _names: list[str] = field(default_factory=list)

    def result(self, tree: exp.Query) -> pa.Table:
        """Run the whole query."""
        columns: dict[str, exp.Expression] = {name: Attr.of(axis, name) for axis, name in enumerate(self.domain.names)}
        query = self.query(tree, Scope({CUBE: CubeRows(columns)}), outermost=True)
        if isinstance(query, CubeRows):
            raise QueryError(HOW)
        if self.error and self._erring is None:
            raise QueryError(ERRORS_OF)
        return self._finished(self.engine.run(sql_of(query)))

    def query(self, query: exp.Expression, scope: Scope, *, outermost: bool = False) -> CubeRows | exp.Query:
        """Return the rows that a query lists, or the query rewritten."""
        scope, named = scope.inner(), []
        if clause := query.args.get("with"):
            for cte in clause.expressions:
                made = self.query(cte.this, scope)
                scope.name(cte, made)
                named += [] if isinstance(made, CubeRows) else [cte]
            query.set("with", None)
        if isinstance(query, exp.SetOperation):
            for side in ("this", "expression"):
                query.set(side, self._result_of(query.args[side], scope))
        elif isinstance(query, exp.Subquery):
            query.set("this", self._result_of(query.this, scope))
        elif not isinstance(query, exp.Select):
            msg = f"{shown(query)!r} is no SELECT; a release is only read by SELECT"
            raise QueryError(msg)
        else:
            selected = self.select(query, scope, outermost=outermost)
            if isinstance(selected, CubeRows):
                return selected
            query = selected
        if named:
            query.set("with", exp.With(expressions=named))
        return query

    def _result_of(self, query: exp.Expression, scope: Scope) -> exp.Query:
        made = self.query(query, scope)
        if isinstance(made, CubeRows):
            raise QueryError(HOW)
        return made

    def select(self, select: exp.Select, scope: Scope, *, outermost: bool) -> CubeRows | exp.Select:
        """Rewrite one SELECT by what it selects from."""
        joins = select.args.get("joins") or []
        tables = [part.this for part in [select.args.get("from"), *joins] if part is not None]
        rows = [(table, found) for table in tables if (found := self._rows_of(table, scope)) is not None]
        if not rows:
            for nested in _nested(select):
                nested.replace(self._result_of(nested, scope))
            return select
        if joins:
            msg = "rows of the cube cannot be joined: aggregate them in a sub-query or WITH first, and join the results"
            raise QueryError(msg)
        table, found = rows[0]
        source = SelectSource(renamed(found, table), table.alias_or_name)
        self._fold_nested(select, scope)
        return (
            self._aggregated(select, source, outermost=outermost)
            if has_aggregates(select)
            else listed_rows(select, source)
        )

    def _rows_of(self, table: exp.Expression, scope: Scope) -> CubeRows | None:
        if isinstance(table, exp.Table):
            return scope.table(table)
        if not isinstance(table, exp.Subquery):
            msg = "a SELECT takes its rows from cube, a WITH clause or a sub-query"
            raise QueryError(msg)
        made = self.query(table.this, scope)
        if isinstance(made, CubeRows):
            return made
        table.set("this", made)
        return None

    def _aggregated(self, select: exp.Select, source: SelectSource, *, outermost: bool) -> exp.Select:
        complete = outermost and self.error
        if complete and select.args.get("distinct"):
            raise QueryError(ERRORS_OF)
        self.made += 1
        if self.made > MOST_SELECTS:
            msg = f"the query selects from the cube more than {MOST_SELECTS} times; ask several queries"
            raise QueryError(msg)
        name = f"dpcube rows {self.made}"
        rewritten = Rewriter(source, Needs(self.domain, self.fold), complete=complete).rewrite(select, name)
        needs = rewritten.needs
        cut_at_steps(self.engine, needs)
        pieces = {axis: pieces_of(self.domain.attributes[axis], needs.uses[axis]) for axis in sorted(needs.uses)}
        relation = Relation(self.domain, self.estimate, pieces, complete)
        self.engine.add(name, relation.table(needs.columns, needs.noises))
        check_numbers(self.engine, name, rewritten.numbers)
        check_constancy(self.engine, pieces, rewritten.constant_in_bins, needs.columns)
        if outermost and len(set(rewritten.names)) == len(rewritten.names):
            self._names = rewritten.names  # the engine takes names that differ in case for the same
        if complete:
            self._erring = rewritten, relation
            for place, made in enumerate(rewritten.errors.values()):
                rewritten.select.select(exp.alias_(written(made.parts()), _hidden(place), quoted=True), copy=False)
        return rewritten.select

    def _fold_nested(self, select: exp.Select, scope: Scope) -> None:
        """Replace sub-queries in conditions and columns by their values: they do not depend on the row."""
        for nested in _nested(select):
            query = self._result_of(nested.copy(), scope)
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
                    "expressions", [exp.convert(value) for value in _only_column(table, MOST_LISTED)] or [exp.null()]
                )
            else:
                values = _only_column(table, 1)
                nested.replace(exp.convert(values[0]) if values else exp.null())

    def fold(self, node: exp.Expression) -> object:
        """Return the value of a constant."""
        if isinstance(node, exp.Literal):
            return node.name if node.is_string else int(node.name) if node.is_int else Decimal(node.name)
        if isinstance(node, exp.Null):
            return None
        return self.engine.run(f"SELECT {sql_of(node)} AS v").column(0)[0].as_py()

    def _finished(self, table: pa.Table) -> pa.Table:
        """Put the errors in place of the hidden columns, and and give columns their names."""
        if self._erring is None:
            return table.rename_columns(self._names) if self._names else table
        rewritten, relation = self._erring
        columns = {name: table[name] for name in table.column_names[: len(rewritten.names)]}
        made: dict[str, pa.Array] = {}
        erring = list(rewritten.errors)
        for name, values in columns.items():
            made[name] = values
            if name in erring:
                written = rewritten.errors[name]
                parts = table[_hidden(erring.index(name))].combine_chunks()
                found = error_columns(relation, values.combine_chunks(), parts, of=written, confidence=self.confidence)
                made |= {f"{name}_{what}": column for what, column in found.items()}
        return pa.table(made)


def _nested(select: exp.Select) -> list[exp.Expression]:
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


def _only_column(table: pa.Table, most: int) -> list[object]:
    if table.num_columns != 1 or table.num_rows > most:
        msg = (
            f"a sub-query in a condition gives one column and at most {most:,} rows, "
            f"here {table.num_columns} columns and {table.num_rows:,} rows"
        )
        raise QueryError(msg)
    values: list[object] = table.column(0).to_pylist()
    return values


def _hidden(place: int) -> str:
    return f"dpcube error {place}"
