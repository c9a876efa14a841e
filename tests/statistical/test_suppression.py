"""Why records must not be suppressed: the counterexample of docs/guides/linkage.md, run.

B's block holds only b*, which matches A. Add one record to it that matches nobody. If the size shown is noisy and
records are left out to fit it, the event "size 1 is shown and b* is not among the matches" is impossible before and
happens after: the loss is infinite, though the record that was added matches nobody. With padding it never happens.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from dpcube.core.noise import ExactNoise
from dpcube.core.padding import draw_padding

RUNS = 4000
EPSILON = Fraction(1)
Shown = tuple[int, bool]
Protocol = Callable[[int, int, int], Shown]


def suppressing(records: int, noise: int, left_out: int) -> Shown:
    """Show a noisy size, and leave records out to fit it; b* is record 0, and `left_out` says who goes first."""
    size = max(0, records + noise)
    kept = (
        [record for record in range(records) if record != left_out][: max(0, size)]
        if size < records
        else range(records)
    )
    return size, 0 in kept


def padding(records: int, dummies: int, _: int) -> Shown:
    """Show the size with dummies added; everybody is compared."""
    return records + dummies, True


def events(protocol: Protocol, records: int, drawn: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> int:
    """How often size 1 is shown and b* is not found."""
    turns = np.random.default_rng(0).integers(0, records, len(drawn))
    shown = [protocol(records, noise, turn) for noise, turn in zip(drawn.tolist(), turns.tolist(), strict=True)]
    return shown.count((1, False))


def test_suppression_tells_a_record_that_matches_nobody() -> None:
    drawn = ExactNoise().draw(EPSILON, RUNS)
    assert events(suppressing, 1, drawn) == 0
    # P(noise = -1) / 2 is 0.085 here: none of 4,000 has probability below 1e-150.
    assert events(suppressing, 2, drawn) > 0


def test_padding_never_does() -> None:
    drawn = draw_padding(EPSILON, Fraction(1, 10**6), sensitivity=1, blocks=RUNS)
    assert (drawn >= 0).all()
    assert events(padding, 1, drawn) == events(padding, 2, drawn) == 0
