"""A new kind of attribute is one class and one line in a registry: a toy kind of each scale becomes a release.

Nothing but `ATTRIBUTE_KINDS` is told of them, and what is answered is compared with the rows themselves.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import dpcube
from dpcube import Domain, Release
from dpcube.core.domain import Attribute, Category, Date, Destination, Integer, Scalar
from dpcube.core.domain.file import ATTRIBUTE_KINDS
from dpcube.core.domain.scale import Scale
from dpcube.core.errors import DomainError, QueryError
from dpcube.curator import publish
from dpcube.release.plots import picture, save
from dpcube.release.plots.axis import axis_of
from dpcube.release.report import report


@dataclass(frozen=True, slots=True, kw_only=True)
class YesNo(Attribute):
    """Truth values, printed as words of one's choice."""

    kind: ClassVar[str] = "yesno"
    scale: ClassVar[Scale] = "position"
    arrow_type: ClassVar[str] = "bool"
    lists: ClassVar[tuple[str, ...]] = ("words",)
    words: tuple[str, ...]
    null: Destination = "drop"

    @property
    def ordered(self) -> bool:
        return False

    def bin_edges(self) -> NDArray[np.float64]:
        return np.arange(3.0)

    def coordinate(self, value: Scalar) -> float:
        places = {False: 0.0, True: 1.0, self.words[0]: 0.0, self.words[1]: 1.0}
        if not isinstance(value, bool | str) or value not in places:
            msg = f"attribute '{self.name}' is {self.words[0]} or {self.words[1]}, got {value!r}"
            raise QueryError(msg)
        return places[value]

    def values_at(self, coordinates: NDArray[Any]) -> NDArray[Any]:
        return coordinates >= 1

    def texts(self) -> tuple[str, str]:
        return "false", "true"

    def bin_label(self, low: float, high: float) -> str:  # noqa: ARG002 (a bin is one value)
        return self.words[int(low)]

    def _check(self) -> None:
        self._check_destinations(null=("drop", "cell"))
        if len(self.words) != 2:
            msg = f"attribute '{self.name}': words must be two, got {self.words!r}"
            raise DomainError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour(Attribute):
    """Hours of the day, some at a time, printed as on a clock."""

    kind: ClassVar[str] = "hour"
    scale: ClassVar[Scale] = "number"
    arrow_type: ClassVar[str] = "int8"
    every: int = 1

    def bin_edges(self) -> NDArray[np.float64]:
        return np.arange(0.0, 25.0, self.every)

    def coordinate(self, value: Scalar) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 24:
            msg = f"attribute '{self.name}' holds hours from 0 to 23, got {value!r}"
            raise QueryError(msg)
        return float(value)

    def values_at(self, coordinates: NDArray[Any]) -> NDArray[Any]:
        return coordinates.astype(np.int8)

    def bin_label(self, low: float, high: float) -> str:
        return f"{low:02.0f}:00-{high:02.0f}:00"

    def _check(self) -> None:
        if self.every not in (1, 2, 3, 4, 6, 8, 12, 24):
            msg = f"attribute '{self.name}': every must divide a day, got {self.every!r}"
            raise DomainError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decade(Attribute):
    """Dates by the decade, all of them in one century."""

    kind: ClassVar[str] = "decade"
    scale: ClassVar[Scale] = "day"
    arrow_type: ClassVar[str] = "date32"
    century: date

    def bin_edges(self) -> NDArray[np.float64]:
        firsts = [date(self.century.year + 10 * decade, 1, 1) for decade in range(11)]
        return np.array([first.toordinal() for first in firsts], np.float64)

    def coordinate(self, value: Scalar) -> float:
        if not isinstance(value, date | str):
            msg = f"attribute '{self.name}' takes dates, got {value!r}"
            raise QueryError(msg)
        return float((date.fromisoformat(value) if isinstance(value, str) else value).toordinal())

    def values_at(self, coordinates: NDArray[Any]) -> NDArray[Any]:
        return (coordinates.astype(np.int64) - self.origin).astype("datetime64[D]")

    def bin_label(self, low: float, high: float) -> str:  # noqa: ARG002 (a decade is named by its first year)
        return f"{date.fromordinal(int(low)).year}s"

    def _check(self) -> None:
        if not isinstance(self.century, date):
            msg = f"attribute '{self.name}': century must be a date, got {self.century!r}"
            raise DomainError(msg)


DOMAIN = """
[[attribute]]
name = "smoker"
type = "yesno"
words = ["no", "yes"]
null = "cell"

[[attribute]]
name = "hour"
type = "hour"
every = 6
"""
GENERATOR = np.random.default_rng(4)
SMOKERS = [None if x == 2 else bool(x) for x in GENERATOR.choice(3, 600, p=(0.6, 0.3, 0.1)).tolist()]
HOURS = GENERATOR.integers(-2, 26, 600).tolist()  # some lie outside of the day, and are dropped
ROWS = [(smoker, hour) for smoker, hour in zip(SMOKERS, HOURS, strict=True) if 0 <= hour < 24]


@pytest.fixture(autouse=True, scope="module")
def registry() -> Iterator[None]:
    toys: tuple[type[Attribute], ...] = (YesNo, Hour, Decade)
    ATTRIBUTE_KINDS.update({toy.kind: toy for toy in toys})
    yield
    for toy in toys:
        del ATTRIBUTE_KINDS[toy.kind]


@pytest.fixture(scope="module")
def release(registry: None, tmp_path_factory: pytest.TempPathFactory) -> Release:
    path = tmp_path_factory.mktemp("kinds") / "cube.dpcube"
    table = pa.table({"smoker": SMOKERS, "hour": HOURS})
    # The noise of so large an epsilon is 0 but for one release in 10^20.
    publish(table, Domain.loads(DOMAIN), epsilon=50, strategy="cells", ledger=None, save_to=path)
    return dpcube.open(path)


def test_a_domain_file_declares_it_and_is_written_back(release: Release) -> None:
    domain = Domain.loads(DOMAIN)
    assert release.domain == Domain.loads(domain.dumps()) == domain
    assert domain["smoker"].labels() == ["no", "yes", "(null)"]
    with pytest.raises(DomainError, match="attribute 'x' of type yesno needs 'words'"):
        Domain.loads('[[attribute]]\nname = "x"\ntype = "yesno"')
    with pytest.raises(DomainError, match="words must be a list in square brackets"):
        Domain.loads('[[attribute]]\nname = "x"\ntype = "yesno"\nwords = "no"')
    with pytest.raises(DomainError, match="has no key 'values_from'"):
        Domain.loads('[[attribute]]\nname = "x"\ntype = "yesno"\nvalues_from = "secret"')


def test_cells_are_counts_of_rows(release: Release) -> None:
    table = Counter((2 if smoker is None else int(smoker), hour // 6) for smoker, hour in ROWS)
    expected = [[table[i, j] for j in range(4)] for i in range(3)]
    np.testing.assert_array_equal(release.cells(), expected)


def test_text_columns_are_read_as_well(release: Release) -> None:
    words = [None if smoker is None else str(smoker).lower() for smoker in SMOKERS]
    table = pa.table({"smoker": words, "hour": [f" {hour} " for hour in HOURS]})
    read = publish(table, release.domain, epsilon=50, strategy="cells", ledger=None)
    np.testing.assert_array_equal(read.cells(), release.cells())


def test_questions_count_rows(release: Release) -> None:
    evening = sum(smoker is True and hour >= 12 for smoker, hour in ROWS)
    assert release.count("smoker = 'yes' and hour >= 12").value == pytest.approx(evening)
    assert release.count(smoker=True, hour=(12, 23)).value == pytest.approx(evening)
    with pytest.raises(QueryError, match="'smoker' has no order, so ranges are not possible"):
        release.count("smoker > 'no'")
    with pytest.raises(QueryError, match="holds hours from 0 to 23, got 'noon'"):
        release.count("hour = 'noon'")


def test_sql_has_its_values(release: Release) -> None:
    counted = Counter(smoker for smoker, hour in ROWS if hour < 12)
    made = release.sql("SELECT smoker, count(*) AS n FROM cube WHERE hour < 12 GROUP BY smoker").to_pylist()
    assert {row["smoker"]: row["n"] for row in made} == pytest.approx(counted)
    assert {type(row["smoker"]) for row in made} == {bool, type(None)}
    (row,) = release.sql("SELECT count(*) AS n FROM cube WHERE smoker = true AND hour BETWEEN 6 AND 17").to_pylist()
    assert row["n"] == pytest.approx(sum(smoker is True and 6 <= hour < 18 for smoker, hour in ROWS))
    (row,) = release.sql("SELECT min(hour) AS least, max(hour) AS most, avg(hour) AS mean FROM cube").to_pylist()
    middles = [hour // 6 * 6 + 2.5 for _, hour in ROWS]
    assert (row["least"], row["most"], row["mean"]) == (0, 23, pytest.approx(np.mean(middles)))
    with pytest.raises(QueryError, match="'smoker' has no order"):
        release.sql("SELECT max(smoker) FROM cube")
    with pytest.raises(QueryError, match="'smoker' holds yesno values"):
        release.sql("SELECT count(*) FROM cube WHERE smoker = 1")


def test_groups_and_frames_have_its_names(release: Release) -> None:
    view = release.group_by("smoker")
    counted = Counter(smoker for smoker, _ in ROWS)
    frame = view.table().to_pydict()
    assert frame["smoker"] == ["no", "yes", "(null)"]
    assert frame["value"] == pytest.approx([counted[False], counted[True], counted[None]])
    assert release.group_by("hour").table()["hour"].to_pylist()[1] == "06:00-12:00"
    pytest.importorskip("xarray")
    assert release.to_xarray()["hour_from"].values.tolist() == [0, 6, 12, 18]
    assert "smoker_from" not in release.to_xarray().coords
    pytest.importorskip("hist")
    assert release.group_by("hour").to_hist().axes[0].edges.tolist() == [0, 6, 12, 18, 24]


def test_synthetic_rows_have_its_type_and_its_values(release: Release) -> None:
    rows = release.synthesize(len(ROWS), seed=1)
    assert rows.schema.types == [pa.bool_(), pa.int8()]
    drawn = Counter((row["smoker"], row["hour"] // 6) for row in rows.to_pylist())
    assert drawn == Counter((smoker, hour // 6) for smoker, hour in ROWS)
    assert set(rows["hour"].to_pylist()) == set(range(24))


@pytest.mark.slow
def test_pictures_and_reports_are_made(release: Release, tmp_path: Path) -> None:
    assert "smoker = 'no'" in unescape(report(release))
    shown = picture(release, "hour", "smoker")
    assert [axis_of(attribute, most=2).labels for attribute in release.domain.attributes] == [
        ("no \N{HORIZONTAL ELLIPSIS} yes", "(null)"),
        ("00:00-12:00", "12:00-24:00"),
    ]
    save(shown, tmp_path / "cube.svg")
    drawn = (tmp_path / "cube.svg").read_text()
    assert all(label in drawn for label in ("06:00-12:00", "yes", "(null)"))


def test_the_default_strategy_takes_it(release: Release) -> None:
    table = pa.table({"smoker": SMOKERS, "hour": HOURS})
    made = publish(table, release.domain, epsilon=50, ledger=None)
    assert made.count(smoker=False).value == pytest.approx(sum(smoker is False for smoker, _ in ROWS), abs=20)


def test_days_in_bins_of_its_own() -> None:
    days = [date(1900, 1, 1) + timedelta(days=int(after)) for after in GENERATOR.integers(-999, 40_000, 500)]
    domain = Domain.loads('[[attribute]]\nname = "born"\ntype = "decade"\ncentury = 1900-01-01')
    release = publish(pa.table({"born": days}), domain, epsilon=50, strategy="cells", ledger=None)
    counted = Counter(f"{day.year // 10}0s" for day in days if 1900 <= day.year < 2000)
    frame = release.group_by("born").table()
    assert dict(zip(frame["born"].to_pylist(), frame["value"].to_pylist(), strict=True)) == pytest.approx(counted)
    late = sum(date(1960, 1, 1) <= day <= date(1999, 12, 31) for day in days)
    assert release.count("born >= '1960-01-01'").value == pytest.approx(late)
    (row,) = release.sql("SELECT count(*) AS n, max(born) AS last FROM cube WHERE born < DATE '1960-01-01'").to_pylist()
    assert row == {"n": pytest.approx(counted.total() - late), "last": date(1959, 12, 31)}
    drawn = release.synthesize(seed=1)["born"]
    assert drawn.type == pa.date32()
    assert Counter(f"{day.year // 10}0s" for day in drawn.to_pylist()) == counted


def test_text_in_a_row_that_reads_like_the_name_of_an_own_cell_is_not_in_it() -> None:
    domain = Domain((Category(name="ward", values=("a", "b"), null="cell"),))
    table = pa.table({"ward": ["a", None, "(null)", "(null)"]})
    release = publish(table, domain, epsilon=50, strategy="cells", ledger=None)
    np.testing.assert_array_equal(release.cells(), [1, 0, 1])


def test_a_constant_of_a_comparison_may_lie_between_two_values() -> None:
    day = date(2026, 1, 31)
    assert Date(name="seen", start=day, end=day).place(datetime(2026, 1, 31, 18)) == day.toordinal() + 0.75
    assert Integer(name="age", min=0, max=9).place(2.5) == 2.5
    assert Category(name="ward", values=("a", "b")).place("b") == 1
