"""The default beside plain cells and rivals: errors by kind, ratios with their chance, what is kept and printed."""

import csv
import json
import math
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dpcube.core.arrays import Floats
from dpcube.core.domain import Domain
from dpcube.core.errors import InputError
from dpcube.queries import Workload
from dpcube.research.accuracy import cases, default, default_report, runs
from dpcube.research.accuracy.cases import AccuracyCase
from dpcube.research.accuracy.cubes import PRIVTREE
from dpcube.research.accuracy.kinds import ERROR_KINDS, errors_by_kind, laplace_error
from dpcube.research.accuracy.runs import MeasuredCase, RunCache, measure
from dpcube.research.accuracy.settings import by_setting
from dpcube.research.ratios import ErrorRatio, MeanError, mean_ratio, short_number
from dpcube.testing import SeededNoise


def case(name: str = "t", *, group: str = "dense", epsilon: str = "1", shape: tuple[int, ...] = (4, 6)) -> AccuracyCase:
    counts = np.arange(math.prod(shape)).reshape(shape)
    everything = Workload(shape, np.zeros((1, len(shape)), np.int64), np.array([shape]))
    return AccuracyCase(group, "x".join(map(str, shape)), name, Domain.of_shape(shape), (counts,), epsilon, everything)


def test_errors_by_kind_by_hand() -> None:
    exact = np.full((2, 2, 2), 5)
    estimated = exact.astype(np.float64)
    estimated[0, 0, 0] += 8
    estimated[1, 0, 0] -= 8  # they cancel in every table without the first axis
    asked = Workload((2, 2, 2), np.array([[0, 0, 0], [0, 0, 0]]), np.array([[1, 1, 1], [2, 2, 2]]))
    found = dict(zip(ERROR_KINDS, errors_by_kind(exact, estimated, asked).tolist(), strict=True))
    assert (found["ranges"], found["cells"]) == (4, 2)
    assert found["m1"] == pytest.approx((8 + 0 + 0) / 3)
    assert found["m2"] == pytest.approx((4 + 4 + 0) / 3)
    assert math.isnan(found["m3"])  # these are the cells
    assert found["tv3"] == pytest.approx(16 / 40 / 2)
    flat = errors_by_kind(exact[0, 0], estimated[0, 0], Workload((2,), np.array([[0]]), np.array([[2]])))
    assert np.isnan(flat[2:]).all()


def test_total_variation_is_that_of_shares() -> None:
    exact = np.arange(8).reshape(2, 2, 2)
    asked = Workload((2, 2, 2), np.zeros((1, 3), np.int64), np.array([[2, 2, 2]]))
    assert errors_by_kind(exact, exact * np.float64(1.5), asked)[ERROR_KINDS.index("tv3")] == pytest.approx(0)


def test_the_formula_of_plain_laplace_tables_is_what_the_noise_has() -> None:
    drawn = np.abs(SeededNoise(1).draw(0.5, 200_000)).mean()  # type: ignore[arg-type]
    assert laplace_error(1.5, 3) == pytest.approx(drawn, rel=0.01)


def test_ratios_and_their_chance() -> None:
    ratio = ErrorRatio.of("t", MeanError(3.0, 0.3), MeanError(2.0, 0.1))
    assert ratio.value == 1.5
    assert ratio.stderr == pytest.approx(1.5 * math.hypot(0.1, 0.05))
    assert ratio.is_above(1.1)
    assert not ratio.is_above(1.2)
    assert ErrorRatio.of("t", MeanError(0.0), MeanError(0.0)).value == 1
    mean = mean_ratio("all", [ErrorRatio("a", 1.0, 0.2), ErrorRatio("b", 4.0, 0.0)])
    assert [mean.value, mean.stderr] == pytest.approx([2, 2 * 0.2 / 2])


def test_noise_follows_from_what_is_measured_alone() -> None:
    alone = measure([case("b")], ["cells"], draws=2, seed=1)[0]
    among = measure([case("a"), case("b")], ["dpcube", "cells"], draws=2, seed=1)[-1]
    np.testing.assert_array_equal(alone.means, among.means)
    assert alone.releases == 2 * runs.PLAIN_DRAWS
    others = measure([case("b")], ["cells"], draws=2, seed=2)
    others += measure([case("a"), case("b", epsilon="1.0")], ["cells"], draws=2, seed=1)  # the same counts, other noise
    assert len({alone.means[1], *(one.means[1] for one in others)}) == 4
    assert alone.stderrs[1] > 0  # so have its draws


def test_what_is_measured_is_kept_and_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kept.jsonl"
    first = measure([case()], ["cells"], draws=2, seed=1, cache=RunCache(path))
    path.write_text(path.read_text() + '\n{"code": "cut sho')  # the run was stopped while it wrote
    released: list[runs.RunKey] = []

    def exact(of: AccuracyCase, key: runs.RunKey) -> Floats:
        released.append(key)
        return of.samples[0].astype(np.float64)

    monkeypatch.setattr(runs, "estimated_cells", exact)
    again = measure([case()], ["cells"], draws=2, seed=1, cache=RunCache(path))
    assert released == []
    np.testing.assert_array_equal(first[0].means, again[0].means)
    measure([case()], ["cells"], draws=3, seed=1, cache=RunCache(path))
    assert len(released) == runs.PLAIN_DRAWS  # the draws that are new
    monkeypatch.setattr(runs, "fingerprint", lambda: "other code")
    measure([case()], ["cells"], draws=1, seed=1, cache=RunCache(path))
    assert len(released) == 2 * runs.PLAIN_DRAWS  # what other code made does not count
    assert {json.loads(line)["code"] for line in path.read_text().splitlines() if line.endswith("}")} >= {"other code"}


def test_errors_that_are_doubled_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sabotage: a strategy twice as far off as plain cells is above 1.10 beyond chance; plain cells are not."""
    honest = runs.estimated_cells

    def doubled(of: AccuracyCase, key: runs.RunKey) -> Floats:
        estimated, exact = honest(of, key._replace(algorithm="cells")), of.samples[key.trial]
        return exact + 2 * (estimated - exact) if key.algorithm == "twice" else estimated

    monkeypatch.setattr(runs, "estimated_cells", doubled)
    found = by_setting(measure([case()], ["twice", "once", "cells"], draws=20, seed=3))
    ratio = found[0].ratio("twice", "cells", "cells")
    assert ratio.value == pytest.approx(2, abs=4 * ratio.stderr)
    lines = {name: default_report.to_plain_cells(found, name) for name in ("twice", "once")}
    assert any(line.startswith("| single cells |") and line.endswith("| 1 of 1 | 1 of 1 |") for line in lines["twice"])
    assert f"single cells above: t, epsilon 1: {ratio}" in lines["twice"]
    assert not any("above:" in line for line in lines["once"])


def test_dense_cases_are_what_the_issue_names() -> None:
    made_up = len(cases.DENSE_SHAPES) * len(cases.DENSE_LAWS) * len(cases.SIZES)
    found, again = (list(islice(cases.dense(), made_up + 1)) for _ in range(2))
    assert {one.family for one in found} >= {"10", "16x15", "64x64", "5x4x3x3", "education x occupation"}
    assert {int(one.samples[0].sum()) for one in found[:-1]} == {10**3, 10**5, 10**7}
    assert all((a.samples[0] == b.samples[0]).all() for a, b in zip(found, again, strict=True))


def measured(of: AccuracyCase, algorithm: str, error: float) -> MeasuredCase:
    return MeasuredCase(
        of, algorithm, np.full(len(ERROR_KINDS), error), np.full(len(ERROR_KINDS), error / 100), 0.1, 10
    )


def test_wide_tables_stand_beside_recorded_rivals(tmp_path: Path) -> None:
    path = tmp_path / "rivals.csv"
    columns = [f"{name}{end}" for name in default_report.COLUMNS.values() for end in ("", "_se")]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["table", "algorithm", "epsilon", *columns])
        writer.writeheader()
        writer.writerow({"table": "t", "algorithm": "AIM3*", "epsilon": "1.0", "m2": "2", "m2_se": "", "range": "9"})
        writer.writerow({"table": "t", "algorithm": "other", "epsilon": "1.0", "m2": "0.1"})
        writer.writerow({"table": "t", "algorithm": "MST*", "epsilon": "3.0", "m2": "0.1"})
    recorded = default_report.recorded_rivals(path, ["AIM3*", "MST*"])
    wide = case(group="wide", shape=(2, 3, 4))
    (setting,) = by_setting([measured(wide, "adaptive", 3.0), measured(wide, "cells", 4.0)])
    lines = default_report.on_wide([setting], "adaptive", recorded, ["AIM3*", "MST*"])
    plain = short_number(laplace_error(1.0, 3 + 3))
    start = "| t | 1 |"
    assert f"{start} 2-way marginals | 3 +- 0.03 | 4 +- 0.04 | {plain} | 2 | - | 1.50 +- 0.01 (AIM3*) |" in lines
    assert any(line.startswith(f"{start} 1-way") and line.endswith("(Laplace) |") for line in lines)
    assert f"{start} ranges | 3 +- 0.03 | 4 +- 0.04 | - | 9 | - | 0.75 +- 0.01 (cells) |" in lines
    assert "| 2-way marginals | 1 | 1 | 1.50 +- 0.01 | 1.50 +- 0.01 (t) | 1 of 1 |" in lines
    with pytest.raises(InputError, match="cannot read results of rivals"):
        default_report.recorded_rivals(tmp_path / "none.csv", [])


def test_the_best_of_the_others_on_even_tables() -> None:
    even = case("uniform", group="even")
    found = by_setting([measured(even, name, error) for name, error in (("adaptive", 6.0), ("cells", 4.0), ("b", 3.0))])
    lines = default_report.beside_each_other(found, "adaptive")
    assert any("| ranges |" in line and line.endswith("| 2.00 +- 0.03 (b) |") for line in lines)
    assert default.algorithms_of("even", ["adaptive"]) == ("adaptive", "cells", "dpcube", PRIVTREE)
    assert default.algorithms_of("dense", ["adaptive"]) == ("adaptive", "cells")


def test_the_command_prints_a_group_and_writes_every_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "dense", lambda: iter([case("a"), case("b", shape=(3, 2, 2))]))
    rows, kept = tmp_path / "rows.csv", tmp_path / "kept.jsonl"
    arguments = ["--groups", "dense", "--strategy", "dpcube", "--draws", "2", "--csv", str(rows), "--cache", str(kept)]
    done = CliRunner().invoke(default.main, arguments)
    assert done.exit_code == 0, done.output
    assert "## dense: 2 settings" in done.output
    assert "| 2-way marginals | 1 |" in done.output
    with rows.open() as file:
        read = list(csv.DictReader(file))
    assert {(row["table"], row["algorithm"]) for row in read} == {(t, a) for t in "ab" for a in ("dpcube", "cells")}
    assert all(float(row["to_cells"]) == 1 for row in read if row["algorithm"] == "cells")
    again = CliRunner().invoke(default.main, arguments)
    assert again.output == done.output


@pytest.mark.parametrize(
    ("groups", "message"), [("dpbench", "needs DPBench's arrays"), ("others", "there is no group 'others'")]
)
def test_a_group_that_cannot_be_measured_is_named(groups: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPBENCH", raising=False)
    done = CliRunner().invoke(default.main, ["--groups", groups])
    assert done.exit_code == 1
    assert message in str(done.exception)
