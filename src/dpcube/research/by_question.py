"""Coverage and bias of each question over many releases.

An average over questions hides the one that fails every time. So each is asked of every release, and counted by itself.
Questions whose true answer is 0 and questions that cut bins are reported apart: the interval of the first is hard to
miss, and that of the second reaches from none of the rows of a bin to all of them.
"""

import csv
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from dpcube.core.arrays import Bools, Floats
from dpcube.release.answer import Answers
from dpcube.research.arrays import experiment
from dpcube.research.natural_questions import Questions, bundled_questions, natural_questions
from dpcube.research.processes import in_processes, seed_of
from dpcube.research.ratios import CHANCE
from dpcube.research.tables import PublicTable, coded_tables, demo_table, drawn_tables
from dpcube.strategies import Strategy, strategy_of
from dpcube.testing import SeededNoise

ASKED_CONFIDENCE = 0.95
EPSILONS = ("0.1", "1")
UNDER = 0.90
WORST_PART = 0.1
WANTED, WANTED_OF_WORST_TENTH, WANTED_OF_WORST = (0.93, 0.985), 0.85, 0.88
MAX_BIAS = 0.25
AT_ONCE = 10
"""Releases of a task: the same for any number of processes, so that sums of floats are too."""


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """Sums over releases for each question, in rows.

    They are how often it was asked, had a known interval and held; errors and their squares; half-widths of intervals
    and stated standard errors, where they are known.
    """

    sums: Floats

    @classmethod
    def nothing(cls, questions: int) -> "Tally":
        """Return the tally of no release."""
        return cls(np.zeros((7, questions)))

    @classmethod
    def of_release(cls, answers: Answers, truths: Floats, *, counted: Bools | bool = True) -> "Tally":
        """Tally one release; questions that are not `counted` are left out."""
        low, high = answers.interval(ASKED_CONFIDENCE)
        known = ~np.isnan(low + high)
        held = known & (low <= truths) & (truths <= high)
        off, stated = answers.values - truths, np.hypot(answers.stderrs, answers.nonuniformities)
        half_width, stated = (np.where(known, width, 0.0) for width in ((high - low) / 2, stated))
        return cls(np.stack([np.ones(len(truths)), known, held, off, off**2, half_width, stated]) * counted)

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.sums + other.sums)

    @property
    def asked(self) -> Bools:
        """Which questions were counted at least once."""
        return np.asarray(self.sums[0] > 0)

    def shares(self, where: Bools) -> Floats:
        """Return how often the interval of each question held where it was stated, NaN where it never was."""
        _, known, held = self.sums[:3, where]
        shares: Floats = np.divide(held, known, out=np.full(len(known), np.nan), where=known > 0)
        return shares

    def overall(self, where: Bools) -> float:
        """Return how often the questions held, taken together."""
        known, held = self.sums[1:3, where].sum(axis=1)
        return float(held / known) if known else float("nan")

    @property
    def biases(self) -> Floats:
        """The mean error of each question."""
        return np.asarray(self.sums[3] / np.maximum(self.sums[0], 1))

    @property
    def deviations(self) -> Floats:
        """The standard deviation of each question's answers over releases."""
        number, off, squares = self.sums[[0, 3, 4]]
        squares = np.maximum(squares - off**2 / np.maximum(number, 1), 0)
        return np.asarray(np.sqrt(squares / np.maximum(number - 1, 1)))

    @property
    def half_widths(self) -> Floats:
        """The mean half-width of each question's interval, where it was stated."""
        return np.asarray(self.sums[5] / np.maximum(self.sums[1], 1))

    @property
    def stated_errors(self) -> Floats:
        """The mean standard error that answers to each question state, where they state one."""
        return np.asarray(self.sums[6] / np.maximum(self.sums[1], 1))

    @property
    def biased(self) -> Bools:
        """Which questions have a bias above a quarter of the stated standard error, beyond chance."""
        by_chance = CHANCE * self.deviations / np.sqrt(np.maximum(self.sums[0], 1))
        return np.asarray(np.abs(self.biases) - by_chance > MAX_BIAS * self.stated_errors)


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """How one question fared: its words, the truth, how often it held, and its answers over releases.

    `bias` is the mean error, `deviation` the standard deviation of the answers over releases, `stated` the mean of the
    standard errors that they state.
    """

    words: str
    truth: float
    held: float
    bias: float
    deviation: float
    stated: float
    half_width: float

    @property
    def bias_in_deviations(self) -> float:
        """The bias in standard deviations of the answers over releases."""
        return _part(self.bias, self.deviation)

    @property
    def bias_in_stated(self) -> float:
        """The bias in stated standard errors."""
        return _part(self.bias, self.stated)

    def as_dict(self) -> dict[str, object]:
        """Return the figures as plain values."""
        parts = {"bias_in_deviations": self.bias_in_deviations, "bias_in_stated": self.bias_in_stated}
        return {**asdict(self), **parts}

    def __str__(self) -> str:
        return (
            f"{self.words}: truth {self.truth:,.0f}, held {self.held:.0%}, bias {self.bias:+,.1f} "
            f"({self.bias_in_deviations:+.2f} standard deviations of {self.deviation:,.1f}, {self.bias_in_stated:+.2f} "
            f"standard errors as stated, {self.stated:,.1f}), half-width {self.half_width:,.1f}"
        )


@dataclass(frozen=True, slots=True)
class Apart:
    """Questions reported apart: their number, and how often their intervals held."""

    questions: int
    overall: float


@dataclass(frozen=True, slots=True)
class QuestionCoverage:
    """How every question of one table fared at one epsilon by one strategy; empty and cutting questions apart.

    `under` is the share of questions that held less than 90% of the time, `worst_tenth` the mean of the tenth that held
    least, `biased` the share whose bias is above a quarter of the stated standard error, beyond chance. `unknown` is
    the share of answers whose interval was not known: they count for nothing else.
    """

    table: str
    epsilon: str
    strategy: str
    releases: int
    questions: int
    overall: float
    worst_tenth: float
    under: float
    biased: float
    unknown: float
    empty: Apart
    cut: Apart
    worst: AskedQuestion
    most_biased: AskedQuestion
    every: tuple[AskedQuestion, ...]

    @property
    def met(self) -> bool:
        """Whether coverage is as wanted."""
        return (
            WANTED[0] <= self.overall <= WANTED[1]
            and self.worst_tenth >= WANTED_OF_WORST_TENTH
            and self.worst.held >= WANTED_OF_WORST
        )

    def as_dict(self) -> dict[str, object]:
        """Return the figures as plain values, without those of every question."""
        plain = {name: getattr(self, name) for name in self.__slots__ if name != "every"}
        apart = {"empty": asdict(self.empty), "cut": asdict(self.cut)}
        singled_out = {"worst": self.worst.as_dict(), "most_biased": self.most_biased.as_dict()}
        return {**plain, **apart, **singled_out, "met": self.met}


@dataclass(frozen=True, slots=True)
class RightIntervals:
    """The figures of exact 95% intervals over a number of releases: what chance alone makes of them."""

    under: float
    worst_tenth: float

    @classmethod
    def over(cls, releases: int) -> "RightIntervals":
        """Return what chance alone makes of it."""
        law = stats.binom(releases, ASKED_CONFIDENCE)
        under = law.cdf(np.ceil(UNDER * releases) - 1)
        levels = (np.arange(1000) + 0.5) / 1000 * WORST_PART
        return cls(float(under), float(law.ppf(levels).mean() / releases))


def _part(bias: float, error: float) -> float:
    """Return a bias in units of an error: 0 where there is none, infinite where answers are always off by the same."""
    return bias / error if error else math.copysign(math.inf, bias) if bias else 0.0


def worst_part(shares: Floats) -> float:
    """Return the mean of the tenth of the questions that held least, of one question at least."""
    number = max(1, round(len(shares) * WORST_PART))
    return float(np.sort(shares)[:number].mean())


def tally_releases(
    table: PublicTable, questions: Questions, epsilon: str, strategy: str | Strategy, draws: range
) -> Tally:
    """Release a table once for each draw, with noise of its own, and tally all questions of each release at once."""
    fitted = strategy_of(strategy, table.domain)
    tally = Tally.nothing(len(questions))
    for draw in draws:
        noise = SeededNoise(seed_of(table.name, epsilon, fitted.name, draw))
        released = experiment(table.exact_counts, epsilon=epsilon, strategy=fitted, noise=noise, domain=table.domain)
        answers = Answers.asked(table.domain, released.estimate(), questions.queries)
        tally += Tally.of_release(answers, questions.truths)
    return tally


def cover_questions(
    asked: Sequence[tuple[PublicTable, Questions]],
    *,
    strategies: Sequence[str | Strategy],
    epsilons: Sequence[str] = EPSILONS,
    releases: int,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda _: None,
) -> Iterator[QuestionCoverage]:
    """Measure every strategy at every epsilon on every table, question by question."""
    settings = [(*one, epsilon, strategy) for one in asked for epsilon in epsilons for strategy in strategies]
    chunks = [range(start, min(start + AT_ONCE, releases)) for start in range(0, releases, AT_ONCE)]

    def tasks() -> Iterator[tuple[Any, ...]]:
        for table, questions, epsilon, strategy in settings:
            progress(f"{table.name}, epsilon {epsilon}, {strategy_of(strategy).name}: {len(questions)} questions")
            yield from ((table, questions, epsilon, strategy, chunk) for chunk in chunks)

    tallies = in_processes(tally_releases, tasks(), jobs=jobs)
    for table, questions, epsilon, strategy in settings:
        tally = Tally.nothing(len(questions))
        for _ in chunks:
            tally += next(tallies)
        yield summed_up(table.name, epsilon, strategy_of(strategy).name, questions, tally)


def summed_up(table: str, epsilon: str, strategy: str, questions: Questions, tally: Tally) -> QuestionCoverage:
    """Return what a tally says of the questions."""
    empty = (questions.truths == 0) & ~questions.cut
    plain = ~empty & ~questions.cut
    shares = tally.shares(plain)
    known = ~np.isnan(shares)
    every = _every(questions, tally)
    of_plain = [one for one, is_plain in zip(every, plain, strict=True) if is_plain]
    return QuestionCoverage(
        table=table,
        epsilon=epsilon,
        strategy=strategy,
        releases=int(tally.sums[0].max()),
        questions=int(plain.sum()),
        overall=tally.overall(plain),
        worst_tenth=worst_part(shares[known]) if known.any() else float("nan"),
        under=float((shares[known] < UNDER).mean()) if known.any() else float("nan"),
        biased=float(tally.biased[plain].mean()),
        unknown=float(1 - tally.sums[1].sum() / tally.sums[0].sum()),
        empty=Apart(int(empty.sum()), tally.overall(empty)),
        cut=Apart(int(questions.cut.sum()), tally.overall(questions.cut)),
        worst=of_plain[int(np.nanargmin(np.where(known, shares, 2.0)))],
        most_biased=max(of_plain, key=lambda one: abs(one.bias_in_stated)),
        every=every,
    )


def _every(questions: Questions, tally: Tally) -> tuple[AskedQuestion, ...]:
    everything = np.ones(len(questions), np.bool_)
    columns = (
        questions.truths,
        tally.shares(everything),
        tally.biases,
        tally.deviations,
        tally.stated_errors,
        tally.half_widths,
    )
    rows = np.stack(columns, axis=1).tolist()
    return tuple(AskedQuestion(words, *row) for words, row in zip(questions.words, rows, strict=True))


def asked_tables(directory: Path | None, *, drawn: int, seed: int) -> list[tuple[PublicTable, Questions]]:
    """Return the demo's cube, the tables of a directory and some simulated ones, each with its natural questions."""
    demo = demo_table()
    others = [*([] if directory is None else coded_tables(directory)), *drawn_tables(drawn, seed=seed)]
    return [(demo, bundled_questions(demo)), *((table, natural_questions(table)) for table in others)]


def figures(found: Sequence[QuestionCoverage]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return a table of the settings: a header, and a row each."""
    setting = ("natural questions of", "epsilon", "strategy", "questions")
    shares = ("hold", "worst tenth", "under 90", "biased", "empty", "cut", "unknown")
    return (*setting, *shares), [_row(one) for one in found]


def _row(one: QuestionCoverage) -> tuple[str, ...]:
    def percent(share: float, *, as_wanted: bool = True) -> str:
        return f"{100 * share:.1f}{' ' if as_wanted else '*'}" if share == share else "-"

    return (
        *(one.table, one.epsilon, one.strategy, str(one.questions)),
        percent(one.overall, as_wanted=WANTED[0] <= one.overall <= WANTED[1]),
        percent(one.worst_tenth, as_wanted=one.worst_tenth >= WANTED_OF_WORST_TENTH),
        *map(percent, (one.under, one.biased, one.empty.overall, one.cut.overall, one.unknown)),
    )


def question_summary(found: Sequence[QuestionCoverage]) -> list[str]:
    """Return the worst question of every setting and its most biased one, and how many settings are as wanted."""
    lines = []
    for one in found:
        star = "" if one.worst.held >= WANTED_OF_WORST else "*"
        lines += ["", f"{one.table}, epsilon {one.epsilon}, {one.strategy}", f"  worst{star}: {one.worst}"]
        lines += [f"  most biased: {one.most_biased}"]
    lines.append("")
    for strategy in dict.fromkeys(one.strategy for one in found):
        chosen = [one for one in found if one.strategy == strategy]
        lines.append(f"{strategy}: {sum(one.met for one in chosen)} of {len(chosen)} as wanted")
    return lines


def write_every(found: Sequence[QuestionCoverage], path: Path) -> None:
    """Write how every question fared, setting by setting, as CSV."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        settings = [{"table": one.table, "epsilon": one.epsilon, "strategy": one.strategy} for one in found]
        rows = [s | q.as_dict() for s, one in zip(settings, found, strict=True) for q in one.every]
        writer.writerow(rows[0] if rows else [])
        writer.writerows(row.values() for row in rows)
