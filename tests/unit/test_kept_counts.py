"""What a file's counts need, kept for the next time: the same answers, whatever is found in the cache directory."""

import os
import shutil
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpcube
from dpcube import Domain, Integer, Release
from dpcube.core.caches import SWITCH, cache_folder
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.files import PART
from dpcube.core.gate import Gate
from dpcube.measurements import BoxCounts, Marginal, Provenance, Transcript
from dpcube.models.marginals import BalancedEstimate, Components, NoisyTable
from dpcube.models.marginals.components import subsets, table_over
from dpcube.models.posterior import PosteriorEstimate, infer
from dpcube.models.protocol import DamagedError, EstimateArrays, arrays_of_bytes, arrays_to_bytes, estimate_of_arrays
from dpcube.queries import CountingQueries
from dpcube.release.answer import Answer
from dpcube.release.cache import counted, estimates, store
from dpcube.strategies import Adaptive
from dpcube.testing import SeededNoise
from dpcube.trees.straight_cuts import straight_cuts
from dpcube.trees.tree import CutTree
from random_trees import random_tree

RELEASES = Path(__file__).parent / "releases"
ADAPTIVE = RELEASES / "adaptive.dpcube"


def estimate(shape: tuple[int, ...], seed: int) -> PosteriorEstimate:
    generator = np.random.default_rng(seed)
    cuts = straight_cuts(random_tree(shape, generator, stop=0.15))
    assert cuts is not None
    tree = cuts.tree
    measured = np.where(tree.is_leaf, generator.gamma(0.5, 40.0, len(tree)), 0.0)
    variance = np.where(tree.is_leaf, generator.uniform(20.0, 90.0, len(tree)), np.inf)
    return PosteriorEstimate("posterior", infer(tree, measured, variance), measured, variance, doubting=True)


def some_queries(shape: tuple[int, ...], seed: int) -> CountingQueries:
    """Queries of every kind: ranges, lists, cut bins, and weights below zero."""
    generator = np.random.default_rng(seed)
    kinds = [np.array([0.0, 1.0]), np.array([0.0, 0.3, 1.0]), np.array([-1.0, 0.0, 2.5])]
    weights = tuple(
        np.stack([generator.choice(kind, extent) for kind in kinds] + [np.ones(extent)]) for extent in shape
    )
    return CountingQueries(weights, generator.integers(0, 4, (20, len(shape))))


def to_bytes(written: EstimateArrays) -> bytes:
    return arrays_to_bytes({"kind": written.kind, "facts": written.facts}, written.arrays)


def from_bytes(content: bytes) -> EstimateArrays:
    facts, arrays = arrays_of_bytes(content)
    return EstimateArrays(facts["kind"], facts["facts"], arrays)


@settings(max_examples=40)
@given(st.sampled_from([(7,), (5, 4), (3, 1, 6), (2, 3, 2, 2)]), st.integers(0, 10**6))
def test_the_walk_by_levels_equals_the_compiled_walk(shape: tuple[int, ...], seed: int) -> None:
    made, asked = estimate(shape, seed), some_queries(shape, seed)
    expected, parts = made.answers(asked)
    found, errors = estimate_of_arrays(made.to_arrays()).answers(asked)
    scale = float(np.abs(made.posterior.totals).max()) + 1
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * scale)
    np.testing.assert_allclose(errors.noise_variances, parts.noise_variances, rtol=1e-9, atol=1e-9 * scale)
    np.testing.assert_allclose(
        errors.nonuniformity_squares, parts.nonuniformity_squares, rtol=1e-9, atol=1e-9 * scale**2
    )


def balanced(shape: tuple[int, ...], seed: int) -> BalancedEstimate:
    """A tree with noisy tables over each axis and each pair of axes."""
    generator = np.random.default_rng(seed)
    tree = estimate(shape, seed)
    pairs = [axes for axes in subsets(tuple(range(len(shape)))) if len(axes) in (1, 2)]
    cube = tree.cells()
    tables = [
        NoisyTable(axes, table + generator.normal(0, 4.0, table.shape), 16.0)
        for axes, table in ((axes, table_over(cube, axes)) for axes in pairs)
    ]
    return BalancedEstimate("balanced", tree, Components.from_tables(shape, tables))


@settings(max_examples=25)
@given(st.sampled_from([(7,), (5, 4), (3, 1, 6), (2, 3, 2, 2)]), st.integers(0, 10**6))
def test_what_is_kept_of_a_balanced_estimate_answers_as_it_does(shape: tuple[int, ...], seed: int) -> None:
    made, asked = balanced(shape, seed), some_queries(shape, seed)
    expected, parts = made.answers(asked)
    scale = float(np.abs(made.cells()).sum()) + 1
    for written in (made.to_arrays(), from_bytes(to_bytes(made.to_arrays()))):
        found, errors = estimate_of_arrays(written).answers(asked)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * scale)
        np.testing.assert_allclose(errors.noise_variances, parts.noise_variances, rtol=1e-8, atol=1e-9 * scale)
        np.testing.assert_allclose(
            errors.nonuniformity_squares, parts.nonuniformity_squares, rtol=1e-8, atol=1e-9 * scale**2
        )


@pytest.mark.parametrize(
    "change",
    [
        {"precisions": [[[0], 1.0]]},  # without the total
        {"precisions": [[[], 1.0], [[7], 1.0]]},
        {"precisions": [[[], 1.0], [[1, 0], 1.0]]},
        {"precisions": [[[], 0.0]]},
        {"factors": [[[0], -1.0]]},
        {"factors": 7},
        {"factors": [[[0, 0], 1.0]]},
    ],
)
def test_forged_tables_are_damage(change: dict[str, object]) -> None:
    written = balanced((5, 4), 3).to_arrays()
    estimate_of_arrays(written)
    with pytest.raises(DamagedError):
        estimate_of_arrays(written._replace(facts={**written.facts, **change}))
    whole = to_bytes(written)
    length = 4 + int.from_bytes(whole[:4], "little")
    for damaged in (whole[:-1], whole + b"\0", whole[:length], whole[length:], b""):
        with pytest.raises(DamagedError):
            estimate_of_arrays(from_bytes(damaged))


def test_a_release_with_tables_is_kept_and_answered_alike(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape, units = (8, 6, 5), BUDGET_UNITS // 20
    exact = np.random.default_rng(4).poisson(8 * np.random.default_rng(3).gamma(0.5, 2.0, shape))
    gate = Gate(exact, Fraction(1), noise=SeededNoise(1))
    axes = [axes for axes in subsets((0, 1, 2)) if len(axes) in (1, 2)]
    tables = [Marginal(of, gate.marginal(of, units), units) for of in axes]
    tree = Adaptive().run(Gate(exact, Fraction(7, 10), noise=SeededNoise(2))).boxes
    assert tree is not None
    boxes = BoxCounts(tree.tree, tree.node, tree.counts, tree.units * 7 // 10)
    domain = Domain([Integer(name, 0, n - 1) for name, n in zip(("age", "hours", "sex"), shape, strict=True)])
    made = Release(
        domain,
        Transcript(shape, gate.epsilon_per_unit, (*tables, boxes)),
        Provenance("adaptive", Fraction(1), "dpcube", private=False),
    )
    assert isinstance(made.estimate(), BalancedEstimate)
    made.save(tmp_path / "r.dpcube")
    questions = ("", "age >= 3", "age >= 3 and hours < 4", "age = 2 and hours = 1 and sex = 0")
    first = counted(tmp_path / "r.dpcube", questions, confidence=0.9)
    for question, answer in zip(questions, first, strict=True):
        same = made.count(question or None, confidence=0.9)
        assert (answer.value, answer.low, answer.high) == pytest.approx((same.value, same.low, same.high))
    with monkeypatch.context() as patched:
        patched.setattr("dpcube.release.release.Release.open", None)
        assert counted(tmp_path / "r.dpcube", questions, confidence=0.9) == first


def test_what_is_kept_is_read_again_bit_for_bit() -> None:
    made = estimate((5, 4, 3), 7).to_arrays()
    again = from_bytes(to_bytes(made))
    assert (again.kind, again.facts) == (made.kind, made.facts)
    assert set(again.arrays) == set(made.arrays)
    for name, array in made.arrays.items():
        np.testing.assert_array_equal(again.arrays[name], array)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "cache"
    monkeypatch.setenv(SWITCH, str(place))
    return place


def ask(path: Path = ADAPTIVE, **more: str) -> list[Answer]:
    return counted(path, ("", "age >= 30", "age between 22 and 41 and sex = 'F'"), confidence=0.9, **more)


def entry(cache: Path) -> Path:
    (found,) = cache.iterdir()
    return found


def test_kept_or_not_the_answers_are_the_same(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = ask()
    assert entry(cache).stat().st_mode & 0o777 == 0o600
    assert cache.stat().st_mode & 0o777 == 0o700
    with monkeypatch.context() as patched:
        patched.setattr("dpcube.release.release.Release.open", None)  # nothing is read again
        assert ask() == first
    monkeypatch.setenv(SWITCH, "off")
    assert ask() == first
    release = dpcube.open(ADAPTIVE)
    assert first[1].value == pytest.approx(release.count("age >= 30").value)
    assert first[1].stderr == pytest.approx(release.count("age >= 30").stderr)


@pytest.mark.parametrize("name", ["cells.dpcube", "dpcube.dpcube"])
def test_estimates_of_other_kinds_are_answered_and_not_kept(cache: Path, name: str) -> None:
    (found,) = counted(RELEASES / name, ("",), confidence=0.95)
    assert found == dpcube.open(RELEASES / name).count()
    assert not cache.exists()


# --- what is found in the cache directory -------------------------------------------------------------------------


def forge(path: Path, key: str, content: bytes) -> None:
    """Put bytes in the place of an entry as `store.write` would, so that what lies behind the digest is reached."""
    path.write_bytes(store._digest(key, content) + content)


def key_of(path: Path, estimate: str = "auto") -> str:
    return f"{store.digest_of(path)} {estimate} {dpcube.__version__} {store._stamp()}"


@settings(max_examples=40)
@given(place=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
def test_a_damaged_entry_is_not_used(place: float, change: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    cache = tmp_path_factory.mktemp("damaged")
    store.write_entry(cache, "key", b"what was kept")
    damaged = bytearray(entry(cache).read_bytes())
    damaged[int(place * len(damaged))] ^= change
    entry(cache).write_bytes(damaged)
    assert store.read_entry(cache, "key") is None
    entry(cache).write_bytes(damaged[: int(place * len(damaged))])
    assert store.read_entry(cache, "key") is None


def test_an_entry_under_another_name_is_not_used(cache: Path) -> None:
    store.write_entry(cache, "one", b"of one release")
    entry(cache).rename(store._place(cache, "other"))
    assert store.read_entry(cache, "other") is None
    assert store.read_entry(cache, "one") is None


FORGERIES = {
    "two roots": ("end", 0, 5),
    "past the end": ("end", 1, 10**6),
    "backwards": ("end", 0, 0),
    "a node of many parents": ("end", 1, 3),
    "no such axis": ("cutAxis", 0, 9),
    "no axis": ("cutAxis", 0, -1),
    "a cut at the edge": ("cutPlace", 0, 0),
    "a cut outside": ("cutPlace", 0, 99),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_tree_is_found_out_and_the_file_read(cache: Path, name: str) -> None:
    first = ask()
    content = store.read_entry(cache, key_of(ADAPTIVE))
    assert content is not None
    facts, arrays = arrays_of_bytes(content)
    field, node, value = FORGERIES[name]
    forged = arrays[field].copy()
    forged[node] = value
    forge(entry(cache), key_of(ADAPTIVE), arrays_to_bytes(facts, arrays | {field: forged}))
    assert ask() == first
    assert store.read_entry(cache, key_of(ADAPTIVE)) == content  # and it is put right


def test_nodes_with_many_parents_are_no_tree() -> None:
    """They would be met over and over: twice as often at each level."""
    tree = estimate((64,), 3).tree
    assert CutTree((64,), tree.end, *tree.cuts)
    end = np.minimum(np.arange(len(tree.end)) + 3, len(tree.end))
    end[0], end[-2:] = len(end), (len(end) - 1, len(end))
    with pytest.raises(ValueError, match="no tree"):
        CutTree((64,), end, np.zeros(len(end), np.int64), tree.cuts.place)


def test_nodes_that_no_walk_would_reach_are_no_tree() -> None:
    """Two halves that do not make up their parent: what is behind them would be left out of every answer."""
    end, nothing = np.array([5, 2, 3, 4, 5]), np.zeros(5, np.int64)
    with pytest.raises(ValueError, match="no tree"):
        CutTree((8,), end, nothing, nothing + 1)
    assert CutTree((8,), np.array([3, 2, 3]), nothing[:3], nothing[:3] + 1)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 7,
        b"\xff" * 40,
        (5).to_bytes(4, "little") + b"hello{}\n",
        (2**32 - 1).to_bytes(4, "little") + b"format = 1",
        arrays_to_bytes({"domain": "format = 1", "kind": "x", "facts": {}}, {}),
        arrays_to_bytes({"domain": 7}, {}),
    ],
)
def test_forged_bytes_are_found_out_and_the_file_read(cache: Path, content: bytes) -> None:
    first = ask()
    forge(entry(cache), key_of(ADAPTIVE), content)
    assert ask() == first


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"[",
        b"1",
        b"{}",
        b'{"facts": {"kind": "tree", "facts": {}}, "arrays": {}}',
        b'{"facts": {}, "arrays": {"end": ["i4", 1e400, 1]}}',
        b'{"facts": {}, "arrays": {"end": ["O", 0, 1]}}',
        b'{"facts": {}, "arrays": {"end": ["i4", -8, 1]}}',
        b"[" * 10**5,
    ],
)
def test_a_forged_head_is_damage(head: bytes) -> None:
    written = estimate((5,), 1).to_arrays()
    whole = to_bytes(written)
    length = 4 + int.from_bytes(whole[:4], "little")
    with pytest.raises((DamagedError, KeyError)):
        estimate_of_arrays(from_bytes(len(head).to_bytes(4, "little") + head + whole[length:]))
    with pytest.raises(DamagedError):
        estimate_of_arrays(written._replace(facts={**written.facts, "shape": [6]}))
    with pytest.raises(DamagedError):
        from_bytes(whole + b"\0" * 8)


def test_another_version_or_other_code_or_another_file_has_its_own(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ask()
    monkeypatch.setattr(store, "__version__", "0.1.1")
    ask()
    assert len(list(cache.iterdir())) == 2
    monkeypatch.setattr(store, "_stamp", lambda: "another")
    ask()
    assert len(list(cache.iterdir())) == 3
    ask(estimate="posterior")
    assert len(list(cache.iterdir())) == 4
    copy = tmp_path / "renamed.dpcube"
    shutil.copy(ADAPTIVE, copy)
    ask(copy)
    assert len(list(cache.iterdir())) == 4  # the same bytes


def test_the_stamp_follows_the_package_s_own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package" / "analyst" / "kept"
    package.mkdir(parents=True)
    monkeypatch.setattr(store, "__file__", str(package / "keys.py"))
    (tmp_path / "package" / "one.py").write_text("1")
    before = store._stamp()
    (package / "two.py").write_text("1")
    between = store._stamp()
    (package / "two.py").write_text("2")
    os.utime(package / "two.py", ns=(1, 1))
    assert len({before, between, store._stamp()}) == 3


def test_nothing_is_read_through_links_or_from_pipes_or_where_others_write(cache: Path, tmp_path: Path) -> None:
    store.write_entry(cache, "key", b"kept")
    assert bytes(store.read_entry(cache, "key") or b"") == b"kept"
    kept = entry(cache)
    kept.chmod(0o622)
    assert store.read_entry(cache, "key") is None
    kept.chmod(0o600)
    cache.chmod(0o777)
    assert store.read_entry(cache, "key") is None
    store.write_entry(cache, "another", b"kept")
    assert entry(cache) == kept
    cache.chmod(0o700)
    moved = kept.rename(tmp_path / "elsewhere")
    kept.symlink_to(moved)
    assert store.read_entry(cache, "key") is None
    kept.unlink()
    os.mkfifo(kept)
    assert store.read_entry(cache, "key") is None
    linked = tmp_path / "linked"
    linked.symlink_to(cache)
    store.write_entry(linked, "through", b"kept")
    assert store.read_entry(linked, "through") is None


def test_a_cache_that_cannot_be_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "off")
    first = ask()
    for place in (tmp_path / "file" / "under", Path("/proc/nowhere"), tmp_path / "nul\0"):
        (tmp_path / "file").write_text("")
        monkeypatch.setattr(estimates, "cache_folder", lambda place=place: place)
        assert ask() == first


def test_where_the_cache_is() -> None:
    assert cache_folder({SWITCH: "off", "XDG_CACHE_HOME": "/x"}) is None
    assert cache_folder({SWITCH: ""}) is None
    assert cache_folder({SWITCH: "/here"}) == Path("/here")


@pytest.mark.skipif("sys.platform in ('win32', 'darwin')", reason="other systems have other places")
def test_where_the_cache_is_by_the_freedesktop_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_folder({"XDG_CACHE_HOME": "/x"}) == Path("/x/dpcube")
    assert cache_folder({"XDG_CACHE_HOME": "relative"}) is None
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_folder({}) == Path("/home/me/.cache/dpcube")


def test_many_writers_and_readers_at_once_see_whole_entries(cache: Path) -> None:
    content, seen, stop = b"kept" * 50_000, [], threading.Event()

    def read() -> None:
        while not stop.is_set():
            seen.append(store.read_entry(cache, "key"))

    def write() -> None:
        for _ in range(30):
            store.write_entry(cache, "key", content)

    readers = [threading.Thread(target=read) for _ in range(2)]
    writers = [threading.Thread(target=write) for _ in range(3)]
    for thread in (*readers, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    for thread in readers:
        thread.join()
    assert {None if found is None else bytes(found) for found in seen} <= {None, content}
    assert bytes(store.read_entry(cache, "key") or b"") == content
    assert [path.suffix for path in cache.iterdir()] == [store.ENDING]


def test_what_was_not_used_for_longest_makes_way(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_CACHE_ENTRIES", 3)
    for number, name in enumerate("abcd"):
        store.write_entry(cache, name, b"kept")
        os.utime(store._place(cache, name), (number, number))
        store.read_entry(cache, "a")  # used again and again
    assert [name for name in "abcd" if store.read_entry(cache, name)] == ["a", "c", "d"]
    monkeypatch.setattr(store, "MAX_CACHE_BYTES", 4 * 40)
    store.write_entry(cache, "e", b"x" * 40)  # the largest there may be
    store.write_entry(cache, "f", b"x" * 41)
    assert store.read_entry(cache, "f") is None
    assert store.read_entry(cache, "e") is not None
    assert sum(path.stat().st_size for path in cache.iterdir()) <= 160


def test_what_a_crash_left_behind_goes_after_a_day(cache: Path) -> None:
    store.write_entry(cache, "key", b"kept")
    old, new = cache / PART.format("old"), cache / PART.format("new")
    for path in (old, new):
        path.write_bytes(b"")
    os.utime(old, (0, 0))
    store.write_entry(cache, "key", b"kept")
    assert not old.exists()
    assert new.exists()


def test_a_file_that_changes_while_it_is_read_is_not_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digests = iter(["one", "another"])
    monkeypatch.setattr("dpcube.release.cache.estimates.digest_of", lambda _: next(digests))
    ask()
    assert not cache.exists()
