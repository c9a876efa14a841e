"""Every number of `golden.json` is asserted: change it, and some test fails.

The golden tests run once, with what each reads of the file noted. Then, for each column of each table, a number is
changed by one part in a million and the tests that read it run again: one of them must fail. A number that no test
reads, or that may change unnoticed, is listed here with the reason.
"""

import importlib
import inspect
import itertools
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from golden_file import GOLDEN, READ, Noted, agrees

Leaf = tuple[str, ...]
Test = Callable[[], None]

# Read by no test.
NOT_READ = {
    "conventions": "words",
    "adult/ID3_*/test_acc*": "there is no classifier yet",
    "adult/ID3_*/train_acc": "there is no classifier yet",
    "adult/ID3_*/unclassified": "there is no classifier yet",
    "adult/ID3_*/predicted_positive": "there is no classifier yet",
    "adult/ID3_*/root": "there is no classifier yet",
    "adult/blocking_cell_level_optimum/*": "of two random halves whose seed is not recorded",
    "extensions/post_selection_*/mean_partitions": "a simulation of 5,000 runs",
    "extensions/post_selection_*/rms_LS_*": "a simulation of 5,000 runs",
    "extensions/post_selection_*/E_*_observed": "a simulation of 5,000 runs",
    "least_squares/*/seconds*": "a time on another machine",
    "least_squares/paper_triple_integral_vs_1d/*/total_mass": "of a grid whose span is not recorded",
    "least_squares/paper_triple_integral_vs_1d/*/cf_1d/nodes_last": "of another quadrature",
    "least_squares/log_trapezoid/cases": "how many cases were tried",
}
# Read, but a change of one part in a million goes unnoticed.
LOOSE = {
    "*/MC": "a simulation",
    "*/MC_se": "the error of a simulation",
    "uniform_estimation/eq_random_validity_s5_bias0/*_MC": "a simulation",
    "*/P_abs_eta_le_*": "a simulation",
    "*/corr_eta_S": "a simulation",
    "*/true_EH_given_eta_near_5": "a simulation",
    "extensions/risk_estimate/example_estimate_*": "a simulation",
    "*/log_f_n_large_maxdiff_two_methods": "a limit, not a value",
    "least_squares/log_trapezoid/max_rel_diff_to_converged_midpoint": "a limit, not a value",
    "least_squares/paper_triple_integral_vs_1d/*/rel_err": "known to the nine digits of its value",
    "least_squares/midpoint_convergence_rel_err_s5/*": "rounding, from 32 nodes on",
    "least_squares/max_nodes_needed_1e-13": "enough nodes; more will do",
    "*/alpha1_opt_E_LS": "found by comparing errors, which are flat there",
}


def leaves(tree: Noted) -> Iterator[Leaf]:
    for name in tree:
        below = dict.__getitem__(tree, name)
        yield from leaves(below) if isinstance(below, Noted) else [(*tree.path, name)]


def listed(leaf: Leaf, reasons: dict[str, str]) -> bool:
    return any(fnmatchcase("/".join(leaf), pattern) for pattern in reasons)


def cases(function: Callable[..., None]) -> Iterator[dict[str, Any]]:
    """The arguments that pytest would call a test with."""
    marks = [mark.args for mark in getattr(function, "pytestmark", []) if mark.name == "parametrize"]
    for values in itertools.product(*(rows for _, rows in marks)):
        case: dict[str, Any] = {}
        for (names, _), value in zip(marks, values, strict=True):
            case |= {names: value} if isinstance(names, str) else dict(zip(names, value, strict=True))
        yield case


def golden_tests() -> Iterator[Test]:
    """Every case of every test that may read the file, itself or through another function of its module."""
    for file in sorted(Path(__file__).parent.glob("test_*.py")):
        if file == Path(__file__) or "GOLDEN" not in file.read_text():
            continue
        module = importlib.import_module(file.stem)
        functions = dict(inspect.getmembers(module, inspect.isfunction))
        words = {name: set(re.findall(r"\w+", inspect.getsource(function))) for name, function in functions.items()}
        tables = {name for name, value in vars(module).items() if isinstance(value, Noted)}
        ways = tables | {name for name in functions if words[name] & tables}
        for name, function in functions.items():
            if name.startswith("test_") and words[name] & ways:
                yield from (partial(function, **case) for case in cases(function))


def readers() -> dict[Leaf, list[Test]]:
    """Run every test once; which of them read each number? Those that take least come first, for one is enough."""
    found: dict[Leaf, list[tuple[float, int, Test]]] = defaultdict(list)
    for number, test in enumerate(golden_tests()):
        READ.clear()
        began = time.process_time()
        test()
        took = time.process_time() - began
        for leaf in READ:
            found[leaf].append((took, number, test))
    return {leaf: [test for *_, test in sorted(some)] for leaf, some in found.items()}


def changed(value: Any) -> Any:
    if isinstance(value, list):
        return [changed(value[0]), *value[1:]]
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * (1 + 1e-6) if value else 1.0
    return "something else" if isinstance(value, str) else 1e-6


def notices(leaf: Leaf, tests: list[Test]) -> bool:
    """Whether one of some tests fails when a number of the file is changed."""
    row: Any = GOLDEN
    for name in leaf[:-1]:
        row = row[name]
    kept = row[leaf[-1]]
    row[leaf[-1]] = changed(kept)
    try:
        return any(map(fails, tests))
    finally:
        row[leaf[-1]] = kept


def fails(test: Test) -> bool:
    try:
        test()
    except Exception:  # noqa: BLE001, RUF100 (some numbers are the input of a test, which may not take others)
        return True
    return False


def columns() -> list[Leaf]:
    """One number of each column: the middle one of those whose paths differ in rows only."""
    found: dict[Leaf, list[Leaf]] = defaultdict(list)
    for leaf in leaves(GOLDEN):
        found[(*leaf[:2], leaf[-1] if len(leaf) > 2 else "")].append(leaf)
    return [column[len(column) // 2] for column in found.values()]


@pytest.mark.slow
def test_every_number_is_asserted() -> None:
    tests = readers()
    unread = {leaf for leaf in leaves(GOLDEN) if leaf not in tests}
    assert [leaf for leaf in unread if not listed(leaf, NOT_READ)] == []
    assert [pattern for pattern in NOT_READ if not any(listed(leaf, {pattern: ""}) for leaf in unread)] == []
    read = [leaf for leaf in columns() if leaf in tests]
    assert len(read) > 300
    unnoticed = [leaf for leaf in read if not notices(leaf, tests[leaf])]
    assert [leaf for leaf in unnoticed if not listed(leaf, LOOSE)] == []


def test_agreement_can_fail() -> None:
    assert agrees(37.04792705, 37.0479271)
    assert not agrees(37.0479271 * (1 + 3e-9), 37.0479271)
    assert not agrees([1.0, 2.0], [1.0, 2.00000002])
