"""A plan says what `release` would say: the same refusals by the same rules; and what epsilon means for one person."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from dpcube import Category, Domain, Integer, plan
from dpcube.core.errors import DomainError, InputError, MemoryLimitError
from dpcube.curator import publish

PEOPLE = Domain(Integer("age", 0, 99, width=5, null="cell"), Category("ward", ["a", "b", "c"]))


def test_a_plan_tells_of_a_release_that_would_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = Domain.of_shape((4, 4))
    assert plan.plan(shape, rows=1000, epsilon=1, strategies="cells").refusals == ()
    monkeypatch.setattr("dpcube.core.feasible.available_bytes", lambda: 100)
    (memory,) = plan.plan(shape, rows=1000, epsilon=1, strategies="cells").refusals
    with pytest.raises(MemoryLimitError) as refused:
        publish(np.ones((4, 4), np.int64), shape, epsilon=1, strategy="cells", ledger=None)
    assert memory == f"A release by cells would be refused on this machine: {refused.value}."


def test_a_plan_of_a_draft_says_what_release_says() -> None:
    drafted = replace(Domain.of_shape((4, 4)), drafted_from_data=True)
    (told,) = plan.plan(drafted, rows=1000, epsilon=1, strategies="cells").refusals
    with pytest.raises(DomainError) as refused:
        publish(np.ones((4, 4), np.int64), drafted, epsilon=1, strategy="cells", ledger=None)
    assert told == f"A release would be refused: {refused.value}."


def test_an_epsilon_that_release_refuses_is_refused_alike() -> None:
    shape = Domain.of_shape((4, 4))
    with pytest.raises(InputError) as planned:
        plan.plan(shape, rows=1000, epsilon="0.00001", max_rows=100, strategies="cells")
    with pytest.raises(InputError) as released:
        publish(pa.table({"u": ["a"]}), shape, epsilon="0.00001", unit="u", max_rows=100, ledger=None)
    assert str(planned.value) == str(released.value)


@pytest.mark.parametrize(("rows", "told"), [(51, 1), (52, 0)])
def test_a_total_that_would_stop_a_release_is_told(rows: int, told: int) -> None:
    shape = Domain.of_shape((4, 4))
    refusals = plan.plan(shape, rows=rows, epsilon=1, strategies="cells").refusals
    assert len(refusals) == told
    assert all("stopped at its total: about 51 rows are not above its error of 51" in words for words in refusals)


@pytest.mark.slow
def test_advice_never_makes_its_own_measure_worse() -> None:
    for rows, epsilon in ((20, "0.01"), (300, "0.1"), (4000, "0.3"), (10**5, "0.01")):
        for queries in ("cells", "ranges", "marginals"):
            advice = plan.plan(PEOPLE, rows=rows, epsilon=epsilon, queries=queries, strategies="cells").advice
            assert advice is None or advice.after.of_answer <= advice.before.of_answer


@pytest.mark.parametrize(("epsilon", "belief"), [("0.1", 0.525), (1, 0.731), (5, 0.9933)])
def test_what_epsilon_means_for_one_person(epsilon: str, belief: float) -> None:
    made = plan.plan(Domain.of_shape((2, 2)), rows=10**4, epsilon=epsilon, strategies="cells")
    assert made.belief == pytest.approx(belief, abs=5e-4)
    assert made.as_dict()["belief"] == made.belief
