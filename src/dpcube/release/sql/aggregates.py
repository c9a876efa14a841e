"""Aggregates over weighted rows, as SQL.

With w the estimated count of a row (any real number) and x the argument where it is not null:

    count = sum w        sum = sum w x        avg = sum w x / sum w, null unless sum w > 0
    var_pop = sum w (x - avg)^2 / sum w, null unless sum w > 0 and the result is not negative; var_samp has sum w - 1

Variances of a bare attribute include that of a uniform distribution inside its bins. Minimum, maximum, mode and
quantiles are computed by the engine's own function for order statistics (`engine.py`).
"""

from dataclasses import dataclass, field, replace
from itertools import product

from sqlglot import exp

from dpcube.core.errors import QueryError
from dpcube.release.sql.axes import Detail
from dpcube.release.sql.engine import ORDER_STATISTIC
from dpcube.release.sql.parse import AGGREGATES, Attr, attrs, bare, is_constant, shown, sql_of
from dpcube.release.sql.predicates import Requirements

QUANTILE = "quantile"
"""The kind of an aggregate that is a median or another quantile."""
MAX_CORNER_AXES = 3
"""Attributes with wide bins in one argument, whose range is found by evaluating it at the corners of the bins."""
OF_TWO = ("corr", "covar_pop", "covar_samp")
SUPPORTED_AGGREGATES = (
    "count(*), count(x), sum, avg, min, max, mode, median, quantile_cont, quantile_disc, var_samp, var_pop, stddev, "
    "corr, covar_pop, covar_samp"
)


@dataclass(frozen=True)
class Aggregate:
    """SQL of an aggregate over weighted rows; if it has errors, also the coefficient of each row's count in it.

    `keep` is the condition on the rows that enter. `corners` are the coefficients at the ends of the row's bins whose
    distribution is unknown, `even` those at the ends of bins declared even; the extremes are among them. `known` is
    false where the coefficient is no linear function inside bins. `named` are the attributes whose values it takes
    while only their bins are known. A quantile has a `share`, and its attribute is on `axis`.
    """

    sql: str
    kind: str = ""
    coefficient: str | None = None
    keep: str | None = None
    corners: tuple[str, ...] = ()
    even: tuple[str, ...] = ()
    known: bool = True
    named: tuple[str, ...] = ()
    share: float = 0.5
    axis: int = -1

    def rows_sql(self) -> str:
        """Return the SQL of a list of the rows that enter, each with its coefficient and the range of that."""
        assert self.coefficient is not None
        low, high = (_extreme(what, self.corners or (self.coefficient,)) for what in ("least", "greatest"))
        width = f"{_extreme('greatest', self.even)} - {_extreme('least', self.even)}" if self.even else "0.0"
        row = f"{{'i': i, 'f': {self.coefficient}, 'low': {low}, 'high': {high}, 'even': {width}}}"
        return f"list({row}) FILTER ({self.keep})"


@dataclass(frozen=True)
class ErrorColumn:
    """A column with errors: one linear combination of aggregates over another, times `scale`, plus `offset`.

    Each aggregate has its factor. A column of one aggregate, or a sum of several, has 1 as its denominator.
    """

    numerator: tuple[tuple[float, Aggregate], ...]
    numerator_constant: float = 0.0
    denominator: tuple[tuple[float, Aggregate], ...] = ()
    denominator_constant: float = 1.0
    scale: float = 1.0
    offset: float = 0.0

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """The aggregates of the column: first those of the numerator."""
        return tuple(aggregate for _, aggregate in (*self.numerator, *self.denominator))

    @property
    def single(self) -> Aggregate | None:
        """The aggregate of a column of one; None if the column is of several."""
        is_single = len(self.numerator) == 1 and not self.numerator_constant
        return self.numerator[0][1] if is_single and not self.denominator else None


def _extreme(what: str, of: tuple[str, ...]) -> str:
    return f"{what}({', '.join(of)})" if len(of) > 1 else of[0]


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate of a query: its name, its argument and FILTER if any, and the order of a quantile.

    `second` is the other argument of those that take two, such as corr.
    """

    name: str
    argument: exp.Expression | None
    condition: exp.Expression | None
    quantile: exp.Expression | None
    text: str
    second: exp.Expression | None = None


def aggregate_call(node: exp.Expression) -> AggregateCall | None:
    """Return the aggregate that `node`, a part of a parsed query, stands for; None if it is no aggregate."""
    if not isinstance(node, exp.Filter | exp.WithinGroup | exp.AggFunc) or isinstance(node, exp.Grouping):
        return None
    text, condition, quantile = shown(node), None, None
    if isinstance(node, exp.Filter):
        node, condition = node.this, node.expression.this
    if isinstance(node, exp.WithinGroup):
        return _within_group(node, condition, text)
    if type(node) not in AGGREGATES:
        msg = f"{text!r} is not supported; the aggregates are {SUPPORTED_AGGREGATES}"
        raise QueryError(msg)
    name, argument = AGGREGATES[type(node)], node.this
    if isinstance(argument, exp.Distinct):
        msg = f"{text!r}: nearly every value has some noisy count; GROUP BY it, with HAVING count(*) above the noise"
        raise QueryError(msg)
    if isinstance(argument, exp.Order):
        msg = f"{text!r}: the order of rows means nothing to an aggregate; leave ORDER BY out of it"
        raise QueryError(msg)
    if name.startswith("quantile"):
        quantile = node.args.get("quantile") or node.expression
    second = node.expression if name in OF_TWO else None
    if node.args.get("expressions"):
        msg = f"{text!r} has more arguments than {name} takes"
        raise QueryError(msg)
    if isinstance(argument, exp.Star) or argument is None:
        argument = None
    return AggregateCall(name, argument, condition, quantile, text, second)


def _within_group(node: exp.WithinGroup, condition: exp.Expression | None, text: str) -> AggregateCall:
    kind, order = AGGREGATES.get(type(node.this), ""), node.expression.expressions
    if not kind.startswith("quantile_") or len(order) != 1 or order[0].args.get("desc"):
        msg = f"{text!r} is not supported; write quantile_cont(x, 0.5)"
        raise QueryError(msg)
    return AggregateCall(kind, order[0].this, condition, node.this.this, text)


@dataclass
class AggregateWriter:
    """Generator of SQL for aggregates on the columns of the weighted rows, which it adds to `required`.

    `numbers` collects arguments that must be numbers: their SQL, and the aggregate as the user wrote it. `complete`
    says that rows whose count is zero are included. `decided` are the axes of attributes in group keys and WHERE.
    """

    required: Requirements
    numbers: dict[str, str]
    complete: bool
    decided: set[int] = field(default_factory=set)

    def write(
        self,
        call: AggregateCall,
        argument: exp.Expression | None,
        condition: exp.Expression | None,
        second: exp.Expression | None = None,
    ) -> Aggregate:
        """Return the SQL of a call; the other arguments are its parts, on the rows' own columns."""
        filters = [] if condition is None else [f"({sql_of(condition)})"]
        if call.name in ("count", "count_if"):
            return self._count(call, argument, filters)
        if call.argument is None or argument is None:
            msg = f"{call.text!r} needs an argument, as in {call.name}(x)"
            raise QueryError(msg)
        if isinstance(call.quantile, exp.Array):
            each = [replace(call, quantile=one) for one in call.quantile.expressions]
            return Aggregate(f"[{', '.join(self._order_statistic(one, argument, filters) for one in each)}]")
        if call.name in ("min", "max", "median", "mode") or call.quantile is not None:
            return self._with_share(call, self._order_statistic(call, argument, filters), filters)
        if second is not None:
            return Aggregate(self._covariance(call, argument, second, filters))
        self._need_number(call, argument)
        x = f"CAST({sql_of(argument)} AS DOUBLE)"
        filters = [*filters, f"{x} IS NOT NULL"]
        keep = self._where(filters)
        n = f"sum(w) FILTER ({keep})"
        total = f"sum(w * {x}) FILTER ({keep})"
        if call.name in ("sum", "avg"):
            value = total if call.name == "sum" else f"CASE WHEN {n} > 0 THEN {total} / {n} END"
            return replace(self._varying(argument), sql=value, kind=call.name, coefficient=x, keep=_where(filters))
        sql = self._variance(call, argument, keep, n)
        if not self.complete:
            return Aggregate(sql)
        made = replace(self._varying(argument), corners=(), even=(), known=False, named=self._wide(argument))
        return replace(made, sql=sql, kind=call.name, coefficient=x, keep=_where(filters))

    def _wide(self, argument: exp.Expression) -> tuple[str, ...]:
        """Return the attributes of an argument whose bins hold several values."""
        axes = {self.required.columns[column.name][0] for column in argument.find_all(exp.Column)}
        attributes = [self.required.domain.attributes[axis] for axis in sorted(axes)]
        return tuple(attribute.name for attribute in attributes if attribute.has_wide_bins)

    def _varying(self, argument: exp.Expression) -> Aggregate:
        """Return the range of an argument inside bins: from its values at their ends if it is linear, else unknown."""
        if not self.complete:
            return Aggregate("")
        domain, places = (
            self.required.domain,
            {c.name: self.required.columns[c.name] for c in argument.find_all(exp.Column)},
        )
        values = sorted({axis for axis, role in places.values() if role == "value"})
        wide = [axis for axis in values if domain.attributes[axis].has_wide_bins]
        unknown = [axis for axis in wide if not domain.attributes[axis].is_even]
        even = [axis for axis in wide if axis not in unknown]
        apart = {axis for axis, role in places.values() if role == "unit" and domain.attributes[axis].has_wide_bins}
        real = {axis for axis in apart if domain.attributes[axis].is_continuous}
        apart = {axis for axis in apart if not domain.attributes[axis].is_even}
        named = tuple(domain.names[axis] for axis in sorted({*unknown, *apart, *real}))
        if real or len(wide) > MAX_CORNER_AXES:
            return Aggregate("", known=False, named=named)
        return Aggregate("", corners=self._corners(argument, unknown), even=self._corners(argument, even), named=named)

    def _corners(self, argument: exp.Expression, axes: list[int]) -> tuple[str, ...]:
        """Return `argument` as SQL at every combination of the ends of the bins of the attributes on `axes`."""
        made = []
        for ends in product(("least", "most"), repeat=len(axes)):
            columns = {
                f"value{axis}": self.required.column(axis, end, Detail.BINS)
                for axis, end in zip(axes, ends, strict=True)
            }

            def at(node: exp.Expression, columns: dict[str, exp.Column] = columns) -> exp.Expression:
                return columns[node.name].copy() if isinstance(node, exp.Column) and node.name in columns else node

            made.append(f"CAST({sql_of(argument.copy().transform(at))} AS DOUBLE)")
        return tuple(made) if axes else ()

    def _count(self, call: AggregateCall, argument: exp.Expression | None, filters: list[str]) -> Aggregate:
        if argument is not None:
            tested = "IS TRUE" if call.name == "count_if" else "IS NOT NULL"
            filters = [*filters, f"({sql_of(argument)}) {tested}"]
        keep = _where(filters or ["true"])
        return Aggregate(f"coalesce(sum(w) FILTER ({keep}), 0)", "count", "1.0", keep)

    def _where(self, filters: list[str]) -> str:
        """Return the condition on the rows that enter: rows of count zero serve only to state errors."""
        return _where([*filters, "w <> 0"] if self.complete else filters)

    def _need_number(self, call: AggregateCall, argument: exp.Expression) -> None:
        self.numbers[sql_of(argument)] = call.text

    def _variance(self, call: AggregateCall, argument: exp.Expression, keep: str, n: str) -> str:
        """Return the second moment about the mean, shifted by the middle of the domain against cancellation."""
        moved, spread = self._moved(call.argument, argument)
        first = f"sum(w * {moved}) FILTER ({keep})"
        second = f"sum(w * ({moved} * {moved} + {spread})) FILTER ({keep})"
        squares = f"({second} - {first} * {first} / {n})"
        less = 0 if call.name.endswith("_pop") else 1
        variance = f"greatest({squares}, 0) / ({n} - {less})"
        value = f"sqrt({variance})" if call.name.startswith("stddev") else variance
        return f"CASE WHEN {n} > {less} AND {squares} >= -1e-9 * abs({second}) THEN {value} END"

    def _covariance(
        self, call: AggregateCall, argument: exp.Expression, second: exp.Expression, filters: list[str]
    ) -> str:
        """Return the mixed second moment about the means; for a correlation, over the root of the two variances."""
        pair = [
            self._moved(one, part) for one, part in zip((call.argument, call.second), (argument, second), strict=True)
        ]
        if attrs(call.argument) & attrs(call.second):
            msg = f"{call.text!r}: its two arguments name the same attribute; take var_pop of it"
            raise QueryError(msg)
        self._need_number(call, argument)
        self._need_number(call, second)
        (x, x_spread), (y, y_spread) = pair
        keep = self._where([*filters, f"{x} IS NOT NULL", f"{y} IS NOT NULL"])
        n, less = f"sum(w) FILTER ({keep})", 1 if call.name == "covar_samp" else 0

        def moment(a: str, b: str, spread: str = "0") -> str:
            product = f"sum(w * ({a} * {b} + {spread})) FILTER ({keep})"
            return f"({product} - sum(w * {a}) FILTER ({keep}) * sum(w * {b}) FILTER ({keep}) / {n})"

        if call.name != "corr":
            return f"CASE WHEN {n} > {less} THEN {moment(x, y)} / ({n} - {less}) END"
        of_x, of_y = moment(x, x, x_spread), moment(y, y, y_spread)
        found = f"{moment(x, y)} / (sqrt({of_x}) * sqrt({of_y}))"
        return f"CASE WHEN {n} > 0 AND {of_x} > 0 AND {of_y} > 0 THEN greatest(-1, least(1, {found})) END"

    def _moved(self, meant: exp.Expression | None, argument: exp.Expression) -> tuple[str, str]:
        """Return an argument less the middle of its domain, and its variance inside bins; 0 except for attributes."""
        shift, spread, attr = 0.0, "0", None if meant is None else bare(meant)
        if isinstance(attr, Attr):
            edges = self.required.domain.attributes[attr.axis].bin_edges()
            shift = float(edges[0] + edges[-1]) / 2
            spread = sql_of(self.required.column(attr.axis, "variance", Detail.BINS))
        return f"(CAST({sql_of(argument)} AS DOUBLE) - CAST('{shift!r}' AS DOUBLE))", spread

    def _order_statistic(self, call: AggregateCall, argument: exp.Expression, filters: list[str]) -> str:
        noise = self.required.noise(self.decided | attrs(call.argument) | attrs(call.condition))
        kind, quantile = self._kind(call)
        attr = bare_argument(call)
        if not isinstance(attr, Attr):
            self._need_number(call, argument)
            low = high = f"CAST({sql_of(argument)} AS DOUBLE)"
            return f"{ORDER_STATISTIC}({_rows(low, high, noise, filters)}, {quantile!r}, '{kind}')"
        attribute = self.required.domain.attributes[attr.axis]
        if kind == "mode" and attribute.has_wide_bins:
            msg = (
                f"{call.text!r}: '{attribute.name}' has bins of several values, so no single value is known to have "
                "rows; GROUP BY it and ORDER BY count(*) DESC"
            )
            raise QueryError(msg)
        if not attribute.ordered and kind != "mode":
            msg = (
                f"{call.text!r}: attribute '{attribute.name}' has no order, so it has no minimum, maximum or quantile; "
                "GROUP BY it"
            )
            raise QueryError(msg)
        low, high = (sql_of(self.required.column(attr.axis, role, Detail.BINS)) for role in ("least", "most"))
        if kind == "cont" and not attribute.is_numeric:
            kind = "disc"  # nothing lies between two days or listed values
        elif kind == "cont" and attribute.is_continuous:
            kind = "even"
        found = f"{ORDER_STATISTIC}({_rows(low, high, noise, filters)}, {quantile!r}, '{kind}')"
        return found if kind == "cont" else attribute.sql_value(found, lambda value: sql_of(exp.convert(value)))

    def _with_share(self, call: AggregateCall, sql: str, filters: list[str]) -> Aggregate:
        """Return an order statistic; a quantile of an attribute has the ends of each row's bin, for its errors."""
        attr = bare_argument(call)
        if not self.complete or not isinstance(attr, Attr) or call.name in ("min", "max", "mode"):
            return Aggregate(sql)
        ends = tuple(
            f"CAST({sql_of(self.required.column(attr.axis, role, Detail.BINS))} AS DOUBLE)"
            for role in ("least", "most")
        )
        keep = _where([*filters, f"{ends[0]} IS NOT NULL"])
        share = self._kind(call)[1]
        return Aggregate(sql, QUANTILE, ends[0], keep, corners=ends, share=share, axis=attr.axis)

    def _kind(self, call: AggregateCall) -> tuple[str, float]:
        if call.name in ("min", "max", "mode"):
            return call.name, 0.0
        if call.quantile is None:
            return "cont", 0.5
        share = self.required.fold(call.quantile) if is_constant(call.quantile) else None
        try:
            quantile = float(share)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            quantile = -1.0
        if not 0 <= quantile <= 1:
            msg = f"{call.text!r}: the order of the quantile must be a number from 0 to 1"
            raise QueryError(msg)
        return "disc" if call.name in ("quantile", "quantile_disc") else "cont", quantile


def bare_argument(call: AggregateCall) -> exp.Expression | None:
    """Return the argument of `call` without parentheses; None if it has none."""
    return None if call.argument is None else bare(call.argument)


def _rows(low: str, high: str, noise: str, filters: list[str]) -> str:
    keep = _where([*filters, f"{low} IS NOT NULL"])
    row = f"{{'low': CAST({low} AS DOUBLE), 'high': CAST({high} AS DOUBLE), 'w': w, 'e': {noise}}}"
    return f"list({row}) FILTER ({keep})"


def _where(filters: list[str]) -> str:
    return "WHERE " + " AND ".join(filters)
