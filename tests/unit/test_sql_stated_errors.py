"""Which columns of SQL have errors: multiples, rounded ones, shares of rows, and those that a WITH clause passes on."""

import numpy as np
import pytest

from dpcube import Category, Domain, Integer, Release, evaluate
from dpcube.cli.analyst.sql import decimals
from dpcube.core.errors import QueryError
from dpcube.queries import CountingQueries, query
from dpcube.testing import SeededNoise

DOMAIN = Domain(Integer("age", 20, 39), Category("sex", ["F", "M"]), Category("income", ["low", "high"]))


@pytest.fixture(scope="module")
def release() -> Release:
    counts = np.random.default_rng(2).poisson(30, DOMAIN.shape)
    made = evaluate.experiment(counts, epsilon=1, strategy="adaptive", noise=SeededNoise(5))
    return Release(DOMAIN, made.transcript, made.provenance)


def only(release: Release, text: str) -> dict[str, float]:
    (row,) = release.sql(text, error=True).to_pylist()
    return {name.removeprefix("c"): value for name, value in row.items() if name.startswith("c")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("written", "scale", "offset"),
    [
        ("100 * {}", 100, 0),
        ("{} * 100.0 / 4", 25, 0),
        ("-{} + 3", -1, 3),
        ("2 - ({}) / -8", 1 / 8, 2),
        ("5 + (2 * ({} - 1))", 2, 3),
        ("({})", 1, 0),
    ],
)
@pytest.mark.parametrize("aggregate", ["count(*)", "sum(age)", "avg(age)", "count(*) FILTER (WHERE sex = 'F')"])
def test_a_multiple_has_the_multiple_of_the_error(
    release: Release, written: str, scale: float, offset: float, aggregate: str
) -> None:
    plain = only(release, f"SELECT {aggregate} AS c FROM cube WHERE age < 35")
    found = only(release, f"SELECT {written.format(aggregate)} AS c FROM cube WHERE age < 35")
    ends = sorted(scale * plain[end] + offset for end in ("_low", "_high"))
    assert found[""] == pytest.approx(scale * plain[""] + offset)
    assert (found["_low"], found["_high"]) == pytest.approx(ends)
    for part in ("_stderr", "_nonuniformity"):
        assert found[part] == pytest.approx(abs(scale) * plain[part])


def test_rounding_changes_no_error(release: Release) -> None:
    plain, found = (only(release, f"SELECT {what} AS c FROM cube") for what in ("avg(age)", "round(avg(age), 1)"))
    assert found[""] == round(plain[""], 1)
    assert {name: found[name] for name in found if name} == {name: plain[name] for name in plain if name}
    whole = only(release, "SELECT CAST(count(*) AS BIGINT) AS c FROM cube")
    assert isinstance(whole[""], int)
    assert whole["_stderr"] > 0


@pytest.mark.parametrize("share", ["count(*) FILTER (WHERE income = 'high')", "count_if(income = 'high')"])
def test_a_share_of_rows_has_the_error_of_an_average(release: Release, share: str) -> None:
    """Against the delta method by hand: the noise of the sum of (1 - R) where it holds and -R elsewhere, over N."""
    found = only(release, f"SELECT 100.0 * {share} / count(*) AS c FROM cube WHERE sex = 'F'")
    value, whole = found[""] / 100, release.count("sex = 'F'").value
    asked = query(DOMAIN, "sex = 'F'")
    assert value == pytest.approx(release.count("sex = 'F' and income = 'high'").value / whole)
    weights = (*asked.weights[:2], np.array([-value, 1 - value]) / whole)

    of_all = CountingQueries(tuple(w[None] for w in weights), np.zeros((1, 3), np.int64))
    errors = release.estimate().answers(of_all)[1]
    assert found["_stderr"] == pytest.approx(100 * float(np.sqrt(errors.noise_variances[0])))
    assert found["_low"] < found[""] < found["_high"]


def moments(cells: np.ndarray, name: str) -> float:
    """A variance or its root of the ages of a cube's cells, those of women."""
    ages, weights = np.arange(20, 40), cells[:, 0, :].sum(axis=1)
    mean = weights @ ages / weights.sum()
    variance = weights @ (ages - mean) ** 2 / (weights.sum() - (0 if name.endswith("_pop") else 1))
    return float(np.sqrt(variance) if name.startswith("stddev") else variance)


@pytest.mark.parametrize("name", ["var_pop", "var_samp", "variance", "stddev", "stddev_samp", "stddev_pop"])
def test_a_variance_has_its_error_by_the_delta_method(release: Release, name: str) -> None:
    """Against derivatives that are taken by trying: one row more of each age in turn."""
    found = only(release, f"SELECT {name}(age) AS c FROM cube WHERE sex = 'F'")
    cells = release.cells()
    assert found[""] == pytest.approx(moments(cells, name))
    slopes = np.zeros(20)
    for age in range(20):
        for step in (1e-3, -1e-3):
            moved = cells.copy()
            moved[age, 0, 0] += step
            slopes[age] += moments(moved, name) / (2 * step)
    weights = (slopes, np.array([1.0, 0.0]), np.ones(2))
    of_all = CountingQueries(tuple(w[None] for w in weights), np.zeros((1, 3), np.int64))
    errors = release.estimate().answers(of_all)[1]
    assert found["_stderr"] == pytest.approx(float(np.sqrt(errors.noise_variances[0])), rel=1e-3)
    assert found["_nonuniformity"] == pytest.approx(float(np.sqrt(errors.nonuniformity_squares[0])), rel=1e-3, abs=1e-6)
    assert 0 <= found["_low"] < found[""] < found["_high"]
    doubled = only(release, f"SELECT round(2 * {name}(age), 9) AS c FROM cube WHERE sex = 'F'")
    assert doubled["_stderr"] == pytest.approx(2 * found["_stderr"])


def test_the_interval_of_a_variance_is_unknown_where_values_are_known_by_bins() -> None:
    domain = Domain(Integer("age", 20, 39, width=5), Category("sex", ["F", "M"]))
    counts = np.random.default_rng(2).poisson(30, domain.shape)
    made = evaluate.experiment(counts, epsilon=1, strategy="adaptive", noise=SeededNoise(5))
    wide = Release(domain, made.transcript, made.provenance)
    found = only(wide, "SELECT var_pop(age) AS c FROM cube")
    assert found["_stderr"] > 0
    assert np.isnan([found["_low"], found["_high"]]).all()
    assert "age known by bins" in str(found["_cut"])


def test_what_is_no_multiple_of_one_aggregate_has_no_error(release: Release) -> None:
    for text in (
        "SELECT count(*) * count(*) AS c, count(*) AS n FROM cube",
        "SELECT avg(age) * count(*) AS c, count(*) AS n FROM cube",
        "SELECT median(age) / count(*) AS c, count(*) AS n FROM cube",
        "SELECT sum(age) / count(*) + max(age) AS c, count(*) AS n FROM cube",
        "SELECT quantile_cont(age, [0.25, 0.75]) AS c, count(*) AS n FROM cube",
        "SELECT count(*) / nullif(count(*), 1) AS c, count(*) AS n FROM cube",
        "SELECT abs(avg(age)) AS c, count(*) AS n FROM cube",
        "SELECT 1 / (1 / count(*)) AS c, count(*) AS n FROM cube",
        "SELECT count(*) / 0 AS c, count(*) AS n FROM cube",
        "SELECT count(*)::VARCHAR AS c, count(*) AS n FROM cube",
    ):
        names = release.sql(text, error=True).column_names
        assert "c_stderr" not in names, text
        assert "n_stderr" in names


INNER = "SELECT sex, count(*) AS n, avg(age) AS a FROM cube WHERE age > 25 GROUP BY sex"


@pytest.mark.parametrize(
    "text",
    [
        f"WITH t AS ({INNER}) SELECT * FROM t",
        f"SELECT * FROM ({INNER}) t",
        f"WITH t AS ({INNER}) SELECT sex, n, a FROM t ORDER BY sex",
        f"WITH u AS (SELECT 1), T AS ({INNER}) SELECT sex, N AS n, a FROM t ORDER BY n DESC LIMIT 2",
    ],
)
def test_errors_pass_through_what_only_passes_columns_on(release: Release, text: str) -> None:
    def rows(asked: str) -> list[dict[str, object]]:
        return sorted(release.sql(asked, error=True).to_pylist(), key=lambda row: str(row["sex"]))

    assert rows(text) == rows(INNER)


def test_columns_may_be_left_out_and_renamed(release: Release) -> None:
    made = release.sql(f"SELECT a AS mean FROM ({INNER})", error=True)
    assert made.column_names[:2] == ["mean", "mean_stderr"]
    assert sorted(made["mean_stderr"].to_pylist()) == sorted(release.sql(INNER, error=True)["a_stderr"].to_pylist())


@pytest.mark.parametrize(
    "text",
    [
        f"WITH t AS ({INNER}) SELECT sum(n) FROM t",
        f"WITH t AS ({INNER}) SELECT * FROM t WHERE n > 3",
        f"WITH t AS ({INNER}) SELECT * FROM t JOIN t AS u USING (sex)",
        f"WITH t AS ({INNER} LIMIT 1) SELECT * FROM t",
        f"WITH t(x, y, z) AS ({INNER}) SELECT * FROM t",
    ],
)
def test_more_than_passing_on_has_no_errors(release: Release, text: str) -> None:
    release.sql(text)
    with pytest.raises(QueryError, match="errors are stated for count, sum, avg"):
        release.sql(text, error=True)


def test_the_cube_can_be_described(release: Release) -> None:
    told = release.sql("describe cube;").to_pylist()
    assert [row["column_name"] for row in told] == ["age", "sex", "income"]
    assert told[0] | {"column_name": ""} == {
        "column_name": "",
        "column_type": "BIGINT",
        "values": "20 to 39",
        "cells": 20,
        "bins": "of one value",
        "own_cells": "",
    }
    assert release.sql("SHOW TABLES").to_pylist() == [{"name": "cube"}]
    with pytest.raises(QueryError, match="starts with SELECT or WITH"):
        release.sql("DESCRIBE other")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT count(*) FROM cube JOIN cube AS d ON cube.sex = d.sex", "with results and VALUES only"),
        ("SELECT count(*) FROM cube JOIN (VALUES ('F', 1), ('F', 2)) v(sex, x) USING (sex)", "'F' in two rows"),
        ("SELECT count(*) FROM cube CROSS JOIN (VALUES (1)) v(x)", "JOIN and LEFT JOIN only"),
        ("SELECT count(*) FROM cube JOIN (VALUES ('F', 1)) v(sex, x) ON cube.sex > v.sex", "by one equality"),
        ("SELECT sex FROM cube JOIN (VALUES ('F', 1)) v(sex, x) ON cube.sex = v.sex GROUP BY 1", "several tables"),
        ("SELECT covar_pop(age, 2 * age) FROM cube", "the same attribute"),
        ("SELECT [1, 2] FROM cube", "is not supported"),
        ("SELECT * FROM (VALUES ((SELECT count(*) FROM cube))) t(x)", "is not supported"),
        ("SELECT DISTINCT ON (sex) age FROM cube", "DISTINCT ON of rows"),
        ("PIVOT cube ON age USING count(*) GROUP BY sex", "name its columns, 100 at most"),
        ("PIVOT cube ON sex USING count(*)", "with GROUP BY"),
        ("PIVOT other ON sex USING count(*) GROUP BY age", "a PIVOT is of cube"),
        ("PIVOT cube ON sexx USING count(*) GROUP BY age", "did you mean 'sex'"),
        ("UNPIVOT cube ON sex INTO NAME a VALUE b", "starts with SELECT or WITH"),
    ],
)
def test_what_is_refused_says_why(release: Release, text: str, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        release.sql(text)


def test_a_pivot_has_errors(release: Release) -> None:
    made = release.sql("PIVOT cube ON sex USING count(*) GROUP BY income", error=True).to_pylist()
    for row in made:
        answer = release.count(sex="F", income=row["income"])
        assert (row["F"], row["F_stderr"]) == pytest.approx((answer.value, answer.stderr))


def test_a_mode_is_a_value_that_stands_out_from_the_noise(release: Release) -> None:
    empty = evaluate.experiment(np.zeros(DOMAIN.shape, np.int64), epsilon=1, strategy="cells", noise=SeededNoise(1))
    nothing = Release(DOMAIN, empty.transcript, empty.provenance)
    assert nothing.sql("SELECT mode(age) AS m FROM cube").to_pylist() == [{"m": None}]
    wide = Domain(Integer("age", 20, 39, width=5), *DOMAIN.attributes[1:])
    made = evaluate.experiment(np.ones(wide.shape, np.int64), epsilon=1, strategy="cells", noise=SeededNoise(1))
    with pytest.raises(QueryError, match="known by bins only"):
        Release(wide, made.transcript, made.provenance).sql("SELECT mode(age) FROM cube")


def test_names_are_matched_alike_in_sql_and_in_questions(release: Release) -> None:
    assert release.count("AGE >= 30 and Sex = 'F'") == release.count("age >= 30 and sex = 'F'")
    two = Domain(Integer("Age", 0, 3), Integer("age", 0, 3))
    assert query(two, "Age = 1").weights[0].sum() == 1
    with pytest.raises(QueryError, match="no attribute 'AGE'"):
        query(two, "AGE = 1")


def test_numbers_have_the_digits_that_they_need() -> None:
    assert [f"{x:.{decimals([x])}f}" for x in (0.0023956, 0.52, 13.421523, 48790.03)] == [
        "0.0023956",
        "0.52",
        "13.422",
        "48790.03",
    ]
