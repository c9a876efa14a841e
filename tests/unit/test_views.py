"""The OLAP verbs against sums over cells by hand, and against `count`, whose one estimate they share."""

import itertools
import re
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpcube import Domain, Release, View
from dpcube.core.domain import Category, Date, Float, Integer
from dpcube.core.errors import QueryError
from dpcube.release import view as views
from dpcube.research import experiment
from dpcube.strategies import Cells, TwoPhase
from dpcube.testing import SeededNoise

DOMAIN = Domain(
    (
        Category(
            name="country",
            values=("France", "Japan", "Italy", "Chad"),
            null="cell",
            hierarchy={"region": {"Asia": ["Japan"], "Europe": ["France", "Italy"], "Africa": ["Chad"]}},
        ),
        Integer(name="age-group", min=0, max=29, width=5, hierarchy={"decade": [0, 10, 20, 30]}),
        Date(name="seen", start=date(2025, 11, 1), end=date(2026, 2, 28), every="month"),
    )
)
COUNTS: NDArray[np.int64] = np.random.default_rng(5).poisson(40, DOMAIN.shape) * np.arange(1, 5)


def release_of(strategy: Any = None) -> Release:
    made = experiment(COUNTS, epsilon="0.7", strategy=strategy or TwoPhase(), noise=SeededNoise(6))
    return Release(DOMAIN, made.transcript, made.provenance)


@pytest.fixture(scope="module")
def release() -> Release:
    return release_of()


def rows(table: pa.Table, *names: str) -> dict[tuple[str, ...], float]:
    """The values of a table by the names in its rows."""
    columns = [table[name].to_pylist() for name in names]
    assert table.column_names == [
        *names,
        "value",
        *(["stderr", "low", "high"] if "stderr" in table.column_names else []),
        *(["cut"] if "cut" in table.column_names else []),
    ]
    return dict(zip(zip(*columns, strict=True), table["value"].to_pylist(), strict=True))


def test_the_whole_cube_is_a_row_for_each_cell(release: Release) -> None:
    labels = [attribute.labels() for attribute in DOMAIN.attributes]
    got = rows(release.table(), *DOMAIN.names)
    assert list(got) == list(itertools.product(*labels))
    np.testing.assert_array_equal(list(got.values()), release.cells().reshape(-1))


def test_slice_keeps_one_member_and_leaves_its_attribute_out(release: Release) -> None:
    got = rows(release.slice(country="Japan").table(), "age-group", "seen")
    np.testing.assert_allclose(list(got.values()), release.cells()[1].reshape(-1))
    assert got["5-9", "2026-01"] == pytest.approx(release.cells()[1, 1, 2])


def test_slice_takes_a_group_a_bin_or_a_cell_of_its_own_by_name(release: Release) -> None:
    cells = release.cells()
    for member, chosen in {"Europe": [0, 2], "Japan": [1], "(null)": [4]}.items():
        got = release.slice(country=member).group_by("seen").table()
        np.testing.assert_allclose(got["value"], cells[chosen].sum(axis=(0, 1)))
    for member, chosen in {"10-14": [2], "10-19": [2, 3]}.items():
        got = release.slice({"age-group": member}).group_by("seen").table()
        np.testing.assert_allclose(got["value"], cells[:, chosen].sum(axis=(0, 1)))
    got = release.slice(seen="2025").group_by("country").table()
    np.testing.assert_allclose(got["value"], cells[:, :, :2].sum(axis=(1, 2)))
    assert release.slice(seen="2025-12").table().column_names[:2] == ["country", "age-group"]


def test_dice_keeps_what_meets_every_condition(release: Release) -> None:
    diced = release.dice('"age-group" >= 10', country=["Europe", "Chad"]).dice(country=["France", "Chad"])
    got = rows(diced.roll_up("seen", "seen").table(), "country", "age-group")
    assert list(got) == list(itertools.product(["France", "Chad"], ["10-14", "15-19", "20-24", "25-29"]))
    np.testing.assert_allclose(list(got.values()), release.cells()[[0, 3], 2:].sum(axis=2).reshape(-1))


def test_dice_cuts_bins_as_count_does(release: Release) -> None:
    table = release.dice({"age-group": (3, 11)}).group_by("age-group").table()
    for label, part in {"0-4": (3, 4), "5-9": (5, 9), "10-14": (10, 11)}.items():
        answer = release.count({"age-group": part})
        assert rows(table, "age-group")[(label,)] == pytest.approx(answer.value)
        (row,) = (row for row in table.to_pylist() if row["age-group"] == label)
        assert [row[name] for name in ("stderr", "low", "high")] == pytest.approx(
            [answer.stderr, answer.low, answer.high]
        )
        assert row["cut"] == answer.cut == ("" if label == "5-9" else f"cuts the bin {label} of age-group")
    assert table.num_rows == 3


def test_roll_up_climbs_level_by_level_and_then_away(release: Release) -> None:
    cells, view = release.cells(), release.view()
    by_region = rows(view.roll_up("country").roll_up("seen").table(), "country", "age-group", "seen")
    assert by_region["Europe", "0-4", "2026"] == pytest.approx(cells[[0, 2], 0, 2:].sum())
    assert {key[0] for key in by_region} == {"Asia", "Europe", "Africa", "(null)"}
    away = view.roll_up("country").roll_up("country", "age-group", seen="all")
    assert away.grouping == {"country": "all", "age-group": "decade", "seen": "all"}
    np.testing.assert_allclose(away.table()["value"], cells.sum(axis=(0, 2)).reshape(3, 2).sum(axis=1))


def test_drill_down_goes_from_the_total_to_cells(release: Release) -> None:
    steps = [
        release.drill_down("seen"),
        release.drill_down("seen").drill_down("seen"),
        release.drill_down(seen="month"),
    ]
    assert [view.grouping["seen"] for view in steps] == ["year", "month", "month"]
    assert [view.table().num_rows for view in steps] == [2, 4, 4]
    assert steps[1].table().equals(steps[2].table())
    assert steps[1].roll_up("seen").table().equals(steps[0].table())
    np.testing.assert_allclose(steps[2].table()["value"], release.cells().sum(axis=(0, 1)))


def test_group_by_tells_apart_what_it_names(release: Release) -> None:
    total = release.group_by().table()
    assert total.column_names == ["value", "stderr", "low", "high"]
    assert total["value"].to_pylist() == pytest.approx([release.count().value])
    view = release.group_by("age-group", country="region")
    assert view.table().column_names[:2] == ["country", "age-group"]  # in the order of the axes
    assert repr(view) == "<View of country by region, age-group by age-group>"
    assert repr(view.dice(seen="2026").group_by()) == "<View of the total; diced>"


def test_pivot_lays_two_attributes_out(release: Release) -> None:
    cells = release.cells()
    table = release.view().roll_up("country").pivot("country", "seen", measures=("value",))
    assert table.column_names == ["country", "2025-11", "2025-12", "2026-01", "2026-02"]
    assert table["country"].to_pylist() == ["Asia", "Europe", "Africa", "(null)"]
    np.testing.assert_allclose(table["2026-01"], [cells[group, :, 2].sum() for group in ([1], [0, 2], [3], [4])])
    turned = release.pivot("seen", "country")
    assert turned.column_names[:4] == ["seen", "France", "France stderr", "Japan"]
    np.testing.assert_allclose(turned["Japan"], cells[1].sum(axis=0))
    errors = release.slice(country="Japan").group_by("seen").table()
    np.testing.assert_allclose(turned["Japan stderr"], errors["stderr"])
    sliced = release.slice(seen="2026-01").pivot("seen", "country", measures=("low", "high"))  # rolled up, so at cells
    assert sliced["seen"].to_pylist() == ["2026-01"]


@pytest.mark.parametrize("strategy", [TwoPhase(), Cells()])
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_each_row_has_the_error_that_count_gives(strategy: Any, confidence: float) -> None:
    """Ranges, unions of ranges and cut bins alike."""
    release = release_of(strategy)
    view = release.dice(country=["Europe", "Japan"], **{"age-group": (0, 21)}).roll_up("seen", country="region")
    table = view.table(confidence=confidence)
    members = {"Europe": ["France", "Italy"], "Asia": ["Japan"]}
    assert table.num_rows == 2 * 5 * 2
    for row in table.to_pylist():
        low, high = map(int, row["age-group"].split("-"))
        months = {"2025": ("2025-11-01", "2025-12-31"), "2026": ("2026-01-01", "2026-02-28")}[row["seen"]]
        conditions: dict[str, Any] = {
            "country": members[row["country"]],
            "age-group": (low, min(high, 21)),
            "seen": months,
        }
        answer = release.count(conditions, confidence=confidence)
        assert (row["value"], row["stderr"]) == pytest.approx((answer.value, answer.stderr))
        assert (row["low"], row["high"]) == pytest.approx((answer.low, answer.high))


@pytest.mark.parametrize("name", ["consistent", "uniform", "cells", "least_squares"])
def test_a_view_speaks_from_the_estimate_it_was_asked_for(release: Release, name: str) -> None:
    table = release.view(estimate=name).group_by("country").table()
    np.testing.assert_allclose(table["value"], release.cells(name).sum(axis=(1, 2)))
    np.testing.assert_allclose(
        table["stderr"], [release.count(country=c, estimate=name).stderr for c in DOMAIN["country"].labels()]
    )


chosen_levels = st.tuples(
    st.sampled_from(["country", "region", "all"]),
    st.sampled_from(["age-group", "decade", "all"]),
    st.sampled_from(["month", "year", "all"]),
)


@pytest.mark.slow
@settings(deadline=None)
@given(
    chosen_levels,
    st.tuples(st.integers(0, 29), st.integers(0, 29)),
    st.sets(st.sampled_from(["Europe", "Chad", "Japan", "(null)"]), min_size=1),
)
def test_values_add_up_whatever_the_levels(
    levels: tuple[str, str, str], ages: tuple[int, int], where: set[str]
) -> None:
    release = SHARED
    view = release.dice(country=sorted(where), **{"age-group": (min(ages), max(ages))})
    grouped = view.group_by(**dict(zip(DOMAIN.names, levels, strict=True)))
    with_errors, without = grouped.table(), grouped.table(errors=False)
    np.testing.assert_allclose(with_errors["value"], without["value"])
    total = view.group_by().table()["value"].to_pylist()
    assert sum(with_errors["value"].to_pylist()) == pytest.approx(total[0])
    assert with_errors.select(without.drop_columns("value").column_names).equals(without.drop_columns("value"))
    low, high = (end % 5 for end in (min(ages), max(ages) + 1))
    assert ("cut" in with_errors.column_names) == bool(low or high)


SHARED = release_of()


def test_a_view_is_never_changed(release: Release) -> None:
    view = release.group_by("country")
    before = view.table()
    view.roll_up("country").dice(country="Europe").slice(seen="2026")
    assert view.table().equals(before)
    with pytest.raises(AttributeError):
        view.estimate = "cells"  # type: ignore[misc]


def test_what_contradicts_itself_has_no_rows_and_counts_nothing(release: Release) -> None:
    nothing = release.dice(country="Japan").dice(country="Chad")
    for errors in (True, False):
        table = nothing.table(errors=errors)
        assert table.num_rows == 0
        assert table.column_names[:3] == list(DOMAIN.names)
        assert nothing.group_by("seen").table(errors=errors)["value"].to_pylist() == [0] * 4


def test_measures_give_way_to_an_attribute_of_their_name() -> None:
    domain = Domain(
        (
            Integer(name="value", min=0, max=4),
            Category(name="low", values=("value", "a", "b", "a value", "c", "d", "e")),
        )
    )
    made = experiment(np.arange(35).reshape(5, 7), epsilon=1, noise=SeededNoise(1))
    release = Release(domain, made.transcript, made.provenance)
    assert release.view().table().column_names == ["value", "low", "value_", "stderr", "low_", "high"]
    wide = release.pivot("value", "low", measures=("value", "stderr")).column_names
    assert len(set(wide)) == len(wide) == 15


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda r: r.slice(planet="Mars"), "no attribute 'planet'; the attributes are 'country', 'age-group', 'seen'"),
        (lambda r: r.slice(country=["Japan"]), "slice keeps one member of 'country', got ['Japan']; use dice"),
        (lambda r: r.slice(country="Atlantis"), "attribute 'country' has no value 'Atlantis'"),
        (lambda r: r.slice(seen="2031"), "takes dates"),
        (lambda r: r.dice(country=[]), "the list of values is empty"),
        (lambda r: r.dice("planet = 3"), "there is no attribute 'planet'"),
        (lambda r: r.dice(country=("Chad", "Italy")), "attribute 'country' has no order"),
        (lambda r: r.roll_up("planet"), "there is no attribute 'planet'"),
        (lambda r: r.roll_up(seen="week"), "'seen' has no level 'week'; its levels are 'month', 'year', 'all'"),
        (lambda r: r.group_by("seen").roll_up("country"), "attribute 'country' is at its coarsest level, 'all'"),
        (lambda r: r.view().drill_down("seen"), "attribute 'seen' is at its finest level, 'month'"),
        (lambda r: r.roll_up("seen").roll_up(seen="month"), "is finer than 'year', where it is; use drill_down"),
        (lambda r: r.view().drill_down(seen="year"), "is coarser than 'month', where it is; use roll_up"),
        (lambda r: r.pivot("seen", "seen"), "needs two attributes, got 'seen' twice"),
        (lambda r: r.pivot("seen", "planet"), "there is no attribute 'planet'"),
        (lambda r: r.pivot("seen", "country", measures=("mean",)), "some of value, stderr, low, high, got ('mean',)"),
        (lambda r: r.pivot("seen", "country", measures="value"), "got 'value'"),
        (lambda r: r.view().table(confidence=2), "confidence must be between 0 and 1"),
        (lambda r: r.view(estimate="best").table(), "there is no estimate 'best'"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_in_one_line(release: Release, ask: Any, message: str) -> None:
    with pytest.raises(QueryError, match=re.escape(message)) as caught:
        ask(release)
    assert len(str(caught.value).splitlines()) == 1


def test_frames_too_large_are_refused(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MAX_VIEW_ROWS", 100)
    with pytest.raises(QueryError, match="this view has 120 rows; at most 100"):
        release.table()
    assert release.roll_up("country").table().num_rows == 96
    monkeypatch.setattr(views, "MAX_SINGLE_ANSWERS", 5)
    with pytest.raises(QueryError, match="24 rows of this view are no ranges"):
        release.roll_up("country").table(errors=True)  # of Europe, which is no run of cells
    assert isinstance(release.roll_up("country"), View)


def test_boxes_say_where_they_are_and_what_was_counted(release: Release) -> None:
    boxes, measured = release.boxes(), release.transcript.boxes
    assert measured is not None
    assert boxes.num_rows == len(measured.tree.leaves)
    assert sum(boxes["cells"].to_pylist()) == DOMAIN.size
    assert sum(boxes["value"].to_pylist()) == pytest.approx(release.count().value)
    first = boxes.slice(0, 1).to_pylist()[0]
    low, high = (int(first[f"age-group_{end}"].split("-")[part]) for part, end in enumerate(("first", "last")))
    month = {end: DOMAIN["seen"].labels().index(first[f"seen_{end}"]) for end in ("first", "last")}
    days = DOMAIN["seen"].bin_edges()
    countries = DOMAIN["country"].labels()
    held = countries[countries.index(first["country_first"]) : countries.index(first["country_last"]) + 1]
    seen = (date.fromordinal(int(days[month["first"]])), date.fromordinal(int(days[month["last"] + 1]) - 1))
    conditions: dict[str, Any] = {"country": held, "age-group": (low, high), "seen": seen}
    answer = release.count(conditions)
    assert (first["value"], first["stderr"]) == pytest.approx((answer.value, answer.stderr))
    counts, _ = measured.by_node(release.transcript.epsilon_per_unit)
    assert boxes["noisy_count"].to_pylist() == counts[measured.tree.leaves].tolist()


def test_a_release_of_cells_has_no_boxes() -> None:
    with pytest.raises(QueryError, match="this release has no boxes"):
        release_of(Cells()).boxes()


def test_attributes_may_have_any_name_and_numbers_be_numpys() -> None:
    domain = Domain((Integer(name="self", min=0, max=3), Integer(name="names", min=0, max=2)))
    made = experiment(np.arange(12).reshape(4, 3), epsilon=1, noise=SeededNoise(1))
    release = Release(domain, made.transcript, made.provenance)
    assert release.group_by(self="self").roll_up(**{"self": "all"}).drill_down(names="names").table().num_rows == 3
    np.testing.assert_allclose(release.slice({"self": np.int64(2)}).table()["value"], release.cells()[2])  # type: ignore[dict-item]


def test_reals_are_sliced_by_bin() -> None:
    domain = Domain((Float(name="dose", min=0, max=2, width=0.5), Integer(name="n", min=0, max=2)))
    made = experiment(np.arange(12).reshape(4, 3), epsilon=1, noise=SeededNoise(1))
    release = Release(domain, made.transcript, made.provenance)
    np.testing.assert_allclose(release.slice(dose="[1.5, 2]").table()["value"], release.cells()[3])
    at = release.slice(dose=1.5).table()
    assert at["value"].to_pylist() == [0, 0, 0]  # a single number has no share of its bin, and may have all its rows
    whole = release.slice(dose="[1.5, 2]").table()
    assert at["high"].to_pylist() == whole["high"].to_pylist()
    assert at["cut"].to_pylist() == ["cuts the bin [1.5, 2] of dose"] * 3
