"""PIVOT of the cube: a statement enters; the SELECT leaves that has a column for each value of an attribute.

`PIVOT cube ON sex USING count(*) GROUP BY age` is `SELECT age, count(*) FILTER (WHERE sex = 'F') AS "F", ...`.
The values are those that the domain lists, or those of `IN (...)`: none is looked up in any row.
"""

from sqlglot import exp

from dpcube.core.domain import Domain
from dpcube.core.errors import QueryError
from dpcube.release.sql.names import find

MOST_COLUMNS = 100
FORM = "write PIVOT cube ON sex USING count(*) GROUP BY income"


def unpivoted(tree: exp.Expression, domain: Domain) -> exp.Expression:
    """Return a PIVOT of the cube as a SELECT with filters; anything else as it is."""
    if isinstance(tree, exp.Pivot):
        return _select(tree, tree.this, tree.expressions, tree.args.get("using") or [], domain)
    source = tree.args.get("from") if isinstance(tree, exp.Select) else None
    if source is None or not isinstance(source.this, exp.Table) or not (pivots := source.this.args.get("pivots")):
        return tree
    if len(pivots) > 1 or len(tree.expressions) != 1 or not isinstance(tree.expressions[0], exp.Star):
        msg = f"one PIVOT, and SELECT * from it; or {FORM}"
        raise QueryError(msg)
    made = _select(pivots[0], source.this, pivots[0].args.get("fields") or [], pivots[0].expressions, domain)
    for part in ("with", "order", "limit", "offset"):
        made.set(part, tree.args.get(part))
    return made


def _select(
    pivot: exp.Pivot,
    table: exp.Expression,
    on: list[exp.Expression],
    using: list[exp.Expression],
    domain: Domain,
) -> exp.Select:
    group = pivot.args.get("group")
    if pivot.args.get("unpivot") or len(on) != 1 or not using or group is None or table.name.casefold() != "cube":
        msg = f"a PIVOT is of cube, ON one attribute, USING aggregates, with GROUP BY; {FORM}"
        raise QueryError(msg)
    column, values = _values(on[0], domain)
    made = exp.Select().from_(exp.to_table("cube")).select(*(key.copy() for key in group.expressions))
    for value in values:
        for aggregate in using:
            name = value.name if len(using) == 1 and not aggregate.alias else f"{value.name}_{_name(aggregate)}"
            kept = exp.Where(this=exp.EQ(this=column.copy(), expression=value.copy()))
            only = exp.Filter(this=_unnamed(aggregate).copy(), expression=kept)
            made = made.select(exp.alias_(only, name, quoted=True), copy=False)
    made.set("group", group.copy())
    return made


def _unnamed(node: exp.Expression) -> exp.Expression:
    return node.this if isinstance(node, exp.Alias) else node


def _name(aggregate: exp.Expression) -> str:
    return aggregate.alias or aggregate.sql(dialect="duckdb", normalize_functions="lower")


def _values(on: exp.Expression, domain: Domain) -> tuple[exp.Expression, list[exp.Expression]]:
    """Return the attribute that columns are made of, and their values: given, or those that the domain lists."""
    if isinstance(on, exp.In):
        column, given = on.this, list(map(_unnamed, on.expressions))
    else:
        column, given = on, []
    if not isinstance(column, exp.Column) or any(not isinstance(value, exp.Literal) for value in given):
        msg = f"the columns of a PIVOT are values of one attribute; {FORM}"
        raise QueryError(msg)
    attribute = domain[find(column.name, domain.names, what="column")]
    if not given and attribute.scale == "position":
        given = [exp.Literal.string(value) for value in attribute.labels()[: attribute.bins]]
    if not 1 <= len(given) <= MOST_COLUMNS:
        msg = (
            f"PIVOT ON '{attribute.name}': name its columns, {MOST_COLUMNS} at most, as in PIVOT cube ON age IN (1, 2)"
        )
        raise QueryError(msg)
    return column, given
