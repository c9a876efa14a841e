"""What each part of the adaptive strategy is worth: the errors with one part left out, or replaced, at a time.

The product has no knobs for this. A part is left out by other constants in its modules while a variant runs; compiled
loops have their constants built in, so they are compiled anew from the same file, away from the cache.
"""

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numba
import numpy as np

from dpcube.core import compiled as compiling
from dpcube.core.arrays import Floats, Ints
from dpcube.models.posterior import inference, splits
from dpcube.queries.workload_model import WorkloadModel
from dpcube.research.accuracy.dpbench import Bench, RunErrors, mean_over_sets, measure_errors
from dpcube.strategies import adaptive, looking
from dpcube.trees.halving import CutOrder

LOOPS = ("add_marginals", "divide", "gather", "learn", "predicted_shares")


class SumOfSquares:
    """In place of a query kernel: what an error costs in the sum of squares over cells, whatever is asked."""

    def __init__(self, shape: tuple[int, ...], kinds: tuple[str, ...], given: object = None) -> None:
        del given
        self.cut_order = WorkloadModel(shape, kinds).cut_order

    def values(self, lower: Ints, upper: Ints, axis: Ints, middle: Ints) -> tuple[Floats, Floats]:
        """Return 1/n for a box of n cells, and 1/n for each half of its cut."""
        sides = upper - lower
        size = sides.prod(axis=1).astype(np.float64)
        rows = np.arange(len(axis))
        side = sides[rows, axis]
        first = np.where(axis >= 0, (middle - lower[rows, axis]) / side, 0.5)
        halves = size * np.maximum(first * (1 - first), 1 / (side + 1.0) ** 2)
        return 1 / size, np.where(axis >= 0, 1 / halves, 0.0)


def _flat_marginals(lower: Ints, upper: Ints, leaves: Ints, total: Floats, prefix: Floats, start: Ints) -> Floats:
    del lower, upper, leaves, total, start
    return np.ones(len(prefix))


def _with(module: object, **others: object) -> list[AbstractContextManager[object]]:
    return [patch.object(module, name, value) for name, value in others.items()]


def _loops_with(**constants: object) -> list[AbstractContextManager[object]]:
    """Put the loops of `posterior/splits.py`, compiled with other constants, in the place of those of the product."""
    assert splits.__file__ is not None
    spec = importlib.util.spec_from_file_location("dpcube_splits_variant", splits.__file__)
    assert spec is not None
    assert spec.loader is not None
    variant = importlib.util.module_from_spec(spec)
    uncached: Callable[[Any], Any] = numba.njit(nogil=True, error_model="numpy")
    with patch.object(compiling, "compiled", uncached):
        spec.loader.exec_module(variant)
    for name, value in constants.items():
        assert hasattr(splits, name), name
        setattr(variant, name, value)
    shared = {name: value for name, value in constants.items() if hasattr(inference, name)}
    return _with(inference, **shared, **{name: getattr(variant, name) for name in LOOPS})


def _without_prediction() -> list[AbstractContextManager[object]]:
    loops = _loops_with(PRIOR=(0.2, 0.2, 0.6 - 1e-6, 1e-6))

    def learn(level: Ints, likelihood: Floats, weights: Floats) -> None:
        likelihood[:, 3] = 0.0
        splits.learn(level, likelihood, weights)
        weights[:, 3] = 1e-6

    return [*loops, *_with(inference, learn=learn)]


class LongestFirst(WorkloadModel):
    """A query kernel that has the longest axis cut first, by how many halvings it still takes."""

    def cut_order(self) -> CutOrder:
        """Return the halvings that each interval takes."""
        order = super().cut_order()
        for first, cells in zip(order.start.tolist(), self._shape.tolist(), strict=True):
            intervals = [(0, cells)]
            while intervals:
                low, high = intervals.pop()
                if high - low > 1:
                    middle = (low + high) // 2
                    order.worth[first + middle] = (high - low - 1).bit_length()
                    intervals += [(low, middle), (middle, high)]
        return order


VARIANTS: dict[str, Callable[[], list[AbstractContextManager[object]]]] = {
    "everything": list,
    "no marginals": lambda: _with(inference, add_marginals=_flat_marginals),
    "no guess near the prediction": _without_prediction,
    "no learnt weights": lambda: _loops_with(LEARNING_STEPS=0),
    "posterior mean, not a soft median": lambda: _loops_with(SHARPNESS=1),
    "one round of inference": lambda: [patch.dict(inference.infer.__kwdefaults__, rounds=1)],
    "no phase of boxes": lambda: _with(looking, LOOK_SHARE=Fraction(984, 1000) - looking.ROOT_SHARE),
    "half of the budget for looking": lambda: _with(looking, LOOK_SHARE=Fraction(1, 2)),
    "all of a box's noise counts": lambda: _with(looking, LEAF_NOISE=1.0),
    "no stopping": lambda: _with(looking, LEFT_TO_LEARN=1e30),
    "longest axis cut first": lambda: _with(adaptive, WorkloadModel=LongestFirst),
    "sum of squares, not ranges": lambda: _with(adaptive, WorkloadModel=SumOfSquares),
}


@contextmanager
def variant(name: str) -> Iterator[None]:
    """Run the adaptive strategy and its estimate without a part, while the context lasts."""
    with ExitStack() as stack:
        for change in VARIANTS[name]():
            stack.enter_context(change)
        yield


def ablation(bench: Bench, *, draws: int, seed: int) -> Iterator[tuple[str, list[RunErrors]]]:
    """Yield each variant and its errors on the 2-D sets; all of them meet the same noise where they ask alike."""
    for name in VARIANTS:
        with variant(name):
            yield name, list(measure_errors(bench, ["adaptive"], draws=draws, seed=seed, dims=[2]))


def ablation_report(found: list[tuple[str, list[RunErrors]]]) -> list[str]:
    """Return geometric means over the sets at each scale, and over all."""
    scales = sorted({one.key.scale for one in found[0][1]})
    lines = ["2-D random ranges: geometric means over the sets, with one part left out", ""]
    lines += [f"| variant | {' | '.join(f'N = {s:.0e}' for s in scales)} | all |", f"|{'---|' * (2 + len(scales))}"]
    for name, measured in found:
        means = [mean_over_sets([one for one in measured if one.key.scale == scale]) for scale in scales]
        shown = " | ".join(f"{one.mean:.4g} +- {one.stderr:.2g}" for one in means)
        lines.append(f"| {name} | {shown} | {mean_over_sets(measured).mean:.4g} |")
    return lines
