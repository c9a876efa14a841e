"""Choices as measurements: checked, told in words, into a file and out of it; hostile ones are refused."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcube import Release
from dpcube.core.boxes import Boxes
from dpcube.core.candidates import CANDIDATE_KINDS, MedianCuts
from dpcube.core.errors import DomainError, ReleaseFileError
from dpcube.measurements import Choice, Transcript
from dpcube.measurements.choices import CHOICE_FORMS
from dpcube.release.explain import account
from forge import (
    DOMAIN,
    EIGHTH,
    changed,
    file_of,
    forged,
    make_choices,
    make_release_of,
    members_of,
    parquet,
    table_of,
)

WHOLE = file_of(make_release_of(*make_choices()))
CHOICES = [kept for kept in make_choices() if isinstance(kept, Choice)]
LINE = Boxes(DOMAIN.shape, np.array([[0, 0]]), np.array([[5, 4]]))
CUTS = MedianCuts(LINE, np.array([0]))
ENTRIES = json.loads(members_of(WHOLE)["manifest.json"])["measurements"]


def opened(place: Path, content: bytes) -> Release:
    path = place / f"{len(list(place.iterdir()))}.dpcube"
    path.write_bytes(content)
    return Release.open(path)


def refused(place: Path, content: bytes) -> str:
    with pytest.raises(ReleaseFileError) as caught:
        opened(place, content)
    return str(caught.value)


def test_every_kind_of_candidates_has_its_form() -> None:
    assert set(CHOICE_FORMS) == {kind.score for kind in CANDIDATE_KINDS}
    assert {type(choice.candidates) for choice in CHOICES} == set(CANDIDATE_KINDS)


def test_choices_come_back_as_they_were(tmp_path: Path) -> None:
    release = opened(tmp_path, WHOLE)
    assert release.digest == make_release_of(*make_choices()).digest
    back = [kept for kept in release.transcript.measurements if isinstance(kept, Choice)]
    counts = np.arange(20).reshape(DOMAIN.shape) ** 2 % 17
    assert len(back) == len(CHOICES)
    for one, other in zip(back, CHOICES, strict=True):
        assert (type(one.candidates), one.units) == (type(other.candidates), other.units)
        assert one.chosen.tolist() == other.chosen.tolist()
        assert one.candidates.sizes.tolist() == other.candidates.sizes.tolist()
        assert (one.candidates.sensitivity, one.facts()) == (other.candidates.sensitivity, other.facts())
        assert one.candidates.scores(counts).tolist() == other.candidates.scores(counts).tolist()
        for name, column in one.tables()["choice"].items():
            np.testing.assert_array_equal(column, other.tables()["choice"][name])


def test_a_file_with_choices_is_of_format_two_and_says_their_law() -> None:
    assert json.loads(members_of(WHOLE)["manifest.json"])["format"] == 2
    assert {entry["law"] for entry in ENTRIES if entry["kind"] == "choice"} == {Choice.law}
    assert [entry["score"] for entry in ENTRIES if entry["kind"] == "choice"] == [c.candidates.score for c in CHOICES]


def test_choices_are_told_in_words() -> None:
    told = account(make_release_of(*make_choices()))
    rows = [(row.what, row.counts, row.share) for row in told.measured[:5]]
    assert rows == [
        ("where to cut boxes at their medians", 2, 0.125),
        ("the largest class of sex in boxes", 1, 0.125),
        ("which attribute tells most of sex in boxes, by information", 2, 0.125),
        ("which boxes depart most from predictions", 1, 0.125),
        ("which of 2 tables departs most from its prediction", 1, 0.125),
    ]
    # Noise of one side at epsilon 1/16 over a spread of 2, and of 1: about the spread over epsilon.
    assert told.measured[0].noise == pytest.approx(32, rel=0.01)
    assert told.measured[1].noise == pytest.approx(16, rel=0.01)
    assert told.measured[2].noise == pytest.approx(16 * (np.log2(1001) + 1 / np.log(2)), rel=0.01)  # in bits
    assert "2 choices, each with 12.50% of epsilon, noise of scores 32" in str(told)


def test_choices_alike_are_told_together() -> None:
    """Those of a tree's levels would take a screen, and leave no room for its counts."""
    few = Choice(MedianCuts(LINE, np.array([1])), np.array([2]), 10_000)
    rows = account(make_release_of(*(few,) * 9, *make_choices()[:1], make_choices()[-1])).measured
    assert [(row.what, row.counts) for row in rows[:2]] == [
        ("where to cut boxes at their medians", 9),
        ("where to cut boxes at their medians", 2),
    ]
    assert [row.what for row in rows[2:]] == ["boxes after 1 cut"]


def test_choices_do_not_keep_a_release_from_answering() -> None:
    release = make_release_of(*make_choices()[:-1])
    assert release.estimates[0] == "balanced"
    assert np.isfinite(release.count().value)


@pytest.mark.parametrize("chosen", [[4], [-1], [0, 0], [], [[0]], 0])
def test_what_was_chosen_is_one_of_the_candidates(chosen: Any) -> None:
    with pytest.raises(DomainError, match="must name one of the candidates of each of its 1 questions"):
        Choice(CUTS, np.array(chosen, np.int64), EIGHTH)


def test_a_choice_is_of_known_candidates_with_units_in_whole_numbers() -> None:
    for units in (0, -1, 2**41, 1.0, True, np.int64(5), None):
        with pytest.raises(DomainError, match="a choice must be measured with"):
            Choice(CUTS, np.array([1]), units)  # type: ignore[arg-type]
    with pytest.raises(DomainError, match="64-bit integers"):
        Choice(CUTS, np.array([1.0]), EIGHTH)
    with pytest.raises(DomainError, match="candidates of a known kind"):
        Choice("anything", np.array([1]), EIGHTH)  # type: ignore[arg-type]
    with pytest.raises(DomainError, match="do not fit a cube"):
        Transcript((4, 5), Fraction(1, 2**41), (Choice(CUTS, np.array([1]), EIGHTH),))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "key"),
    [(number, key) for number, entry in enumerate(ENTRIES[:5]) for key in entry if key != "most_rows"],
    ids=str,
)
def test_every_fact_of_a_choice_is_needed_and_checked(tmp_path: Path, number: int, key: str) -> None:
    refused(tmp_path, forged(WHOLE, lambda manifest: manifest["measurements"][number].pop(key)))
    wrong: list[object] = [None, {}, "x", -1, 7, 1.5, True, 10**30, [[7]], [True], [[True]], ["x"], [7], [0, 0]]
    wrong += [[[0], [1, 0]], [[0], [0, 0]], [[0]], [[]], [10**30, 1], [1], [1, 2**63], "x" * 5000]
    for value in wrong:
        if (key, value) == ("allowances", [0, 0]):
            continue  # which may be
        content = forged(WHOLE, lambda m, value=value: m["measurements"][number].update({key: value}))  # type: ignore[misc]
        refused(tmp_path, content)


def test_scores_of_the_future_say_so(tmp_path: Path) -> None:
    line = refused(tmp_path, forged(WHOLE, lambda manifest: manifest["measurements"][0].update(score="beauty")))
    assert "by the score 'beauty', which this dpcube does not know; install a newer dpcube" in line
    line = refused(tmp_path, forged(WHOLE, lambda manifest: manifest["measurements"][2].update(criterion="ratio")))
    assert "by a criterion that this dpcube does not know; install a newer dpcube" in line


@pytest.mark.slow
@pytest.mark.parametrize("stem", [f"{number}-choice" for number in range(1, 6)])
def test_tables_of_choices_are_checked_as_all_are(tmp_path: Path, stem: str) -> None:
    table = table_of(WHOLE, stem)
    name = table.schema.names[0]
    others = [
        table[:0],
        table.rename_columns(["x", *table.schema.names[1:]]),
        table.append_column("x", table[name]),
        {column: table[column].to_numpy().astype(np.float64) for column in table.schema.names},
        {column: np.zeros(3_000_000, np.int64) for column in table.schema.names},
    ]
    for other in others:
        refused(tmp_path, forged(WHOLE, **{stem: parquet(other)}))
    for column in table.schema.names:
        for value in (-(2**63), 2**63 - 1):
            if (stem, column) != ("3-choice", "chosen"):
                refused(tmp_path, forged(WHOLE, **{stem: changed(table, column, 0, value)}))
    refused(tmp_path, forged(WHOLE, **{stem: None}))


SPOILT = {
    "a cut that is not there": (1, "chosen", 0, 3),
    "an axis that is not there": (1, "axis", 0, 2),
    "boxes that meet": (1, "lower_0", 1, 1),
    "a class that is not there": (2, "chosen", 0, 4),
    "a split that is not there": (3, "chosen", 1, 1),
    "one candidate with two weights": (4, "weight", 1, 3),
    "one candidate with two allowances": (4, "allowance", 0, 3),
    "boxes of a candidate that meet": (4, "lower_0", 1, 1),
    "a candidate without a box": (4, "candidate", 2, 2),
    "a prediction that is too large": (5, "predicted", 7, 2**62),
}


@pytest.mark.parametrize("name", SPOILT)
def test_choices_that_cannot_be_are_refused(tmp_path: Path, name: str) -> None:
    number, column, row, value = SPOILT[name]
    stem = f"{number}-choice"
    refused(tmp_path, forged(WHOLE, **{stem: changed(table_of(WHOLE, stem), column, row, value)}))
