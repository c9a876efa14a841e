"""Single values of categories of many values: they do not vanish, and their intervals hold."""

from fractions import Fraction

import numpy as np
import pytest

from dpcube.core.arrays import Bools, Floats, Ints
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.domain import Category, Domain
from dpcube.measurements import BoxCounts, Transcript
from dpcube.models import estimate
from dpcube.models.marginals.balanced import cells_of_table
from dpcube.models.posterior import PosteriorEstimate
from dpcube.queries import Workload
from dpcube.release import Release
from dpcube.release.answer import Answers
from dpcube.research.tables import experiment
from dpcube.strategies import adaptive
from dpcube.testing import SeededNoise
from dpcube.trees.tree import BoxTree

VALUES, KINDS, ROWS, COMMONEST, EPSILON = 3000, 4, 100_000, 20, "0.1"


def zipf(kinds: int) -> Ints:
    random = np.random.default_rng(1)
    share = random.permutation(np.arange(1.0, VALUES + 1) ** -1.05)
    by_kind = np.multiply.outer(share / share.sum(), random.dirichlet(np.full(kinds, 5.0)))
    return random.multinomial(ROWS, by_kind.ravel()).reshape(by_kind.shape).astype(np.int64)


def domain_of(kinds: int) -> Domain:
    places = Category("place", [f"p{k}" for k in range(VALUES)])
    return Domain(places, Category("kind", [f"k{k}" for k in range(kinds)])) if kinds > 1 else Domain(places)


def of_commonest(release: Release, counts: Ints) -> tuple[Floats, Bools]:
    """Return the absolute errors of the commonest values, and whether their intervals hold."""
    truths = counts.reshape(VALUES, -1).sum(axis=1)
    common = np.argsort(-truths, kind="stable")[:COMMONEST]
    answers = release.answer(cells_of_table(release.domain.shape, (0,)))
    low, high = answers.interval()
    return np.abs(answers.values - truths)[common], ((low <= truths) & (truths <= high))[common]


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [KINDS, 1])
def test_the_commonest_of_many_values_are_answered_within_their_intervals(kinds: int) -> None:
    """Over five releases, 100 answers: of 95% intervals fewer than 84 hold with a chance below 1e-4."""
    counts = zipf(kinds)
    exact = counts if kinds > 1 else counts[:, 0]
    wrong, held = [], []
    for seed in range(5):
        release = experiment(exact, epsilon=EPSILON, noise=SeededNoise(seed), domain=domain_of(kinds))
        errors, holds = of_commonest(release, counts)
        wrong.append(errors)
        held.append(holds)
    assert np.mean(wrong) < 10 / float(Fraction(EPSILON))  # of 2,300 rows each; plain noise with all of epsilon: 10
    assert np.max(wrong) < 60 / float(Fraction(EPSILON))
    assert np.sum(held) >= 84


def test_sabotage_without_its_marginal_a_category_vanishes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same checks find a tree alone, and a single attribute that is looked at by halves, to lose every one."""
    monkeypatch.setattr(adaptive, "one_way_shares", lambda shape, *_, **__: [Fraction(0)] * len(shape))
    counts = zipf(KINDS)
    release = experiment(counts, epsilon=EPSILON, noise=SeededNoise(0), domain=domain_of(KINDS))
    errors, _ = of_commonest(release, counts)
    assert errors.mean() > 1000


def of_one_box(counts: Ints, *, unordered: tuple[int, ...]) -> PosteriorEstimate:
    """Return the estimate of a table that was counted as a whole and in no part."""
    root = BoxCounts(
        BoxTree.uncut(counts.shape), np.zeros(1, np.int64), np.array([counts.sum()]), np.array([BUDGET_UNITS])
    )
    found = estimate(Transcript(counts.shape, Fraction(1, BUDGET_UNITS), (root,), plan="adaptive"), unordered=unordered)
    assert isinstance(found, PosteriorEstimate)
    return found


def answered(found: PosteriorEstimate, workload: Workload) -> Answers:
    return Answers.from_parts(found.values(workload), found.errors(workload))


def test_a_value_without_an_order_may_have_all_rows_of_an_uncut_box() -> None:
    counts = np.zeros((500, 6), np.int64)
    counts[7] = 1000
    values = cells_of_table(counts.shape, (0,))
    low, high = answered(of_one_box(counts, unordered=(0,)), values).interval()
    assert (low == 0).all()
    assert (high >= 6000).all()
    assert (high < 6500).all()
    _, of_ordered = answered(of_one_box(counts, unordered=()), values).interval()
    assert (of_ordered < 3000).all()  # neighbours are alike: as the prior has it


def test_a_range_that_takes_every_value_of_a_box_is_no_wider_for_it() -> None:
    counts = np.full((500, 6), 2)
    places = cells_of_table(counts.shape, (1,))
    every = Workload(counts.shape, np.zeros((1, 2), np.int64), np.array([counts.shape]))
    for asked in (places, every):
        plain, free = (answered(of_one_box(counts, unordered=axes), asked) for axes in ((), (0,)))
        np.testing.assert_array_equal(plain.nonuniformities, free.nonuniformities)
    half = Workload(counts.shape, np.zeros((1, 2), np.int64), np.array([[250, 6]]))
    assert answered(of_one_box(counts, unordered=(0,)), half).nonuniformities[0] <= 0.51 * counts.sum()
