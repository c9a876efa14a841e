"""Small releases of every kind of estimate, of attributes of every kind, for tests of the explorer's page."""

from fractions import Fraction

import numpy as np
import pyarrow as pa

from dependent_rows import dependent_counts
from dpcube import Category, Date, Domain, Float, Integer, Release
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.exact import SparseRows
from dpcube.core.gate import Gate
from dpcube.core.sources import open_rows
from dpcube.core.sources.open import counts_from_array
from dpcube.measurements import BoxCounts, Marginal, Provenance, Transcript
from dpcube.models.marginals.components import subsets
from dpcube.research.tables import experiment
from dpcube.strategies import Adaptive, Cuboids
from dpcube.testing import SeededNoise

HOSTILE = '</script><img src=x onerror="document.title=1">'

MIXED = Domain(
    Integer("age", 0, 59, width=5, null="cell"),
    Float("dose", -0.3, 0.7, width=0.1, outside="cell"),
    Category("blood type", ["0", "it's", 'a "b"']),
)
EVEN = Domain(
    Integer("age", 17, 48, width=4, within="even"),
    Date("seen", "2026-01-10", "2026-12-20", every="month", within="even"),
    Float("dose", 0.0, 2.0, width=0.25, within="even"),
)
STRANGE = Domain(
    Category(HOSTILE, ["=1+1", "$(touch f)`x`", "a\nb\u202e", "<b>bold</b>", "\U0001f600 it's"]),
    Category("null", ["'; drop table cube; --", "\\", '"'], null="cell"),
    Date("day of visit", "2026-02-01", "2026-02-20", null="cell"),
)
WIDE = Domain(
    [*(Integer(f"x{j}", 0, 5 + j, width=1 + j % 2) for j in range(6)), Category("kind", ["red", HOSTILE, "=1+1"])]
)


def exact_counts(
    shape: tuple[int, ...], seed: int = 3, mean: float = 12.0
) -> "np.ndarray[tuple[int, ...], np.dtype[np.int64]]":
    """Return made-up counts with heavy and empty places."""
    generator = np.random.default_rng(seed)
    return generator.poisson(mean * generator.gamma(0.4, 2.5, shape))


def released(domain: Domain, strategy: str, *, seed: int = 5, epsilon: str = "0.8") -> Release:
    """Return a release of made-up counts with noise from a seed."""
    return experiment(
        exact_counts(domain.shape), epsilon=epsilon, strategy=strategy, noise=SeededNoise(seed), domain=domain
    )


def with_tables(domain: Domain) -> Release:
    """Return a release with noisy tables over every attribute and every pair, so that its estimate is balanced."""
    exact, units = exact_counts(domain.shape), BUDGET_UNITS // 20
    gate = Gate(counts_from_array(exact, domain), Fraction(1), noise=SeededNoise(1))
    axes = [axes for axes in subsets((0, 1, 2)) if len(axes) in (1, 2)]
    tables = [Marginal(of, gate.marginal(of, units), units) for of in axes]
    apart = Gate(counts_from_array(exact, domain), Fraction(7, 10), noise=SeededNoise(2))
    tree = Adaptive().run(apart).boxes
    assert tree is not None
    boxes = BoxCounts(tree.tree, tree.node, tree.counts, tree.units * 7 // 10)
    transcript = Transcript(domain.shape, gate.epsilon_per_unit, (*tables, boxes))
    return Release(domain, transcript, Provenance("adaptive", Fraction(1), "dpcube", private=False))


def with_its_own_tables() -> Release:
    """Return a release whose cells were all counted, with a posterior that is moved to their sums."""
    exact, domain = dependent_counts(8, 40_000, seed=0).astype(np.int64), Domain.of_shape((3,) * 8)
    noise = SeededNoise(4)
    return experiment(exact, epsilon="2", strategy="adaptive", noise=noise, domain=domain)


def wide_release() -> Release:
    """Return a release of cuboids: x1 follows x0, all else is independent."""
    generator = np.random.default_rng(7)
    columns = {f"x{j}": generator.integers(0, 6 + j, 3000) for j in range(6)}
    columns["x1"] = np.minimum(columns["x0"] + generator.integers(0, 2, 3000), 6)
    kinds = np.array(["red", HOSTILE, "=1+1"])[generator.integers(0, 3, 3000)]
    rows = open_rows(pa.table({**columns, "kind": kinds})).count_alike(WIDE)
    gate = Gate(SparseRows(WIDE.shape, *rows), Fraction(1), noise=SeededNoise(3))
    transcript = Cuboids().for_domain(WIDE).run(gate)
    return Release(WIDE, transcript, Provenance("cuboids", Fraction(1), "test", private=False))
