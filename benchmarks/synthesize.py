"""How fast synthetic rows are drawn, whole and as cells alone, beside NumPy's own choice and multinomial of cells."""

from collections import deque
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.release import counts_of
from benchmarks.timing import seconds
from dpcube import Domain, Release, datasets, evaluate
from dpcube.release.export import write_table
from dpcube.testing import SeededNoise

ROWS = 2_000_000
MOST_OVER_CHOICE = 3


def run() -> list[str]:
    """Measure rows of the bundled table's five attributes, and of a cube of a million cells."""
    domain = Domain.load(datasets.adult_domain())
    adult, square = _released(domain), _released(Domain.of_shape((1024, 1024)))
    lines = [f"{ROWS:,} synthetic rows; choice and multinomial draw the cells of rows only, not their values"]
    for name, release in {"16 x 20 x 7 x 2 x 2": adult, "1024 x 1024": square}.items():
        lines += _compared(name, release)
    return [*lines, _written(adult, "parquet"), _written(adult, "csv")]


def _released(domain: Domain) -> Release:
    made = evaluate.experiment(counts_of(domain.shape), epsilon=1, noise=SeededNoise(1))
    return Release(domain, made.transcript, made.provenance)


def _compared(name: str, release: Release) -> list[str]:
    shares = release.cells().reshape(-1) / release.cells().sum()
    generator = np.random.default_rng(1)

    def multinomial() -> None:
        drawn = np.repeat(np.arange(shares.size), generator.multinomial(ROWS, shares))
        generator.shuffle(drawn)

    choice = seconds(lambda: generator.choice(shares.size, ROWS, p=shares), repeats=3)
    shuffled = seconds(multinomial, repeats=3)
    rows = seconds(lambda: deque(release.synthesize_batches(ROWS, 1), maxlen=0), repeats=3)
    return [
        f"{name:20} {len(release.domain.names)} columns: {_rate(rows)}; choice {_rate(choice)}, multinomial and "
        f"shuffle {_rate(shuffled)}: {rows / choice:.1f}x the time of choice (target: at most {MOST_OVER_CHOICE})"
    ]


def _rate(taken: float) -> str:
    return f"{ROWS / taken / 1e6:.1f} million a second"


def _written(release: Release, ending: str) -> str:
    with TemporaryDirectory() as folder:
        paths = iter(Path(folder) / f"{number}.{ending}" for number in range(10))
        taken = seconds(lambda: write_table(release.synthesize_batches(ROWS, 1), next(paths)), repeats=3)
    return f"{'':20} written to {ending}: {_rate(taken)}"


if __name__ == "__main__":
    print("\n".join(run()))
