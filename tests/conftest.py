"""Real servers, started by the first test that needs one: PostgreSQL from the `pgserver` wheel, Spark in local mode;
and a real browser, the Debian package `chromium`.
"""

import gc
import os
import signal
import warnings
from collections.abc import Iterator
from tempfile import mkdtemp
from typing import Any

import pytest
from hypothesis import settings

from chromium import Browser, Page, open_browser
from dpcube.core import caches
from nightly import NIGHTLY

settings.register_profile("dpcube", deadline=None, max_examples=40)  # how busy the machine is must not decide a test
settings.register_profile("quick", settings.get_profile("dpcube"), max_examples=10)  # of `make check`
settings.register_profile(NIGHTLY, settings.get_profile("dpcube"), max_examples=100)
settings.load_profile("dpcube")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as of a command that a script starts in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # or what tests start could not be interrupted
ENGINES = ("spark", "postgres")
gc.disable()  # until all tests are collected: what is imported stays, and going through it took a third of that time


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let `make check` draw few examples of every property, and bring together what starts a server or a browser.

    Two workers begin with a half of the list each and take from the other's end when theirs is done, so the first tests
    of each half stay where they are: one worker starts Spark and PostgreSQL, the other starts the browser.
    """
    if settings.get_current_profile_name() == "quick":
        for item in items:
            draw_few(getattr(item, "obj", None))
    kinds: dict[str, list[pytest.Item]] = {"engines": [], "pages": [], "others": []}
    for item in items:
        kinds[what_it_starts(item)].append(item)
    half = max((len(items) + 1) // 2 - len(kinds["engines"]), 0)
    items[:] = kinds["engines"] + kinds["others"][:half] + kinds["pages"] + kinds["others"][half:]


def pytest_collection_finish() -> None:
    """Collect garbage from here on, without going through what was imported."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """Let the interpreter free at its end what was imported; DuckDB complains otherwise."""
    gc.unfreeze()


def what_it_starts(item: pytest.Item) -> str:
    """Of a fixture that is asked for by a parameter, only the test's name tells."""
    used = getattr(item, "fixturenames", ())
    if any(engine in used or f"[{engine}" in item.name for engine in ENGINES):
        return "engines"
    return "pages" if "browser" in used else "others"


def draw_few(test: Any) -> None:
    """Take down to the profile's the number of examples that a test draws, if it draws any."""
    function = getattr(test, "__func__", test)
    asked = getattr(function, "_hypothesis_internal_use_settings", None)
    few = settings.get_profile("quick").max_examples
    if asked is not None and asked.max_examples > few:
        function._hypothesis_internal_use_settings = settings(asked, max_examples=few)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep what is kept of files away from the user's own, for tests and the commands that they run."""
    os.environ[caches.SWITCH] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a database of PostgreSQL: the one that DPCUBE_POSTGRES names, if it does, whose tables may go.

    Not in pytest's own folder: under root the server runs as another user, whom the next pytest to start shuts out.
    """
    if running := os.environ.get("DPCUBE_POSTGRES"):
        yield running
        return
    folder = mkdtemp(prefix="dpcube-pg-")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # platformdirs misses a variable that a login would have set
        from pgserver.postgres_server import get_server

        server = get_server(folder, cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A Spark session in local mode, with settings that tests of small tables do not wait for."""
    from pyspark.sql import SparkSession

    local: dict[str, Any] = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # no test runs for long
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "America/Santiago",  # which must not matter
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = SparkSession.builder.master("local[1]").config(map=local).getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Headless Chromium."""
    with open_browser(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


@pytest.fixture
def page(browser: Browser) -> Page:
    """A new tab of it."""
    return browser.page()
