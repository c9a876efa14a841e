"""Classifiers from a release: training data, terms, the default model, its estimator and ID3."""

import json
from dataclasses import replace
from datetime import date

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.utils.estimator_checks import check_estimator

from dpcube.core.domain import Category, Date, Domain, Float, Integer
from dpcube.core.errors import InputError, QueryError
from dpcube.learn import CubeClassifier, HistogramID3
from dpcube.learn.additive import Evidence, learn_additive
from dpcube.learn.class_tables import CellTables, drawn_evenly, evidence_of_class
from dpcube.learn.features import Features
from dpcube.learn.terms import Feature, Term, pair_terms, single_terms
from dpcube.models import Estimate
from dpcube.models.errors.parts import ErrorParts
from dpcube.queries import Workload
from dpcube.release import Release
from dpcube.research import experiment
from dpcube.testing import SeededNoise, SilentNoise

DOMAIN = Domain(
    Integer("age", 0, 59, width=20, null="cell"),
    Category("sex", ["f", "m"]),
    Date("seen", "2026-01-01", "2026-02-28", every="month"),
    Category("grade", ["low", "middle", "high"], ordered=True),
    Category("ill", ["no", "yes"], null="cell"),
)


def release_of(counts: np.ndarray, domain: Domain, *, epsilon: float = 1.0, seed: int | None = None) -> Release:
    noise = SilentNoise() if seed is None else SeededNoise(seed)
    return experiment(counts, epsilon=epsilon, strategy="cells", noise=noise, domain=domain)


@pytest.fixture(scope="module")
def small() -> Release:
    return release_of(np.arange(1, 1 + DOMAIN.size).reshape(DOMAIN.shape), DOMAIN)


class TestTrainingData:
    def test_a_row_for_each_cell_and_class_weighted_by_its_count(self, small: Release) -> None:
        training = small.to_training("ill")
        cells = small.cells()[..., :2]  # no value of the target is no class
        assert len(training) == cells.size
        assert training.sample_weight.sum() == pytest.approx(cells.sum())
        rows = zip(training.cells.tolist(), training.target, training.sample_weight, strict=True)
        of_each = {(*at, k): weight for at, k, weight in rows}
        assert all(of_each[tuple(at)] == cells[tuple(at)] for at in np.argwhere(cells > 0).tolist())

    def test_numbers_stand_for_bins(self, small: Release) -> None:
        training = small.to_training("ill")
        assert training.columns == ("age", "age=(null)", "sex=f", "sex=m", "seen", "grade")
        rows = {"age": [25, None, 700], "sex": ["m", "f", "x"], "grade": ["high", "low", "low"]}
        made = training.encode({**rows, "seen": [date(2026, 1, 9), date(2026, 2, 1), date(2026, 2, 1)]})
        ages = training.rows[0][:3]
        mean = float(ages @ [9.5, 29.5, 49.5] / ages.sum())
        january, february = (date(2026, 1, 16) - date(1970, 1, 1)).days, 20_498.5
        expected = [[29.5, 0, 0, 1, january, 2], [mean, 1, 1, 0, february, 0], [mean, 0, 0, 0, february, 0]]
        np.testing.assert_allclose(made, expected)

    def test_it_suits_scikit_learn_and_its_stream_too(self, small: Release) -> None:
        training = small.to_training("ill")
        X, y, weight = training
        assert LogisticRegression(max_iter=2000).fit(X, y, weight).classes_.tolist() == ["no", "yes"]
        parts = list(training.batches(7))
        np.testing.assert_array_equal(np.concatenate([part[0] for part in parts]), X)
        np.testing.assert_array_equal(np.concatenate([part[1] for part in parts]), y)
        stream = SGDClassifier(random_state=0)
        for batch, classes, weights in parts:
            stream.partial_fit(batch, classes, classes=np.unique(y), sample_weight=weights)
        assert set(stream.predict(X)) <= {"no", "yes"}

    def test_cells_are_numbered_on_request(self, small: Release) -> None:
        training = small.to_training("ill", encoding="cells")
        assert training.columns == ("age", "sex", "seen", "grade")
        np.testing.assert_array_equal(training.X, training.cells)

    def test_of_very_many_cells_some_are_drawn_by_weight(self, small: Release) -> None:
        training = small.to_training("ill", most=10)
        assert len(training) <= 10
        assert training.sample_weight.sum() == pytest.approx(small.cells()[..., :2].sum())

    @pytest.mark.parametrize(
        ("target", "options", "words"),
        [
            ("nope", {}, "no attribute 'nope'"),
            ("ill", {"encoding": "words"}, "encoding must be one of"),
            ("ill", {"most": 0}, "whole number of at least 1"),
        ],
    )
    def test_what_cannot_be_asked(self, small: Release, target: str, options: dict[str, object], words: str) -> None:
        with pytest.raises(QueryError, match=words):
            small.to_training(target, **options)  # type: ignore[arg-type]

    def test_a_target_of_too_many_values_and_a_release_of_nothing_else(self) -> None:
        with pytest.raises(QueryError, match="100 values"):
            Features.from_domain(Domain(Integer("x", 0, 99), Category("y", ["a", "b"])), "x")
        with pytest.raises(QueryError, match="no other attribute"):
            Features.from_domain(Domain(Category("y", ["a", "b"])), "y")

    def test_a_release_of_no_rows_teaches_nothing(self) -> None:
        with pytest.raises(QueryError, match="nothing can be learnt"):
            release_of(np.zeros(DOMAIN.shape, np.int64), DOMAIN).to_training("ill")


class TestTerms:
    def test_ordered_cells_are_put_together_by_their_rows(self) -> None:
        groups = Feature(102, 100, np.r_[np.full(50, 10.0), np.zeros(50), 1, 1]).groups(8)
        assert groups.max() == 9
        assert (np.diff(groups) >= 0).all()
        assert len(set(groups[:50].tolist())) == 8
        assert groups[-2:].tolist() == [8, 9]  # each cell for irregular values is a group of its own

    def test_sums_and_places_agree(self) -> None:
        cube = np.random.default_rng(0).random((5, 3, 4, 2))
        term = Term((0, 2), (np.array([0, 0, 1, 1, 2]), np.array([0, 1, 1, 2])))
        every = np.indices((5, 3, 4)).reshape(3, -1).T
        by_hand = np.zeros((term.size, 2))
        np.add.at(by_hand, term.places(every), cube.reshape(-1, 2))
        np.testing.assert_allclose(term.sums(cube), by_hand)
        first, past = term.bounds()
        corner = term.sums(cube)[4]
        box = cube[first[4, 0] : past[4, 0], :, first[4, 1] : past[4, 1]]
        np.testing.assert_allclose(corner, box.sum(axis=(0, 1, 2)))

    def test_values_without_a_cell_have_no_group(self) -> None:
        term = Term((0, 1), (np.array([0, 1]), np.array([0, 1])))
        assert term.places(np.array([[1, -1], [-1, 0], [1, 1]])).tolist() == [-1, -1, 3]

    def test_wide_categories_are_in_no_pair(self) -> None:
        features = [Feature(40, 0, np.ones(40)), Feature(3, 0, np.ones(3)), Feature(90, 90, np.ones(90))]
        assert [term.axes for term in pair_terms(features)] == [(1, 2)]
        assert [term.size for term in single_terms(features)] == [40, 3, 32]


def evidence_of(chance: np.ndarray, rows: np.ndarray, terms: list[Term], noise: float = 0.0) -> Evidence:
    """Return what exact tables of a chance and of rows in each cell tell."""
    cells = np.indices(rows.shape).reshape(rows.ndim, -1).T
    flat = rows.reshape(-1).astype(np.float64)
    share = []
    for term in terms:
        at = term.places(cells)
        whole = np.bincount(at, flat, term.size)
        share.append(np.bincount(at, flat * chance.reshape(-1), term.size) / whole)
    overall = float(flat @ chance.reshape(-1) / flat.sum())
    return Evidence(cells, flat, overall, tuple(share), tuple(np.full(term.size, noise) for term in terms))


class TestTheModel:
    rows = np.random.default_rng(1).integers(2_000, 9_000, (6, 4, 3))
    odds = (
        np.array([-1.5, -1, 0, 0.5, 1, 1.2])[:, None, None]
        + np.array([0.8, -0.3, 0, 0.4])[:, None]
        + np.array([0.0, 1.0, -1.0])
    )
    features = tuple(Feature(n, n if n == 6 else 0, np.ones(n)) for n in (6, 4, 3))

    def test_it_finds_what_the_tables_were_made_with(self) -> None:
        singles, pairs = single_terms(self.features), pair_terms(self.features)
        model = learn_additive(evidence_of(expit(self.odds), self.rows, [*singles, *pairs]), singles, pairs)
        cells = np.indices(self.rows.shape).reshape(3, -1).T
        np.testing.assert_allclose(model.log_odds(cells), self.odds.reshape(-1), atol=0.03)

    def test_it_finds_what_two_features_tell_together(self) -> None:
        odds = self.odds.copy()
        odds[3:, 1] += 2
        singles, pairs = single_terms(self.features), pair_terms(self.features)
        model = learn_additive(evidence_of(expit(odds), self.rows, [*singles, *pairs]), singles, pairs)
        assert (0, 1) in [term.axes for term in model.terms]
        cells = np.indices(self.rows.shape).reshape(3, -1).T
        np.testing.assert_allclose(expit(model.log_odds(cells)), expit(odds.reshape(-1)), atol=0.02)

    def test_the_more_noise_the_less_is_believed_and_the_wider_the_interval(self) -> None:
        singles = single_terms(self.features)
        cells = np.indices(self.rows.shape).reshape(3, -1).T
        spread, unsure = [], []
        for noise in (0.0, 1e7, 1e9):
            model = learn_additive(evidence_of(expit(self.odds), self.rows, singles, noise), singles, [])
            spread.append(float(model.log_odds(cells).std()))
            unsure.append(float(model.deviations(cells).mean()))
        assert spread[0] > spread[1] > spread[2]
        assert unsure[0] < unsure[1] < unsure[2]

    def test_a_group_without_rows_drowns_nothing(self) -> None:
        """Noise outweighs no rows without end: what other groups tell must be learnt all the same."""
        singles = single_terms(self.features)
        sure = evidence_of(expit(self.odds), self.rows, singles, 1e4)
        empty = np.where(np.arange(6)[:, None, None] == 2, 0, self.rows)
        cells = np.indices(self.rows.shape).reshape(3, -1).T
        unsure = Evidence(cells, empty.reshape(-1).astype(float), sure.overall, sure.share, sure.noise)
        told = [learn_additive(one, singles, []).log_odds(cells[:12]) for one in (sure, unsure)]
        assert np.ptp(told[0]) > 1
        np.testing.assert_allclose(told[1], told[0], atol=0.5)

    def test_a_value_without_a_cell_is_an_average_one(self) -> None:
        singles = single_terms(self.features)
        model = learn_additive(evidence_of(expit(self.odds), self.rows, singles), singles, [])
        known = np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 0], [4, 0, 0], [5, 0, 0]])
        of_first = self.rows.sum(axis=(1, 2)) / self.rows.sum()
        assert model.log_odds(np.array([[-1, 0, 0]]))[0] == pytest.approx(of_first @ model.log_odds(known))
        assert model.deviations(np.array([[-1, -1, -1]]))[0] < 0.2

    def test_intervals_hold_the_truth_as_often_as_they_say(self) -> None:
        """Rows and noise drawn 60 times: of 72 log-odds each, 95% intervals hold at least 90% on the whole."""
        singles, generator = single_terms(self.features), np.random.default_rng(2)
        rows, held = np.full((6, 4, 3), 60), []
        cells = np.indices(rows.shape).reshape(3, -1).T
        for _ in range(60):
            positive = generator.binomial(rows, expit(self.odds))
            counts = np.stack([rows - positive, positive], axis=-1) + generator.laplace(0, 5, (*rows.shape, 2))
            counts = np.maximum(counts, 0)
            evidence = []
            for term in singles:
                table = term.sums(counts)
                share = table[:, 1] / table.sum(axis=1)
                cells_of_group = 72 / term.size
                evidence.append((share, (share**2 + (1 - share) ** 2) * 2 * 25 * cells_of_group))
            share, noise = zip(*evidence, strict=True)
            overall = float(counts[..., 1].sum() / counts.sum())
            weights = counts.sum(axis=-1).reshape(-1)
            model = learn_additive(Evidence(cells, weights, overall, share, noise), singles, [])
            wrong = np.abs(model.log_odds(cells) - self.odds.reshape(-1))
            held.append(float((wrong <= 1.96 * model.deviations(cells)).mean()))
        assert 0.9 <= np.mean(held) <= 0.995


@pytest.fixture(scope="module")
def release() -> Release:
    domain = Domain(Integer("x", 0, 19), Category("k", ["a", "b"]), Category("y", ["no", "yes"]))
    chance = expit(np.linspace(-3, 3, 20)[:, None] + np.array([-0.5, 0.5]))
    counts = np.random.default_rng(0).binomial(500, np.stack([1 - chance, chance], axis=-1))
    return experiment(counts, epsilon=1, noise=SeededNoise(0), domain=domain)


class TestTheClassifierOfARelease:
    def test_it_tells_the_classes_with_calibrated_probabilities(self, release: Release) -> None:
        model = release.classifier("y")
        rows = {"x": [0, 10, 19, 99], "k": ["a", "b", "b", "b"]}
        chances = model.predict_proba(rows)
        assert model.classes_.tolist() == ["no", "yes"]
        np.testing.assert_allclose(chances.sum(axis=1), 1)
        np.testing.assert_allclose(chances[:3, 1], expit([-3.5, 0.66, 3.5]), atol=0.05)
        assert model.predict(rows).tolist() == ["no", "yes", "yes", "yes"]
        low, high = model.predict_interval(rows, 0.9)
        assert ((low < chances) & (chances < high)).all()

    def test_rows_may_be_tables_of_any_kind(self, release: Release) -> None:
        model = release.classifier("y")
        table = pa.table({"k": ["a", "b"], "x": [3, 17], "beside": [0, 0]})
        expected = model.predict_proba(table)
        np.testing.assert_array_equal(model.predict_proba(table.to_pandas()), expected)
        np.testing.assert_array_equal(model.predict_proba(np.array([[3, 0], [17, 1]])), expected)
        with pytest.raises(InputError, match="one column 'k'"):
            model.predict({"x": [1]})
        with pytest.raises(InputError, match="numbers below"):
            model.predict(np.array([[20, 0]]))

    def test_it_says_where_it_comes_from(self, release: Release) -> None:
        model = release.classifier("y")
        assert not model.origin_.private  # seeded noise is not private, and no model of it is
        assert model.origin_.release == release.digest
        again = clone(model).fit({"x": [0, 1, 18, 19], "k": ["a", "b", "a", "b"]}, ["no", "no", "yes", "yes"])
        assert again.origin_.release is None
        assert "NOT PRIVATE" in again.origin_.words

    def test_more_than_two_classes(self, release: Release) -> None:
        model = release.classifier("x", estimate="auto")
        chances = model.predict_proba({"k": ["a", "b"], "y": ["yes", "no"]})
        assert chances.shape == (2, 20)
        np.testing.assert_allclose(chances.sum(axis=1), 1)
        assert chances[0].argmax() > 10 > chances[1].argmax()

    def test_of_two_estimates_the_one_with_smaller_stated_errors_is_learnt_from(self, release: Release) -> None:
        features = Features.from_domain(release.domain, "y")
        stated = {
            name: CellTables.from_estimate(release.estimate(name), 2, features).stated()
            for name in release.estimates[:2]
        }
        best = min(stated, key=lambda name: stated[name])
        chosen, named = release.train("y"), release.train("y", estimate=best)
        np.testing.assert_array_equal(chosen.model.models[0].numbers, named.model.models[0].numbers)


def test_the_noise_of_a_group_is_that_of_its_classes_counts() -> None:
    """A group with the share p of a class is off by (1 - p) times the noise of the class less p times the others'."""
    domain = Domain(Integer("x", 0, 3), Category("k", ["a", "b", "c"]), Category("y", ["no", "yes"]))
    counts = np.arange(1, 25).reshape(4, 3, 2) ** 2 * 10
    made = release_of(counts, domain, epsilon=0.5)
    features = Features.from_domain(domain, "y")
    tables = CellTables.from_estimate(made.estimate(), 2, features)
    of_cell = float(made.transcript.cell_variance)
    pair = Term((0, 1), (np.array([0, 0, 1, 1]), np.array([0, 1, 2])))
    for term, cells_of_group in ((Term((0,), (np.arange(4),)), 3), (pair, 2)):
        cells, by_class_in_cells = tables.rows(100)
        fitted = cells, by_class_in_cells.sum(axis=1)
        evidence = evidence_of_class(tables, [tables.table(term)], fitted, 1)
        by_class = term.sums(counts.astype(float))
        share = by_class[:, 1] / by_class.sum(axis=1)
        np.testing.assert_allclose(evidence.share[0], share)
        expected = cells_of_group * of_cell * ((1 - share) ** 2 + share**2)
        np.testing.assert_allclose(evidence.noise[0], expected)
        other = evidence_of_class(tables, [tables.table(term)], fitted, 0)
        np.testing.assert_allclose(other.noise[0], evidence.noise[0])
    uneven = replace(tables, estimate=_Uneven(made.estimate()))  # type: ignore[arg-type]
    found = evidence_of_class(uneven, [uneven.table(pair)], fitted, 1)
    share = found.share[0]
    np.testing.assert_allclose(found.noise[0], 9 * (1 - share) ** 2 + share**2)


class _Uneven:
    """An estimate that states a variance of 1 for the class "no" and of 9 for "yes"."""

    def __init__(self, estimate: Estimate) -> None:
        self._estimate, self.shape, self.name = estimate, estimate.shape, "uneven"
        self.cells, self.values = estimate.cells, estimate.values
        self.marginal_model = estimate.marginal_model

    def errors(self, workload: Workload) -> ErrorParts:
        return ErrorParts(np.where(workload.lower[:, 2] == 1, 9.0, 1.0), np.zeros(len(workload)))


def test_drawing_keeps_the_total_and_leaves_few_cells_as_they_are() -> None:
    weights = np.random.default_rng(0).random(1000) * (np.arange(1000) % 3 > 0)
    some, kept = drawn_evenly(weights, 1000)
    np.testing.assert_array_equal(kept, weights[some])
    few, drawn_weights = drawn_evenly(weights, 50)
    assert len(few) <= 50
    assert drawn_weights.sum() == pytest.approx(weights.sum())
    assert (weights[few] > 0).all()


def test_features_of_real_numbers_and_infinities() -> None:
    domain = Domain(Float("dose", 0, 2, width=0.5, infinite="cell", outside="clip"), Category("y", ["a", "b"]))
    features = Features.from_domain(domain, "y")
    assert features.cells({"dose": [0.49, 2.0, float("inf"), -1.0, None, float("nan")]}).T.tolist() == [
        [0, 3, 4, 0, -1, -1]
    ]


class TestID3:
    def test_it_splits_by_what_tells_most_and_stops_at_one_class(self) -> None:
        X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
        tree = HistogramID3().fit(X, ["a", "a", "b", "c"], [1.0, 1, 5, 1])
        assert tree.tree_.axis == 0
        assert tree.tree_.children[0.0].axis == -1
        assert tree.predict(X).tolist() == ["a", "a", "b", "c"]

    def test_an_unseen_value_gets_the_largest_class_where_it_stops(self) -> None:
        X = np.array([[0, 0], [0, 1], [1, 0]])
        tree = HistogramID3().fit(X, ["a", "b", "b"], [3.0, 2, 4])
        asked = np.array([[0, 7], [9, 0], [1, 7]])
        assert tree.unseen(asked).tolist() == [True, True, False]
        assert tree.predict(asked).tolist() == ["a", "b", "b"]

    def test_weights_are_rows(self) -> None:
        generator = np.random.default_rng(0)
        X, y, times = generator.integers(0, 3, (40, 3)), generator.integers(0, 2, 40), generator.integers(0, 4, 40)
        weighted = HistogramID3().fit(X, y, times.astype(float))
        repeated = HistogramID3().fit(np.repeat(X, times, axis=0), np.repeat(y, times))
        np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X))


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [CubeClassifier(), HistogramID3()], ids=lambda one: type(one).__name__)
def test_scikit_learns_own_checks(estimator: CubeClassifier | HistogramID3) -> None:
    told = check_estimator(estimator, on_fail=None, on_skip=None)
    assert len(told) > 40
    assert [(one["check_name"], one["exception"]) for one in told if one["status"] not in ("passed", "skipped")] == []
    assert [one["check_name"] for one in told if one["status"] == "skipped"] == ["check_array_api_input"]


class TestQuality:
    def test_it_is_what_the_cells_say(self, release: Release) -> None:
        trained = release.train("y")
        tables = CellTables.from_estimate(release.estimate(), 2, trained.features)
        cells = np.indices((20, 2)).reshape(2, -1).T
        counts, chances = tables.counts.reshape(-1, 2), trained.model.probabilities(cells)
        said, right = trained.quality, counts[np.arange(40), chances.argmax(axis=1)].sum() / counts.sum()
        assert said["accuracy"] == pytest.approx(right, abs=2e-3)
        assert said["majority"] == pytest.approx(counts.sum(axis=0).max() / counts.sum(), abs=2e-3)
        above = sum(
            counts[i, 1] * counts[j, 0] * ((chances[i, 1] > chances[j, 1]) + 0.5 * (chances[i, 1] == chances[j, 1]))
            for i in range(40)
            for j in range(40)
        )
        assert said["auc"] == pytest.approx(above / counts.sum(axis=0).prod(), abs=2e-3)

    def test_its_own_word_is_near_the_truth_by_its_error(self, release: Release) -> None:
        chance = expit(np.linspace(-3, 3, 20)[:, None] + np.array([-0.5, 0.5])).reshape(-1)
        said = release.train("y").quality
        truth, stderr = np.maximum(chance, 1 - chance).mean(), said["expected_accuracy_stderr"]
        assert isinstance(stderr, float)
        assert 0 < stderr < 0.05
        assert abs(float(str(said["expected_accuracy"])) - truth) < 4 * stderr

    def test_of_many_classes_no_area_is_known(self, release: Release) -> None:
        said = release.train("x").quality
        assert said["auc"] is None
        assert json.loads(release.train("x").dumps())["quality"]["expected_accuracy_stderr"] is None
