"""What blocks save in secure comparisons: `dpcube block` beside the hierarchical kd-tree and no blocking at all.

    python -m benchmarks.link_reduction adult [--draws 30]
    python -m benchmarks.link_reduction FOLDER [--draws 30]

Tables, rules and what is blocked on are those of `link_tables.py`; FOLDER holds FEBRL 4. The first table is released
with epsilon, which makes the boxes, and each side is padded with epsilon and delta 1e-6. A box is compared with those
that may hold matching values, by every method alike. Means and standard errors over releases and paddings, whose noise
is from seeds.
"""

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from benchmarks.link_tables import KnownLinks, known_links
from dpcube.core.arrays import Ints
from dpcube.core.boxes import Boxes, box_sums
from dpcube.core.padding import padding_shift
from dpcube.curator.publishing import count
from dpcube.link.blocking import ROUNDS_AS_PAIRS, candidate_pairs, plan_boxes
from dpcube.link.linking import compared_pairs
from dpcube.research.arrays import experiment
from dpcube.research.seeds import seed_of
from dpcube.strategies.rivals.median_tree import MedianTree
from dpcube.testing import SeededNoise

TRIED_EPSILONS = ("0.1", "0.5", "1")
DELTA = Fraction(1, 10**6)


class CountedTables:
    """Two tables as counts over what they are blocked on."""

    def __init__(self, known: KnownLinks) -> None:
        self.domain = known.domain
        self.counts = [count(table, known.domain) for table in known.tables]
        self.reach = [known.matching.reach_along(name) for name in known.domain.names]

    def pairs(self, boxes: Boxes, dummies: Sequence[Ints] | None) -> int:
        """Return how many pairs of rows are compared, padded or as they are."""
        sizes = [box_sums(one, boxes) for one in self.counts]
        if dummies is not None:
            sizes = [rows + added for rows, added in zip(sizes, dummies, strict=True)]
        left, right = sizes
        return compared_pairs(left, right, candidate_pairs(self.domain, boxes, self.reach))


Method = Callable[[CountedTables, Fraction, int], Boxes]


def planned(tables: CountedTables, epsilon: Fraction, seed: int, *, rounds: float) -> Boxes:
    """Return the boxes of `dpcube block`, if a pair of blocks costs `rounds` pairs of rows besides its own."""
    made = experiment(tables.counts[0], epsilon=epsilon, noise=SeededNoise(seed), domain=tables.domain)
    return plan_boxes(
        tables.domain,
        made.cells(),
        reach=tables.reach,
        shift=padding_shift(epsilon, DELTA),
        other_rows=float(tables.counts[1].sum()),
        rounds=rounds,
    ).boxes


def of_tree(tables: CountedTables, epsilon: Fraction, seed: int, *, height: int) -> Boxes:
    """Return the leaves of a kd-tree that is cut at private medians."""
    tree, noise = MedianTree(height=height), SeededNoise(seed)
    made = experiment(tables.counts[0], epsilon=epsilon, strategy=tree, noise=noise, domain=tables.domain)
    boxes = made.transcript.boxes
    assert boxes is not None
    return boxes.tree.partitioning()


def whole(tables: CountedTables, _: Fraction, __: int) -> Boxes:
    """Return one box, in which everybody is compared with everybody."""
    shape = np.array([tables.domain.shape])
    return Boxes(tables.domain.shape, np.zeros_like(shape), shape)


METHODS: dict[str, Method] = {
    "no blocking": whole,
    "kd-tree, height 10": partial(of_tree, height=10),
    "kd-tree, height 4": partial(of_tree, height=4),
    "dpcube block": partial(planned, rounds=ROUNDS_AS_PAIRS),
    "the same, for the fewest pairs": partial(planned, rounds=0),
}


def drawn(tables: CountedTables, name: str, epsilon: Fraction, draw: int) -> tuple[int, int, int]:
    """Return how many blocks a draw has, and its pairs of rows as they are and padded."""
    seed = seed_of("reduction", name, str(epsilon), draw)
    boxes = METHODS[name](tables, epsilon, seed)
    shift = padding_shift(epsilon, DELTA)
    noise = [SeededNoise(seed_of("padding", seed, side)).draw(epsilon, len(boxes)) for side in (0, 1)]
    dummies = [np.maximum(0, shift + one) for one in noise]
    return len(boxes), tables.pairs(boxes, None), tables.pairs(boxes, dummies)


def mean_words(values: Sequence[float]) -> str:
    """Return a mean with its standard error."""
    mean = math.fsum(values) / len(values)
    error = np.std(values, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{mean:,.0f} +- {error:,.0f}"


def lines(tables: CountedTables, draws: int) -> Iterator[str]:
    """Return a table of Markdown, with how many times fewer pairs each compares than no blocking does."""
    yield "| epsilon | blocks by | blocks | pairs, true sizes | fewer | pairs, padded | fewer |"
    yield "|---|---|---|---|---|---|---|"
    for epsilon in map(Fraction, TRIED_EPSILONS):
        without = (0.0, 0.0)
        for name in METHODS:
            found = np.array([drawn(tables, name, epsilon, draw) for draw in range(draws)])
            blocks, true, padded = found.mean(axis=0)
            without = (true, padded) if name == "no blocking" else without
            fewer = [f"{none / one:.1f}x" for none, one in zip(without, (true, padded), strict=True)]
            told = [f"{float(epsilon):g}", name, f"{blocks:.1f}", mean_words(found[:, 1].tolist()), fewer[0]]
            yield "| " + " | ".join([*told, mean_words(found[:, 2].tolist()), fewer[1]]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables")
    parser.add_argument("--draws", type=int, default=30)
    given = parser.parse_args()
    for line in lines(CountedTables(known_links(given.tables)), given.draws):
        print(line, flush=True)


if __name__ == "__main__":
    main()
