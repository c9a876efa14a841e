"""Cubes of three to six attributes of the bundled table: the strategies, and PrivTree, beside each other.

Ranges have two random ends on ordered attributes, and one value or all of them where values have no order. Marginals
are all tables of two attributes: the mean absolute error of a cell of each, averaged over the tables.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from dpcube import datasets
from dpcube.core.arrays import Floats, Ints
from dpcube.core.domain import Domain
from dpcube.curator.publishing import count
from dpcube.models.metrics import absolute_errors
from dpcube.queries import Workload
from dpcube.queries.random_ranges import random_ranges
from dpcube.research.arrays import experiment
from dpcube.research.rivals.privtree import PrivTree
from dpcube.strategies import BY_NAME, Strategy, strategy_of
from dpcube.testing import SeededNoise

CUBES = (
    ("age", "hours-per-week", "education-num"),
    ("age", "education-num", "sex"),
    ("occupation", "education", "native-country"),
    ("age", "education-num", "race", "sex"),
    ("age", "marital-status", "occupation", "income"),
    ("age", "education-num", "marital-status", "sex", "income"),
    ("age", "education-num", "workclass", "relationship", "income"),
    ("education-num", "workclass", "marital-status", "race", "sex", "income"),
    ("education", "occupation", "relationship", "race", "sex", "income"),
)
CUBE_EPSILONS = ("0.1", "1")
PRIVTREE = "PrivTree"
BY_HALVES = PrivTree(name=PRIVTREE, one_axis=True)
"""With the halves of our own trees, in their order: what differs is where a tree ends, and how it is counted."""
CUBE_QUERIES = 2000


@dataclass(frozen=True, slots=True)
class CubeErrors:
    """Mean absolute errors of one algorithm on one cube, and their standard errors."""

    names: tuple[str, ...]
    shape: tuple[int, ...]
    epsilon: str
    algorithm: str
    ranges: float
    ranges_stderr: float
    marginals: float
    marginals_stderr: float


def asked_ranges(domain: Domain, number: int = CUBE_QUERIES, *, seed: int) -> Workload:
    """Return random ranges; of an attribute without an order, one value or all of them."""
    random = random_ranges(domain.shape, number, seed=seed)
    lower, upper = random.lower.copy(), random.upper.copy()
    every = np.random.default_rng(seed).random((number, len(domain.shape))) < 0.5
    for axis, attribute in enumerate(domain.attributes):
        if not attribute.ordered:
            lower[:, axis] = np.where(every[:, axis], 0, lower[:, axis])
            upper[:, axis] = np.where(every[:, axis], attribute.size, lower[:, axis] + 1)
    return Workload(domain.shape, lower, upper)


def marginal_error(exact_counts: Ints, estimated: Floats) -> float:
    """Return the mean absolute error of a cell of a two-way marginal, averaged over all of them."""
    wrong, axes = estimated - exact_counts, range(exact_counts.ndim)
    tables = (wrong.sum(axis=tuple(set(axes) - set(pair))) for pair in combinations(axes, 2))
    return float(np.mean([np.abs(table).mean() for table in tables]))


def compare_on_cubes(
    *, draws: int, seed: int, strategies: Sequence[str | Strategy] = tuple(BY_NAME)
) -> Iterator[CubeErrors]:
    """Release every cube with fresh noise and yield the errors of every algorithm."""
    random = np.random.default_rng(seed)
    for names in CUBES:
        domain = Domain.load(datasets.adult_domain(full=True)).project(names)
        exact_counts = count(datasets.adult_table(), domain)
        yield from compare_on(domain, exact_counts, CUBE_EPSILONS, draws=draws, random=random, strategies=strategies)


def compare_on(
    domain: Domain,
    exact_counts: Ints,
    epsilons: tuple[str, ...],
    *,
    draws: int,
    random: np.random.Generator,
    strategies: Sequence[str | Strategy] = tuple(BY_NAME),
) -> Iterator[CubeErrors]:
    """Yield the errors of every algorithm on one cube, epsilon by epsilon."""
    chosen = [strategy_of(strategy, domain) for strategy in strategies]
    asked = asked_ranges(domain, seed=int(random.integers(2**31)))
    for epsilon in epsilons:
        for algorithm, estimate in _algorithms(chosen, exact_counts, epsilon).items():
            pairs = []
            for _ in range(draws):
                estimated = estimate(random)
                error = absolute_errors(exact_counts, estimated, asked).mean()
                pairs.append((error, marginal_error(exact_counts, estimated)))
            (a, b), (c, d) = np.mean(pairs, axis=0), np.std(pairs, axis=0, ddof=1) / draws**0.5
            yield CubeErrors(domain.names, domain.shape, epsilon, algorithm, float(a), float(c), float(b), float(d))


def _algorithms(
    strategies: Sequence[Strategy], exact_counts: Ints, epsilon: str
) -> dict[str, Callable[[np.random.Generator], Floats]]:
    def released(chosen: Strategy) -> Callable[[np.random.Generator], Floats]:
        return lambda random: experiment(
            exact_counts, epsilon=epsilon, strategy=chosen, noise=SeededNoise(int(random.integers(2**63)))
        ).cells()

    return {strategy.name: released(strategy) for strategy in strategies} | {
        PRIVTREE: lambda random: BY_HALVES.release(exact_counts, float(epsilon), random)
    }


def cubes_report(found: list[CubeErrors]) -> list[str]:
    """Return one line for each cube and epsilon: errors of ranges / of marginals, for each algorithm."""
    algorithms = list(dict.fromkeys(one.algorithm for one in found))
    lines = ["Cubes of the bundled table: error of ranges / of two-way marginals", ""]
    lines += [f"| cube | cells | epsilon | {' | '.join(algorithms)} |", f"|{'---|' * (3 + len(algorithms))}"]
    for names, epsilon in dict.fromkeys((one.names, one.epsilon) for one in found):
        of = {one.algorithm: one for one in found if (one.names, one.epsilon) == (names, epsilon)}
        size = int(np.prod(of[PRIVTREE].shape))
        cells = " | ".join(f"{of[a].ranges:.3g} / {of[a].marginals:.3g}" for a in algorithms)
        lines.append(f"| {' x '.join(names)} | {size:,} | {epsilon} | {cells} |")
    return lines
