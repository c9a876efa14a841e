"""AIM and MST beside cuboids on a wide table.

`python -m benchmarks.wide_rivals FILE.csv [EPSILON,...] [SYSTEM,...] [RUNS]` on the 14 attributes of the bundled Adult
table (fnlwgt apart). Each run has a process of its own and adds one line to the file at once; runs that the file has
are not made again. Measured are synthetic rows, as many as the table has, over all pairs and all triples of attributes:
mean total variation, mean absolute error of a count, the processor's seconds and the peak of memory.

AIM (McKenna et al. 2022) and MST (McKenna et al. 2021) are written from their papers on the authors' inference engine,
`mbi` 2.0, which `MBI_SITE` names: a site-packages directory to be searched after our own. Their delta is 1e-9. "AIM
pure" has Laplace noise and adds epsilons up, with no delta. AIM's candidates are all pairs and the triples of up to
10,000 cells (its authors' limit). Its model is held to MODEL_MEGABYTES instead of 80, and a round has 100 steps of
mirror descent, the last 1,000. Tables of candidates that the model has not are made by our junction tree from the
model's cliques: by the engine itself each of them would be compiled anew, round after round.
"""

import csv
import importlib
import itertools
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.wide_tables import wide_adult
from dpcube.core.arrays import Floats, Ints
from dpcube.core.domain import Domain
from dpcube.core.exact import SparseRows
from dpcube.core.gate import Gate
from dpcube.models.cuboids.beliefs import Beliefs
from dpcube.models.cuboids.estimate import CuboidsEstimate
from dpcube.models.cuboids.junction import JunctionTree
from dpcube.strategies import Cuboids
from dpcube.testing import SeededNoise

DELTA = 1e-9
MODEL_MEGABYTES = 2.0
MOST_CANDIDATE_CELLS = 10_000
STEPS, LAST_STEPS = 100, 1000
FIELDS = ("system", "epsilon", "seed", "tv2", "tv3", "mae2", "mae3", "seconds", "megabytes", "note")
Axes = tuple[int, ...]


class Engine:
    """The authors' inference, and exact tables of the rows that it is asked about."""

    def __init__(self, rows: Ints, shape: tuple[int, ...], seed: int) -> None:
        sys.path.append(os.environ["MBI_SITE"])
        jax = importlib.import_module("jax")
        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_enable_compilation_cache", False)
        self.mbi: Any = importlib.import_module("mbi")
        self.rows, self.shape = rows, shape
        self.random = np.random.default_rng(seed)
        np.random.seed(seed)  # noqa: NPY002 - synthetic rows of the engine are drawn by it
        self.domain = self.mbi.Domain([f"a{axis}" for axis in range(len(shape))], shape)
        self.measured: list[Any] = []

    def exact(self, axes: Axes) -> Floats:
        return table_of(self.rows, self.shape, axes).astype(np.float64)

    def measure(self, axes: Axes, counts: Floats, deviation: float) -> None:
        names = tuple(f"a{axis}" for axis in axes)
        self.measured.append(self.mbi.LinearMeasurement(counts, names, stddev=deviation))

    def model(self, steps: int, start: Any = None) -> Any:
        return self.mbi.estimation.MirrorDescent().estimate(self.domain, self.measured, iters=steps, warm_start=start)

    def synthetic(self, model: Any) -> Ints:
        drawn = model.synthetic_data(rows=len(self.rows))
        return np.stack([np.asarray(drawn.data[f"a{axis}"], np.int64) for axis in range(len(self.shape))], axis=1)


def table_of(rows: Ints, shape: tuple[int, ...], axes: Axes) -> Ints:
    """Return the counts of a table over some axes, one after the other."""
    sides = [shape[axis] for axis in axes]
    place = np.ravel_multi_index([rows[:, axis] for axis in axes], sides)
    return np.bincount(place, minlength=math.prod(sides))


def beliefs_of(model: Any, shape: tuple[int, ...]) -> Beliefs:
    """Return the cliques of their model as ours."""
    cliques = [tuple(int(name[1:]) for name in clique) for clique in model.cliques]
    tree = JunctionTree.of(shape, cliques)
    marginals = importlib.import_module("mbi.marginal_oracles").message_passing_stable(
        model.potentials.expand([tuple(f"a{axis}" for axis in clique) for clique in tree.cliques]), model.total
    )
    tables = [marginals[tuple(f"a{axis}" for axis in clique)] for clique in tree.cliques]
    return Beliefs(tree, tuple(np.asarray(table.values, np.float64) for table in tables))


def rho_for(epsilon: float) -> float:
    """Return the zero-concentrated privacy that implies (epsilon, DELTA) (Canonne, Kamath and Steinke 2020)."""

    def delta_of(rho: float) -> float:
        orders = 1 + np.geomspace(1e-3, 1e6, 200_000)
        logs = (orders - 1) * (orders * rho - epsilon) + orders * np.log1p(-1 / orders) - np.log(orders - 1)
        return float(np.exp(logs.min()))

    low, high = 0.0, epsilon + 1
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(middle) <= DELTA else (low, middle)
    return low


def chosen(scores: Floats, epsilon: float, spread: float, random: np.random.Generator) -> int:
    """Choose by the exponential mechanism: Gumbel noise and the highest."""
    return int(np.argmax(scores * epsilon / (2 * spread) + random.gumbel(size=len(scores))))


def mst(rows: Ints, domain: Domain, epsilon: float, seed: int) -> tuple[Ints, str]:
    """Return rows by MST: values below three deviations made one, a tree of pairs, a third of rho for each step."""
    rho, attributes, random = rho_for(epsilon), len(domain.shape), np.random.default_rng(seed + 1000)
    deviation = math.sqrt(3 * attributes / (2 * rho))
    maps, counts = [], []
    for axis, side in enumerate(domain.shape):
        noisy = table_of(rows, domain.shape, (axis,)) + deviation * random.normal(size=side)
        kept = noisy >= 3 * deviation
        kept |= not kept.any()
        maps.append(np.where(kept, np.cumsum(kept) - 1, kept.sum()))
        counts.append(np.append(noisy[kept], [noisy[~kept].sum()] if not kept.all() else []))
    coarse = np.stack([of_axis[rows[:, axis]] for axis, of_axis in enumerate(maps)], axis=1)
    engine = Engine(coarse, tuple(map(len, counts)), seed)
    for axis, of_axis in enumerate(counts):
        engine.measure((axis,), of_axis, deviation)
    first = beliefs_of(engine.model(LAST_STEPS), engine.shape)
    pairs = list(itertools.combinations(range(attributes), 2))
    apart = {pair: float(np.abs(engine.exact(pair) - first.marginal(pair).reshape(-1)).sum()) for pair in pairs}
    part, of_choice = np.arange(attributes), math.sqrt(8 * rho / 3 / (attributes - 1))
    deviation = math.sqrt(3 * (attributes - 1) / (2 * rho))
    for _ in range(attributes - 1):
        free = [pair for pair in pairs if part[pair[0]] != part[pair[1]]]
        pair = free[chosen(np.array([apart[one] for one in free]), of_choice, 1.0, random)]
        part[part == part[pair[0]]] = part[pair[1]]
        exact = engine.exact(pair)
        engine.measure(pair, exact + deviation * random.normal(size=len(exact)), deviation)
    drawn = engine.synthetic(engine.model(LAST_STEPS))
    for axis, of_axis in enumerate(maps):
        order = np.argsort(of_axis, kind="stable")
        starts, many = np.searchsorted(of_axis[order], drawn[:, axis]), np.bincount(of_axis)
        drawn[:, axis] = order[starts + random.integers(0, many[drawn[:, axis]])]
    return drawn, ""


def aim(rows: Ints, domain: Domain, epsilon: float, seed: int, *, pure: bool = False) -> tuple[Ints, str]:
    """Return rows by AIM: round after round the table that departs most from the model, until the budget is spent."""
    engine, shape = Engine(rows, domain.shape, seed), domain.shape
    budget = epsilon if pure else rho_for(epsilon)
    weights, attributes = workload_weights(shape), range(len(shape))
    rounds = 16 * len(shape)
    scale = rounds / (0.9 * budget) if pure else math.sqrt(rounds / (1.8 * budget))
    of_choice = 0.1 * budget / rounds if pure else math.sqrt(0.8 * budget / rounds)
    mean = 1.0 if pure else math.sqrt(2 / math.pi)
    """The mean of the noise without its sign, in its scale."""

    def cost() -> float:
        return 1 / scale + of_choice if pure else 0.5 / scale**2 + of_choice**2 / 8

    def count(axes: Axes) -> None:
        exact = engine.exact(axes)
        noise = engine.random.laplace(size=len(exact)) if pure else engine.random.normal(size=len(exact))
        engine.measure(axes, exact + scale * noise, scale * (math.sqrt(2) if pure else 1.0))

    for axis in attributes:
        count((axis,))
    spent = len(shape) * (1 / scale if pure else 0.5 / scale**2)
    cliques: list[Axes] = [(axis,) for axis in attributes]
    model, last, made = engine.model(LAST_STEPS), False, 0
    while not last:
        if budget - spent < 2 * cost():
            left, last = budget - spent, True
            scale = 1 / (0.9 * left) if pure else math.sqrt(1 / (1.8 * left))
            of_choice = 0.1 * left if pure else math.sqrt(0.8 * left)
        spent += cost()
        beliefs = beliefs_of(model, shape)
        free = candidates(weights, beliefs, cliques, MODEL_MEGABYTES * spent / budget)
        apart = [np.abs(engine.exact(axes) - beliefs.marginal(axes).reshape(-1)) for axes in free]
        scores = np.array(
            [weights[axes] * (of.sum() - mean * scale * of.size) for axes, of in zip(free, apart, strict=True)]
        )
        axes = free[chosen(scores, of_choice, max(weights[axes] for axes in free), engine.random)]
        before = beliefs.marginal(axes)
        count(axes)
        cliques.append(axes)
        model, made = engine.model(LAST_STEPS if last else STEPS, model), made + 1
        names = tuple(f"a{axis}" for axis in axes)
        after = np.asarray(model.project(names).values)
        if np.abs(after - before).sum() <= mean * scale * before.size:
            scale, of_choice = scale / 2, of_choice * 2
        print(
            f"round {made}: {axes}, {spent / budget:.2f} spent, {time.process_time():.0f} s",
            file=sys.stderr,
            flush=True,
        )
    return engine.synthetic(model), f"{made} rounds"


def workload_weights(shape: tuple[int, ...]) -> dict[Axes, float]:
    """Return what each candidate has in common with all pairs and triples that are asked for."""
    attributes = range(len(shape))
    asked = [axes for way in (2, 3) for axes in itertools.combinations(attributes, way)]
    asked = [axes for axes in asked if math.prod(shape[axis] for axis in axes) <= MOST_CANDIDATE_CELLS]
    below = {part for axes in asked for way in range(1, len(axes) + 1) for part in itertools.combinations(axes, way)}
    return {part: float(sum(len(set(part) & set(axes)) for axes in asked)) for part in sorted(below)}


def candidates(weights: dict[Axes, float], beliefs: Beliefs, cliques: list[Axes], megabytes: float) -> list[Axes]:
    """Return the tables with which the model stays small enough."""
    held = [set(clique) for clique in beliefs.tree.cliques]
    most, found = megabytes * 2**20 / 8, []
    for axes in weights:
        if (
            any(set(axes) <= clique for clique in held)
            or JunctionTree.of(beliefs.tree.shape, [*cliques, axes]).cells <= most
        ):
            found.append(axes)
    return found


def cuboids(rows: Ints, domain: Domain, epsilon: float, seed: int) -> tuple[Ints, str]:
    """Return rows by ours, with seeded noise; the rows that are alike are counted first, as a release does."""
    codes, alike = np.unique(rows, axis=0, return_counts=True)
    exact = SparseRows(domain.shape, list(codes.T), alike)
    gate = Gate(exact, Fraction(str(epsilon)), noise=SeededNoise(seed))
    estimate = CuboidsEstimate.of("cuboids", Cuboids().for_domain(domain).run(gate))
    (drawn,) = estimate.draw(len(rows), np.random.default_rng(seed), batch=len(rows))
    return np.stack(drawn, axis=1), f"{len(estimate.cuboids)} cuboids"


Run = Callable[[Ints, Domain, float, int], tuple[Ints, str]]
SYSTEMS: dict[str, Run] = {
    "cuboids": cuboids,
    "MST": mst,
    "AIM": aim,
    "AIM pure": lambda rows, domain, epsilon, seed: aim(rows, domain, epsilon, seed, pure=True),
}


def distances(rows: Ints, drawn: Ints, shape: tuple[int, ...]) -> dict[str, float]:
    """Return how far drawn rows are from the table's, over all pairs and triples."""
    found = {}
    for way in (2, 3):
        apart, cells = [], []
        for axes in itertools.combinations(range(len(shape)), way):
            exact, other = (table_of(one, shape, axes) for one in (rows, drawn))
            apart.append(float(np.abs(exact - other).sum()))
            cells.append(exact.size)
        found[f"tv{way}"] = float(np.mean(apart)) / (2 * len(rows))
        found[f"mae{way}"] = float(np.mean(np.array(apart) / cells))
    return found


def one_run(system: str, epsilon: float, seed: int) -> dict[str, object]:
    """Make one run and return its line."""
    domain, rows = wide_adult()
    begun = time.process_time()
    drawn, note = SYSTEMS[system](rows, domain, epsilon, seed)
    seconds = time.process_time() - begun
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    line = {"system": system, "epsilon": epsilon, "seed": seed, "seconds": round(seconds, 1), "note": note}
    told = {name: float(f"{value:.5g}") for name, value in distances(rows, drawn, domain.shape).items()}
    return line | told | {"megabytes": round(megabytes)}


def append(path: Path, line: dict[str, object]) -> None:
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if not file.tell():
            writer.writeheader()
        writer.writerow(line)


def made_before(path: Path) -> set[tuple[str, float, int]]:
    if not path.exists():
        return set()
    with path.open(newline="") as file:
        return {(line["system"], float(line["epsilon"]), int(line["seed"])) for line in csv.DictReader(file)}


def main() -> None:
    """Make all runs that the file has not."""
    path = Path(sys.argv[1])
    if len(sys.argv) == 6 and sys.argv[5] == "one":
        append(path, one_run(sys.argv[3], float(sys.argv[2]), int(sys.argv[4])))
        return
    epsilons = [float(one) for one in (sys.argv[2] if len(sys.argv) > 2 else "1,0.1,3").split(",")]
    systems = sys.argv[3].split(",") if len(sys.argv) > 3 else list(SYSTEMS)
    runs = int(sys.argv[4]) if len(sys.argv) > 4 else 5
    for epsilon, seed, system in itertools.product(epsilons, range(runs), systems):
        if (system, epsilon, seed) not in made_before(path):
            command = [
                sys.executable,
                "-m",
                "benchmarks.wide_rivals",
                str(path),
                str(epsilon),
                system,
                str(seed),
                "one",
            ]
            subprocess.run(command, check=False)


if __name__ == "__main__":
    main()
