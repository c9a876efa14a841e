"""Strategies from outside, by object, by MODULE:CLASS and by entry point: faults are told before anything is spent."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dpcube import Domain, Integer, evaluate, plan
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter, every_cell
from dpcube.core.errors import DpcubeError, InputError, MemoryLimitError
from dpcube.core.ledger.ledger import Ledger
from dpcube.curator import publish
from dpcube.measurements import Marginal, Transcript
from dpcube.strategies import (
    BY_NAME,
    DEFAULT,
    NOT_COMPARED,
    RIVALS,
    Adaptive,
    Cells,
    Cuboids,
    ExternalStrategy,
    Strategy,
    TwoPhase,
    strategy_names,
    strategy_of,
    strategy_with,
    usual_peak_bytes,
)
from dpcube.strategies.registry import fitted_strategy
from dpcube.testing import check_strategy

DOMAIN = Domain.of_shape((3, 4))
COUNTS = np.arange(12).reshape(3, 4)


@dataclass
class Plain:
    """The least that a strategy is."""

    name: str = "plain"
    share: float = 0.5

    def run(self, counter: NoisyCounter) -> Transcript:
        cells = Marginal.from_cells(every_cell(counter, BUDGET_UNITS), BUDGET_UNITS)
        return Transcript(counter.shape, counter.epsilon_per_unit, (cells,))


@dataclass
class Fitting(Plain):
    names: str = ""

    def for_domain(self, domain: Domain) -> "Fitting":
        return Fitting(names=self.names + ",".join(domain.names))


def module(path: Path, text: str, *, name: str = "outside_strategy") -> None:
    (path / f"{name}.py").write_text(text, encoding="utf-8")


WRITTEN = """
from dataclasses import dataclass
from dpcube.strategies import Cells

@dataclass(frozen=True)
class Mine:
    name: str = "mine"
    def run(self, counter):
        return Cells().run(counter)

class Needs(Mine):
    def __init__(self, something):
        pass

ready = Mine("ready")
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("outside_strategy", "broken_strategy"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def offer(path: Path, *entries: str, name: str = "pkg") -> None:
    """Install a distribution, by the folder that an installer leaves."""
    info = path / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("\n".join(["[dpcube.strategies]", *entries, ""]), encoding="utf-8")


# --- by object --------------------------------------------------------------------------------------------------


def test_a_name_and_a_run_are_enough() -> None:
    release = publish(COUNTS, DOMAIN, epsilon=50, strategy=Plain(), ledger=None)
    assert (release.provenance.strategy, dict(release.provenance.parameters)) == ("plain", {"share": 0.5})
    np.testing.assert_array_equal(release.cells(), COUNTS)
    made = plan.plan(DOMAIN, rows=100, epsilon=1, strategies=Plain())
    assert {(p.strategy, p.basis) for p in made.predictions} == {("plain", "simulated")}
    assert evaluate.release_array(COUNTS, epsilon=50, strategy=Plain(), seed=1).sum() == COUNTS.sum()


def test_built_in_strategies_are_returned_as_they_are() -> None:
    for one in (Adaptive(), Cells(), TwoPhase(share=Fraction(1, 3))):
        assert strategy_of(one) is one
    assert [type(strategy_of(name)) for name in BY_NAME] == list(BY_NAME.values())


def test_every_strategy_that_can_be_fitted_is_fitted_once() -> None:
    release = publish(COUNTS, DOMAIN, epsilon=1, strategy=Fitting(), ledger=None)
    assert release.provenance.parameters["names"] == "axis0,axis1"
    again = strategy_of(strategy_of(Fitting(), DOMAIN), Domain.of_shape((5,)))
    assert again.parameters()["names"] == "axis0,axis1"


def test_what_is_not_said_of_memory_is_taken_to_be_much(monkeypatch: pytest.MonkeyPatch) -> None:
    for shape in ((400_000,), (700, 500), (90, 71, 72)):  # too large for Adaptive to run plans on made-up tables
        assert strategy_of(Plain()).peak_bytes(shape) == usual_peak_bytes(shape) >= Adaptive().peak_bytes(shape)
    monkeypatch.setattr("dpcube.core.feasible.available_bytes", lambda: 2**28)
    with pytest.raises(MemoryLimitError, match="cells fit here"):
        publish(COUNTS, DOMAIN, epsilon=1, strategy=Plain(), ledger=None)


@dataclass
class Odd(Plain):
    """Whatever it is given in place of a method's result; an exception is raised."""

    _said: object = None
    _bytes: object = 1
    _fits: object = None

    def _given(self, value: object) -> object:
        if isinstance(value, Exception):
            raise value
        return value

    def parameters(self) -> object:
        return self._given(self._said)

    def peak_bytes(self, shape: tuple[int, ...]) -> object:  # noqa: ARG002
        return self._given(self._bytes)

    def for_domain(self, domain: Domain) -> object:  # noqa: ARG002
        return self if self._fits is None else self._given(self._fits)


@dataclass
class Array(Plain):
    values: object = field(default_factory=lambda: np.ones(2))


class Nameless:
    def run(self, counter: NoisyCounter) -> None: ...


class Idle:
    name = "idle"


WRONG = {
    "class": (Plain, r"Plain is a class; a strategy is an object of it: Plain\(\)"),
    "no name": (Nameless(), "a strategy must have a name, .* this object of Nameless has none"),
    "odd name": (Plain(name="a\nb"), "a strategy must have a name"),
    "no run": (Idle(), r"strategy 'idle' must have a method run\(counter\)"),
    "no strategy": (7, "a strategy must have a name"),
    "array": (Array(), "strategy 'plain': its parameter 'values' is no text, number"),
    "not finite": (Odd(_said={"a": float("nan")}), "strategy 'plain': its parameter 'a' is no text, number"),
    "no dict": (Odd(_said=[1]), r"strategy 'plain': its parameters\(\) must be a dict"),
    "parameters": (Odd(_said=KeyError("x")), r"strategy 'plain': its parameters\(\) failed: KeyError: 'x'"),
    "bytes": (Odd(_said={}, _bytes=-1), r"its peak_bytes\(\) must be a whole number of bytes, got -1"),
    "no bytes": (Odd(_said={}, _bytes=ValueError("a\nb")), r"its peak_bytes\(\) failed: ValueError: a b$"),
    "fit": (Odd(_said={}, _fits=TypeError("no")), r"its for_domain\(\) failed: TypeError: no"),
    "fits nothing": (Odd(_said={}, _fits=3), "a strategy must have a name"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told_before_anything_is_charged(case: str, tmp_path: Path) -> None:
    strategy, message = WRONG[case]
    ledger = tmp_path / "l.ledger"
    with pytest.raises(InputError, match=message) as told:
        publish(COUNTS, DOMAIN, epsilon=1, strategy=strategy, ledger=ledger)  # type: ignore[arg-type]
    assert not ledger.exists()
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (
            ZeroDivisionError("noisy 17"),
            r"strategy 'bad' failed as it measured \(ZeroDivisionError\); what was charged",
        ),
        (None, "strategy 'bad' must return a Transcript of what it measured, not NoneType"),
        (((4,), 1), "must return a Transcript of the counter's shape and epsilon_per_unit"),
        (((3, 4), 2), "must return a Transcript of the counter's shape and epsilon_per_unit"),
    ],
)
def test_a_strategy_that_fails_as_it_measures_has_spent(returned: object, message: str, tmp_path: Path) -> None:
    class Bad:
        name = "bad"

        def run(self, counter: NoisyCounter) -> object:
            if isinstance(returned, Exception):
                raise returned
            if returned is None:
                return None
            assert isinstance(returned, tuple)
            shape, times = returned
            cells = Marginal.from_cells(np.zeros(shape, np.int64), BUDGET_UNITS)
            return Transcript(shape, times * counter.epsilon_per_unit, (cells,))

    with pytest.raises(DpcubeError, match=message) as told:
        publish(COUNTS, DOMAIN, epsilon=1, strategy=Bad(), ledger=tmp_path / "l.ledger")  # type: ignore[arg-type]
    assert "17" not in str(told.value)
    assert Ledger(tmp_path / "l.ledger").statement().remaining == 0


def test_parameters_are_those_before_the_run() -> None:
    class Learns:
        name = "learns"

        def run(self, counter: NoisyCounter) -> Transcript:
            made = Cells().run(counter)
            self.seen = made
            return made

    assert publish(COUNTS, DOMAIN, epsilon=1, strategy=Learns(), ledger=None).provenance.parameters == {}


# --- by MODULE:CLASS --------------------------------------------------------------------------------------------


def test_a_class_or_an_object_of_a_module_in_the_current_directory(here: Path) -> None:
    module(here, WRITTEN)
    before = list(sys.path)
    assert strategy_of("outside_strategy:Mine").name == "mine"
    assert strategy_of("outside_strategy:ready").name == "ready"
    assert sys.path == before
    assert (
        publish(COUNTS, DOMAIN, epsilon=1, strategy="outside_strategy:Mine", ledger=None).provenance.strategy == "mine"
    )


def test_what_is_installed_comes_before_the_current_directory(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (installed := here / "site").mkdir()
    module(installed, WRITTEN)
    module(here, "raise RuntimeError('shadowed')")
    monkeypatch.syspath_prepend(installed)
    assert strategy_of("outside_strategy:Mine").name == "mine"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("outside_strategy:Nothing", "cannot be loaded: AttributeError: module 'outside_strategy' has no attribute"),
        ("outside_strategy:Needs", "cannot be loaded: TypeError: .*missing 1 required positional argument"),
        ("no_such_module:Mine", "cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'"),
        ("broken_strategy:Mine", "strategy 'broken_strategy:Mine' cannot be loaded: SystemExit: 3"),
        (
            "outside_strategy:",
            "there is no strategy 'outside_strategy:'; the strategies are 'adaptive', 'dpcube', 'cells'",
        ),
        ("../x:Mine", "there is no strategy"),
        ("magic", "or MODULE:CLASS of your own"),
    ],
)
def test_what_cannot_be_loaded_is_told_in_one_line(here: Path, name: str, message: str) -> None:
    module(here, WRITTEN)
    module(here, "import sys; sys.exit(3)", name="broken_strategy")
    with pytest.raises(InputError, match=message) as told:
        strategy_of(name)
    assert "\n" not in str(told.value)


# --- by entry point ---------------------------------------------------------------------------------------------


def test_installed_strategies_are_listed_without_loading_them(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module(here, WRITTEN)
    offer(here, "mine = outside_strategy:Mine", "bad = broken_strategy:Mine", "cells = outside_strategy:Mine")
    monkeypatch.syspath_prepend(here)
    assert strategy_names() == [*BY_NAME, *NOT_COMPARED, *RIVALS, "bad", "mine"]
    assert "outside_strategy" not in sys.modules
    assert type(strategy_of("cells")) is Cells  # a built-in name is its own
    assert isinstance(strategy_of("mine"), ExternalStrategy)
    with pytest.raises(InputError, match=r"strategy 'bad' \(broken_strategy:Mine\) of an installed package cannot be"):
        strategy_of("bad")
    assert type(strategy_of("adaptive")) is Adaptive  # and no other is spoilt by it


def test_two_of_a_name_are_told_apart_by_hand(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module(here, WRITTEN)
    offer(here, "mine = outside_strategy:Mine")
    offer(here, "mine = outside_strategy:ready", name="other")
    monkeypatch.syspath_prepend(here)
    with pytest.raises(
        InputError, match="'mine' is offered by several installed packages; name the one meant: 'outside"
    ):
        strategy_of("mine")


def accepted(strategy: Strategy) -> Strategy:
    return strategy


def test_the_least_strategy_is_one_for_a_type_checker() -> None:
    assert accepted(Plain()).name == "plain"


# --- of rows ----------------------------------------------------------------------------------------------------


class OneWay:
    """The one-way marginals of a cube too large to materialise."""

    name, store, workload = "one_way", "rows", "wide"

    def peak_bytes(self, shape: tuple[int, ...]) -> int:
        return 2**28 + 200 * sum(shape)

    def run(self, counter: NoisyCounter) -> Transcript:
        units = BUDGET_UNITS // len(counter.shape)
        ones = [Marginal((axis,), counter.marginal((axis,), units), units) for axis in range(len(counter.shape))]
        return Transcript(counter.shape, counter.epsilon_per_unit, tuple(ones))


def test_a_strategy_from_outside_may_be_of_rows() -> None:
    domain = Domain(*(Integer(f"a{axis}", 0, 31) for axis in range(8)))  # 2^40 cells
    rows = pa.table({f"a{axis}": np.arange(500) % (axis + 2) for axis in range(8)})
    check_strategy(OneWay(), domains=[Domain(*(Integer(f"a{axis}", 0, 3) for axis in range(8)))])
    release = publish(rows, domain, epsilon=50, strategy=OneWay(), ledger=None)
    assert release.provenance.parameters == {}
    assert release.count(a0=(0, 0)).value == pytest.approx(250, abs=20)
    assert fitted_strategy(OneWay(), domain).description(domain) == []
    assert plan.plan(domain, rows=500, epsilon=1, strategies=OneWay(), roughly=True).best.strategy == "one_way"


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"store": "sheets"}, "its store must be one of cells, rows, got 'sheets'"),
        ({"store": ["rows"]}, "its store must be one of cells, rows"),
        ({"workload": "odd"}, "its workload must be one of cube, wide, grid"),
        ({"workload": "cube"}, "a strategy of rows has the workload 'wide' or 'grid'"),
        ({"peak_bytes": None}, "must have peak_bytes"),
    ],
)
def test_wrong_facts_of_a_strategy_are_refused(facts: dict[str, object], message: str) -> None:
    wrong = type("Wrong", (OneWay,), facts)()
    with pytest.raises(InputError, match=message):
        publish(COUNTS, DOMAIN, epsilon=1, strategy=wrong, ledger=None)


def test_options_find_the_strategy_that_takes_them() -> None:
    assert strategy_with(None, {"target": None}) == DEFAULT
    assert strategy_with("cells", {"target": None}) == "cells"
    assert strategy_with(None, {"target": "income", "cuboids": None}) == Adaptive(target="income")
    assert strategy_with("cuboids", {"target": "income"}) == Cuboids(target="income")
    assert strategy_with(None, {"cuboids": (("a", "b"),)}) == Cuboids(cuboids=(("a", "b"),))


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("cells", ("cuboids",), "--target and --cuboids are options of the strategy cuboids, not of cells"),
        ("magic", ("target",), "--queries and --target are options of the strategy adaptive, not of magic"),
        (None, ("queries", "cuboids"), "no strategy takes all of --queries and --cuboids; leave some of them out"),
    ],
)
def test_options_that_a_strategy_does_not_take_are_refused(name: str | None, given: Sequence[str], said: str) -> None:
    options = {option: "a" if option in given else None for option in ("queries", "target", "cuboids")}
    with pytest.raises(InputError, match=said):
        strategy_with(name, options)
