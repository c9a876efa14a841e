"""The measurement of accuracy: cases and recorded results, errors by kind, ratios, kept runs, and the tables."""

import csv
import json
import math
import zipfile
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dpcube.core.arrays import Floats
from dpcube.core.domain import Domain
from dpcube.core.errors import InputError
from dpcube.queries import Workload
from dpcube.research.accuracy import __main__ as command
from dpcube.research.accuracy import cases, dpbench, held_out_tables, report, runs
from dpcube.research.accuracy.cases import AccuracyCase
from dpcube.research.accuracy.dpbench import Bench, Key
from dpcube.research.accuracy.runs import (
    ERROR_KINDS,
    PRIVTREE,
    MeasuredCase,
    RunCache,
    by_setting,
    errors_by_kind,
    laplace_error,
    measure,
)
from dpcube.research.ratios import ErrorRatio, MeanError, geometric_mean, mean_ratio, short_number
from dpcube.research.tables import PublicTable
from dpcube.testing import SeededNoise


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two sets of two dimensions and one of one, with two rivals each; the tables of all trials are alike."""
    generator = np.random.default_rng(1)
    rows = []
    for dims, names in ((2, ("A", "B")), (1, ("C",))):
        size = math.prod(dpbench.BENCH_SHAPES[dims])
        ends = np.sort(generator.integers(0, dpbench.BENCH_SHAPES[dims][0], (2, 50, dims)), axis=0)
        for (dim, queries), stem in dpbench.QUERY_FILES.items():
            if dim == dims:
                np.savez(tmp_path / f"queries_{stem}.npz", lb=ends[0], ub=ends[1])
                for name in names:
                    for scale in dpbench.BENCH_SCALES:
                        for algorithm in (*dpbench.SHOWN_RIVALS[dims], "Best"):
                            error = 1 if algorithm == "Best" else 10
                            rows.append([name, dims, scale, queries, algorithm, error])
                            rows.append([name, dims, scale, queries, algorithm, 3 * error])
        for name in names:
            trials = [(scale, trial) for scale in dpbench.BENCH_SCALES for trial in range(dpbench.TRIALS)]
            tables = {f"N{scale}_t{trial}": np.full(size, max(scale // size, 1), np.int32) for scale, trial in trials}
            np.savez(tmp_path / f"x_{dims}d_{name}.npz", **tables)  # type: ignore[arg-type]
    with (tmp_path / "peers.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["dataset", "ndim", "scale", "workload", "algorithm", "mean_abs_error"])
        writer.writerows(rows)
    return tmp_path


def test_the_bench_is_read(folder: Path) -> None:
    bench = Bench(folder)
    assert bench.sets(2) == ["A", "B"]
    assert bench.counts(2, "A", 100_000, 3).shape == (128, 128)
    assert len(bench.workload(1, "prefix")) == 50
    key = Key(2, "randomrange", 1000, "A", "cells")
    assert bench.rivals[key._replace(algorithm="HB")] == 20
    assert bench.best_rival(key) == ("Best", 2)


def test_a_directory_without_the_arrays_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not hold DPBench's arrays"):
        Bench(tmp_path)
    done = CliRunner().invoke(command.main, ["--groups", "dpbench", "--data", str(tmp_path)])
    assert done.exit_code == 1
    assert "name their directory with --data" in str(done.exception)


def test_a_geometric_mean_and_its_standard_error() -> None:
    mean = geometric_mean([MeanError(2.0, 1.0), MeanError(8.0, 0.0)])
    assert mean.mean == pytest.approx(4)
    assert mean.stderr == pytest.approx(4 * (1 / 2) / 2)


def test_plain_cells_stand_beside_recorded_rivals_and_err_as_they_must(folder: Path) -> None:
    chosen = [one for one in cases.dpbench_cases(folder) if one.name.startswith("A 2-D")]
    assert [one.family for one in chosen] == ["2-D N=1e+03", "2-D N=1e+05", "2-D N=1e+07"]
    assert {one.family for one in cases.dpbench_cases(folder)} >= {"1-D N=1e+03", "1-D prefix N=1e+03"}
    found = by_setting(measure(chosen, ["cells"], draws=1, seed=4))
    errors = [runs.error_of(one.by_algorithm["cells"], "ranges").mean for one in found]
    sizes = Bench(folder).workload(2, "randomrange").sizes
    expected = math.sqrt(2 / math.pi) * math.sqrt(200) * np.sqrt(sizes).mean()  # sums of many are normal
    assert np.mean(errors) == pytest.approx(expected, rel=0.4)
    lines = report.dpbench_section(found, ["cells"], Bench(folder))
    (first,) = [line for line in lines if line.startswith("| 2-D N=1e+03 | cells |")]
    assert "| 1.00 +- 0.00 (1.00) |" in first  # to itself
    assert first.endswith(f"| 20 | 20 | 20 | 20 | 20 | {errors[0] / 2:.2f} (A, Best) |")


def test_privtree_gives_the_table_back_when_noise_is_nothing() -> None:
    counts = np.arange(35).reshape(5, 7)
    estimated = runs.BY_HALVES.release(counts, 1e6, np.random.default_rng(1))
    np.testing.assert_allclose(estimated, counts, atol=0.01)


def test_a_table_of_a_package_is_read_where_it_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some_flights").mkdir()
    with zipfile.ZipFile(tmp_path / "some_flights" / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", "carrier,hour\nAA,5\nAA,5\nUA,23\nXX,1\nUA,NA\n")
    monkeypatch.syspath_prepend(tmp_path)
    source = held_out_tables.PackagedFile("some_flights", "flights.csv.zip", "made up")
    monkeypatch.setattr(held_out_tables, "SOURCES", {"flights": source})
    monkeypatch.setattr(held_out_tables, "DOMAINS", (("flights", (held_out_tables.CARRIER, held_out_tables.HOUR)),))
    table = next(held_out_tables.held_out_tables())
    assert (table.name, held_out_tables.missing()) == ("flights: carrier x hour", [])
    assert [*zip(*np.nonzero(table.exact_counts), strict=True)] == [(1, 5), (11, 23)]
    assert (table.exact_counts.sum(), table.exact_counts[1, 5]) == (3, 2)


def test_held_out_tables_are_a_group_and_missing_ones_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "HELD_OUT_EPSILONS", ("1",))
    monkeypatch.setattr(held_out_tables, "DOMAINS", ())
    missing = held_out_tables.PackagedFile("no_such_package", "x.csv", "nothing")
    monkeypatch.setattr(held_out_tables, "SOURCES", {"no": missing})
    some = next(held_out_tables.generated())
    corner = PublicTable("generated", "corner", Domain.of_shape((16, 16)), some.exact_counts[:16, 48:64])
    monkeypatch.setattr(held_out_tables, "generated", lambda: iter([corner]))
    done = CliRunner().invoke(command.main, ["--groups", "held-out", "--draws", "3", "--seed", "2"])
    assert done.exit_code == 0, done.output
    assert "not measured: no, nothing; pip install no_such_package" in done.output
    assert "| table | epsilon | queries | adaptive | cells | dpcube | PrivTree | adaptive to the best |" in done.output
    assert "| corner | 1 | 1-way marginals |" in done.output
    assert "| ranges | generated | 1 | " in done.output


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
    ratio = ErrorRatio.between("t", MeanError(3.0, 0.3), MeanError(2.0, 0.1))
    assert ratio.value == 1.5
    assert ratio.stderr == pytest.approx(1.5 * math.hypot(0.1, 0.05))
    assert ratio.is_above(1.1)
    assert not ratio.is_above(1.2)
    assert ErrorRatio.between("t", MeanError(0.0), MeanError(0.0)).value == 1
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
    lines = {name: report.to_plain_cells(found, name) for name in ("twice", "once")}
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
    columns = [f"{name}{end}" for name in report.COLUMNS.values() for end in ("", "_se")]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["table", "algorithm", "epsilon", *columns])
        writer.writeheader()
        writer.writerow({"table": "t", "algorithm": "AIM3*", "epsilon": "1.0", "m2": "2", "m2_se": "", "range": "9"})
        writer.writerow({"table": "t", "algorithm": "other", "epsilon": "1.0", "m2": "0.1"})
        writer.writerow({"table": "t", "algorithm": "MST*", "epsilon": "3.0", "m2": "0.1"})
    recorded = report.recorded_rivals(path, ["AIM3*", "MST*"])
    wide = case(group="wide", shape=(2, 3, 4))
    (setting,) = by_setting([measured(wide, "adaptive", 3.0), measured(wide, "cells", 4.0)])
    lines = report.on_wide([setting], "adaptive", recorded, ["AIM3*", "MST*"])
    plain = short_number(laplace_error(1.0, 3 + 3))
    start = "| t | 1 |"
    assert f"{start} 2-way marginals | 3 +- 0.03 | 4 +- 0.04 | {plain} | 2 | - | 1.50 +- 0.01 (AIM3*) |" in lines
    assert any(line.startswith(f"{start} 1-way") and line.endswith("(Laplace) |") for line in lines)
    assert f"{start} ranges | 3 +- 0.03 | 4 +- 0.04 | - | 9 | - | 0.75 +- 0.01 (cells) |" in lines
    assert "| 2-way marginals | 1 | 1 | 1.50 +- 0.01 | 1.50 +- 0.01 (t) | 1 of 1 |" in lines
    with pytest.raises(InputError, match="cannot read results of rivals"):
        report.recorded_rivals(tmp_path / "none.csv", [])


def test_the_best_of_the_others_on_even_tables() -> None:
    even = case("uniform", group="even")
    found = by_setting([measured(even, name, error) for name, error in (("adaptive", 6.0), ("cells", 4.0), ("b", 3.0))])
    lines = report.beside_each_other(found, "adaptive")
    assert any("| ranges |" in line and line.endswith("| 2.00 +- 0.03 (b) |") for line in lines)
    assert "| ranges | 4x6 | 1 | 2.00 +- 0.03 | 1 of 1 | 2.00 +- 0.03 uniform |" in lines
    assert command.algorithms_of("even", ["adaptive"]) == ("adaptive", "cells", "dpcube", PRIVTREE)
    assert command.algorithms_of("dense", ["adaptive"]) == ("adaptive", "cells")


def test_the_command_prints_a_group_and_writes_every_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "dense", lambda: iter([case("a"), case("b", shape=(3, 2, 2))]))
    rows, kept = tmp_path / "rows.csv", tmp_path / "kept.jsonl"
    arguments = ["--groups", "dense", "--strategy", "dpcube", "--draws", "2", "--csv", str(rows), "--cache", str(kept)]
    done = CliRunner().invoke(command.main, arguments)
    assert done.exit_code == 0, done.output
    assert "## dense: 2 settings" in done.output
    assert "| 2-way marginals | 1 |" in done.output
    with rows.open() as file:
        read = list(csv.DictReader(file))
    assert {(row["table"], row["algorithm"]) for row in read} == {(t, a) for t in "ab" for a in ("dpcube", "cells")}
    assert all(float(row["to_cells"]) == 1 for row in read if row["algorithm"] == "cells")
    again = CliRunner().invoke(command.main, arguments)
    assert again.output == done.output


@pytest.mark.parametrize(
    ("groups", "message"), [("dpbench", "needs DPBench's arrays"), ("others", "there is no group 'others'")]
)
def test_a_group_that_cannot_be_measured_is_named(groups: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPBENCH", raising=False)
    done = CliRunner().invoke(command.main, ["--groups", groups])
    assert done.exit_code == 1
    assert message in str(done.exception)
