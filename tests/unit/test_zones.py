"""A declared time zone decides the day of a moment, as Python's own calendar has it, clock changes included."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from dpcube.core.domain import Date, Domain
from dpcube.core.errors import DomainError, SourceError
from dpcube.core.sources import open_rows
from dpcube.core.sources.zone import offsets_of

ZONES = {
    "Europe/Berlin": "s",
    "America/St_Johns": "us",  # off by half an hour; clocks were set back at 0:01, over midnight
    "Pacific/Apia": "ms",  # 30 December 2011 never was
    "Asia/Kathmandu": "ns",
    "America/Santiago": "us",
    "Australia/Lord_Howe": "s",  # clocks move by half an hour
}


def expected(zone: str, moments: list[datetime], start: date, end: date) -> list[int]:
    days = [(moment.astimezone(ZoneInfo(zone)).date() - start).days for moment in moments]
    last = (end - start).days
    counts = np.bincount([day for day in days if 0 <= day <= last], minlength=last + 1)
    return [int(count) for count in counts]


@pytest.mark.slow
@pytest.mark.parametrize(("zone", "unit"), ZONES.items())
def test_the_day_of_a_moment_is_python_s(zone: str, unit: str) -> None:
    start, end = date(2009, 1, 1), date(2012, 12, 31)
    rng = np.random.default_rng(3)
    begin = datetime(2008, 12, 29, tzinfo=UTC)
    moments = [begin + timedelta(seconds=int(s)) for s in rng.integers(0, 1470 * 86400, 3000)]
    moments += [begin + timedelta(hours=h / 2) for h in range(1470 * 48)]
    table = pa.table({"t": pa.array(moments, pa.timestamp(unit, "Asia/Tokyo"))})
    domain = Domain((Date(name="t", start=start, end=end, zone=zone),))
    assert open_rows(table).count_cells(domain).tolist() == expected(zone, moments, start, end)


def test_without_a_zone_a_time_says_its_day_itself() -> None:
    berlin = Domain((Date(name="t", start=date(2026, 1, 1), end=date(2026, 1, 2), zone="Europe/Berlin"),))
    late = datetime(2026, 1, 1, 23, 30)
    for column in (pa.array([late]), pa.array([late.date()]), pa.array(["2026-01-01"])):
        assert open_rows(pa.table({"t": column})).count_cells(berlin).tolist() == [1, 0]
    aware = pa.table({"t": pa.array([late], pa.timestamp("us", "UTC"))})
    assert open_rows(aware).count_cells(berlin).tolist() == [0, 1]
    utc = Domain((Date(name="t", start=date(2026, 1, 1), end=date(2026, 1, 2)),))
    assert open_rows(aware).count_cells(utc).tolist() == [1, 0]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_moments_at_the_ends_of_their_type(unit: str) -> None:
    ends = pa.array([2**63 - 1, -(2**63), 0], pa.int64()).view(pa.timestamp(unit, "UTC"))
    domain = Domain((Date(name="t", start=date(1900, 1, 1), end=date(2100, 12, 31), every="year", outside="cell",
                          zone="Asia/Tokyo"),))  # fmt: skip
    counts = open_rows(pa.table({"t": ends})).count_cells(domain)
    assert counts.sum() == 3
    assert counts[70] == 1


def test_every_change_of_the_clock_is_found() -> None:
    """Against a finer search of the same zone."""
    found = offsets_of("America/St_Johns", date(1987, 1, 1), date(2012, 12, 31))
    zone = ZoneInfo("America/St_Johns")
    begin = datetime(1987, 1, 1, tzinfo=UTC)
    hours = [begin + timedelta(hours=h) for h in range(26 * 366 * 24)]
    changes = sum(a.astimezone(zone).utcoffset() != b.astimezone(zone).utcoffset() for a, b in zip(hours, hours[1:]))  # noqa: B905, RUF007 (fast)
    assert len(found.offsets) == changes + 1


def test_a_zone_that_cannot_be() -> None:
    for zone in ("", "../etc/passwd", "/etc/localtime", "Europe/Berlin\n", 3):
        with pytest.raises(DomainError, match="zone must be an IANA name such as Europe/Berlin"):
            Date(name="t", start=date(2026, 1, 1), end=date(2026, 1, 2), zone=zone)  # type: ignore[arg-type]
    unknown = Domain((Date(name="t", start=date(2026, 1, 1), end=date(2026, 1, 2), zone="Europe/Atlantis"),))
    assert Domain.loads(unknown.dumps()) == unknown  # a release is read without a table of zones
    table = pa.table({"t": pa.array([0], pa.timestamp("us", "UTC"))})
    with pytest.raises(SourceError, match="there is no time zone 'Europe/Atlantis' on this machine"):
        open_rows(table).count_cells(unknown)


def seconds(moment: datetime) -> int:
    return int(moment.replace(tzinfo=UTC).timestamp())


def test_offsets_reach_two_days_beyond_the_range_and_change_at_the_second() -> None:
    found = offsets_of("Europe/Berlin", date(2026, 3, 1), date(2026, 4, 1))
    ends = seconds(datetime(2026, 2, 27)), seconds(datetime(2026, 3, 29, 1)), seconds(datetime(2026, 4, 3))
    assert found == (ends, (3600, 7200))


def test_offsets_are_found_as_far_as_dates_go() -> None:
    late = offsets_of("Asia/Tokyo", date(9999, 12, 1), date.max)
    assert late == ((seconds(datetime(9999, 11, 29)), seconds(datetime(9999, 12, 30))), (9 * 3600,))
    early = offsets_of("UTC", date.min, date(1, 1, 31))
    assert early == ((seconds(datetime(1, 1, 3)), seconds(datetime(1, 2, 2))), (0,))


@pytest.mark.parametrize("zone", ["Europe", "Europe/Nowhere", "../etc/passwd", "/etc/passwd", ""])
def test_what_is_no_zone_is_refused_in_our_words(zone: str) -> None:
    with pytest.raises(SourceError, match="there is no time zone"):
        offsets_of(zone, date(2026, 3, 1), date(2026, 4, 1))
