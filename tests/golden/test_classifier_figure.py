"""The paper's classification experiment: its fixed lines against `golden.json`, and what must hold of the others."""

from pathlib import Path

import numpy as np
import pytest
from golden_file import GOLDEN

from dpcube.core.errors import InputError
from dpcube.research.reproduce import Figure, recorded_figures
from dpcube.research.reproduce.classifiers import (
    ATTRIBUTES,
    CLASSIFIER_EPSILONS,
    FIXED_LINES,
    MAJORITY,
    METHODS,
    ceiling,
    classification,
    data_of,
    fixed_lines,
    points,
    recorded_classification,
)
from dpcube.research.reproduce.draw import reproduction_page

RECORDED = Path(__file__).parents[2] / "docs" / "research" / "reproduction"
ID3 = GOLDEN["adult"]["ID3_no_missing"]


def test_the_lines_that_do_not_depend_on_epsilon() -> None:
    domain, counts, cells, truth = data_of(ATTRIBUTES)
    assert (counts.sum(), len(truth)) == (30_162, 15_060)
    majority = ID3["majority_test"]
    assert ceiling(cells, truth) == pytest.approx(100 * (ID3["test_oracle_upper_bound"] - majority), abs=1e-6)
    always = np.tile([1.0, 0.0], (len(truth), 1))
    assert domain.attributes[-1].labels() == ["<=50K", ">50K"]
    assert points(always, truth) == 0

    assert pytest.approx(100 * majority, abs=5e-5) == MAJORITY
    lines = fixed_lines((domain, counts, cells, truth))
    assert lines["id3"] == pytest.approx(100 * (ID3["test_acc"] - majority), abs=1e-6)
    wrong = ID3["test_acc_unclassified_counts_wrong"]
    assert lines["id3_unseen_wrong"] == pytest.approx(100 * (wrong - majority), abs=1e-6)
    assert lines.keys() == FIXED_LINES.keys()


def recorded() -> Figure:
    return {figure.name: figure for figure in recorded_figures(RECORDED)}["classification"]


def test_every_method_is_recorded_at_every_epsilon_with_its_error() -> None:
    for panel in recorded().panels:
        assert [curve.name for curve in panel.curves] == [*METHODS, *FIXED_LINES]
        assert [f"{x:g}" for x in panel.at] == list(CLASSIFIER_EPSILONS)
        for curve in panel.curves:
            assert curve.reach is not None
            assert (curve.values <= panel["ceiling"]).all()
            assert bool((curve.reach < 1e-12).all()) == (curve.name in FIXED_LINES)  # but for rounding
            assert curve.draws >= 10


def test_what_is_recorded_of_the_lines_that_do_not_depend_on_epsilon() -> None:
    first = recorded().panel("a")
    for name, value in fixed_lines(data_of(ATTRIBUTES)).items():
        assert first[name] == pytest.approx(value, abs=1e-6)
    said = recorded().verdicts[0]
    assert "76.88%" in said.holds
    assert "76.97%" in said.holds
    assert "75.43%" in said.fails
    assert "77.26%" in said.fails


def test_numbers_of_other_curves_are_refused() -> None:
    text = (RECORDED / "classification.csv").read_text(encoding="utf-8")
    with pytest.raises(InputError, match="are not of this figure's curves"):
        recorded_classification(text.replace(",sulq,", ",other,"))


@pytest.mark.slow
def test_the_figure_is_read_back_from_its_numbers_and_recurs() -> None:
    told: list[str] = []
    made = classification(epsilons=("2",), draws=2, progress=told.append)
    assert len(told) == 2 * len(METHODS)
    read = recorded_classification(made.csv())
    assert read.csv() == made.csv()
    assert reproduction_page([read]) == reproduction_page([made])
    first, second = made.panels
    assert "a,epsilon,2,ceiling,1.83266932,0,2\n" in made.csv()
    assert first.value("default", 2) > 1.2
    assert second.value("default", 2) > 4  # attributes that tell more
