"""SQL under noise: stated errors of averages hold, and noise alone does not make a least or greatest value."""

import numpy as np
import pytest
from checks import ALARM
from scipy import stats

from dpcube import Domain, Integer, Release, evaluate
from dpcube.testing import SeededNoise

GROUPS, VALUES = 400, 100
DOMAIN = Domain((Integer(name="g", min=0, max=GROUPS - 1), Integer(name="v", min=0, max=VALUES - 1)))


@pytest.fixture(scope="module")
def release() -> Release:
    """Each group has rows at 30 to 60 only; noise is everywhere."""
    counts = np.zeros(DOMAIN.shape, np.int64)
    counts[:, 30:61] = 300 + 10 * np.arange(31)
    made = evaluate.experiment(counts, epsilon="0.5", strategy="cells", noise=SeededNoise(11))
    return Release(DOMAIN, made.transcript, made.provenance)


def beyond(release: Release, confidence: float) -> int:
    """Number of groups whose least or greatest value is where no rows are."""
    found = release.sql("SELECT g, min(v) AS a, max(v) AS b FROM cube GROUP BY g", confidence=confidence).to_pydict()
    assert len(found["g"]) == GROUPS
    assert max(found["a"]) <= 30  # the rows at the ends are far above the noise
    assert min(found["b"]) >= 60
    return int(np.sum((np.array(found["a"]) < 30) | (np.array(found["b"]) > 60)))


def test_an_end_of_the_domain_is_not_reported_because_of_noise(release: Release) -> None:
    assert (release.cells()[:, -1] > 0).mean() > 0.3  # a plain maximum would be the end of the domain
    assert beyond(release, 0.95) <= stats.binom.isf(ALARM, GROUPS, 0.05)


def test_the_check_of_ends_can_fail(release: Release) -> None:
    assert beyond(release, 0.05) > stats.binom.isf(ALARM, GROUPS, 0.05)


def squares(release: Release, query: str, truth: float) -> float:
    """Sum over groups of the squared error of `a` in standard errors."""
    found = release.sql(query, error=True).to_pydict()
    return float(np.sum(((np.array(found["a"]) - truth) / np.array(found["a_stderr"])) ** 2))


@pytest.mark.parametrize(
    ("column", "truth"),
    [
        ("avg(v)", np.average(np.arange(30, 61), weights=300 + 10 * np.arange(31))),
        ("sum(v)", float(np.arange(30, 61) @ (300 + 10 * np.arange(31)))),
        ("count(*)", float(np.sum(300 + 10 * np.arange(31)))),
    ],
)
def test_stated_errors_are_those_seen(release: Release, column: str, truth: float) -> None:
    # Each is a sum of 100 independent noises, so that its square is near chi-square: kurtosis 3.06 at most.
    query = f"SELECT g, {column} AS a FROM cube GROUP BY g"
    low, high = stats.chi2.isf([1 - ALARM / 2, ALARM / 2], GROUPS)
    seen = squares(release, query, truth)
    assert low < seen < high
    assert not low < seen / 0.7**2 < high  # standard errors 0.7 times as large would be noticed


SMALL = Domain((Integer(name="g", min=0, max=GROUPS - 1), Integer(name="v", min=0, max=11), Integer("u", 0, 5)))
ROWS = 2 * np.add.outer(np.arange(12) ** 2 % 7, 3 * np.arange(6) % 5)  # of every group: 0 to 16 rows a cell
OF_V, OF_U = ROWS.sum(axis=1), ROWS.sum(axis=0)
SUM_V, SUM_U = float(np.arange(12) @ OF_V), float(np.arange(6) @ OF_U)
SOME = float(ROWS[:2].sum())
QUESTIONS = {
    "sum(v) / sum(u)": SUM_V / SUM_U,
    "sum(CASE WHEN u > 2 THEN v ELSE 0 END) / count(*)": float(np.arange(12) @ ROWS[:, 3:].sum(axis=1)) / ROWS.sum(),
    "count(*) / count_if(v < 2)": ROWS.sum() / SOME,  # few rows under the line
    "count_if(u < 2) - 2 * count_if(v < 2)": ROWS[:, :2].sum() - 2 * SOME,
    "avg(v) FILTER (WHERE u < 2) - avg(v) FILTER (WHERE u > 3)": float(
        np.average(np.arange(12), weights=ROWS[:, :2].sum(axis=1))
        - np.average(np.arange(12), weights=ROWS[:, 4:].sum(axis=1))
    ),
    "median(v)": float(np.median(np.repeat(np.arange(12), OF_V))),
    "quantile_disc(v, 0.9)": float(np.quantile(np.repeat(np.arange(12), OF_V), 0.9, method="inverted_cdf")),
    "quantile_cont(u, 0.3)": float(np.quantile(np.repeat(np.arange(6), OF_U), 0.3)),
}


@pytest.fixture(scope="module")
def same_groups() -> Release:
    """Every group has the same rows and noise of its own: one question is asked of many releases at once."""
    made = evaluate.experiment(np.stack([ROWS] * GROUPS), epsilon="0.5", strategy="cells", noise=SeededNoise(12))
    return Release(SMALL, made.transcript, made.provenance)


def missed(release: Release, question: str, *, confidence: float = 0.95, narrower: float = 1.0) -> int:
    """Number of groups whose interval does not hold the truth, each made `narrower` about its value."""
    query = f"SELECT g, {question} AS a FROM cube GROUP BY g"
    found = {
        name: np.array(column, float)
        for name, column in release.sql(query, error=True, confidence=confidence).to_pydict().items()
    }
    low, high = (found["a"] + (found[end] - found["a"]) * narrower for end in ("a_low", "a_high"))
    assert np.isnan(low).sum() < GROUPS / 10  # what is unknown holds anything, but nearly all are known
    return int(np.sum((low > QUESTIONS[question] + 1e-9) | (high < QUESTIONS[question] - 1e-9)))


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_intervals_of_ratios_differences_and_quantiles_hold(
    same_groups: Release, question: str, confidence: float
) -> None:
    assert missed(same_groups, question, confidence=confidence) <= stats.binom.isf(ALARM, GROUPS, 1 - confidence)


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_check_of_intervals_can_fail(same_groups: Release, question: str) -> None:
    assert missed(same_groups, question, narrower=0.2) > stats.binom.isf(ALARM, GROUPS, 0.05)


def test_the_interval_of_a_ratio_is_wider_than_the_delta_method_has_it(same_groups: Release) -> None:
    """With few rows under the line the line errs too."""
    query = "SELECT g, count(*) / count_if(v < 2) AS a FROM cube GROUP BY g"
    found = same_groups.sql(query, error=True, confidence=0.95).to_pydict()
    stderr, low, high = (np.array(found[name], float) for name in ("a_stderr", "a_low", "a_high"))
    known = ~np.isnan(low)
    assert ((high - low)[known] > 2 * 1.96 * stderr[known]).all()


RELEASES = 100
ADAPTIVE = ("sum(v) / sum(u)", "count(*) / count_if(v < 2)", "quantile_cont(u, 0.3)")


@pytest.fixture(scope="module")
def intervals() -> dict[str, np.ndarray]:
    """Low, value and high of questions over many releases by the default strategy: shape (questions, releases, 3)."""
    domain = Domain(SMALL.attributes[1:])
    columns = ", ".join(f"{question} AS q{place}" for place, question in enumerate(ADAPTIVE))
    found: dict[str, list[list[float]]] = {question: [] for question in ADAPTIVE}
    for seed in range(RELEASES):
        made = evaluate.experiment(ROWS, epsilon="0.5", strategy="adaptive", noise=SeededNoise(seed))
        release = Release(domain, made.transcript, made.provenance)
        (row,) = release.sql(f"SELECT {columns} FROM cube", error=True).to_pylist()
        for place, question in enumerate(ADAPTIVE):
            found[question].append([float(row[f"q{place}{end}"]) for end in ("_low", "", "_high")])
    return {question: np.array(ends).T for question, ends in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize("question", ADAPTIVE)
def test_intervals_hold_over_many_releases_by_the_default(intervals: dict[str, np.ndarray], question: str) -> None:
    low, value, high = intervals[question]

    def wrong(narrower: float) -> int:
        ends = (value + narrower * (end - value) for end in (low, high))
        return int(np.sum((next(ends) > QUESTIONS[question] + 1e-9) | (next(ends) < QUESTIONS[question] - 1e-9)))

    most = stats.binom.isf(ALARM, RELEASES, 0.05)
    assert np.isfinite(low).mean() > 0.9
    assert wrong(1.0) <= most
    assert wrong(0.1) > most  # intervals a tenth as wide would be noticed
