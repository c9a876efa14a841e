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
