"""The model file: what is written is read again, and nothing else is."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from dpcube.core.domain import Category, Domain, Integer
from dpcube.core.errors import InputError
from dpcube.learn import TrainedModel
from dpcube.learn.model import NO_RELEASE, Origin
from dpcube.research import experiment
from dpcube.testing import SeededNoise


@pytest.fixture(scope="module")
def trained() -> TrainedModel:
    domain = Domain(Integer("x", 0, 19), Category("k", ["a", "b"]), Category("y", ["no", "yes"]))
    chance = expit(np.linspace(-3, 3, 20)[:, None] * np.array([0.2, 1]))
    counts = np.random.default_rng(0).binomial(500, np.stack([1 - chance, chance], axis=-1))
    return experiment(counts, epsilon=1, noise=SeededNoise(0), domain=domain).train("y")


def test_what_is_written_is_read_again(trained: TrainedModel, tmp_path: Path) -> None:
    trained.save(tmp_path / "m.json")
    again = TrainedModel.open(tmp_path / "m.json")
    cells = np.indices((20, 2)).reshape(2, -1).T
    cells = np.vstack([cells, [[-1, 0], [-1, -1]]])
    assert (0, 1) in [term.axes for term in again.model.models[0].terms]
    np.testing.assert_allclose(again.model.probabilities(cells), trained.model.probabilities(cells), atol=1e-6)
    for mine, theirs in zip(again.model.interval(cells), trained.model.interval(cells), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-4)
    assert (again.domain, again.target, again.origin) == (trained.domain, trained.target, trained.origin)
    assert again.quality["accuracy"] == pytest.approx(trained.quality["accuracy"], abs=1e-6)
    assert "release alone" in str(again.quality["said"])
    assert TrainedModel.loads(again.dumps()).dumps() == again.dumps()
    with pytest.raises(InputError, match="never overwrites"):
        again.save(tmp_path / "m.json")


def test_the_stamp_goes_with_the_model(trained: TrainedModel) -> None:
    assert not trained.origin.private  # its noise was seeded
    assert json.loads(trained.dumps())["private"] is False
    assert "NOT PRIVATE" in trained.origin.words
    assert "NOT PRIVATE" in NO_RELEASE.words
    assert Origin(private=True, release="ab" * 32, epsilon="1", protects="one row").words.startswith("learnt from")


def _set(*path: str | int, to: object) -> Callable[[dict[str, Any]], None]:
    def change(held: dict[str, Any]) -> None:
        place: Any = held
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    return change


FAULTS = {
    "another kind": _set("kind", to="pickle"),
    "a future format": _set("format", to=2),
    "a format that is no number": _set("format", to=True),
    "one key more": _set("more", to=1),
    "a private model of no release": lambda held: held.update(
        private=True, origin={"release": None, "epsilon": None, "protects": None}
    ),
    "a private that is no truth value": _set("private", to="yes"),
    "an origin with more": _set("origin", "more", to="x"),
    "a release that is no text": _set("origin", "release", to=5),
    "another target": _set("target", to="k"),
    "no such target": _set("target", to="nope"),
    "other classes": _set("classes", to=["a", "b"]),
    "a domain that is none": _set("domain", to="attribute = 1"),
    "a domain that reads files": _set(
        "domain", to='[[attribute]]\nname = "x"\ntype = "category"\nvalues_from = "/etc/passwd"\n'
    ),
    "a quality that is nested": _set("quality", "deep", to=[[1]]),
    "no models": _set("models", to=[]),
    "models that are none": _set("models", to=[1]),
    "terms that are none": _set("models", 0, "terms", to=[1]),
    "a feature that is not there": _set("models", 0, "terms", 0, "features", to=[9]),
    "a feature before the first": _set("models", 0, "terms", 0, "features", to=[-1]),
    "features out of order": _set("models", 0, "terms", 0, "features", to=[1, 0]),
    "no features": _set("models", 0, "terms", 0, "features", to=[]),
    "a feature that is a truth value": _set("models", 0, "terms", 0, "features", to=[False]),
    "too few groups": _set("models", 0, "terms", 0, "groups", to=[[0, 1]]),
    "groups that leap": _set("models", 0, "terms", 0, "groups", 0, 3, to=10**9),
    "groups below 0": _set("models", 0, "terms", 0, "groups", 0, 0, to=-1),
    "groups that are fractions": _set("models", 0, "terms", 0, "groups", 0, 0, to=0.0),
    "a number that is a text": _set("models", 0, "numbers", 0, to="1"),
    "a number beyond all": _set("models", 0, "numbers", 0, to=1e300),
    "a number of very many digits": _set("models", 0, "numbers", 0, to=10**400),
    "too few numbers": _set("models", 0, "numbers", to=[1.0]),
    "a short covariance": _set("models", 0, "covariance", to=[[1.0]]),
    "a row of the covariance that is long": _set("models", 0, "covariance", 0, to=[1.0, 2.0]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_with_a_fault_is_refused_in_one_line(trained: TrainedModel, tmp_path: Path, fault: str) -> None:
    held = json.loads(trained.dumps())
    FAULTS[fault](held)
    (tmp_path / "m.json").write_text(json.dumps(held))
    with pytest.raises(InputError) as error:
        TrainedModel.open(tmp_path / "m.json")
    assert "\n" not in str(error.value)
    assert "m.json is no whole model file" in str(error.value)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "[" * 100_000, '{"kind": NaN}', '{"kind": "dpcube classifier"', "\ud800".encode("utf-8", "replace")],
)
def test_what_is_no_model_is_refused(tmp_path: Path, text: str | bytes) -> None:
    (tmp_path / "m.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=r"m\.json"):
        TrainedModel.open(tmp_path / "m.json")


def test_numbers_that_are_not_finite_are_refused(trained: TrainedModel) -> None:
    text = trained.dumps()
    first = str(json.loads(text)["models"][0]["numbers"][0])
    for constant in ("NaN", "Infinity", "-Infinity", "1e999"):
        with pytest.raises(InputError):
            TrainedModel.loads(text.replace(first, constant, 1))


def test_what_is_no_plain_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.json", Path("/dev/zero")):
        with pytest.raises(InputError):
            TrainedModel.open(path)


def test_very_wide_domains_do_not_make_models_of_any_size(trained: TrainedModel) -> None:
    """The memory of a model is bounded by its text: groups are as many as are listed, numbers as many as groups."""
    held = json.loads(trained.dumps())
    held["domain"] = Domain(Integer("x", 0, 2**30), Category("k", ["a", "b"]), Category("y", ["no", "yes"])).dumps()
    with pytest.raises(InputError):
        TrainedModel.loads(json.dumps(held))


ODD: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from([10**400, -1, 2**63, "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def _paths(held: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the ways to all values of a document, of long lists to the first few."""
    inner = held.items() if isinstance(held, dict) else enumerate(held[:3]) if isinstance(held, list) else ()
    return [*([path] if path else []), *(way for key, value in inner for way in _paths(value, (*path, key)))]


@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_whatever_stands_in_a_file_it_is_read_or_refused(trained: TrainedModel, data: st.DataObject) -> None:
    held = json.loads(trained.dumps())
    _set(*data.draw(st.sampled_from(_paths(held))), to=data.draw(ODD))(held)
    try:
        read = TrainedModel.loads(json.dumps(held))
    except InputError:
        return
    chances = read.model.probabilities(np.zeros((1, 2), np.int64))
    assert np.isfinite(chances).all()
    low, high = read.model.interval(np.zeros((1, 2), np.int64))
    assert (low <= high).all()
