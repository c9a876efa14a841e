"""Conformance suite for strategies: what a release relies on, tried on small tables of every sort."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.core.boxes import Boxes
from dpcube.core.candidates import Candidates
from dpcube.core.counter import BUDGET_UNITS, NoisyCounter
from dpcube.core.domain import Category, Domain, Integer
from dpcube.core.errors import DpcubeError
from dpcube.core.exact import DenseCounts, ExactData, SparseRows
from dpcube.core.gate import Gate
from dpcube.measurements import Provenance, Transcript
from dpcube.measurements.file import read_record, write_record
from dpcube.models import estimate
from dpcube.strategies import FittedStrategy, Strategy
from dpcube.strategies.registry import fitted_strategy
from dpcube.testing.noise import SeededNoise

TRIED_DOMAINS = (
    Domain(Integer("a", 0, 0)),
    Domain(Integer("a", 0, 16)),
    Domain(Category("a", [str(value) for value in range(90)])),
    Domain(Integer("a", 0, 12), Integer("b", 0, 7)),
    Domain(Integer("a", 0, 4), Category("b", ["x", "y", "z"]), Integer("c", 0, 5)),
)
"""Domains that a strategy is tried on, unless it refuses them before it measures anything."""
_EPSILONS = (Fraction(1, 100), Fraction(1), Fraction(20))


def check_strategy(strategy: str | Strategy, *, domains: Sequence[Domain] = TRIED_DOMAINS) -> None:
    """Check that a strategy does what a release relies on.

    Every run must finish, on a table without rows as on a heap in one cell; the transcript must state what the counter
    answered and no more, within the budget; the same answers must lead to the same transcript, without the data; and an
    estimate must be able to answer from it, also once it was written and read.

    Parameters
    ----------
    strategy
        A strategy, or its name.
    domains
        The domains to try; at least one must be accepted. Strategies of wide tables need some of their own.

    Raises
    ------
    AssertionError
        If the strategy breaks one of these rules.

    Examples
    --------
    >>> check_strategy("cells", domains=TRIED_DOMAINS[:2])

    """
    accepted = 0
    for domain in domains:
        try:
            fitted = fitted_strategy(strategy, domain)
        except DpcubeError:  # refused before anything is spent
            continue
        accepted += 1
        _check_facts(fitted, domain)
        for number, counts in enumerate(_tables(domain.shape)):
            for epsilon in _EPSILONS:
                _check_run(fitted, domain, counts, epsilon, seed=number)
    assert accepted, "the strategy accepts none of the domains"


def _tables(shape: tuple[int, ...]) -> list[Ints]:
    """Return a table without rows, one with all rows in one cell, one of equal cells and one of random ones."""
    heap = np.zeros(shape, np.int64)
    heap[tuple(side // 2 for side in shape)] = 10_000
    random = np.random.default_rng(1).negative_binomial(1, 0.05, shape).astype(np.int64)
    return [np.zeros(shape, np.int64), heap, np.full(shape, 50), random]


def _check_facts(strategy: FittedStrategy, domain: Domain) -> None:
    """Check what is asked of a strategy before anything is spent."""
    assert isinstance(strategy.name, str), "the name of a strategy is text"
    assert strategy.name.isprintable(), "the name of a strategy is printable"
    for key, value in strategy.parameters().items():
        assert isinstance(key, str), "parameters have names"
        assert value is None or isinstance(value, str | int | float | bool), f"the parameter {key} is a plain value"
    needed = strategy.peak_bytes(domain.shape)
    assert isinstance(needed, int), "peak_bytes is a whole number"
    assert needed > 0, "peak_bytes is above zero"


def _check_run(strategy: FittedStrategy, domain: Domain, counts: Ints, epsilon: Fraction, *, seed: int) -> None:
    words = f"{strategy.name} on {' x '.join(map(str, domain.shape))} cells at epsilon {epsilon}"
    recorder = Recorder(Gate(_stored(strategy, counts), epsilon, noise=SeededNoise(seed)))
    transcript = _run(strategy, recorder, words)
    assert transcript.shape == domain.shape, f"{words}: the transcript has another shape than the domain"
    assert transcript.epsilon_per_unit == epsilon / BUDGET_UNITS, f"{words}: the transcript states another epsilon"
    assert transcript.most_charged() <= BUDGET_UNITS, f"{words}: the transcript spends more than the budget"
    answered = {answer.tobytes() for answer in recorder.answers}
    for measurement in transcript.measurements:
        stated, given = measurement.noisy, measurement.noisy.tobytes()
        assert any(given in one for one in answered) or not stated.size or _is_joined(stated, recorder.answers), (
            f"{words}: a {measurement.kind} states numbers that the counter did not answer"
        )
    again = _run(strategy, Replay(recorder), words)
    assert _contents(again) == _contents(transcript), f"{words}: the same answers lead to another transcript"
    _check_answers(strategy, domain, transcript, epsilon, words)


def _run(strategy: FittedStrategy, counter: NoisyCounter, words: str) -> Transcript:
    """Run a strategy; any error is a fault, for by then the budget would be spent."""
    try:
        return strategy.run(counter)
    except DpcubeError as error:
        msg = f"{words}: the run fails once it is charged: {error}"
        raise AssertionError(msg) from error


def _stored(strategy: FittedStrategy, counts: Ints) -> ExactData:
    if strategy.store == "cells":
        return DenseCounts(counts)
    occupied = np.nonzero(counts)
    return SparseRows(counts.shape, occupied, counts[occupied])


def _check_answers(
    strategy: FittedStrategy, domain: Domain, transcript: Transcript, epsilon: Fraction, words: str
) -> None:
    """Check that the release has an estimate, in memory and from its file, with the same total."""
    total = float(estimate(transcript).marginal(()))
    assert np.isfinite(total), f"{words}: the total is not a number"
    with TemporaryDirectory() as folder:
        path = Path(folder) / "r.dpcube"
        made_by = Provenance(strategy.name, epsilon, "check_strategy", strategy.parameters(), private=False)
        write_record(path, (domain, transcript, made_by))
        _, read, _ = read_record(path)
    assert _contents(read) == _contents(transcript), f"{words}: the file states another transcript"


def _is_joined(part: Ints, answers: Sequence[Ints]) -> bool:
    """Return whether numbers are those of several answers, in any order."""
    left: dict[int, int] = {}
    for number in np.concatenate([answer.reshape(-1) for answer in answers]).tolist():
        left[number] = left.get(number, 0) + 1
    for number in part.reshape(-1).tolist():
        left[number] = left.get(number, 0) - 1
        if left[number] < 0:
            return False
    return True


def _contents(transcript: Transcript) -> list[object]:
    """Return all that a transcript states, to be compared."""
    found: list[object] = [transcript.shape, transcript.epsilon_per_unit, transcript.plan, transcript.layout]
    for measurement in transcript.measurements:
        found.append((measurement.kind, measurement.most_charged(), measurement.noisy.tolist()))
    return found


@dataclass
class Recorder:
    """A counter that keeps the answers of another."""

    counter: NoisyCounter
    answers: list[Ints] = field(default_factory=list)
    queue: list[Ints] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube."""
        return self.counter.shape

    @property
    def epsilon_per_unit(self) -> Fraction:
        """Noise parameter of one unit of budget."""
        return self.counter.epsilon_per_unit

    def marginal(self, axes: tuple[int, ...], units: int) -> Ints:
        """Return a noisy marginal."""
        return self._kept(self.counter.marginal(axes, units))

    def boxes(self, boxes: Boxes, units: Ints) -> Ints:
        """Return a noisy count of each box."""
        return self._kept(self.counter.boxes(boxes, units))

    def select(self, candidates: Candidates, units: int) -> Ints:
        """Return the number of the candidate selected for each question."""
        return self._kept(self.counter.select(candidates, units))

    def grouped(self, groups: Sequence[Ints]) -> "Recorder":
        """Return the recorder of a coarser cube, whose answers are kept with these."""
        return Recorder(self.counter.grouped(groups), self.answers)

    def _kept(self, answer: Ints) -> Ints:
        self.answers.append(answer.copy())
        return answer


class Replay:
    """A counter without data: it gives the recorded answers again, in their order."""

    def __init__(self, recorder: Recorder) -> None:
        self.shape, self.epsilon_per_unit = recorder.shape, recorder.epsilon_per_unit
        self._answers = iter([answer.copy() for answer in recorder.answers])

    def marginal(self, axes: tuple[int, ...], units: int) -> Ints:  # noqa: ARG002
        """Return the next answer."""
        return next(self._answers)

    def boxes(self, boxes: Boxes, units: Ints) -> Ints:  # noqa: ARG002
        """Return the next answer."""
        return next(self._answers)

    def select(self, candidates: Candidates, units: int) -> Ints:  # noqa: ARG002
        """Return the next answer."""
        return next(self._answers)

    def grouped(self, groups: Sequence[Ints]) -> "Replay":
        """Return the same counter over a coarser cube."""
        coarser = object.__new__(Replay)
        coarser.shape = tuple(int(of_axis.max()) + 1 for of_axis in groups)
        coarser.epsilon_per_unit, coarser._answers = self.epsilon_per_unit, self._answers
        return coarser
