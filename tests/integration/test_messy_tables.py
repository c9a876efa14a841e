"""A messy table, as curators have them, is released with the same counts from CSV, pandas, PostgreSQL and Spark.

Dates as 01.03.2026, times in ISO's form and as March 1, 2026 3:05 PM, decimal commas, amounts such as 1.234,50 EUR with
a sign of their own and 12.5%, a byte-order mark, quoted line breaks, odd names of columns,
repeated patients, 20 columns. What the counts must be comes from the clean records that the texts were made of.
"""

import csv
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import psycopg
import pytest
from psycopg import sql

from dpcube import Domain
from dpcube.core.errors import SourceError
from dpcube.curator import publish
from dpcube.curator.check import check

DOMAIN = """
multiline = true
delimiter = ";"

[[attribute]]
name = "admitted"
column = "Adm. Date"
type = "date"
start = 2026-01-01
end = 2026-04-30
every = "month"
format = "%d.%m.%Y"
null = "cell"
null_text = ["n/a", ""]

[[attribute]]
name = "seen"
column = "seen at;UTC"
type = "date"
start = 2026-01-01
end = 2026-04-30
every = "month"
format = "iso"
zone = "Europe/Berlin"

[[attribute]]
name = "dose"
column = 'Dose "mg"'
type = "float"
min = 0
max = 3000
width = 500
decimal = ","
thousands = "."
outside = "clip"

[[attribute]]
name = "paid"
column = "Ø; ,x"
type = "float"
min = -1000
max = 2000
width = 1500
decimal = ","
thousands = "."
suffix = "€"

[[attribute]]
name = "share"
column = " lead"
type = "float"
min = 0
max = 100
width = 50
prefix = "ca."
suffix = "%"
case = "ignore"

[[attribute]]
name = "called"
column = "select"
type = "date"
start = 2026-01-01
end = 2026-12-31
every = "quarter"
format = "%B %d, %Y %I:%M %p %z"

[[attribute]]
name = "smoker"
column = "raucht?"
type = "category"
values = ["false", "true"]
true = ["ja", "1"]
false = ["nein", "0"]
trim = true
case = "ignore"
null = "cell"
null_text = ["", "unbekannt"]
"""
NAMES = ["Patient ID", "Adm. Date", "seen at;UTC", 'Dose "mg"', "raucht?", "größe", "select", "Note", " lead", "Ø; ,x"]
NAMES += [f"spare {i}" for i in range(20 - len(NAMES))]
BERLIN = ZoneInfo("Europe/Berlin")
Record = tuple[date | None, datetime, float, bool | None]
MONTHS = ["January", "February", "March", "April"]


def record(i: int) -> Record:
    day = None if i % 17 == 0 else date(2026, 1, 1) + timedelta(days=i * 7 % 120)
    seen = datetime(2026, 1, 31, 20, 30, tzinfo=UTC) + timedelta(hours=i * 13 % 2400)
    return day, seen, (i * 37 % 3500) + 0.25, (None, True, False)[i % 3]


def amounts(i: int) -> tuple[float, float, datetime]:
    """What was paid, a share in percent and when somebody called, in UTC."""
    return (
        i * 53 % 3000 - 999.5,
        i * 31 % 100 + 0.5,
        datetime(2026, 3, 31, 11, 30, tzinfo=UTC) + timedelta(hours=i % 24),
    )


def messy_amounts(i: int) -> tuple[str, str, str]:
    paid, share, at = amounts(i)
    euros = f"{paid:,.2f}".translate(str.maketrans(",.", ".,")) + ("€", " €", " € ")[i % 3]
    percent = (f"{share}%", f"CA. {share} %", f"{share}")[i % 3]
    called = f"{MONTHS[at.month - 1]} {at.day}, {at.year} {at.hour % 12 or 12}:{at.minute} {'AP'[at.hour // 12]}M Z"
    return euros, percent, called.upper() if i % 2 else called


def messy(i: int) -> list[str | None]:
    day, seen, dose, smokes = record(i)
    admitted = (
        ("n/a", "", "N/A"[:0])[i % 3]
        if day is None
        else (f"{day:%d.%m.%Y}" if i % 2 else f"{day.day}.{day.month}.{day.year}")
    )
    offset = ("Z", "+00:00")[i % 2]
    at = f"{seen:%Y-%m-%dT%H:%M:%S}{offset}" if i % 3 else f"{seen.astimezone(BERLIN):%Y-%m-%d %H:%M:%S%z}"
    amount = f"{dose:,.2f}".translate(str.maketrans(",.", ".,"))
    word = {None: ("", "unbekannt", " Unbekannt "), True: ("ja", " JA", "1"), False: ("nein", "Nein ", "0")}[smokes][
        i % 3
    ]
    note = ('two\nlines; "quoted"', "plain", "")[i % 3]
    paid, share, called = messy_amounts(i)
    spare = [f"{i}" for _ in NAMES[10:]]
    return [f"p{i // 2:03}", admitted, at, amount, word, "1,75", called, note, share, paid, *spare]


ROWS = [messy(i) for i in range(240)]


def expected() -> np.ndarray:
    domain = Domain.loads(DOMAIN)
    counts: Counter[tuple[int, ...]] = Counter()
    for i in range(len(ROWS)):
        day, seen, dose, smokes = record(i)
        local = seen.astimezone(BERLIN).date()
        if local > date(2026, 4, 30):
            continue
        cell = 4 if day is None else day.month - 1
        paid, share, at = amounts(i)
        others = int(paid >= 500), int(share >= 50), (at.month - 1) // 3
        counts[cell, local.month - 1, min(int(dose // 500), 5), *others, 2 if smokes is None else int(smokes)] += 1
    made = np.zeros(domain.shape, np.int64)
    for place, n in counts.items():
        made[place] = n
    return made


def csv_file(folder: Path) -> Path:
    with (folder / "t.csv").open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file, delimiter=";").writerows([NAMES, *ROWS])
    return folder / "t.csv"


# In a column whose type a library infers, 1.234 is a number that no point divides: there, apostrophes divide thousands.
INFERRED = DOMAIN.replace('thousands = "."', 'thousands = "\'"')
AMOUNTS = (3, 9)  # columns


def inferred(rows: list[list[str | None]]) -> list[list[str | None]]:
    return [[t.replace(".", "'") if t and j in AMOUNTS else t for j, t in enumerate(row)] for row in rows]


def check_release(source: Any, declared: str = DOMAIN) -> None:
    """Release with noise that is zero but for once in 10^9 cells, and look as the curator would."""
    domain = Domain.loads(declared)
    made = publish(source, domain, epsilon=50, strategy="cells", ledger=None, unit="Patient ID", max_rows=2)
    np.testing.assert_array_equal(np.rint(made.cells()), expected())
    looked = check(source, domain)
    assert looked.counted == "most"  # some were seen after April
    assert {look.attribute: look.shares[3] for look in looked.looks} == dict.fromkeys(domain.names, "none")


def test_what_is_expected_is_not_nothing() -> None:
    assert len(NAMES) == len(set(NAMES)) == 20
    assert (expected() > 0).sum() > 60
    assert 180 < expected().sum() < 240


def test_csv(tmp_path: Path) -> None:
    check_release(csv_file(tmp_path))


def test_without_the_reading_next_to_nothing_is_counted(tmp_path: Path) -> None:
    """What used to happen: each option left out loses rows, and the look tells of it."""
    table = csv_file(tmp_path)
    for line in (
        'prefix = "ca."',
        'format = "%B %d, %Y %I:%M %p %z"',
        'format = "%d.%m.%Y"',
        'decimal = ","\nthousands = "."',
        "multiline = true",
        'suffix = "€"',
    ):
        assert line in DOMAIN
        broken = Domain.loads(DOMAIN.replace(line, ""))
        looked = check(table, broken)
        assert (
            looked.counted != "most"
            or looked.broken_lines != "none"
            or any(look.shares[3] != "none" for look in looked.looks)
        )
    assert check(table, Domain.loads(DOMAIN)).broken_lines == "none"


def test_pandas(tmp_path: Path) -> None:
    check_release(pd.DataFrame(inferred(ROWS), columns=NAMES), INFERRED)
    with pytest.raises(SourceError, match=r"1\.234 is ambiguous in a column whose type a library inferred"):
        check_release(pd.read_csv(csv_file(tmp_path), sep=";", encoding="utf-8-sig", dtype=str, keep_default_na=False))


@pytest.mark.slow
def test_postgres(postgres: str) -> None:
    columns = sql.SQL(", ").join(sql.SQL("{} text").format(sql.Identifier(name)) for name in NAMES)
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS messy")
        connection.execute(sql.SQL("CREATE TABLE messy ({})").format(columns))
        with connection.cursor() as cursor, cursor.copy("COPY messy FROM STDIN") as copy:
            for row in ROWS:
                copy.write_row(row)
    check_release(f"{postgres}#messy")


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # PySpark leaves its sockets to be collected
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_spark(spark: Any) -> None:
    rows = [tuple(row) for row in inferred(ROWS)]
    check_release(spark.createDataFrame(rows, [f"c{i}" for i in range(20)]).toDF(*NAMES), INFERRED)
