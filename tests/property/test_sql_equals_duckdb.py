"""On a cube of whole counts, SQL gives what DuckDB gives on the table of rows that the cube stands for.

Bins of three numbers and of seven days hold multiples of 21 rows, so that spreading a bin evenly gives whole rows; and
the domain declares them even, as they are: of other bins no expression is told apart inside.
"""

import math
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from itertools import product
from random import Random

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import sqlglot

from dpcube import Category, Date, Domain, Integer, Release, evaluate
from dpcube.core.errors import DpcubeError
from dpcube.testing import SilentNoise
from nightly import at_night, examples

DOMAIN = Domain(
    (
        Integer(name="age", min=18, max=21),
        Integer(name="hours", min=0, max=11, width=3, null="cell", within="even"),
        Category(name="sex", values=("f", "m", "x")),
        Date(name="seen", start=date(2026, 1, 29), end=date(2026, 2, 18), every="week", within="even"),
    )
)


def values_of(name: str, cell: int) -> list[object]:
    """The values that rows of a cell are spread over."""
    start = date(2026, 1, 29) + timedelta(days=7 * cell)
    spread: dict[str, list[object]] = {
        "age": [18 + cell],
        "hours": [None] if cell == 4 else [3 * cell, 3 * cell + 1, 3 * cell + 2],
        "sex": [("f", "m", "x")[min(cell, 2)]],
        "seen": [start + timedelta(days=day) for day in range(7)],
    }
    return spread[name]


@pytest.fixture(scope="module")
def counts() -> np.ndarray:
    generator = np.random.default_rng(5)
    made: np.ndarray = 21 * generator.poisson(0.8, DOMAIN.shape)
    made[2, :, 1] = 0
    return made


@pytest.fixture(scope="module")
def release(counts: np.ndarray) -> Release:
    made = evaluate.experiment(counts, epsilon=50, strategy="cells", noise=SilentNoise())
    return Release(DOMAIN, made.transcript, made.provenance)


@pytest.fixture(scope="module")
def engine(counts: np.ndarray) -> Iterator[duckdb.DuckDBPyConnection]:
    rows: list[tuple[object, ...]] = []
    for cell, count in np.ndenumerate(counts):
        spread = list(product(*map(values_of, DOMAIN.names, cell)))
        rows += spread * (int(count) // len(spread))
    assert len(rows) == counts.sum()
    table = pa.table({name: [row[j] for row in rows] for j, name in enumerate(DOMAIN.names)})
    with duckdb.connect() as connection:
        connection.register("cube", table)
        yield connection


# A key of a binned attribute is the name of its bin, which the engine has to be told.
KEYS = {
    "age": "age",
    "sex": "sex",
    "hours": "(hours - hours % 3) || '-' || (hours - hours % 3 + 2)",
    "seen": "strftime(seen - CAST(date_diff('day', DATE '2026-01-29', seen) % 7 AS INTEGER), '%Y-%m-%d')",
    "age % 2": "age % 2",
    "hours // 2": "hours // 2",
    "month(seen)": "month(seen)",
    "dayofweek(seen)": "dayofweek(seen)",
    "upper(sex) || 'y'": "upper(sex) || 'y'",
    "CASE WHEN hours < 5 THEN 'few' WHEN age >= 20 THEN 'old' ELSE 'other' END": None,
    "age + hours": "age + hours",
    "date_trunc('month', seen)": "date_trunc('month', seen)",
    "sex = 'f'": "sex = 'f'",
}
CONDITIONS = (
    *("age >= 19", "age = 20", "hours BETWEEN 2 AND 7", "hours < 4.5", "hours <> 5", "hours IN (1, 2, 9)"),
    *("sex = 'f'", "sex <> 'm'", "sex IN ('m', 'x')", "sex LIKE '%m%'", "seen >= DATE '2026-02-02'", "hours IS NULL"),
    *("seen BETWEEN '2026-01-30' AND '2026-02-11'", "NOT (age > 18 AND hours > 3)", "sex = 'f' OR hours >= 8"),
    *("age * 2 > hours + 30", "hours IS NOT NULL", "20 > age", "seen < DATE '2026-02-10' - INTERVAL 3 DAY"),
    *("age > (SELECT avg(age) FROM cube)", "sex IN (SELECT sex FROM cube GROUP BY sex HAVING count(*) > 900)"),
    *("EXISTS (SELECT count(*) FROM cube)", "month(seen) = 2", "CASE WHEN age < 20 THEN hours > 3 ELSE sex = 'm' END"),
)
NUMBERS = ("age", "hours", "age + hours", "2 * hours - 1", "age * hours", "hours * hours", "abs(hours - 5)")
AGGREGATES = (
    *(
        "count(*)",
        "count(hours)",
        "min(hours)",
        "max(hours)",
        "min(seen)",
        "max(seen)",
        "max(age)",
        "coalesce(count_if(age > 19), 0)",
    ),
    *("sum({})", "avg({})", "var_samp({})", "var_pop({})", "stddev({})", "stddev_pop({})", "min({})", "max({})"),
    *("median({})", "quantile_cont({}, 0.3)", "quantile_disc({}, 0.85)", "quantile_disc(seen, 0.4)"),
    *("count(*) FILTER (WHERE {where})", "sum({}) FILTER (WHERE {where})", "avg(CASE WHEN {where} THEN {} END)"),
    *("sum(CASE WHEN sex = 'm' THEN hours ELSE age END)", "count(*) * 100.0 / sum(count(*)) OVER ()"),
)


def query(random: Random) -> tuple[str, str]:
    """A query as an analyst writes it, and as the engine is asked it."""

    def aggregate() -> str:
        return random.choice(AGGREGATES).format(random.choice(NUMBERS), where=random.choice(CONDITIONS[:-6]))

    keys = random.sample(list(KEYS), random.choice((0, 1, 1, 2, 2, 3)))
    columns = [f"{aggregate()} AS c{place}" for place in range(random.randint(1, 4))]
    where = random.choice((" AND ", " OR ")).join(random.sample(CONDITIONS, random.choice((0, 1, 2, 2, 3))))
    having = random.choice(("", "", " HAVING count(*) >= 40", " HAVING max(age) > 18 AND count(*) > 10"))
    form = random.choice(("{}", "{}", "ROLLUP ({})", "CUBE ({})", "GROUPING SETS (({}), ())"))
    asked = []
    for told in (list(keys), [KEYS[key] or key for key in keys]):
        text = f"SELECT {', '.join([*(f'{key} AS k{j}' for j, key in enumerate(told)), *columns])} FROM cube"
        text += f" WHERE {where}" if where else ""
        grouped = told if form == "{}" else [f"k{place}" for place in range(len(told))]
        text += f" GROUP BY {form.format(', '.join(grouped))}{having}" if keys else ""
        asked.append(text)
    wrap = random.choice(
        (
            *(
                "{}",
                "{}",
                "{} ORDER BY ALL LIMIT 7",
                "WITH t AS ({}) SELECT * FROM t",
                "SELECT count(*), max(c0) FROM ({}) t",
            ),
            "WITH t AS ({}) SELECT count(*), count(a.c0), max(b.c0) FROM t a JOIN t b ON true",
        )
    )
    return wrap.format(asked[0]), wrap.format(asked[1])


def comparable(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
    """Rows in an order that rounding does not change, numbers as floats."""

    def value(cell: object) -> object:
        return float(cell) if isinstance(cell, int | float | Decimal) else cell

    made = [tuple(map(value, row.values())) for row in rows]
    return sorted(made, key=lambda row: tuple(f"{v:.6g}" if isinstance(v, float) else repr(v) for v in row))


def same(ours: list[tuple[object, ...]], theirs: list[tuple[object, ...]]) -> bool:
    return len(ours) == len(theirs) and all(
        equal(a, b) for left, right in zip(ours, theirs, strict=True) for a, b in zip(left, right, strict=True)
    )


def equal(ours: object, theirs: object) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float):
        both_nan = math.isnan(ours) and math.isnan(theirs)  # 0/0, as the share of an empty whole
        return both_nan or math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-9)
    return ours == theirs


@pytest.mark.parametrize("queries", [30, pytest.param(60, marks=pytest.mark.slow), at_night(70), at_night(80)])
def test_sql_equals_duckdb_on_the_rows(release: Release, engine: duckdb.DuckDBPyConnection, queries: int) -> None:
    random = Random(f"part {queries}")
    rows = 0
    for _ in range(queries):
        ours, theirs = query(random)
        found = comparable(release.sql(ours).to_pylist())
        expected = comparable(engine.sql(theirs).to_arrow_table().to_pylist())
        assert same(found, expected), f"{ours}\n{found[:5]}\n{theirs}\n{expected[:5]}"
        rows += len(found)
    assert rows > queries  # the queries are about something


@pytest.mark.slow
def test_a_spoilt_query_is_answered_or_refused_in_one_line(release: Release) -> None:
    random = Random("spoilt")
    answered, refused = 0, []
    words = [
        "(",
        ")",
        ",",
        "*",
        "NULL",
        "'f'",
        "hours",
        "count(*)",
        "OVER ()",
        "NOT",
        "GROUP BY",
        "cell(age)",
        "DATE",
        "/",
    ]
    for _ in range(examples(200, nightly=400)):
        tokens = [
            f"'{t.text}'" if t.token_type.name == "STRING" else t.text for t in sqlglot.tokenize(query(random)[0])
        ]
        place = random.randrange(1, len(tokens))
        tokens[place : place + random.randint(0, 1)] = [random.choice(words + tokens)] * random.randint(0, 1)
        try:
            release.sql(" ".join(tokens), error=random.random() < 0.3)
            answered += 1
        except DpcubeError as error:
            refused.append(str(error))
    assert min(answered, len(refused)) > 20
    assert not any("\n" in message for message in refused)


EXPECTED_WORDS = (
    "SELECT DISTINCT sex FROM cube ORDER BY 1",
    "SELECT DISTINCT sex, age FROM cube WHERE hours > 5 ORDER BY age, sex LIMIT 4",
    "SELECT sex, count(*) AS n FROM cube GROUP BY sex ORDER BY n DESC FETCH FIRST 2 ROWS ONLY",
    "SELECT sex, count(*) AS n FROM cube GROUP BY sex ORDER BY n DESC FETCH NEXT ROW ONLY",
    "SELECT mode(sex), mode(age) FROM cube",
    "SELECT sex, mode(age) FILTER (WHERE hours > 2) FROM cube GROUP BY sex",
    "SELECT corr(age, hours), covar_pop(age, hours), covar_samp(age, hours) FROM cube",
    "SELECT sex, corr(2 * age, hours) FILTER (WHERE age > 18), covar_samp(hours, age) FROM cube GROUP BY sex",
    "SELECT quantile_cont(age, [0.1, 0.5, 0.9]), quantile_disc(hours, [0.25, 0.75]) FROM cube",
    "SELECT split_part(sex || '-y', '-', 1) AS s, count(*) FROM cube GROUP BY 1",
    "SELECT replace(sex, 'm', 'ff') AS s, count(*) FROM cube GROUP BY 1",
    "SELECT regexp_replace(sex, '[mx]', 'other') AS s, count(*) FROM cube GROUP BY 1",
    "SELECT regexp_extract(sex, '[fm]') AS s, count(*) FROM cube GROUP BY 1",
    "SELECT count(*) FROM cube WHERE regexp_matches(sex, '^[fm]$') AND sex SIMILAR TO 'f|x'",
    "SELECT concat_ws('/', sex, CAST(age AS VARCHAR)) AS k, count(*) FROM cube GROUP BY 1",
    "SELECT count(*) FROM cube WHERE age >= '19' AND hours < '4.5'",
    "SELECT * FROM (VALUES (1, 'a'), (2, 'b')) t(x, y) WHERE x > 1",
    "PIVOT cube ON sex USING count(*) GROUP BY age",
    "PIVOT cube ON sex IN ('m', 'f') USING count(*) AS n, avg(hours) AS h GROUP BY age",
    "SELECT * FROM cube PIVOT (max(hours) FOR sex IN ('f', 'x') GROUP BY age) ORDER BY 1 LIMIT 3",
    "PIVOT cube ON age IN (18, 21) USING sum(hours) GROUP BY sex",
    "SELECT v.name, count(*), avg(age) FROM cube JOIN (VALUES ('f', 'F'), ('m', 'M'), ('z', 'Z')) v(s, name) "
    "ON cube.sex = v.s GROUP BY v.name",
    "SELECT name, count(*) FROM cube LEFT JOIN (VALUES ('f', 'both'), ('m', 'both')) v(sex, name) USING (sex) "
    "GROUP BY ALL",
    "WITH band(age, points) AS (VALUES (18, 0.5), (19, 2), (21, 2)) "
    "SELECT sum(points), avg(points), count(*) FROM cube JOIN band USING (age) WHERE hours > 3",
    "WITH t AS (SELECT sex, count(*) AS n FROM cube GROUP BY sex) "
    "SELECT sex, age, count(*) / max(t.n) FROM cube JOIN t USING (sex) GROUP BY sex, age",
    "SELECT count(*) FROM cube c JOIN (VALUES ('f', 1)) v(s, one) ON v.s = c.sex "
    "JOIN (VALUES (19, 2)) w(a, two) ON c.age = w.a",
)


@pytest.mark.slow
@pytest.mark.parametrize("asked", EXPECTED_WORDS)
def test_words_that_people_expect_mean_what_they_mean(
    release: Release, engine: duckdb.DuckDBPyConnection, asked: str
) -> None:
    theirs = asked.replace("FETCH FIRST 2 ROWS ONLY", "LIMIT 2").replace("FETCH NEXT ROW ONLY", "LIMIT 1")
    theirs = theirs.replace("'19'", "19").replace("'4.5'", "4.5")  # DuckDB refuses '4.5' for a whole number
    found = comparable(release.sql(asked).to_pylist())
    assert found
    assert same(found, comparable(engine.sql(theirs).to_arrow_table().to_pylist()))
