"""Coverage question by question: what is asked, how it is tallied, and that errors which lie are found out."""

import math
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcube.core.domain import Domain, Integer
from dpcube.core.errors import InputError
from dpcube.queries import CountingQueries
from dpcube.release.answer import Answers
from dpcube.research import by_question
from dpcube.research.by_question import RightIntervals, Tally, cover_questions, summed_up, tally_releases
from dpcube.research.natural_questions import (
    ALL_ROWS,
    OF_THE_BUNDLED,
    Questions,
    bundled_questions,
    natural_questions,
)
from dpcube.research.processes import in_processes
from dpcube.research.tables import (
    CELL_RANGE,
    LAWS,
    PublicTable,
    coded_questions,
    coded_tables,
    demo_table,
    drawn_table,
    drawn_tables,
)


@pytest.fixture
def table() -> PublicTable:
    counts = np.array([[[5, 0], [7, 30]], [[11, 0], [13, 2]], [[17, 0], [19, 1]]])
    domain = Domain(Integer("a", 0, 2), Integer("b", 0, 1), Integer("c", 0, 3, width=2))
    return PublicTable("generated", "small", domain, counts)


def by_words(questions: Questions) -> dict[str, float]:
    return dict(zip(questions.words, questions.truths.tolist(), strict=True))


def dense(queries: CountingQueries, place: int) -> NDArray[np.float64]:
    chosen = (weights[row] for weights, row in zip(queries.weights, queries.chosen[place], strict=True))
    return np.asarray(np.multiply.outer(np.multiply.outer(next(chosen), next(chosen)), next(chosen)))


def test_natural_questions_are_the_total_the_bars_the_pairs_and_what_is_added(table: PublicTable) -> None:
    asked = natural_questions(table, ["a >= 1 and c < 2"])
    assert len(asked) == 1 + (3 + 2 + 2) + (6 + 6 + 4) + 1
    truths = by_words(asked)
    assert truths[ALL_ROWS] == table.exact_counts.sum()
    assert truths["a = 1"] == 26
    assert truths["a = 2, c = 0-1"] == 36
    assert truths["b = 0, c = 2-3"] == 0
    assert truths["a >= 1 and c < 2"] == 60
    for place, truth in enumerate(asked.truths):  # each query counts what its words say
        assert (table.exact_counts * dense(asked.queries, place)).sum() == truth
    assert not asked.cut.any()


def test_questions_that_cut_bins_are_told_apart(table: PublicTable) -> None:
    asked = natural_questions(table, ["c < 1"], [40.0])
    assert asked.cut.tolist() == [False] * 24 + [True]
    assert asked.truths[-1] == 40


def test_the_bundled_questions_have_the_truth_of_the_rows() -> None:
    asked = bundled_questions(demo_table())
    truths = by_words(asked)
    assert truths["age < 20"] == truths["age = 15-19"] == 2510
    assert truths["age >= 60 and hours-per-week < 20 and income = '<=50K'"] == 621
    assert truths["hours-per-week = 40"] == 22_803  # cut: the cube alone cannot tell
    assert asked.cut.sum() == 3
    assert asked.words[-len(OF_THE_BUNDLED) :] == OF_THE_BUNDLED


def answers(values: list[float], stderrs: list[float]) -> Answers:
    return Answers(np.array(values), np.array(stderrs), np.zeros(len(values)))


def test_a_tally_by_hand(table: PublicTable) -> None:
    truths = np.array([100.0, 50.0, 0.0, 10.0])
    right, far = answers([101, 50, 0, 10], [10, 10, 10, math.nan]), answers([103, 200, 0, 10], [10, 10, 10, math.nan])
    tally = Tally.of_release(right, truths) + Tally.of_release(far, truths)
    assert tally.sums[:3].tolist() == [[2, 2, 2, 2], [2, 2, 2, 0], [2, 1, 2, 0]]
    np.testing.assert_allclose(tally.biases, [2, 75, 0, 0])
    np.testing.assert_allclose(tally.deviations, [math.sqrt(2), 150 / math.sqrt(2), 0, 0])
    np.testing.assert_allclose(tally.stated_errors, [10, 10, 10, 0])
    questions = Questions(tuple("wxyz"), natural_questions(table).queries, truths, np.zeros(4, np.bool_))
    found = summed_up("t", "1", "s", questions, tally)
    assert (found.questions, found.overall, found.worst.words, found.worst.held) == (3, 3 / 4, "x", 0.5)
    assert (found.empty.questions, found.empty.overall, found.cut.questions) == (1, 1.0, 0)
    assert found.unknown == 1 / 4
    assert found.under == 1 / 2
    assert found.worst_tenth == 0.5
    assert found.most_biased.words == "x"
    assert found.most_biased.bias_in_stated == pytest.approx(7.5)
    assert math.isnan(found.every[3].held)
    assert not found.met


def test_questions_that_do_not_count_are_not_asked() -> None:
    tally = Tally.of_release(answers([1, 2], [1, 1]), np.array([0.0, 2.0]), counted=np.array([False, True]))
    assert tally.asked.tolist() == [False, True]
    assert tally.shares(tally.asked).tolist() == [1]


def test_what_chance_alone_makes_of_right_intervals() -> None:
    one, many = RightIntervals.over(1), RightIntervals.over(100_000)
    assert one.under == pytest.approx(0.05)
    assert one.worst_tenth == pytest.approx(0.5, abs=0.01)  # a twentieth misses, which is half of the worst tenth
    assert many.under < 1e-6
    assert many.worst_tenth == pytest.approx(0.95, abs=0.005)


def covered(table: PublicTable, *, releases: int) -> by_question.QuestionCoverage:
    asked = [(table, natural_questions(table))]
    return next(cover_questions(asked, strategies=["cells"], epsilons=["1"], releases=releases))


@pytest.mark.slow
def test_intervals_of_noise_alone_hold_for_every_question(table: PublicTable) -> None:
    found = covered(table, releases=100)
    assert found.overall > 0.93
    assert found.worst.held >= by_question.WANTED_OF_WORST
    assert found.under < 0.2
    assert found.biased == 0


@pytest.mark.slow
def test_halved_errors_are_found_out(table: PublicTable, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Answers.half_width
    monkeypatch.setattr(Answers, "half_width", lambda these, confidence: honest(these, confidence) / 2)
    found = covered(table, releases=100)
    assert found.overall < 0.9
    assert found.under > 0.8
    assert not found.met


def test_one_question_that_fails_is_found_among_many_that_hold(
    table: PublicTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sabotage that an average hides: one of 24 answers is moved by three of its standard errors."""
    honest = Tally.of_release

    def moved(these: Answers, truths: NDArray[np.float64], *, counted: bool = True) -> Tally:
        values = these.values.copy()
        values[5] += 3 * these.stderrs[5]
        return honest(Answers(values, these.stderrs, these.nonuniformities, these.noises), truths, counted=counted)

    monkeypatch.setattr(Tally, "of_release", moved)
    found = covered(table, releases=100)
    assert found.overall > 0.9
    assert found.worst.words == natural_questions(table).words[5] == found.most_biased.words
    assert found.worst.held < 0.5
    assert found.most_biased.bias_in_stated == pytest.approx(3, abs=0.5)
    assert found.biased == pytest.approx(1 / found.questions)
    assert not found.met


def test_noise_is_the_same_however_releases_are_split(table: PublicTable) -> None:
    asked = natural_questions(table)
    whole = tally_releases(table, asked, "1", "cells", range(4))
    parts = [tally_releases(table, asked, "1", "cells", part) for part in (range(1), range(1, 4))]
    np.testing.assert_allclose(whole.sums, (parts[0] + parts[1]).sums)
    other = tally_releases(table, asked, "1", "cells", range(4, 8))
    assert (whole.sums[3] != other.sums[3]).all()


def test_drawn_tables_follow_from_their_seed() -> None:
    tables = list(drawn_tables(12, seed=8))
    assert all(CELL_RANGE[0] <= one.domain.size <= CELL_RANGE[1] for one in tables)
    assert len({len(one.domain.shape) for one in tables}) > 2
    again = drawn_table(8, 5)
    np.testing.assert_array_equal(tables[5].exact_counts, again.exact_counts)
    assert tables[5].name == again.name
    assert drawn_table(9, 5).name != again.name


@pytest.mark.parametrize("law", LAWS)
def test_every_law_is_one(law: str) -> None:
    weights = LAWS[law]((3, 4, 5), np.random.default_rng(2))
    assert weights.shape == (3, 4, 5)
    assert (weights >= 0).all()
    assert np.isfinite(weights).all()
    assert weights.sum() > 0


def test_tables_of_codes_are_read_with_their_questions(tmp_path: Path) -> None:
    codes = np.array([[0, 1], [0, 1], [2, 0]])
    np.savez(tmp_path / "t.npz", codes=codes, shape=[3, 2], ordered=[True, False], names=["x", "y"])
    np.savez(tmp_path / "queries_t.npz", lower=[[0, 0]], upper=[[1, 2]])
    (read,) = coded_tables(tmp_path)
    assert (read.name, read.domain.names) == ("t", ("x", "y"))
    assert [a.ordered for a in read.domain.attributes] == [True, False]
    assert read.exact_counts.tolist() == [[0, 2], [0, 0], [1, 0]]
    asked = coded_questions(tmp_path, read)
    assert asked is not None
    assert asked.sizes.tolist() == [2]


def test_a_file_that_is_no_table_of_codes_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "bad.npz", codes=[[5, 0]], shape=[3, 2], ordered=[True, False], names=["x", "y"])
    with pytest.raises(InputError, match=r"bad.npz is no table of codes"):
        list(coded_tables(tmp_path))


@pytest.mark.slow
def test_results_come_in_the_order_of_their_tasks() -> None:
    tasks = [(3, number) for number in range(9)]
    assert [list(in_processes(pow, tasks, jobs=jobs)) for jobs in (1, 2)] == [[3**number for number in range(9)]] * 2
