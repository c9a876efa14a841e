"""SQL on releases with noise: definitions, agreement with `count`, names, and what is refused."""

import sys
from collections.abc import Callable
from datetime import date
from functools import reduce

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcube import Category, Date, Domain, Float, Integer, Release, evaluate
from dpcube.core.errors import DpcubeError, QueryError, RefusedError
from dpcube.models import estimate as estimates
from dpcube.models.boxes import BoxEstimate
from dpcube.release.sql.engine import OrderStatistics
from dpcube.testing import SeededNoise, SilentNoise

DOMAIN = Domain(
    (
        Integer(name="age", min=17, max=90, width=5, null="cell", outside="cell"),
        Category(name="sex", values=("F", "M", "X"), unknown="cell"),
        Float(name="dose", min=0.0, max=2.0, width=0.5),
        Date(name="seen", start=date(2026, 1, 15), end=date(2026, 6, 30), every="month"),
        Category(name="edu", values=("low", "mid", "high"), ordered=True),
    )
)


def released(domain: Domain, counts: np.ndarray, **how: object) -> Release:
    given: dict[str, object] = {"epsilon": 1, "strategy": "dpcube", "noise": SeededNoise(3), **how}
    made = evaluate.experiment(counts, **given)  # type: ignore[arg-type]
    return Release(domain, made.transcript, made.provenance)


@pytest.fixture(scope="module")
def release() -> Release:
    return released(DOMAIN, np.random.default_rng(1).poisson(2, DOMAIN.shape))


def middles(release: Release) -> dict[str, np.ndarray]:
    """The mean value of each bin of numbers, NaN in cells of their own."""
    edges = {name: release.domain[name].bin_edges() for name in ("age", "dose")}
    age = (edges["age"][:-1] + edges["age"][1:] - 1) / 2
    return {"age": np.append(age, [np.nan, np.nan]), "dose": (edges["dose"][:-1] + edges["dose"][1:]) / 2}


# --- definitions on signed and fractional counts -----------------------------------------------------------------


@pytest.mark.parametrize("estimate", ["consistent", "uniform", "least_squares", "weighted_least_squares", "cells"])
def test_aggregates_are_those_of_weighted_rows(release: Release, estimate: str) -> None:
    found = release.sql(
        "SELECT sex, count(*) AS n, count(age) AS known, sum(dose) AS s, avg(age) AS a, var_pop(age) AS v, "
        "stddev(dose) AS d FROM cube GROUP BY sex",
        estimate=estimate,
    ).to_pylist()
    cells = np.moveaxis(release.cells(estimate), 1, 0)
    age, dose = middles(release)["age"], middles(release)["dose"]
    assert len(found) == 4
    for row in found:
        w = cells[3 if row["sex"] is None else ("F", "M", "X").index(row["sex"])]
        by_age, by_dose = w.sum(axis=(1, 2, 3))[:-2], w.sum(axis=(0, 2, 3))
        mean = by_age @ age[:-2] / by_age.sum()
        widths = np.diff(release.domain["age"].bin_edges())
        within = (widths**2 - 1) / 12
        spread = by_age @ ((age[:-2] - mean) ** 2 + within) / by_age.sum()
        mean_dose = by_dose @ dose / by_dose.sum()
        deviation = np.sqrt(by_dose @ ((dose - mean_dose) ** 2 + 0.5**2 / 12) / (by_dose.sum() - 1))
        expected = [w.sum(), by_age.sum(), by_dose @ dose, mean, spread, deviation]
        assert list(row.values())[1:] == pytest.approx(expected, rel=1e-9)


def test_groups_without_a_positive_count_have_no_average() -> None:
    domain = Domain((Integer(name="g", min=0, max=99), Integer(name="v", min=0, max=3)))
    release = released(domain, np.zeros(domain.shape, np.int64), strategy="cells", epsilon="0.5")
    rows = release.sql("SELECT g, count(*) AS n, avg(v) AS a, var_samp(v) AS v FROM cube GROUP BY g").to_pylist()
    assert {row["n"] > 0 for row in rows} == {True, False}
    for row in rows:
        assert (row["a"] is None) == (row["n"] <= 0)
        assert row["v"] is None or (row["n"] > 1 and row["v"] >= 0)


def test_a_group_is_there_when_any_of_its_rows_is() -> None:
    domain = Domain((Category(name="g", values=("none", "some")), Integer(name="v", min=0, max=1)))
    release = released(domain, np.array([[0, 0], [0, 5]]), strategy="cells", epsilon=50, noise=SilentNoise())
    for error in (False, True):
        found = release.sql("SELECT g, count(*) AS n, sum(v) AS s FROM cube GROUP BY g", error=error).to_pylist()
        assert [(row["g"], row["n"], row["s"]) for row in found] == [("some", 5.0, 5.0)]
    empty = "SELECT count(*) AS n, sum(v) AS s, min(v) AS low FROM cube WHERE g = 'none'"
    assert release.sql(empty).to_pylist() == [{"n": 0.0, "s": None, "low": None}]


Lists = list[tuple[int, float]]


def brute_force(rows: Lists, quantile: float, kind: str) -> float | None:
    """The definition of docs/guides/sql.md with no noise, value by value."""
    values = sorted({x for x, _ in rows})
    count = {x: sum(w for y, w in rows if y == x) for x in values}
    present = [x for x in values if count[x] > 0]
    if not present:
        return None
    if kind in ("min", "max"):
        return min(present) if kind == "min" else max(present)
    kept = [x for x in values if present[0] <= x <= present[-1]]
    total = sum(count[x] for x in kept)
    if total <= 0:
        return None

    def first(reached: Callable[[float], bool]) -> float:
        return next(x for j, x in enumerate(kept) if reached(sum(count[y] for y in kept[: j + 1])))

    if kind == "disc":
        return first(lambda n: n >= quantile * total and n > 0)
    place = max(quantile * (total - 1), 0)
    low, high = first(lambda n: n > int(place)), first(lambda n: n > int(np.ceil(place)))
    return low + (place - int(place)) * (high - low)


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(-8, 16).map(lambda w: w / 4)), max_size=12),
    st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]),
    st.sampled_from(["min", "max", "disc", "cont"]),
)
def test_picks_are_those_of_the_definition(rows: Lists, quantile: float, kind: str) -> None:
    import pyarrow as pa

    listed = [{"low": float(x), "high": float(x), "w": w, "e": 0.0} for x, w in rows]
    fields = pa.struct([(name, pa.float64()) for name in ("low", "high", "w", "e")])
    groups = pa.array([[{"low": 1.0, "high": 1.0, "w": 2.0, "e": 0.0}], listed, None], pa.list_(fields))
    picked = OrderStatistics(0.95)(groups, pa.array([quantile] * 3), pa.array([kind] * 3)).to_pylist()
    assert picked == [1.0, pytest.approx(brute_force(rows, quantile, kind)), None]


def test_a_quantile_of_real_numbers_lies_inside_its_bin() -> None:
    domain = Domain((Float(name="dose", min=0.0, max=2.0, width=0.5),))
    release = released(domain, np.array([10, 0, 30, 0]), strategy="cells", epsilon=50, noise=SilentNoise())
    asked = "SELECT min(dose), quantile_cont(dose, 0.125), median(dose), max(dose) FROM cube"
    assert list(release.sql(asked).to_pylist()[0].values()) == pytest.approx([0.0, 0.25, 1 + 1 / 6, 1.5], abs=1e-6)


def test_an_extreme_does_not_depend_on_the_other_columns() -> None:
    domain = Domain(tuple(Integer(name=name, min=0, max=39) for name in ("g", "a", "b")))
    counts = np.zeros(domain.shape, np.int64)
    counts[:, 10:31, 5:20] = 40
    release = released(domain, counts, strategy="cells", epsilon="0.2")
    alone = release.sql("SELECT g, min(a) AS low, max(a) AS high FROM cube GROUP BY g ORDER BY g").to_pydict()
    beside = release.sql(
        "SELECT g, min(a) AS low, max(a) AS high, median(b) AS m, avg(b) AS mean FROM cube GROUP BY g ORDER BY g"
    ).to_pydict()
    assert (beside["low"], beside["high"]) == (alone["low"], alone["high"])
    assert (set(alone["low"]), set(alone["high"])) == ({10}, {30})
    assert all(8 <= middle <= 15 for middle in beside["m"])


# --- agreement with `count`, errors included ---------------------------------------------------------------------

CONDITIONS = (
    *("age between 30 and 39", "age between 33 and 47 and sex = 'F'", "age > 62", "age <= 21 and dose < 0.7"),
    *("dose between 0.3 and 1.1 and sex in ('F', 'X')", "sex != 'M'", "not age between 30 and 60", "age is null"),
    *("age is not null and sex = '(unknown)'", "seen >= '2026-02-10' and seen < '2026-05-01'", "edu >= 'mid'"),
    *("age = '(outside)' and edu in ('low', 'high')", "not (sex = 'F' or sex = '(unknown)')", "edu = 'low'"),
)


@pytest.mark.slow
@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_count_is_that_of_count(release: Release, condition: str) -> None:
    for estimate in ("consistent", "weighted_least_squares", "cells"):
        answer = release.count(condition, estimate=estimate)
        query = f"SELECT count(*) AS n FROM cube WHERE {condition}"
        (row,) = release.sql(query, error=True, estimate=estimate).to_pylist()
        assert list(row) == ["n", "n_stderr", "n_nonuniformity", "n_low", "n_high", *(["n_cut"] if answer.cut else [])]
        assert row.get("n_cut", "") == answer.cut
        expected = [answer.value, answer.stderr, answer.nonuniformity]
        assert list(row.values())[:3] == pytest.approx(expected, rel=1e-7, abs=1e-6)
        assert (row["n_low"], row["n_high"]) == pytest.approx((answer.low, answer.high), rel=1e-7, abs=1e-6)
    assert release.sql(query, estimate="cells")["n"].to_pylist() == pytest.approx([answer.value], rel=1e-9)


def dense_error(release: Release, cells: np.ndarray, estimate: str) -> float:
    """The noise of a sum with any factor on each cell, for the estimate of independent cells."""
    assert estimate == "cells"
    return float(np.sqrt((cells**2).sum() * release.transcript.cell_variance))


def test_errors_of_sums_and_averages_are_those_of_their_factors(release: Release) -> None:
    (row,) = release.sql(
        "SELECT sum(dose) AS s, avg(dose) AS a, sum(dose) FILTER (WHERE sex = 'F') AS f FROM cube",
        error=True,
        estimate="cells",
    ).to_pylist()
    dose = middles(release)["dose"]
    factor = np.broadcast_to(dose[:, None, None], DOMAIN.shape)
    assert row["s_stderr"] == pytest.approx(dense_error(release, factor, "cells"))
    centred = (factor - row["a"]) / release.cells("cells").sum()
    assert row["a_stderr"] == pytest.approx(dense_error(release, centred, "cells"))
    assert row["f_stderr"] == pytest.approx(dense_error(release, factor[:, :1], "cells"))
    assert row["a_low"] < row["a"] < row["a_high"]


def test_errors_of_many_groups_are_those_of_each(release: Release) -> None:
    """Sums and averages of each group from dense factors; conditions that join attributes in one group alone."""
    joined = "edu = 'mid' OR edu = 'low' AND (sex = 'F' OR dose < 1)"
    found = release.sql(
        f"SELECT edu, sum(dose) AS s, avg(dose) AS a, count(*) FILTER (WHERE {joined}) AS n FROM cube GROUP BY edu",
        error=True,
        estimate="cells",
    ).to_pylist()
    dose, cells = middles(release)["dose"].reshape(4, 1, 1), release.cells("cells")
    size = cells[..., 0].size
    for row in found:
        group = cells[..., DOMAIN["edu"].labels().index(row["edu"])]
        factor = np.broadcast_to(dose[..., 0], group.shape)
        assert row["s_stderr"] == pytest.approx(dense_error(release, factor, "cells"))
        assert row["a_stderr"] == pytest.approx(dense_error(release, (factor - row["a"]) / group.sum(), "cells"))
    errors = {row["edu"]: row["n_stderr"] for row in found}
    assert errors["mid"] == pytest.approx(dense_error(release, np.ones(size), "cells"))
    part = dense_error(release, np.ones(size * 5 // 8), "cells")  # 1/4 + 3/4 * 1/2 of the cells
    assert part <= errors["low"] < 1.5 * part
    assert errors["high"] == 0


def test_the_error_of_joined_conditions_is_not_understated(release: Release) -> None:
    (row,) = release.sql(
        "SELECT count(*) AS n FROM cube WHERE sex = 'F' OR age >= 60", error=True, estimate="cells"
    ).to_pylist()
    chosen = [np.ones(n) for n in DOMAIN.shape]
    female, old = np.array([1.0, 0, 0, 0]), DOMAIN["age"].weights(DOMAIN["age"].range(60, None))
    both = reduce(np.multiply.outer, [old, female, *chosen[2:]])
    either = reduce(np.multiply.outer, [np.ones(len(old)), female, *chosen[2:]]) + reduce(
        np.multiply.outer, [old, np.ones(4), *chosen[2:]]
    )
    exact = dense_error(release, either - both, "cells")
    assert exact <= row["n_stderr"] < 1.5 * exact


def test_errors_are_stated_of_groups_after_having_and_limit(release: Release) -> None:
    query = (
        "SELECT edu, sex, count(*) AS n FROM cube GROUP BY ROLLUP (edu, sex) HAVING count(*) > 1000 ORDER BY n LIMIT 5"
    )
    plain, erring = release.sql(query).to_pylist(), release.sql(query, error=True).to_pylist()
    assert [[row[name] for name in ("edu", "sex", "n")] for row in erring] == [
        [row["edu"], row["sex"], pytest.approx(row["n"])] for row in plain
    ]
    whole = [row for row in erring if row["edu"] is not None and row["sex"] is not None]
    for row in whole:
        answer = release.count(edu=row["edu"], sex=row["sex"])
        assert [row["n"], row["n_stderr"], row["n_low"]] == pytest.approx([answer.value, answer.stderr, answer.low])


def test_listed_values_with_an_order_are_ordered_by_it(release: Release) -> None:
    for by in ("edu", "e", "1", "cube.edu"):
        found = release.sql(f"SELECT edu AS e, count(*) AS n FROM cube GROUP BY edu ORDER BY {by} DESC")
        assert found["e"].to_pylist() == ["high", "mid", "low"]
    total = release.sql("SELECT edu, count(*) FROM cube GROUP BY ROLLUP (edu) ORDER BY edu NULLS FIRST")
    assert total["edu"].to_pylist() == [None, "low", "mid", "high"]
    ends = release.sql("SELECT min(edu) AS a, max(edu) AS b, median(edu) AS m, quantile_disc(edu, 0.9) AS q FROM cube")
    assert ends.to_pylist() == [{"a": "low", "b": "high", "m": "mid", "q": "high"}]
    assert release.sql("SELECT var_samp(age), stddev(age) FROM cube").column_names == ["var_samp(age)", "stddev(age)"]


@pytest.mark.parametrize("error", [False, True])
def test_groups_are_in_the_order_of_their_keys_if_no_other_is_asked_for(release: Release, *, error: bool) -> None:
    def keys(query: str) -> list[tuple[object, ...]]:
        return [tuple(row.values())[:2] for row in release.sql(query, error=error).to_pylist()]

    bins = [*release.domain["age"].labels()[:-2], None]
    assert [age for age, _ in keys("SELECT age, 'x' AS c, count(*) AS n FROM cube GROUP BY age, c")] == bins
    assert [edu for edu, _ in keys("SELECT edu, 3 AS c, count(*) AS n FROM cube GROUP BY ALL")] == [
        "low",
        "mid",
        "high",
    ]
    # A subtotal comes after its groups, the whole last.
    totals = keys("SELECT sex, edu, count(*) AS n FROM cube WHERE sex IN ('F', 'M') GROUP BY ROLLUP (sex, edu)")
    assert totals == [(sex, edu) for sex in ("F", "M") for edu in ("low", "mid", "high", None)] + [(None, None)]
    assert keys("SELECT edu, sex, count(*) AS n FROM cube GROUP BY sex, edu LIMIT 2") == [("low", "F"), ("mid", "F")]
    assert keys("SELECT 'y' AS d, 3 AS c, count(*) AS n FROM cube GROUP BY 1, 2") == [("y", 3)]


def test_groups_inside_a_query_are_not_put_in_order(release: Release) -> None:
    """A part of a UNION may have no order of its own; nor may DISTINCT be by what is not selected."""
    parts = (
        "SELECT edu AS k, count(*) AS n FROM cube GROUP BY edu UNION ALL SELECT sex, count(*) FROM cube GROUP BY sex"
    )
    found = {row["k"] for row in release.sql(parts).to_pylist()}
    assert found == {"low", "mid", "high", "F", "M", "X", None}
    assert release.sql("SELECT DISTINCT count(*) > 0 AS some FROM cube GROUP BY sex, edu").to_pylist() == [
        {"some": True}
    ]


def test_windows_and_grouping_are_of_results(release: Release) -> None:
    found = release.sql(
        "SELECT edu, grouping(edu) AS g, count(*) AS n, rank() OVER (ORDER BY count(*) DESC) AS r, "
        "lag(count(*)) OVER (ORDER BY count(*)) AS below, sum(count(*)) OVER () AS total "
        "FROM cube GROUP BY ROLLUP (edu) ORDER BY r"
    ).to_pylist()
    counts = sorted((row["n"] for row in found), reverse=True)
    assert [row["n"] for row in found] == counts
    assert [row["r"] for row in found] == [1, 2, 3, 4]
    assert [row["below"] for row in found] == [*counts[1:], None]
    assert [(row["edu"] is None, row["g"]) for row in found] == [(True, 1)] + [(False, 0)] * 3
    assert [row["total"] for row in found] == pytest.approx([2 * counts[0]] * 4)


LISTED = (
    *("abs(-2)", "round(2.567, 1)", "floor(2.5)", "ceil(2.5)", "trunc(2.5)", "sqrt(2)", "ln(2)", "log(100)", "exp(1)"),
    *(
        "power(2, 3)",
        "2 ** 3",
        "sign(-3)",
        "greatest(1, 2)",
        "least(1, 2)",
        "coalesce(NULL, 3)",
        "nullif(1, 1)",
        "7 // 2",
    ),
    *("lower('A')", "upper('a')", "trim(' a ')", "length('abc')", "substring('abc', 2, 1)", "left('abc', 2)", "7 % 4"),
    *("right('abc', 2)", "concat('a', 'b')", "'a' || 'b'", "contains('abc', 'b')", "starts_with('abc', 'b')"),
    *("extract(year FROM {d})", "date_part('month', {d})", "year({d})", "quarter({d})", "month({d})", "week({d})"),
    *("day({d})", "dayofweek({d})", "isodow({d})", "weekday({d})", "dayofyear({d})", "dayname({d})", "monthname({d})"),
    *("date_trunc('month', {d})", "date_diff('day', {d}, DATE '2026-05-01')", "date_add({d}, INTERVAL 3 DAY)"),
    *(
        "strftime({d}, '%Y')",
        "{d} - INTERVAL 1 MONTH",
        "CAST('3' AS INTEGER)",
    ),
    *(
        "'abc' LIKE 'a%'",
        "'abc' ILIKE 'A%'",
        "1 IS DISTINCT FROM NULL",
        "CASE 1 WHEN 1 THEN 'a' END",
        "TRY_CAST('x' AS INT)",
    ),
)


def test_the_functions_that_are_listed_work_as_the_engine_has_them(release: Release) -> None:
    texts = [text.format(d="DATE '2026-02-03'") for text in LISTED]
    query = "SELECT " + ", ".join(f"{text} AS c{place}" for place, text in enumerate(texts))
    with duckdb.connect() as connection:
        expected = connection.execute(query).fetchall()
    assert [tuple(row.values()) for row in release.sql(query).to_pylist()] == expected


# --- names -------------------------------------------------------------------------------------------------------


def test_any_name_can_be_asked_for() -> None:
    names = ("a b", 'say "hi"', "x.y", "select", "Age", "age", "w", "cube")
    domain = Domain(tuple(Integer(name=name, min=0, max=1) for name in names))
    release = released(domain, np.arange(2 ** len(names)).reshape(domain.shape), epsilon=50, strategy="cells")
    quoted = [name.replace('"', '""') for name in names]
    listed = ", ".join(f'"{name}"' for name in quoted)
    table = release.sql(f"SELECT {listed}, count(*) FROM cube GROUP BY {listed}")
    assert table.column_names == [*names, "count(*)"]
    assert table.num_rows == 2 ** len(names) - 1
    for axis, name in enumerate(quoted):
        found = release.sql(f'SELECT c."{name}" AS v, count(*) AS n FROM cube AS c GROUP BY c."{name}" ORDER BY v')
        others = tuple(other for other in range(len(names)) if other != axis)
        assert found["n"].to_pylist() == pytest.approx(release.cells().sum(axis=others).tolist())
    assert release.sql('SELECT count(*) FROM CUBE WHERE "SELECT" = 1').num_rows == 1
    with pytest.raises(QueryError, match=r"column 'AGE' may be 'Age', 'age'; write it in double quotes"):
        release.sql("SELECT avg(AGE) FROM cube")


# --- large cubes -------------------------------------------------------------------------------------------------


def test_a_large_cube_is_answered_from_boxes(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    query = (
        "SELECT sex, count(*) AS n, avg(age) AS a, count(*) FILTER (WHERE seen < '2026-02-20') AS f FROM cube "
        "WHERE dose > 0.3 GROUP BY sex ORDER BY sex"
    )
    dense = release.sql(query).to_pylist()
    monkeypatch.setattr("dpcube.models.cellwise.DENSE_CELLS", 1)
    monkeypatch.setattr(sys.modules[BoxEstimate.__module__], "DENSE_CELLS", 1)

    def refuse(_estimate: BoxEstimate) -> np.ndarray:
        raise AssertionError

    monkeypatch.setattr(BoxEstimate, "cells", refuse)
    fresh = Release(DOMAIN, release.transcript, release.provenance)
    found = fresh.sql(query).to_pylist()
    assert [list(row.values())[1:] for row in found] == [pytest.approx(list(row.values())[1:]) for row in dense]
    with pytest.raises(AssertionError):
        fresh.cells()


def test_a_query_of_too_many_rows_is_refused() -> None:
    domain = Domain(tuple(Integer(name=name, min=0, max=2**27 - 1, width=2**20) for name in "abc"))
    made = estimates(released(domain, np.ones(domain.shape, np.int64), strategy="cells").transcript)
    from dpcube.release.sql import run

    # Quantiles of wide bins do not need each value.
    found = run("SELECT median(a) AS m FROM cube", domain, lambda: made, error=False, confidence=0.95, seconds=60)
    assert found["m"].to_pylist() == pytest.approx([2**26], rel=0.01)
    asked = {"error": False, "confidence": 0.95, "seconds": 60}
    with pytest.raises(QueryError, match=r"needs each of its 134,217,728 values, at most 20,000,000"):
        run("SELECT a % 3, count(*) FROM cube GROUP BY 1", domain, lambda: made, **asked)  # type: ignore[arg-type]
    assert run("SELECT count(*) FROM cube WHERE a < 7 AND b = 5", domain, lambda: made, **asked).num_rows == 1  # type: ignore[arg-type]


# --- what is refused ---------------------------------------------------------------------------------------------

WRONG = {
    "SELECT agee FROM cube": "there is no column 'agee'; did you mean 'age'?",
    "SELECT count(*) FROM cub": "there is no table 'cub'; did you mean 'cube'?",
    "SELECT count(*) FROM cube WHERE sex = 'f'": "attribute 'sex' has no value 'f'; its values are 'F', 'M', 'X'",
    "SELECT count(*) FROM cube WHERE age = 'old'": "attribute 'age' takes numbers (17 to 90), got 'old'",
    "SELECT count(*) FROM cube WHERE seen > 'May'": "such as 2026-01-31, got 'May'",
    "SELECT count(*) FROM cube WHERE seen > 3": "attribute 'seen' holds date values (2026-01-15 to 2026-06-30), got 3",
    "SELECT count(*) FROM cube WHERE sex > 'F'": "attribute 'sex' has no order",
    "SELECT count(*) FROM cube WHERE dose IS NULL": "nulls of 'dose' were dropped by the domain",
    "SELECT avg(sex) FROM cube": "'avg(sex)' needs a numeric argument, got text",
    "SELECT sum(seen) FROM cube": "'sum(seen)' needs a numeric argument, got a date",
    "SELECT max(sex) FROM cube": "attribute 'sex' has no order, so it has no minimum, maximum or quantile",
    "SELECT count(DISTINCT sex) FROM cube": "nearly every value has some noisy count",
    "SELECT quantile_cont(age, 2) FROM cube": "the order of the quantile must be a number from 0 to 1",
    "SELECT string_agg(sex, ',') FROM cube": "is not supported",
    "SELECT sum(*) FROM cube": "needs an argument",
    "SELECT sum(count(*)) FROM cube": "cannot stand in WHERE, GROUP BY or another aggregate",
    "SELECT count(*) FROM cube WHERE count(*) > 3": "cannot stand in WHERE",
    "SELECT sex, count(*) FROM cube": "attribute 'sex' must be in GROUP BY",
    "SELECT *, count(*) FROM cube": "name the columns",
    "SELECT * FROM cube": "a release has counts and no rows to list",
    "SELECT DISTINCT ON (sex) sex FROM cube": "DISTINCT ON of rows",
    "SELECT sex FROM cube ORDER BY age LIMIT 3": "no rows to list",
    "SELECT count(*) FROM cube a JOIN cube b ON a.age = b.age": "with results and VALUES only",
    "SELECT count(*) FROM cube, (SELECT 1) t": "join the cube with a table by one equality",
    "SELECT (SELECT count(*) FROM cube WHERE age = c.age) FROM cube c": "sub-queries cannot use outer tables",
    "SELECT floor(dose * 3), count(*) FROM cube GROUP BY 1": "varies inside the bins of 'dose'",
    "SELECT floor(dose / 0.3), count(*) FROM cube GROUP BY 1": "varies inside the bins of 'dose'",
    "SELECT count(*) FROM cube WHERE dose > age": "whose joint values inside a bin are unknown",
    "SELECT count(*) FROM cube GROUP BY 5": "the SELECT has columns 1 to 1",
    "WITH cube AS (SELECT 1) SELECT 1": "WITH cannot name a table 'cube'",
    "SELECT count(*) FROM cube WHERE": "cannot be read as SQL",
    "": "a query starts with SELECT or WITH",
    "SELECT 1; SELECT 2": "one SELECT at a time",
    "SELECT " + "(" * 3000 + "1" + ")" * 3000: "nests too deeply",
    " UNION ALL ".join(["SELECT count(*) FROM cube"] * 101): "selects from the cube more than 100 times",
    "SELECT sum(age ORDER BY sex) FROM cube": "leave ORDER BY out of it",
    "SELECT n FROM (SELECT count(*) AS m FROM cube) t": "the query cannot be run",
    "SELECT count(*) FROM cube WHERE age > (SELECT age FROM cube)": "no rows to list",
    "SELECT count(*) FROM cube WHERE age > (SELECT 1 UNION ALL SELECT 2)": "one column and at most 1 rows",
}


@pytest.mark.parametrize("query", WRONG)
def test_what_cannot_be_asked_is_refused_in_one_line(release: Release, query: str) -> None:
    with pytest.raises(DpcubeError) as caught:
        release.sql(query)
    assert WRONG[query] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_errors_and_confidence_that_cannot_be_are_refused(release: Release) -> None:
    with pytest.raises(QueryError, match="errors are stated for count, sum, avg, their multiples, sums and ratios"):
        release.sql("SELECT max(n) FROM (SELECT count(*) AS n FROM cube GROUP BY sex) t", error=True)
    with pytest.raises(QueryError, match="confidence must be between 0 and 1"):
        release.sql("SELECT count(*) FROM cube", confidence=1.5)
    with pytest.raises(QueryError, match="there is no estimate 'best'"):
        release.sql("SELECT count(*) FROM cube", estimate="best")


def test_a_hostile_query_is_stopped(release: Release) -> None:
    tables = ", ".join(f"t AS t{place}" for place in range(8))
    query = (
        "WITH t AS (SELECT age, sex, edu, seen, count(*) AS n FROM cube GROUP BY ALL) "
        f"SELECT count(*) FROM {tables} WHERE {' + '.join(f't{place}.n' for place in range(8))} < 0"
    )
    with pytest.raises(RefusedError, match=r"stopped after 0\.3 seconds"):
        release.sql(query, seconds=0.3)
    with pytest.raises(RefusedError, match="stopped after 0 seconds"):
        release.sql("SELECT count(*) FROM cube", seconds=0)


@pytest.mark.parametrize(
    "text",
    [
        "SELEC count(*) FROM cube",
        "SELECT agee FROM cube",
        "SELECT count(*) FROM cube WHERE sex = 'f'",
        "SELECT sex, count(*) FROM cube GROUP BY seks",
    ],
)
def test_a_mistake_in_a_query_costs_no_inference(release: Release, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(Release, "estimate", lambda _, name: asked.append(name))
    with pytest.raises(QueryError):
        release.sql(text)
    assert asked == []
