"""The engine of our own: what it may open and keep, and that an interruption ends its work."""

from concurrent.futures import Future
from typing import Any

import pyarrow as pa
import pytest

from dpcube.core.sources import aggregates
from dpcube.core.sources.aggregates import run_in_duckdb
from dpcube.core.sources.table import Scan

SETTINGS = (
    "enable_external_access",
    "autoload_known_extensions",
    "autoinstall_known_extensions",
    "lock_configuration",
    "python_enable_replacements",
    "disabled_optimizers",
    "temp_directory",
    "memory_limit",
    "allowed_paths",
)
NOTHING = pa.table({"a": [1]})


def settings_of(scan: Scan) -> dict[str, str]:
    asked = ", ".join(f"current_setting('{name}')::VARCHAR AS {name}" for name in SETTINGS)
    return {name: str(value[0]) for name, value in run_in_duckdb(scan, f"SELECT {asked}").items()}


def test_an_engine_opens_no_file_but_the_tables_and_installs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregates, "half_of_free", lambda: "123MiB")
    told = settings_of(Scan("t", paths=("/it's/a.parquet", "/b.parquet")))
    off = ("enable_external_access", "autoload_known_extensions", "autoinstall_known_extensions")
    assert [told[name] for name in (*off, "python_enable_replacements")] == ["false"] * 4
    assert told["lock_configuration"] == "true"
    assert told["memory_limit"].startswith("123")
    assert told["temp_directory"].rpartition("/")[2].startswith("dpcube-")
    assert "/it's/a.parquet" in told["allowed_paths"].replace("\\'", "'")
    assert "/b.parquet" in told["allowed_paths"]


@pytest.mark.parametrize(("bounds_hold", "disabled"), [(True, "filter"), (False, "filter statistics")])
def test_statistics_are_not_believed_where_bounds_may_not_hold(*, bounds_hold: bool, disabled: str) -> None:
    told = settings_of(Scan("t", bounds_hold=bounds_hold))["disabled_optimizers"]
    assert {word for word in ("filter", "statistics") if word in told} == set(disabled.split())


def test_a_stream_is_called_stream() -> None:
    found = run_in_duckdb(Scan("stream", NOTHING.to_reader), "SELECT sum(a) AS n FROM stream")
    assert found["n"].tolist() == [1]


def test_an_interruption_before_the_engine_has_begun_ends_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked again and again: what is interrupted before it begins would go on."""

    def interrupted(_: Future[Any]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Future, "result", interrupted)
    endless = "SELECT count(*) AS n FROM range(10000000) a, range(10000000) b WHERE a.range + b.range < 0"
    with pytest.raises(KeyboardInterrupt):
        run_in_duckdb(Scan("t"), endless)
