"""Errors of ratios, of sums of results and of medians in SQL, against the same worked out by hand."""

import datetime as dt

import numpy as np
import pytest

from dpcube import Category, Date, Domain, Float, Integer, Release, evaluate
from dpcube.core.domain import Attribute
from dpcube.queries import CountingQueries
from dpcube.release.answer import deviations_for
from dpcube.strategies import adaptive
from dpcube.testing import SeededNoise

DOMAIN = Domain(Integer("age", 20, 39), Integer("hours", 0, 9), Category("sex", ["F", "M"]))


def released(domain: Domain, rows: float = 30, epsilon: float = 1, strategy: str = "adaptive") -> Release:
    counts = np.random.default_rng(2).poisson(rows, domain.shape)
    made = evaluate.experiment(counts, epsilon=epsilon, strategy=strategy, noise=SeededNoise(5))
    return Release(domain, made.transcript, made.provenance)


@pytest.fixture(scope="module")
def release() -> Release:
    return released(DOMAIN)


def only(release: Release, text: str, confidence: float = 0.95) -> dict[str, float]:
    (row,) = release.sql(text, error=True, confidence=confidence).to_pylist()
    return {name.removeprefix("c"): value for name, value in row.items() if name.startswith("c")}


def stderr_of(release: Release, *weights: np.ndarray) -> float:
    asked = CountingQueries(tuple(w[None] for w in weights), np.zeros((1, len(weights)), np.int64))
    return float(np.sqrt(release.estimate().answers(asked)[1].noise_variances[0]))


AGES, ALL = np.arange(20.0, 40), np.ones(10)


def test_a_ratio_of_sums_has_its_error_by_the_delta_method(release: Release) -> None:
    """Over the same rows it is an average: (x - R)/N, with an interval that is a little wider."""
    ratio = only(release, "SELECT sum(age) / count(*) AS c FROM cube WHERE sex = 'F'")
    average = only(release, "SELECT avg(age) AS c FROM cube WHERE sex = 'F'")
    for part in ("", "_stderr", "_nonuniformity"):
        assert ratio[part] == pytest.approx(average[part])
    assert 1 < (ratio["_high"] - ratio["_low"]) / (average["_high"] - average["_low"]) < 1.2
    weights = (AGES - ratio[""], ALL, np.array([1.0, 0.0]))
    total = release.count("sex = 'F'").value
    assert ratio["_stderr"] == pytest.approx(stderr_of(release, *weights) / total)


def test_a_ratio_has_fiellers_interval_at_its_widest(release: Release) -> None:
    found = only(release, "SELECT sum(age) / sum(age) FILTER (WHERE sex = 'F') AS c FROM cube", 0.9)
    under = only(release, "SELECT sum(age) AS c FROM cube WHERE sex = 'F'", 0.9)
    s = np.hypot(found["_stderr"], found["_nonuniformity"])
    z = deviations_for(0.9)
    reach = z * np.hypot(under["_stderr"], under["_nonuniformity"])
    assert found["_high"] - found[""] == pytest.approx(z * s / (1 - reach / under[""]), rel=1e-6)
    assert found[""] - found["_low"] == pytest.approx(found["_high"] - found[""])


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("count(*) - count_if(sex = 'F')", "count_if(sex = 'M')"),
        ("count_if(sex = 'F') + count_if(sex = 'M') - 3", "count(*) - 3"),
        ("sum(age) / nullif(count(*), 0)", "sum(age) / count(*)"),
        ("100.0 * sum(hours) / sum(age) + 5", "5 + sum(hours) / (0.01 * sum(age))"),
        ("sum(CASE WHEN sex = 'F' THEN hours ELSE 0 END) / count(*)", "avg(CASE WHEN sex = 'F' THEN hours ELSE 0 END)"),
        ("avg(age) FILTER (WHERE sex = 'F') - avg(age) FILTER (WHERE sex = 'F')", "0 * count(*)"),
    ],
)
def test_ways_to_write_one_thing_have_one_error(release: Release, text: str, same: str) -> None:
    found, other = (only(release, f"SELECT {what} AS c FROM cube") for what in (text, same))
    for part in ("", "_stderr", "_nonuniformity"):
        assert found[part] == pytest.approx(other[part], rel=1e-6, abs=1e-9)
    assert found["_low"] <= found[""] <= found["_high"]


def test_sums_along_two_axes_are_not_split_into_slices(release: Release) -> None:
    """The error of a ratio of two attributes is at most that of its two parts, each about its mean."""
    found = only(release, "SELECT sum(age) / sum(hours) AS c FROM cube")
    mean_age, mean_hours = (only(release, f"SELECT avg({x}) AS c FROM cube")[""] for x in ("age", "hours"))
    ages, hours = AGES - mean_age, np.arange(10.0) - mean_hours
    parts = stderr_of(release, ages, ALL, np.ones(2)), found[""] * stderr_of(release, np.ones(20), hours, np.ones(2))
    total = only(release, "SELECT sum(hours) AS c FROM cube")[""]
    assert found["_stderr"] == pytest.approx(sum(parts) / total)


def test_a_ratio_over_what_may_be_nothing_is_unknown() -> None:
    faint = released(DOMAIN, rows=0.1, epsilon=0.1)
    found = only(faint, "SELECT sum(age) / count_if(sex = 'F') AS c FROM cube WHERE age < 22")
    assert np.isnan([found[part] for part in ("_stderr", "_nonuniformity", "_low", "_high")]).all()
    groups = faint.sql(
        "SELECT sex, sum(hours) / count_if(age < 0) AS c, count(*) AS n FROM cube GROUP BY sex", error=True
    )
    for low, high in zip(groups["c_low"].to_pylist(), groups["c_high"].to_pylist(), strict=True):
        assert low is None or np.isnan(low)
        assert high is None or np.isnan(high)
    assert all(n is not None for n in groups["n_low"].to_pylist())


def test_a_ratio_that_cuts_bins_lies_between_the_ends_of_its_parts() -> None:
    wide = released(Domain(Integer("age", 20, 39, width=5), Category("sex", ["F", "M"])), rows=3000)
    found = only(wide, "SELECT count_if(age < 28) / count_if(sex = 'F') AS c FROM cube")
    ends = [wide.count(f"age < {age}") for age in (25, 30)]
    under = wide.count("sex = 'F'")
    assert found["_low"] <= ends[0].value / under.value
    assert ends[1].value / under.value <= found["_high"]
    assert found["_low"] == pytest.approx(ends[0].low / under.high, rel=0.02)
    assert "cuts the bin 25-29 of age" in str(found["_cut"])
    by_bins = only(wide, "SELECT sum(age) / count(*) AS c FROM cube")
    assert by_bins["_low"] < by_bins[""] - 1.9
    assert str(by_bins["_cut"]) == "age known by bins"
    assert np.isnan(only(wide, "SELECT count(*) - var_pop(age) AS c FROM cube")["_low"])


def woodruff(release: Release, share: float, confidence: float) -> tuple[float, float]:
    """The ends of the interval of a quantile of age, by asking at every age."""
    cells = release.cells().sum(axis=(1, 2))
    passing: dict[int, list[float]] = {1: [], -1: []}
    for age in range(20):
        factor = np.where(np.arange(20) <= age, 1.0, 0.0) - share
        asked = CountingQueries((factor[None], ALL[None], np.ones((1, 2))), np.zeros((1, 3), np.int64))
        value, errors = release.estimate().answers(asked)
        assert value[0] == pytest.approx(cells @ factor, abs=1e-6)
        half = deviations_for(confidence) * np.sqrt(errors.noise_variances[0] + errors.nonuniformity_squares[0])
        for side in passing:
            if value[0] + side * (half + 1) >= 0:
                passing[side].append(20.0 + age)
    return passing[1][0], passing[-1][0]


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_a_quantile_has_woodruffs_interval(share: float, confidence: float) -> None:
    release = released(DOMAIN, rows=10, epsilon=0.1)
    for name in ("quantile_cont", "quantile_disc"):
        found = only(release, f"SELECT {name}(age, {share}) AS c FROM cube", confidence)
        low, high = woodruff(release, share, confidence)
        assert (found["_low"], found["_high"]) == (min(low, found[""]), max(high, found[""]))
        assert found["_stderr"] > 0
    doubled = only(release, f"SELECT -2 * quantile_cont(age, {share}) + 1 AS c FROM cube", confidence)
    plain = only(release, f"SELECT quantile_cont(age, {share}) AS c FROM cube", confidence)
    assert (doubled["_low"], doubled["_high"]) == (1 - 2 * plain["_high"], 1 - 2 * plain["_low"])


def test_a_median_needs_no_value_that_exceeds_its_noise_alone() -> None:
    """Each of 1,000 values has 5 rows and noise of 14; all of them together have 5,000 and noise of 450."""
    faint = released(Domain(Integer("age", 0, 999)), rows=5, epsilon=0.1, strategy="cells")
    (found,) = faint.sql("SELECT median(age) AS m, min(age) AS low, max(age) AS high FROM cube").to_pylist()
    assert 200 <= found["m"] <= 800
    assert (found["low"], found["high"]) == (None, None)
    (parts,) = faint.sql("SELECT median(age) FILTER (WHERE age < 300) AS m FROM cube").to_pylist()
    assert parts["m"] is None or 0 <= parts["m"] < 300


def test_tables_of_noise_alone_hardly_ever_have_a_median() -> None:
    domain, found = Domain(Integer("age", 0, 99)), []
    for seed in range(40):
        made = evaluate.experiment(np.zeros(100, np.int64), epsilon=0.1, strategy="cells", noise=SeededNoise(seed))
        empty = Release(domain, made.transcript, made.provenance)
        found += empty.sql("SELECT median(age) AS m FROM cube")["m"].to_pylist()
    assert sum(one is not None for one in found) <= 4  # one in twenty at most, by the bound over all values


def test_a_pilot_of_pairs_leaves_the_errors_of_single_values_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a table that is even, 1.3% of epsilon goes to each pair: noise of 1,400 rows a value, where there are 200."""
    monkeypatch.setattr(adaptive, "counts_one_way", lambda *_: False)
    release = released(DOMAIN, rows=10, epsilon=0.1)
    assert {len(one.axes) for one in release.transcript.marginals} == {2}
    found = release.count(age=20)
    assert np.hypot(found.stderr, found.nonuniformity) < 200


def test_a_median_without_noise_is_known_to_a_row() -> None:
    counts = np.zeros((20, 10, 2), np.int64)
    counts[5], counts[11] = 10, 30
    made = evaluate.experiment(counts, epsilon=50, strategy="cells", noise=SeededNoise(1))
    found = only(Release(DOMAIN, made.transcript, made.provenance), "SELECT median(age) AS c FROM cube")
    assert (found["_low"], found[""], found["_high"]) == (31, 31, 31)


KINDS: list[tuple[Attribute, object, object]] = [
    (Integer("x", 0, 39, width=5), 0.0, 39.0),
    (Float("x", 0, 1, width=0.125), 0.0, 1.0),
    (Date("x", "2026-01-01", "2026-02-09", every="day"), dt.date(2026, 1, 1), dt.date(2026, 2, 9)),
    (Date("x", "2026-01-01", "2026-12-31", every="month"), dt.date(2026, 1, 1), dt.date(2026, 12, 31)),
    (Category("x", ["a", "b", "c", "d"], ordered=True), "a", "d"),
]


@pytest.mark.parametrize(("attribute", "least", "most"), KINDS)
def test_medians_of_every_kind_have_intervals(attribute: Attribute, least: object, most: object) -> None:
    release = released(Domain(attribute, Category("sex", ["F", "M"])), rows=40)
    for row in release.sql("SELECT sex, median(x) AS c FROM cube GROUP BY sex", error=True).to_pylist():
        assert least <= row["c_low"] <= row["c"] <= row["c_high"] <= most
        assert (row["c_low"], row["c_high"]) != (least, most)
        assert row["c_stderr"] > 0 or (np.isnan(row["c_stderr"]) and attribute.scale == "position")
    nothing = release.sql("SELECT median(x) AS c FROM cube WHERE sex = 'F' AND sex = 'M'", error=True).to_pylist()
    assert nothing == [dict.fromkeys(nothing[0])]


def test_a_median_that_cuts_bins_says_so_and_is_wider() -> None:
    wide = released(Domain(Integer("age", 20, 59, width=5), Integer("hours", 0, 9, width=5)), rows=500)
    plain = only(wide, "SELECT median(age) AS c FROM cube")
    cut = only(wide, "SELECT median(age) AS c FROM cube WHERE age >= 33")
    assert str(plain["_cut"]) == "age known by bins"
    assert str(cut["_cut"]) == "cuts the bin 30-34 of age; age known by bins"
    with_all, with_none = (only(wide, f"SELECT median(age) AS c FROM cube WHERE age >= {age}") for age in (30, 35))
    assert cut["_low"] <= with_all["_low"] < with_none["_high"] <= cut["_high"]  # rows of 30-34 may be any of them
    other = only(wide, "SELECT median(age) AS c FROM cube WHERE hours <= 2")
    assert (other["_low"], other["_high"]) == (20, 59)  # all rows of hours 0-4 with high ages may be above 2


def test_what_joins_attributes_in_too_many_ways_is_unknown() -> None:
    domain = Domain(Integer("a", 0, 29), Integer("b", 0, 29), Integer("c", 0, 29))
    release = released(domain, rows=200, strategy="cells")
    where = "WHERE (a * b + b * c * c) % 31 < 14"
    for what in ("median(a)", "sum(a) / sum(b)"):
        found = only(release, f"SELECT {what} AS c FROM cube {where}")
        assert found[""] is not None
        assert np.isnan([found[part] for part in ("_stderr", "_low", "_high")]).all()
