"""Releases of disjoint periods put together: as one they add up, by period they stand side by side."""

from datetime import date
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import dpcube
from dpcube import Category, Domain, Integer, Release, evaluate
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.errors import InputError
from dpcube.core.noise import Noise
from dpcube.measurements import Marginal, Provenance, Transcript
from dpcube.measurements.manifest import spent
from dpcube.release.periods import merged
from dpcube.testing import SeededNoise, SilentNoise

DOMAIN = Domain(Integer("age", 20, 51), Category("sex", ["F", "M", "X"]))
MONTHS = (
    "seen from 2026-01-01 to 2026-01-31",
    "seen from 2026-02-01 to 2026-02-28",
    "seen from 2026-03-01 to 2026-03-31",
)


def counts(number: int) -> np.ndarray:
    made: np.ndarray = np.random.default_rng(number).poisson(40 * (number + 1), DOMAIN.shape)
    return made


def release(
    number: int,
    *,
    strategy: str = "adaptive",
    period: str | None = None,
    noise: Noise | None = None,
    epsilon: Fraction = Fraction(1),
    unit: str | None = None,
    domain: Domain = DOMAIN,
    reading: str | None = "plain",
) -> Release:
    """A release of one month; "" is no period."""
    made = evaluate.experiment(counts(number), epsilon=epsilon, strategy=strategy, noise=noise or SeededNoise(number))
    provenance = Provenance(
        strategy,
        epsilon,
        "dpcube test",
        made.provenance.parameters,
        unit=unit,
        period=MONTHS[number] if period is None else period or None,
        private=False,
        reading=reading,
    )
    return Release(domain, made.transcript, provenance)


@pytest.mark.parametrize("strategy", ["adaptive", "dpcube", "cells"])
@pytest.mark.parametrize("number", [2, 3])
def test_without_noise_the_whole_is_the_sum_of_its_parts(strategy: str, number: int) -> None:
    parts = [release(k, strategy=strategy, noise=SilentNoise()) for k in range(number)]
    whole = merged(parts)
    assert whole.domain.names == ("period", "age", "sex")
    assert whole.domain.attributes[0].labels()[0] == "2026-01-01 to 2026-01-31"
    question = "age between 30 and 39 and sex = 'F'"
    exact = [counts(k)[10:20, 0].sum() for k in range(number)]
    if strategy == "cells":
        assert whole.count(question).value == pytest.approx(sum(exact))
    assert whole.count(question).value == pytest.approx(sum(exact), rel=0.1)
    by_period = whole.sql("SELECT period, count(*) AS n FROM cube GROUP BY period ORDER BY period").to_pylist()
    assert [row["n"] for row in by_period] == pytest.approx([counts(k).sum() for k in range(number)], rel=0.02)


def test_cells_side_by_side_have_the_values_and_errors_of_the_parts() -> None:
    """Noise is independent: variances add up."""
    parts = [release(k, strategy="cells") for k in range(3)]
    whole, question = merged(parts), "age < 30 and sex in ('F', 'X')"
    answers = [one.count(question) for one in parts]
    found = whole.count(question)
    assert found.value == pytest.approx(sum(answer.value for answer in answers))
    assert found.stderr == pytest.approx(np.sqrt(sum(answer.stderr**2 for answer in answers)))
    for number, answer in enumerate(answers):
        alone = whole.count(question, period=whole.domain.attributes[0].labels()[number])
        assert (alone.value, alone.stderr, alone.low, alone.high) == pytest.approx(
            (answer.value, answer.stderr, answer.low, answer.high)
        )


def test_an_adaptive_whole_keeps_its_kind_and_states_errors_that_add_up() -> None:
    parts = [release(k) for k in range(3)]
    whole = merged(parts)
    assert whole.default_estimate == parts[0].default_estimate == "balanced"
    assert whole.transcript.boxes is not None
    assert whole.transcript.boxes.tree.is_halved  # so that boxes are as even as the parts say
    for question in (None, "age < 40", "sex = 'M' and age between 25 and 35"):
        found, answers = whole.count(question), [one.count(question) for one in parts]
        together = float(np.sqrt(sum(answer.stderr**2 + answer.nonuniformity**2 for answer in answers)))
        assert abs(found.value - sum(answer.value for answer in answers)) < 3 * together
        assert 0.5 * together < np.hypot(found.stderr, found.nonuniformity) < 2 * together


@pytest.mark.slow
def test_any_number_of_periods_is_a_tree_of_halves() -> None:
    for number in (2, 3, 5, 8):
        months = [f"seen from 2026-{month:02}-01 to 2026-{month:02}-28" for month in range(1, number + 1)]
        whole = merged([release(k % 3, period=month) for k, month in enumerate(months)])
        assert whole.transcript.boxes is not None
        assert whole.transcript.boxes.tree.is_halved
        assert whole.domain.shape[0] == number


def test_the_order_given_does_not_matter() -> None:
    parts = [release(k, strategy="cells") for k in range(3)]
    assert merged(parts).digest == merged([parts[2], parts[0], parts[1]]).digest


def test_it_is_saved_opened_viewed_and_drawn(tmp_path: Path) -> None:
    paths = [tmp_path / f"{k}.dpcube" for k in range(3)]
    for number, path in enumerate(paths):
        release(number).save(path)
    whole = dpcube.open(paths)
    digest = whole.save(tmp_path / "all.dpcube")
    again = dpcube.open(str(tmp_path / "all.dpcube"))
    assert again.digest == digest == dpcube.open(list(map(str, paths))).digest
    assert again.provenance.period == "seen from 2026-01-01 to 2026-03-31"
    assert again.count("age < 30") == whole.count("age < 30")
    assert len(again.group_by("period").table(errors=True)) == 3
    assert len(again.pivot("age", "period").column_names) == 1 + 2 * 3
    assert again.plot("period").data
    assert again.plot("period", "age").data
    assert "period" in again.explain()


def test_the_epsilon_of_one_row_stays_and_that_of_a_unit_adds_up() -> None:
    rows = merged([release(k, strategy="cells") for k in range(2)])
    assert rows.provenance.epsilon == 1
    for readings in (("plain", "another"), ("plain", None), (None, None)):
        assert merged([release(k, reading=readings[k]) for k in range(2)]).provenance.epsilon == 2
    units = merged([release(k, strategy="cells", unit="patient") for k in range(2)])
    assert units.provenance.epsilon == 2
    assert spent(units.transcript, units.provenance) == {"cells": "2"}


def test_tables_over_some_attributes_stand_side_by_side() -> None:
    """A release may have measured its total by itself."""

    def of_total(total: int, month: str) -> Release:
        cells = Marginal.from_cells(np.full(DOMAIN.shape, total), BUDGET_UNITS // 2)
        measured = (Marginal((), np.array(total), BUDGET_UNITS // 4), cells)
        transcript = Transcript(DOMAIN.shape, Fraction(1, BUDGET_UNITS), measured)
        return Release(DOMAIN, transcript, Provenance("x", Fraction(1), "test", period=month, private=False))

    whole = merged([of_total(7, MONTHS[0]), of_total(9, MONTHS[1])])
    total = whole.transcript.measurements[0]
    assert isinstance(total, Marginal)
    assert (total.axes, total.counts.tolist(), total.units) == ((0,), [7, 9], BUDGET_UNITS // 4)


def test_what_cannot_be_added_up_is_refused_with_the_reason() -> None:
    january = release(0, strategy="cells")

    def refused(other: Release, *more: Release) -> str:
        with pytest.raises(InputError) as caught:
            merged([january, other, *more], ["january", "other", "third"][: 2 + len(more)])
        return str(caught.value)

    overlapping = release(1, strategy="cells", period="seen from 2026-01-31 to 2026-02-28")
    assert "january covers 2026-01-01 to 2026-01-31 and other 2026-01-31 to 2026-02-28 of 'seen'" in refused(
        overlapping
    )
    inside = release(1, strategy="cells", period="seen from 2025-01-01 to 2026-12-31")
    assert "count twice" in refused(inside)
    assert "count twice" in refused(january)
    assert "other covers all rows" in refused(release(1, strategy="cells", period=""))
    assert "one of 'born'" in refused(release(1, strategy="cells", period="born from 2026-02-01 to 2026-02-28"))
    assert "a period of 'seen'" in refused(release(1, strategy="cells", period="seen from 3 to 4"))
    assert "different strategies and epsilons of cells and kinds of counts" in refused(release(1))
    assert "different epsilons of cells" in refused(release(1, strategy="cells", epsilon=Fraction(2)))
    assert "different units" in refused(release(1, strategy="cells", unit="patient"))
    other = Domain(Integer("age", 21, 52), *DOMAIN.attributes[1:])
    assert "different domains" in refused(release(1, strategy="cells", domain=other))
    with pytest.raises(InputError, match="2 to 1,000 releases can be put together, got 1"):
        merged([january])


@pytest.mark.parametrize("epsilons", [(Fraction(1), Fraction(1, 3)), (Fraction(1, 3), Fraction(2), Fraction(1))])
def test_releases_of_different_epsilons_add_up_with_their_own_errors(
    epsilons: tuple[Fraction, ...], tmp_path: Path
) -> None:
    parts = [release(k, epsilon=epsilon) for k, epsilon in enumerate(epsilons)]
    whole = merged(parts)
    assert whole.provenance.epsilon == max(epsilons)
    whole.save(tmp_path / "all.dpcube")
    assert Release.open(tmp_path / "all.dpcube").transcript.most_charged() <= BUDGET_UNITS
    measured, mine = whole.transcript.boxes, [part.transcript.boxes for part in parts]
    assert measured is not None
    spent_on_each = [float(u * whole.transcript.epsilon_per_unit) for u in measured.units.tolist()]
    expected = [
        float(u * part.transcript.epsilon_per_unit)
        for part, boxes in zip(parts, mine, strict=True)
        if boxes is not None
        for u in boxes.units.tolist()
    ]
    assert spent_on_each == pytest.approx(expected, rel=1e-6)
    errors = [part.count(age=(20, 35)).stderr for part in parts]
    found = [whole.count(age=(20, 35), period=label).stderr for label in whole.domain.attributes[0].labels()]
    # They are calibrated on all periods together, so each is near its own and not the same.
    assert all(1 / 3 < one / other < 3 for one, other in zip(found, errors, strict=True))
    assert np.argmin(found) == np.argmax([float(one) for one in epsilons])
    together = whole.count(age=(20, 35))
    exact = sum(int(counts(k)[:16].sum()) for k in range(len(parts)))
    assert abs(together.value - exact) < 6 * float(np.hypot.reduce(errors))


def test_tables_that_not_all_have_are_left_out() -> None:
    first, second = (release(k) for k in range(2))
    table = Marginal((0,), counts(0).sum(axis=1), 10_000)
    more = Transcript(DOMAIN.shape, first.transcript.epsilon_per_unit, (table, *first.transcript.measurements))
    whole = merged([Release(DOMAIN, more, first.provenance), second])
    assert [one.kind for one in whole.transcript.measurements] == ["boxes"]
    both = Transcript(DOMAIN.shape, second.transcript.epsilon_per_unit, (table, *second.transcript.measurements))
    whole = merged([Release(DOMAIN, more, first.provenance), Release(DOMAIN, both, second.provenance)])
    assert [one.kind for one in whole.transcript.measurements] == ["marginal", "boxes"]


def test_the_period_finds_a_name_that_is_free() -> None:
    domain = Domain(Integer("period", 20, 51), Category("sex", ["F", "M", "X"]))
    whole = merged([release(k, strategy="cells", domain=domain) for k in range(2)])
    assert whole.domain.names[0] == "release period"
    assert date.fromisoformat(whole.domain.attributes[0].labels()[1].split()[0]) == date(2026, 2, 1)
