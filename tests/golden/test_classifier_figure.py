"""The paper's classification experiment: its fixed lines against `golden.json`, and what must hold of the others."""

import numpy as np
import pytest
from golden_file import GOLDEN

from dpcube.evaluate.reproduce.classifiers import ATTRIBUTES, METHODS, ceiling, classification, data_of, panel, points

ID3 = GOLDEN["adult"]["ID3_no_missing"]


def test_the_lines_that_do_not_depend_on_epsilon() -> None:
    domain, counts, cells, truth = data_of(ATTRIBUTES)
    assert (counts.sum(), len(truth)) == (30_162, 15_060)
    majority = ID3["majority_test"]
    assert ceiling(cells, truth) == pytest.approx(100 * (ID3["test_oracle_upper_bound"] - majority), abs=1e-6)
    always = np.tile([1.0, 0.0], (len(truth), 1))
    assert domain.attributes[-1].labels() == ["<=50K", ">50K"]
    assert points(always, truth) == 0


@pytest.mark.slow
def test_every_method_is_measured_with_its_error() -> None:
    told: list[str] = []
    made = panel("a", ATTRIBUTES, epsilons=("0.5", "2"), draws=2, progress=told.append)
    assert [curve.name for curve in made.curves] == [*METHODS, "ID3", "ceiling"]
    assert len(told) == len(METHODS)
    best, plain = made.value("ceiling", 2), made.value("ID3", 2)
    assert plain == pytest.approx(100 * (ID3["test_acc"] - ID3["majority_test"]), abs=1e-6)
    for curve in made.curves:
        assert (curve.values <= best).all()
        if curve.name in METHODS:
            assert curve.reach is not None
            assert (curve.reach >= 0).all()
    assert made.value("default", 2) > 1.2
    assert made.value("default", 0.5) > made.value("interactive", 0.5)


@pytest.mark.slow
def test_the_figure_says_what_the_paper_claims_and_what_holds() -> None:
    made = classification(epsilons=("2",), draws=2)
    assert [one.name for one in made.panels] == ["a", "b"]
    assert "76.88%" in made.verdicts[0].holds
    assert "a,epsilon,2,ceiling,1.83266932,,\n" in made.csv()
    assert made.panel("b").value("default", 2) > 4  # attributes that tell more
