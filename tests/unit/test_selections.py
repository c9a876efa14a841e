"""Selections as measurements: checked, told in words, into a file and out of it; hostile ones are refused."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcube import Release
from dpcube.core.boxes import Boxes
from dpcube.core.candidates import MedianCuts
from dpcube.core.errors import DomainError, ReleaseFileError
from dpcube.measurements import Selection, Transcript
from dpcube.release.explain import account
from forge import (
    DOMAIN,
    EIGHTH,
    array_of,
    arrays_of,
    changed,
    file_of,
    forged,
    make_release_of,
    make_selections,
    members_of,
    selection,
)

WHOLE = file_of(make_release_of(*make_selections()))
SELECTIONS = [kept for kept in make_selections() if isinstance(kept, Selection)]
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


def cut(chosen: Any, *, units: Any = EIGHTH, axis: Any = 0) -> Selection:
    """A selection of the cut of the whole cube across its first axis."""
    return Selection.among(CUTS, chosen, [[axis]], units)


def test_selections_come_back_as_they_were(tmp_path: Path) -> None:
    release = opened(tmp_path, WHOLE)
    assert release.digest == make_release_of(*make_selections()).digest
    back = release.transcript.selections
    assert len(back) == len(SELECTIONS)
    for one, other in zip(back, SELECTIONS, strict=True):
        assert (one.score, one.units, one.sensitivity) == (other.score, other.units, other.sensitivity)
        for name in ("candidates", "chosen", "axes"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        assert (one.boxes is None) == (other.boxes is None)
        if one.boxes is not None and other.boxes is not None:
            np.testing.assert_array_equal(one.boxes.lower, other.boxes.lower)
            np.testing.assert_array_equal(one.boxes.upper, other.boxes.upper)


def test_a_selection_keeps_what_was_asked_among_and_what_was_selected() -> None:
    kept = cut(np.array([1]))
    assert (kept.candidates.tolist(), kept.chosen.tolist(), kept.axes.tolist()) == ([4], [1], [[0]])
    assert (kept.score, kept.sensitivity, kept.boxes) == (CUTS.score, CUTS.sensitivity, LINE)


def test_a_file_says_the_law_of_selections() -> None:
    manifest = json.loads(members_of(WHOLE)["manifest.json"])
    assert manifest["noise"]["laws"]["selection"] == Selection.law
    assert [entry["score"] for entry in ENTRIES if entry["kind"] == "selection"] == [one.score for one in SELECTIONS]


def test_selections_are_told_in_words() -> None:
    told = account(make_release_of(*make_selections()))
    rows = [(row.what, row.counts, row.share) for row in told.measured[:3]]
    assert rows == [
        ("selection among up to 3 candidates, by distance of a rank from the middle", 3, 0.125),
        ("selection among up to 1 candidate, by what a split tells of the class", 2, 0.125),
        ("selection among up to 2 candidates, by distance of a table from a prediction", 1, 0.25),
    ]
    # Noise of one side at epsilon 1/16 over a sensitivity of 2: about the sensitivity over epsilon.
    assert told.measured[0].noise == pytest.approx(32, rel=0.01)
    assert told.measured[1].noise == pytest.approx(16 * SELECTIONS[2].sensitivity, rel=0.01)
    assert "3 selections, each with 12.50% of epsilon, noise of scores 32" in " ".join(str(told).split())


def test_selections_alike_are_told_together() -> None:
    """Those of a tree's levels would take a screen, and leave no room for its counts."""
    few = cut(np.array([2]), units=10_000)
    rows = account(make_release_of(*(few,) * 9, *make_selections()[:1], make_selections()[-1])).measured
    assert [(row.what.split(",")[0], row.counts) for row in rows[:2]] == [
        ("selection among up to 4 candidates", 9),
        ("selection among up to 3 candidates", 2),
    ]
    assert [row.what for row in rows[2:]] == ["boxes after 1 cut"]


def test_selections_do_not_keep_a_release_from_answering() -> None:
    release = make_release_of(*make_selections()[:-1])
    assert release.estimates[0] == "balanced"
    assert np.isfinite(release.count().value)


@pytest.mark.parametrize("chosen", [[4], [-1]])
def test_what_was_selected_is_one_of_the_candidates(chosen: Any) -> None:
    with pytest.raises(DomainError, match="must name one of the candidates of each of its 1 questions"):
        cut(np.array(chosen, np.int64))


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no questions": ({"candidates": [], "chosen": [], "axes": np.empty((0, 1), np.int64)}, "one question or more"),
    "no candidates": ({"candidates": [0]}, "one candidate or more"),
    "more answers than questions": ({"chosen": [0, 0]}, "each of its 1 questions"),
    "an answer in a list": ({"chosen": [[0]]}, "each of its 1 questions"),
    "axes of no question": ({"axes": [[0], [1]]}, "axes of the candidate selected"),
    "axes that descend": ({"axes": [[1, 0]]}, "ascending"),
    "an axis twice": ({"axes": [[1, 1]]}, "ascending"),
    "floats": ({"chosen": [1.0]}, "64-bit integers"),
    "a score of no name": ({"score": ""}, "printable text"),
    "a score that steers the terminal": ({"score": "\x1b[2J"}, "printable text"),
    "a sensitivity of nothing": ({"sensitivity": 0}, "whole number from 1"),
    "a sensitivity of NumPy": ({"sensitivity": np.int64(2)}, "whole number from 1"),
    "a sensitivity beyond all bounds": ({"sensitivity": 2**63}, "whole number from 1"),
    "two questions about the whole cube": (
        {"candidates": [3, 3], "chosen": [0, 0], "axes": [[0], [1]]},
        "needs as many",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_selection_that_cannot_be_is_refused(name: str) -> None:
    given, reason = WRONG[name]
    told: dict[str, Any] = {"score": "s", "candidates": [3], "chosen": [2], "axes": [[0]], "sensitivity": 2} | given
    for key in ("candidates", "chosen", "axes"):
        array = np.asarray(told[key])
        told[key] = array if array.size else array.astype(np.int64)
    with pytest.raises(DomainError, match=reason):
        Selection(**told, units=EIGHTH)


def test_a_selection_fits_its_cube_and_costs_units_in_whole_numbers() -> None:
    for units in (0, -1, 2**41, 1.0, True, np.int64(5), None):
        with pytest.raises(DomainError, match="a selection must be measured with"):
            cut(np.array([1]), units=units)
    for shape, kept in (((4, 5), cut(np.array([1]))), ((5, 4), cut(np.array([1]), axis=2)), ((5,), selection())):
        with pytest.raises(DomainError, match="does not fit a cube"):
            Transcript(shape, Fraction(1, 2**41), (kept,))


def test_noise_of_scores_is_drawn_within_the_bounds_of_all_noise() -> None:
    """What the units buy is divided by the sensitivity."""
    asked = np.array([3]), np.array([2]), np.array([[0, 1]])
    for sensitivity, fits in ((1000, True), (2000, False)):
        kept = Selection("s", *asked, 2**40, sensitivity)
        if fits:
            assert Transcript((5, 4), Fraction(1, 10**6 * 2**40), (kept,))
            continue
        with pytest.raises(DomainError, match="epsilon outside 1e-9 to 100"):
            Transcript((5, 4), Fraction(1, 10**6 * 2**40), (kept,))


@pytest.mark.slow
@pytest.mark.parametrize(("number", "key"), [(n, key) for n, entry in enumerate(ENTRIES[:4]) for key in entry], ids=str)
def test_every_fact_of_a_selection_is_needed_and_checked(tmp_path: Path, number: int, key: str) -> None:
    refused(tmp_path, forged(WHOLE, lambda manifest: manifest["measurements"][number].pop(key)))
    wrong: list[object] = [None, {}, -1, 0, 1.5, 10**30, [[7]], [True], ["x"], [7], "\x1b[2J", "x" * 5000]
    wrong += [not ENTRIES[number]["boxes"]] if key == "boxes" else [True]
    for value in wrong:
        content = forged(WHOLE, lambda m, value=value: m["measurements"][number].update({key: value}))  # type: ignore[misc]
        refused(tmp_path, content)


@pytest.mark.slow
@pytest.mark.parametrize("stem", [stem for stem in arrays_of(WHOLE) if int(stem[0]) < 5])
def test_arrays_of_selections_are_checked_as_all_are(tmp_path: Path, stem: str) -> None:
    array = array_of(WHOLE, stem)
    for other in (array[:0], array[None], array.astype(np.float64), np.zeros((3_000_000, 3), np.int64)):
        refused(tmp_path, forged(WHOLE, **{stem: other}))
    for place in range(array.size):
        refused(tmp_path, forged(WHOLE, **{stem: changed(array, place, -(2**63))}))
        if not stem.endswith("questions") or place % array.shape[1]:  # of candidates there may be any number
            refused(tmp_path, forged(WHOLE, **{stem: changed(array, place, 2**63 - 1)}))
    refused(tmp_path, forged(WHOLE, **{stem: None}))


SPOILT = {
    "a cut that is not there": ("1.questions", 1, 3),
    "an axis that is not there": ("1.questions", 2, 2),
    "boxes that meet": ("1.lower", 1, 1),
    "boxes outside the cube": ("1.upper", 1, 6),
    "a split that is not there": ("3.questions", 4, 1),
    "no candidates": ("4.questions", 0, 0),
    "axes that descend": ("4.questions", 2, 1),
}


@pytest.mark.parametrize("name", SPOILT)
def test_selections_that_cannot_be_are_refused(tmp_path: Path, name: str) -> None:
    stem, place, value = SPOILT[name]
    refused(tmp_path, forged(WHOLE, **{stem: changed(array_of(WHOLE, stem), place, value)}))
