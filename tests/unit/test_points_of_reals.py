"""Single real numbers, where rows heap: edges of bins, and what picks one number out of the middle of a bin."""

from typing import Literal

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from dpcube import Domain, Float, Integer, Release, evaluate
from dpcube.core.errors import QueryError
from dpcube.curator.publishing import count, publish
from dpcube.release.plots.picture import marginal
from dpcube.testing import SeededNoise, SilentNoise


def released(domain: Domain) -> Release:
    counts = np.random.default_rng(4).poisson(20, domain.shape)
    made = evaluate.experiment(counts, epsilon=1, strategy="cells", noise=SeededNoise(2))
    return Release(domain, made.transcript, made.provenance)


@pytest.mark.slow
def test_a_heap_at_an_edge_is_in_the_interval() -> None:
    """A thousand rows lie at 2.0, and `x <= 2` was 420 to 420; of the last edge `count` was refused and SQL was 0."""
    x = np.r_[np.full(1000, 2.0), np.full(300, 4.0), np.full(200, 0.0), np.linspace(0.01, 3.99, 440)]
    domain = Domain(Float("x", 0, 4, width=1))
    made = evaluate.experiment(count(pa.table({"x": x}), domain), epsilon=50, strategy="cells", noise=SilentNoise())
    release = Release(domain, made.transcript, made.provenance)
    expected = {
        "x <= 2": (420, 420, 1530),
        "x > 2": (1520, 410, 1520),
        "x between 1 and 2": (110, 110, 1220),
        "x = 2": (0, 0, 1110),
        "x != 2": (1940, 830, 1940),
        "x < 2": (420, 420, 420),
        "x >= 2": (1520, 1520, 1520),
        "x >= 4": (0, 0, 410),
        "x = 4": (0, 0, 410),
        "x < 4": (1940, 1530, 1940),
        "x <= 4": (1940, 1940, 1940),
        "x <= 0": (0, 0, 310),
    }
    for question, ends in expected.items():
        answer, sql = release.count(question), f"SELECT count(*) AS n FROM cube WHERE {question}"
        [row] = release.sql(sql, error=True).to_pylist()
        assert [answer.value, answer.low, answer.high] == pytest.approx(ends)
        assert [row["n"], row["n_low"], row["n_high"]] == pytest.approx(ends)
        assert row.get("n_cut", "") == answer.cut
        assert bool(answer.cut) == (ends[1] < ends[2])
        assert (answer.cut in str(answer)) is True
        assert release.sql(sql).to_pylist() == [{"n": pytest.approx(ends[0])}]
    even = Release(Domain(Float("x", 0, 4, width=1, within="even")), made.transcript, made.provenance)
    picked = {"x = 2", "x != 2", "x >= 4", "x = 4", "x < 4", "x <= 0"}  # the others end at 2, which has no share
    for question, (value, least, most) in expected.items():
        answer, (low, high) = even.count(question), (least, most) if question in picked else (value, value)
        assert [answer.value, answer.low, answer.high] == pytest.approx([value, low, high], abs=1e-6)
        assert bool(answer.cut) == (question in picked)
        [row] = even.sql(f"SELECT count(*) AS n FROM cube WHERE {question}", error=True).to_pylist()
        assert [row["n"], row["n_low"], row["n_high"]] == pytest.approx([value, low, high], abs=1e-6)
        assert row.get("n_cut", "") == answer.cut


def coordinates(rows: int, *, at: tuple[float, float], heap: int) -> pa.Table:
    """Places to five decimals, as devices write them, and some rows at one of them."""
    draw = np.random.default_rng(6)
    places = {name: np.round(draw.uniform(low, low + 0.999, rows), 5) for name, low in (("lon", 13), ("lat", 52))}
    for name, value in zip(places, at, strict=True):
        places[name][:heap] = value
    return pa.table(places)


@pytest.mark.slow
@pytest.mark.parametrize("within", ["any", "even"])
@pytest.mark.parametrize(("strategy", "width"), [("fine_grid", 1e-5), ("adaptive", 0.1), ("cuboids", 0.1)])
def test_one_real_value_may_have_all_rows_of_its_bin(
    strategy: str, width: float, within: Literal["any", "even"]
) -> None:
    """`lon = 13.45861` of coordinates declared even was 0 rows, from 0 to 0, where 8 rows lay."""
    at, noise = (13.45861, 52.51), 20  # rows: many times the noise of epsilon 50
    edges = (("lon", 13.0, 14.0), ("lat", 52.0, 53.0))
    domain = Domain(*(Float(name, low, high, width=width, within=within) for name, low, high in edges))
    table = coordinates(2000, at=at, heap=300)
    release = publish(table, domain, epsilon=50, strategy=strategy, ledger=None)
    truth = int(np.sum(table["lon"].to_numpy() == at[0]))
    sql = release.sql(f"SELECT count(*) AS n FROM cube WHERE lon = {at[0]}", error=True).to_pylist()[0]
    view = release.slice(lon=at[0]).group_by().table().to_pylist()[0]
    answer, but = release.count(lon=at[0]), release.count(f"lon != {at[0]}")
    for low, high in ((answer.low, answer.high), (sql["n_low"], sql["n_high"]), (view["low"], view["high"])):
        assert low == 0
        assert truth - noise <= high < 1500
    assert answer.cut == sql["n_cut"] == view["cut"] == but.cut
    assert "of lon" in answer.cut
    assert but.low - noise <= 2000 - truth <= but.high + noise
    assert but.low < 1800


def test_single_numbers_that_a_selection_picks_out_are_told_from_ends_of_ranges() -> None:
    even = Float("x", 0, 4, width=1, within="even")
    picked = {
        "one": (even.equal(2.5), [2]),
        "two of two bins": (even.equal(0.5) | even.equal(2.0), [0, 2]),
        "all but one": (even.complement(even.equal(2.5)), [2]),
        "the end of a range": (even.range(1.0, 2.0), []),
        "the last value": (even.range(4.0, None), [3]),
        "all but the last": (even.range(None, 4.0, high_open=True), [3]),
        "inside a range": (even.range(1.0, 3.0) & even.equal(2.5), [2]),
        "joined to a range": (even.range(1.0, 2.5, high_open=True) | even.equal(2.5), []),
        "everything": (even.everything(), []),
    }
    assert {name: np.flatnonzero(even.parts(of)).tolist() for name, (of, _) in picked.items()} == {
        name: bins for name, (_, bins) in picked.items()
    }
    whole = Integer("n", 0, 9, width=5, within="even")
    assert not whole.parts(whole.equal(3)).any()  # a whole number has its share of a bin


def test_groups_that_an_end_touches_are_listed_with_errors() -> None:
    domain = Domain(Float("x", 0, 4, width=1), Integer("g", 0, 1))
    release = released(domain)
    whole = release.group_by("x").table().to_pydict()
    view = release.dice("x <= 2").group_by("x").table().to_pylist()
    grouped = "SELECT x, count(*) AS n FROM cube WHERE x <= 2 GROUP BY x ORDER BY x"
    sql = release.sql(grouped, error=True).to_pylist()
    assert [row["x"] for row in view] == [row["x"] for row in sql] == ["[0, 1)", "[1, 2)", "[2, 3)"]
    for rows, name in ((view, ""), (sql, "n_")):
        assert [row[f"{name}high"] for row in rows] == pytest.approx(whole["high"][:3])
        assert [row[f"{name}low"] for row in rows] == pytest.approx([*whole["low"][:2], 0])
        assert [row[f"{name}cut"] for row in rows] == ["", "", "cuts the bin [2, 3) of x"]
    assert release.sql(grouped).num_rows == 2  # of rows spread evenly none is at 2
    even = Release(
        Domain(Float("x", 0, 4, width=1, within="even"), Integer("g", 0, 1)), release.transcript, release.provenance
    )
    assert even.dice("x <= 2").group_by("x").table().num_rows == even.sql(grouped, error=True).num_rows == 2
    drawn = marginal(release, "x", where="x <= 2")
    assert drawn.high.tolist() == pytest.approx([*whole["high"][:3], 0])
    case = "SELECT CASE WHEN x <= 2 THEN 'low' ELSE 'high' END AS k, count(*) AS n, count(*) FILTER (WHERE x > 2) AS m"
    high, low = release.sql(f"{case} FROM cube GROUP BY k ORDER BY k", error=True).to_pylist()
    assert [low["n_low"], low["n_high"]] == pytest.approx([release.count("x < 2").low, release.count("x < 3").high])
    assert [high["n_low"], high["n_high"]] == pytest.approx([release.count("x >= 3").low, release.count("x >= 2").high])
    assert low["n_cut"] == high["n_cut"] == high["m_cut"] == "cuts the bin [2, 3) of x"
    assert (low["m"], low["m_high"], low["m_cut"]) == (0, 0, "")


def test_the_last_edge_is_another_value_to_a_function_of_bins() -> None:
    release = released(Domain(Float("x", 0, 4, width=1)))
    whole, high = (release.group_by("x").table()[name].to_pylist() for name in ("value", "high"))
    rows = release.sql("SELECT floor(x) AS f, count(*) AS n FROM cube GROUP BY f ORDER BY f", error=True).to_pylist()
    assert [(row["f"], row["n"]) for row in rows] == [(k, pytest.approx(n)) for k, n in enumerate([*whole, 0])]
    assert [row["n_cut"] for row in rows] == ["", "", "", *["cuts the bin [3, 4] of x"] * 2]
    assert [row["n_high"] for row in rows] == pytest.approx([*high, high[3]])
    plain = release.sql("SELECT floor(x / 5) AS f, count(*) AS n FROM cube GROUP BY f", error=True).to_pylist()
    assert [row["n_low"] for row in plain] == pytest.approx([release.count().low])
    assert plain[0]["n_cut"] == ""


HEAPED = pa.table(
    {
        "x": np.r_[np.full(1000, 1.25), np.full(500, 2.0), np.full(300, 4.0), np.linspace(0.001, 3.999, 400)],
        "g": np.arange(2200) % 10,
    }
)
CONDITIONS = {
    "x * 4 = 5": False,
    "x * 4 <> 5": False,
    "5 = x * 4": False,
    "x IS NOT DISTINCT FROM 1.25": True,
    "x IS DISTINCT FROM 1.25": True,
    "CASE x WHEN 1.25 THEN true ELSE false END": False,
    "nullif(x, 1.25) IS NULL": False,
    "x * 4 IN (5, 7)": False,
    "x + 0 BETWEEN 1.25 AND 1.25": False,
    "x % 0.25 = 0": False,
    "abs(x - 1.25) < 0.001": False,
    "(x - 1.25) * (x - 1.25) < 0.001": False,
    "1 / (x + 1) > 0.44 AND 1 / (x + 1) < 0.45": False,
    "CAST(x AS VARCHAR) = '1.25'": False,
    "CAST(x AS BOOLEAN)": False,
    "round(x) = 1": False,
    "-x >= -2": False,
    "floor(x) = 1": True,
    "floor(x) >= 4": True,
    "floor(x) % 2 = 0": True,
    "abs(floor(x) - 2) = 1": True,
    "coalesce(x, 0) < 2": True,
    "x * 2 >= 4": True,
    "log(x + 1) >= 0": True,
    "x // 2 = 0.625": False,
    "CAST(floor(x) AS INTEGER) = 1": True,
    "least(x, 2) < 2": True,
    "(x <= 2) = true": True,
    "x <= 2 OR floor(x) = 3": True,
    "CASE WHEN x <= 2 THEN floor(x) = 1 ELSE x > 3 END": True,
    "cell(x) = '[1, 2)'": True,
}
FORMS = (
    "SELECT count(*) AS n FROM cube WHERE {}",
    "SELECT count(*) FILTER (WHERE {}) AS n FROM cube",
    "SELECT count_if({}) AS n FROM cube",
    "SELECT count(CASE WHEN {} THEN 1 END) AS n FROM cube",
    "SELECT count(nullif({}, false)) AS n FROM cube",
    "SELECT sum(CASE WHEN {} THEN 1 ELSE 0 END) AS n FROM cube",
)


@pytest.fixture(scope="module")
def heaped() -> Release:
    domain = Domain(Float("x", 0, 4, width=1), Integer("g", 0, 9, width=5))
    made = evaluate.experiment(count(HEAPED, domain), epsilon=50, strategy="cells", noise=SilentNoise())
    return Release(domain, made.transcript, made.provenance)


@pytest.mark.slow
@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_that_may_pick_out_a_single_number_is_refused_or_holds_the_truth(
    heaped: Release, condition: str
) -> None:
    """`x * 4 = 5` is false at the ends and the middle of every bin, and was 0 with certainty: a thousand rows hold."""
    with duckdb.connect() as engine:
        engine.register("heaped", HEAPED)
        for form in FORMS:
            asked = form.format(condition)
            said = asked.replace("cell(x) = '[1, 2)'", "x >= 1 AND x < 2").replace("cube", "heaped")
            truth = engine.execute(said).fetchall()[0][0]
            try:
                [row] = heaped.sql(asked, error=True).to_pylist()
            except QueryError:
                assert not CONDITIONS[condition]
                continue
            is_unknown = np.isnan([row["n_low"], row["n_high"]]).all()
            assert is_unknown or row["n_low"] - 1e-6 <= truth <= row["n_high"] + 1e-6
            assert CONDITIONS[condition] or form.startswith("SELECT sum")


def test_what_is_never_null_is_counted(heaped: Release) -> None:
    for argument in ("sqrt(x)", "x * x", "x * 4 = 5", "abs(x - 1.25)", "CASE WHEN x < 9 THEN x * x ELSE -x END"):
        [row] = heaped.sql(f"SELECT count({argument}) AS n FROM cube", error=True).to_pylist()
        assert [row["n_low"], row["n_high"]] == pytest.approx([2200, 2200])
    with pytest.raises(QueryError, match="whose joint values inside a bin are unknown"):
        heaped.sql("SELECT count(CASE WHEN x > g THEN 1 END) FROM cube")
