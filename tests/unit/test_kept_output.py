"""What commands make of a file is made once: the same output from the cache, and another file's or option's never."""

import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import dpcube
from dpcube import Category, Domain, Integer, Release, evaluate
from dpcube.cli import commands
from dpcube.core.caches import SWITCH
from dpcube.models.errors.level_walk import FEW
from dpcube.models.marginals.balanced import StoredBalanced
from dpcube.queries import CountingQueries, Workload, query
from dpcube.release.cache import domain_and_estimate, libraries, made_once
from dpcube.testing import SeededNoise

DOMAIN = Domain(Integer("age", 20, 59), Integer("hours", 0, 9), Category("sex", ["F", "M"]))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "cache"
    monkeypatch.setenv(SWITCH, str(place))
    return place


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    counts = np.random.default_rng(2).poisson(6 * np.random.default_rng(3).gamma(0.5, 2.0, DOMAIN.shape))
    made = evaluate.experiment(counts, epsilon=1, strategy="adaptive", noise=SeededNoise(5))
    path = tmp_path_factory.mktemp("kept") / "r.dpcube"
    Release(DOMAIN, made.transcript, made.provenance).save(path)
    return path


def said(*words: object) -> str:
    result = CliRunner().invoke(commands, list(map(str, words)))
    assert result.exit_code == 0, result.output
    return result.output


def unread(patched: pytest.MonkeyPatch) -> None:
    """Have no file be read as a release."""
    patched.setattr("dpcube.release.release.Release.open", None)


COMMANDS = [
    ("info",),
    ("info", "--json"),
    ("sql", "SELECT sex, count(*) AS n, avg(age) AS a FROM cube GROUP BY sex", "--error"),
    ("sql", "SELECT median(hours) AS m, sum(hours) / count(*) AS h FROM cube WHERE hours > 3", "--error", "--csv"),
    ("sql", "SELECT hours, count(*) FROM cube GROUP BY hours", "--json"),
]


@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.usefixtures("cache")
def test_a_command_says_the_same_from_the_cache(
    file: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = (words[0], file, *words[1:])
    first = said(*asked)
    with monkeypatch.context() as patched:
        unread(patched)
        assert said(*asked) == first
    monkeypatch.setenv(SWITCH, "off")
    assert said(*asked) == first


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["plot", "report"])
def test_a_picture_is_drawn_once(
    cache: Path, file: Path, verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    ending, more = ("svg", ("age",)) if verb == "plot" else ("html", ())
    said(verb, file, *more, "-o", tmp_path / f"one.{ending}")
    number = len(list(cache.iterdir()))
    with monkeypatch.context() as patched:
        unread(patched)
        said(verb, file, *more, "-o", tmp_path / f"two.{ending}")
    assert (tmp_path / f"two.{ending}").read_bytes() == (tmp_path / f"one.{ending}").read_bytes()
    other = ("hours", "--confidence", "0.5") if verb == "plot" else ("--title", "Another")
    said(verb, file, *other, "-o", tmp_path / f"three.{ending}")
    assert (tmp_path / f"three.{ending}").read_bytes() != (tmp_path / f"one.{ending}").read_bytes()
    assert len(list(cache.iterdir())) == number + 1


def test_a_file_that_changes_while_it_is_read_is_not_kept(cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "r"
    path.write_bytes(b"one")

    def make() -> bytes:
        path.write_bytes(b"other")
        return b"of which?"

    assert made_once(path, "what", make) == b"of which?"
    assert not cache.exists()
    assert made_once(path, "what", lambda: b"of the other") == b"of the other"
    assert made_once(path, "what", lambda: b"never") == b"of the other"


@pytest.mark.usefixtures("cache")
def test_the_kept_estimate_answers_as_the_estimate_does(file: Path) -> None:
    whole = dpcube.open(file).estimate()
    asked = CountingQueries.of(query(DOMAIN, "age between 25 and 40 and sex = 'F'"))
    for number in (1, FEW, FEW + 1):
        lower = np.zeros((number, 3), np.int64)
        lower[:, 0] = np.arange(number) % DOMAIN.shape[0]
        ranges = Workload(DOMAIN.shape, lower, np.tile(DOMAIN.shape, (number, 1)))
        domain, infer = domain_and_estimate(file, "auto")
        kept = infer()
        assert domain == DOMAIN
        assert isinstance(kept, StoredBalanced)
        assert (kept.shape, kept.name) == (whole.shape, whole.name)
        np.testing.assert_allclose(kept.cells(), whole.cells(), rtol=1e-9)
        np.testing.assert_allclose(kept.values(ranges), whole.values(ranges))
        for found, expected in zip(kept.errors(ranges)[:2], whole.errors(ranges)[:2], strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
        assert kept.answers(asked)[0] == pytest.approx(whole.answers(asked)[0])
    nothing = np.zeros((0, 3), np.int64)
    assert kept.errors(Workload(DOMAIN.shape, nothing, nothing)).noise_variances.shape == (0,)


@pytest.mark.parametrize("estimate", ["uniform", "no such"])
@pytest.mark.usefixtures("cache")
def test_other_estimates_are_asked_as_before(file: Path, estimate: str) -> None:
    result = CliRunner().invoke(commands, ["sql", str(file), "SELECT count(*) FROM cube", "--estimate", estimate])
    assert (result.exit_code == 0) == (estimate == "uniform")


def test_a_page_without_pictures_is_not_kept_for_when_there_can_be_some(monkeypatch: pytest.MonkeyPatch) -> None:
    there = libraries("numpy")
    assert there == f"numpy {np.__version__}"
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert libraries("numpy") == "numpy missing"
