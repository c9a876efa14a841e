"""Planning a release: predicted errors of each strategy, and advice, before any budget is spent."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cache, cached_property

from dpcube.core.domain import Domain
from dpcube.core.domain.attribute import listing
from dpcube.core.epsilon import MAX_EPSILON, MIN_EPSILON, parse_epsilon
from dpcube.core.errors import DomainError, InputError, MemoryLimitError
from dpcube.core.feasible import TOTAL_SHARE, check_drawable, check_public, error_of_total
from dpcube.plan.advice import Advice, advise
from dpcube.plan.axes import axes_of
from dpcube.plan.predict import Prediction, Predictor
from dpcube.plan.queries import ALL_KINDS, KINDS_OF, QueryKind
from dpcube.plan.row_predictor import RowPredictor
from dpcube.plan.search import least_epsilon, rounded_up
from dpcube.strategies import BY_NAME, DEFAULT, Strategy, check_room, releasing_strategy
from dpcube.strategies.strategy import FittedStrategy

Predictions = Callable[[Fraction], Mapping[str, Prediction]]

MAX_PLAN_ROWS = 10**12
MAX_PLAN_CELLS = 10**15


@dataclass(frozen=True, slots=True)
class Plan:
    """Predicted errors of each strategy, the best of them for the asked kind of question, and advice.

    `reaching` gives for each strategy the least epsilon that reaches the wanted accuracy, None where none up to 50
    does; `curve` is the predicted error of the asked kind over a range of epsilons. Both are empty unless asked for.
    `refusals` are the messages with which a release would be refused on this machine, or stopped. `done` describes the
    measurements of a wide table or of a fine grid; for these there are also predictions of parts (`about`), and no
    advice.
    """

    domain: Domain
    rows: int
    epsilon: Fraction
    max_rows: int
    queries: QueryKind
    predictions: tuple[Prediction, ...]
    best: Prediction
    advice: Advice | None
    accuracy: float | None
    reaching: dict[str, Fraction | None]
    curve: tuple[Prediction, ...]
    refusals: tuple[str, ...] = ()
    done: tuple[str, ...] = ()

    @property
    def belief(self) -> float:
        """Upper bound on the posterior probability that one unit is in the table, from a prior of one half."""
        return 1 / (1 + math.exp(-float(self.epsilon)))

    def as_dict(self) -> dict[str, object]:
        """Return the plan as plain values."""
        return {
            "cells": self.domain.size,
            "rows": self.rows,
            "epsilon": str(self.epsilon),
            "max_rows": self.max_rows,
            "queries": self.queries,
            "best": self.best.strategy,
            "predictions": [_plain(prediction) for prediction in self.predictions],
            "advice": None if self.advice is None else _plain_advice(self.advice),
            "accuracy": self.accuracy,
            "reaching": {name: None if e is None else str(e) for name, e in self.reaching.items()},
            "curve": [_plain(prediction) for prediction in self.curve],
            "belief": self.belief,
            "refusals": list(self.refusals),
            "done": list(self.done),
        }


def plan(
    domain: Domain,
    *,
    rows: int,
    epsilon: str | float | Fraction,
    queries: str = "ranges",
    strategies: str | Strategy | Sequence[str | Strategy] = (),
    max_rows: int = 1,
    accuracy: float | None = None,
    curve: bool = False,
    seed: int = 0,
    roughly: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Plan:
    """Return the predicted errors of a release, from public facts only; no table is opened and nothing is spent.

    `rows` is roughly how many rows there are, as publicly known or guessed: if it is secret, do not look it up.
    `queries` is what will be asked: ranges, cells, marginals or total; of a wide table pairs, too. `strategies` are
    those built in unless given, by name, as MODULE:CLASS or as objects. A domain that would be released as cuboids or
    as a fine grid is planned as such.
    `accuracy` is a wanted typical error in rows. `roughly` runs a slow strategy once on each simulated
    table and gives no advice: for interactive use.

    >>> from dpcube import Domain
    >>> made = plan(Domain.of_shape((10, 4)), rows=1000, epsilon=1, queries="cells", strategies="cells")
    >>> print(f"{made.best.typical:.4f}")
    0.8509
    """
    amount = parse_epsilon(epsilon)
    _check(rows, max_rows, accuracy)
    check_drawable(amount, max_rows)
    selected = _by_name(strategies, domain)
    first = next(iter(selected.values()))
    kind = _kind(queries, first, domain)
    _check_size(domain, first)
    predictors = _Predictors(domain, rows, max_rows, seed)
    predict = {name: _remembered(predictors, one, progress, roughly=roughly) for name, one in selected.items()}
    best = min((at(amount)[kind] for at in predict.values()), key=lambda p: p.typical)
    return Plan(
        domain=domain,
        rows=rows,
        epsilon=amount,
        max_rows=max_rows,
        queries=kind,
        predictions=tuple(p for at in predict.values() for p in at(amount).values()),
        best=best,
        advice=None if roughly else predictors.advice(selected[best.strategy], best),
        accuracy=accuracy,
        reaching={} if accuracy is None else {n: _reach(at, kind, accuracy, amount) for n, at in predict.items()},
        curve=tuple(_curve(predictors, selected, predict, amount, kind, progress)) if curve else (),
        refusals=tuple(_refusals(domain, rows, amount, max_rows, list(selected.values()))),
        done=tuple(first.description(domain, rows=rows, epsilon=amount / max_rows)),
    )


@dataclass(frozen=True)
class _Predictors:
    """Predictors of the errors of a strategy: by cubes, or by rows where the cube is too large to materialise."""

    domain: Domain
    rows: int
    max_rows: int
    seed: int

    @cached_property
    def of_cubes(self) -> Predictor:
        return Predictor(axes_of(self.domain), self.rows, max_rows=self.max_rows, seed=self.seed)

    @cached_property
    def of_rows(self) -> RowPredictor:
        return RowPredictor(self.domain, self.rows, max_rows=self.max_rows, seed=self.seed)

    def predict(self, strategy: FittedStrategy, epsilon: Fraction, *, roughly: bool) -> Mapping[str, Prediction]:
        predictor = self.of_rows if strategy.store == "rows" else self.of_cubes
        return predictor.predict(strategy, epsilon, roughly=roughly)

    def advice(self, strategy: FittedStrategy, before: Prediction) -> Advice | None:
        """Return how to coarsen a cube; the strategies of wide tables and grids coarsen by themselves."""
        return None if strategy.store == "rows" else advise(self.of_cubes, strategy, before=before)


def _refusals(
    domain: Domain, rows: int, epsilon: Fraction, max_rows: int, strategies: Sequence[FittedStrategy]
) -> Iterator[str]:
    """Yield the messages with which `release` would refuse on this machine."""
    try:
        check_public(domain)
    except DomainError as refused:
        yield f"A release would be refused: {refused}."
    for strategy in strategies:
        try:
            check_room(strategy, domain)
        except MemoryLimitError as refused:
            yield f"A release by {strategy.name} would be refused on this machine: {refused}."
    error = error_of_total(epsilon * TOTAL_SHARE, max_rows)
    if rows <= error:
        reason = f"about {rows:,} rows are not above its error of {error:,}"
        yield f"A release would likely be stopped at its total: {reason}; use a larger epsilon or --even-if-empty."


def _by_name(strategies: str | Strategy | Sequence[str | Strategy], domain: Domain) -> dict[str, FittedStrategy]:
    """Return the strategies to plan, fitted to the attributes as `publish` does; unless given, those built in."""
    given = strategies if isinstance(strategies, Sequence) and not isinstance(strategies, str) else [strategies]
    if not given:
        default = releasing_strategy(DEFAULT, domain)
        given = (DEFAULT,) if default.store == "rows" else tuple(BY_NAME)
    selected = [releasing_strategy(strategy, domain) for strategy in given]
    others = [strategy.name for strategy in selected if strategy.store == "rows"]
    if others and len(selected) > 1:
        msg = f"a release by {others[0]} is planned by itself: it is evaluated on another workload; name it alone"
        raise InputError(msg)
    if len({strategy.name for strategy in selected}) < len(selected):
        msg = "a plan names its predictions by strategy, so each strategy may be given once; plan variants one by one"
        raise InputError(msg)
    return {strategy.name: strategy for strategy in selected}


def _remembered(
    predictors: _Predictors, strategy: FittedStrategy, progress: Callable[[str], None], *, roughly: bool
) -> Predictions:
    """Return the predictions of a strategy as a function of epsilon, each made once."""

    @cache
    def at(epsilon: Fraction) -> Mapping[str, Prediction]:
        progress(f"predicting {strategy.name} at epsilon {float(epsilon):.3g}")
        return predictors.predict(strategy, epsilon, roughly=roughly)

    return at


def _curve(
    predictors: _Predictors,
    selected: Mapping[str, FittedStrategy],
    predict: Mapping[str, Predictions],
    asked: Fraction,
    kind: QueryKind,
    progress: Callable[[str], None],
) -> Iterator[Prediction]:
    """Return the predictions of every strategy over a range of epsilons: roughly, but for the one that was asked."""
    for name, strategy in selected.items():
        points = _around(asked)
        for number, epsilon in enumerate(points, 1):
            progress(f"predicting {name} at epsilon {float(epsilon):.3g}, point {number} of {len(points)} of its curve")
            made = predict[name](asked) if epsilon == asked else predictors.predict(strategy, epsilon, roughly=True)
            yield made[kind]


def _reach(predict: Predictions, kind: QueryKind, accuracy: float, start: Fraction) -> Fraction | None:
    return least_epsilon(lambda at: predict(at)[kind].typical, accuracy, start=start)


def _around(epsilon: Fraction) -> list[Fraction]:
    """Return the epsilons of a curve, from a tenth of the asked one to ten times it, which is among them."""
    points = (rounded_up(float(epsilon) * 10 ** (step / 2)) for step in (-2, -1, 1, 2))
    return sorted({epsilon, *(min(max(point, MIN_EPSILON), MAX_EPSILON) for point in points)})


def _check_size(domain: Domain, strategy: FittedStrategy) -> None:
    if strategy.store == "cells" and domain.size > MAX_PLAN_CELLS:
        most = f"{MAX_PLAN_CELLS:,} cells"
        msg = f"a plan is for cubes of up to {most}, and this one has {domain.size:,}; declare fewer bins"
        raise InputError(msg)


def _check(rows: int, max_rows: int, accuracy: float | None) -> None:
    if not 1 <= rows <= MAX_PLAN_ROWS:
        msg = f"a plan is for 1 to {MAX_PLAN_ROWS:,} rows, got {rows}; give a rough number of rows"
        raise InputError(msg)
    if max_rows < 1:
        msg = f"a unit has at least one row, got max_rows {max_rows}"
        raise InputError(msg)
    if accuracy is not None and not 0 < accuracy < float("inf"):
        msg = f"accuracy is a wanted error in rows, a number above 0, got {accuracy}"
        raise InputError(msg)


def _kind(queries: str, strategy: FittedStrategy, domain: Domain) -> QueryKind:
    kinds = KINDS_OF[strategy.workload]
    asked = min(sum(side > 1 for side in domain.shape), 2)
    of_few: dict[QueryKind, int] = {"marginals": 1, "pairs": 2} if strategy.workload == "wide" else {}
    kinds = tuple(kind for kind in kinds if of_few.get(kind, 0) <= asked)
    for kind in ALL_KINDS:
        if kind == queries and kind in kinds:
            return kind
    what = "" if strategy.workload == "cube" else f" with {strategy.name}"
    msg = f"there are no queries '{queries}' to plan for{what}; the kinds are {listing(kinds)}"
    raise InputError(msg)


def _plain(prediction: Prediction) -> dict[str, object]:
    return {**asdict(prediction), "epsilon": str(prediction.epsilon), "of_answer": prediction.of_answer}


def _plain_advice(advice: Advice) -> dict[str, object]:
    coarser = {name: {"from": old, "to": new} for name, (old, new) in advice.coarser.items()}
    return {
        "coarser": coarser,
        "before": _plain(advice.before),
        "after": _plain(advice.after),
        "enough": advice.enough,
    }
