"""The measurements of accuracy, on a made-up bench: what is read, averaged, patched and put back."""

import csv
import math
import zipfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from dpcube.core.domain import Domain
from dpcube.core.errors import InputError
from dpcube.models.posterior import inference, splits
from dpcube.research.accuracy import ablation, cubes, dpbench, held_out, held_out_tables, sweeps
from dpcube.research.accuracy.__main__ import main
from dpcube.research.accuracy.dpbench import Bench, Key, RunErrors
from dpcube.research.arrays import experiment
from dpcube.research.tables import PublicTable
from dpcube.strategies import adaptive
from dpcube.strategies.plans import ADAPTIVE
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
    done = CliRunner().invoke(main, ["--data", str(tmp_path)])
    assert done.exit_code == 1
    assert "name their directory with --data" in str(done.exception)


def test_a_geometric_mean_and_its_standard_error() -> None:
    key = Key(2, "randomrange", 1000, "A", "cells")
    mean = dpbench.mean_over_sets([RunErrors(key, np.array([1.0, 3.0])), RunErrors(key, np.array([8.0, 8.0]))])
    assert mean.mean == pytest.approx(4)
    assert mean.stderr == pytest.approx(4 * (1 / 2) / 2)


def test_a_seed_repeats_a_comparison_and_cells_err_as_they_must(folder: Path) -> None:
    bench = Bench(folder)
    one, again = (list(dpbench.measure_errors(bench, ["cells"], draws=1, seed=4, dims=[2])) for _ in range(2))
    assert [m.key for m in one] == [m.key for m in again]
    np.testing.assert_array_equal([m.errors for m in one], [m.errors for m in again])
    sizes = bench.workload(2, "randomrange").sizes
    expected = math.sqrt(2 / math.pi) * math.sqrt(200) * np.sqrt(sizes).mean()  # sums of many are normal
    assert np.mean([m.errors for m in one]) == pytest.approx(expected, rel=0.4)
    summary = dpbench.summaries(bench, one)[0]
    assert summary.rivals["HB"] == pytest.approx(20)
    assert summary.worst == pytest.approx(max(m.mean for m in one if m.key.scale == 1000) / 2)
    assert "| 1e+03 | cells |" in "\n".join(dpbench.dpbench_report([summary]))


def test_a_sweep_compares_with_cells(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "SWEPT_EPSILONS", ("0.1",))
    monkeypatch.setattr(sweeps, "SWEPT_ROWS", (1000,))
    points = list(sweeps.sweep(Bench(folder), "cells", draws=20, seed=1))
    assert [p.name for p in points] == ["A", "B"]
    assert np.mean([p.ratio for p in points]) == pytest.approx(1, abs=0.35)
    above = [sweeps.Point("A", 1000, "0.1", 3.0, 0.1, 2.0)]
    assert sweeps.sweeps_report(above, "cells")[-1] == "A, N = 1e+03, epsilon 0.1: 1.50 +- 0.05"


COMPILED = {"no guess near the prediction", "no learnt weights", "posterior mean, not a soft median"}
"""These compile the loops anew, which takes seconds: one of them is enough here."""


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(ablation.VARIANTS) - COMPILED | {"posterior mean, not a soft median"}))
def test_every_variant_changes_what_it_says_and_puts_it_back(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adaptive, "choose", lambda *_: ADAPTIVE)  # variants are of the plan that looks
    counts = np.random.default_rng(0).poisson(np.linspace(0, 9, 32)[:, None] * np.linspace(0, 9, 32))
    counts[:, :16] = 0
    released = [_cells(counts)]
    before = {module: dict(vars(module)) for module in (adaptive, inference, splits)}
    with ablation.variant(name):
        released.append(_cells(counts))
    assert all(dict(vars(module)) == names for module, names in before.items())
    released.append(_cells(counts))
    np.testing.assert_array_equal(released[0], released[2])
    assert np.array_equal(released[0], released[1]) == (name == "everything")
    assert np.isfinite(released[1]).all()


def _cells(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    return experiment(counts, epsilon="0.5", strategy="adaptive", noise=SeededNoise(3)).cells()


def test_privtree_gives_the_table_back_when_noise_is_nothing() -> None:
    counts = np.arange(35).reshape(5, 7)
    estimated = cubes.BY_HALVES.release(counts, 1e6, np.random.default_rng(1))
    np.testing.assert_allclose(estimated, counts, atol=0.01)


def test_two_way_marginals_by_hand() -> None:
    exact, estimated = np.zeros((2, 3, 2), np.int64), np.zeros((2, 3, 2))
    estimated[0, 0, 0], estimated[1, 0, 0] = 6.0, -6.0  # they cancel in the marginal of the last two axes
    assert cubes.marginal_error(exact, estimated) == pytest.approx((12 / 6 + 12 / 4 + 0) / 3)


@pytest.mark.slow
def test_held_out_tables_are_measured_and_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out, "HELD_OUT_EPSILONS", ("1",))
    monkeypatch.setattr(held_out_tables, "DOMAINS", ())
    monkeypatch.setattr(
        held_out_tables, "SOURCES", {"no": held_out_tables.PackagedFile("no_such_package", "x.csv", "nothing")}
    )
    some = next(held_out_tables.generated())
    corner = PublicTable("generated", "corner", Domain.of_shape((16, 16)), some.exact_counts[:16, 48:64])
    monkeypatch.setattr(held_out_tables, "generated", lambda: iter([corner]))
    done = [
        CliRunner().invoke(main, [what, "--draws", "3", "--seed", "2"])
        for what in ("--held-out", "--held-out-coverage")
    ]
    assert [one.exit_code for one in done] == [0, 0]
    missing = "not measured: no, nothing; pip install no_such_package"
    assert all(missing in one.output for one in done)
    assert f"| corner | {corner.exact_counts.sum():,} | 256 | 1 | " in done[0].output
    assert "of 1 | " in done[0].output
    assert "| corner | 1 | " in done[1].output


def test_a_ratio_to_the_best_of_the_others_by_hand() -> None:
    def errors(algorithm: str, ranges: float, marginals: float) -> cubes.CubeErrors:
        return cubes.CubeErrors(("a", "b"), (2, 2), "1", algorithm, ranges, 0.1 * ranges, marginals, 0.0)

    setting = held_out.TableErrors(
        "files", "t", 9, "1", (errors("cells", 4, 2), errors("adaptive", 3, 6), errors("dpcube", 2, 3))
    )
    ratio = setting.ratio("ranges")
    assert (ratio.value, ratio.name) == (1.5, "dpcube")
    assert ratio.stderr == pytest.approx(1.5 * 0.1 * math.sqrt(2))
    assert setting.ratio("marginals").name == "cells"
    assert setting.ratio("ranges", "cells").value == 0.75
    report = held_out.held_out_report([setting])
    assert "| t | **1.50** / **3.00** |" in report
    assert "| ranges | files | 1 | 1.50 | 0.75 | 1.50 | 1 of 1 | 1.50 t |" in report


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
