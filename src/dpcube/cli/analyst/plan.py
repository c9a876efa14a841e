"""Command `plan`: predicted errors of a release, before any privacy budget is spent."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpcube.cli.output import as_json, named, print_json, print_table, some_strategies, stage, stages_done, visible

if TYPE_CHECKING:
    from dpcube.plan import Advice, Plan, Prediction


@click.command(short_help="Predict errors of a release, before anything is spent.")
@click.argument("domain", type=click.Path(path_type=Path))
@click.option("--epsilon", required=True, help="Privacy budget of the planned release, such as 0.5 or 1/3.")
@click.option(
    "--rows",
    type=int,
    required=True,
    help="Approximate number of rows, from public knowledge or a guess. If it is secret, do not look it up.",
)
@click.option(
    "--queries",
    default="ranges",
    show_default=True,
    help="Workload: ranges, cells, marginals (one-way GROUP BYs) or total. For wide tables also pairs (two-way GROUP "
    "BYs), but not cells.",
)
@some_strategies
@click.option(
    "--max-rows",
    default=1,
    show_default=True,
    help="Maximum number of rows of one privacy unit, as for `dpcube release`.",
)
@click.option(
    "--accuracy", type=float, metavar="ROWS", help="Find the epsilon at which the typical error is this number of rows."
)
@click.option(
    "--plot", type=click.Path(path_type=Path), help="Draw the error against epsilon in a new .svg, .png or .pdf file."
)
@as_json
def plan(
    domain: Path,
    *,
    epsilon: str,
    rows: int,
    queries: str,
    strategy: str | None,
    max_rows: int,
    accuracy: float | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Predict the error of a release of DOMAIN, before any privacy budget is spent.

    The prediction uses public facts only, and opens no table. Strategies are run on simulated tables with about as many
    rows. The error on your table is likely to lie in their range; docs/guides/planning.md says how likely.

    Example: dpcube plan patients.toml --epsilon 0.5 --rows 10000
    """
    from dpcube.core.domain import Domain
    from dpcube.plan import draw
    from dpcube.plan import plan as planned
    from dpcube.plan.draw import check_picture

    if plot is not None:
        check_picture(plot)
    made = planned(
        Domain.load(domain),
        rows=rows,
        epsilon=epsilon,
        queries=queries,
        strategies=() if strategy is None else named(strategy),
        max_rows=max_rows,
        accuracy=accuracy,
        curve=plot is not None,
        progress=stage,
    )
    stages_done()
    if plot is not None:
        draw(made, plot)
    if as_json:
        print_json(made.as_dict())
        return
    _print(made)
    if plot is not None:
        click.echo(f"Drew error against epsilon into {visible(str(plot))}.")


def _print(plan: "Plan") -> None:
    unit = "" if plan.max_rows == 1 else f", up to {plan.max_rows} rows a unit"
    facts = f"{plan.domain.size:,} cells, about {plan.rows:,} rows, epsilon {float(plan.epsilon):.6g}{unit}"
    click.echo(f"{facts}. No table was opened and nothing was spent.\n")
    header = ("question", "typical answer", "strategy", "error", "low", "high", "of rows", "noise below", "by")
    order = sorted(plan.predictions, key=lambda p: (p.queries != plan.queries, p.queries, p.about != ""))
    print_table(header, [_row(p, plan.rows) for p in order], left=(0, 2, 8))
    click.echo("\nerror: expected absolute error in rows; low, high: over simulated tables of different character;")
    click.echo("noise below: smaller counts can hardly be distinguished from 0.\n")
    advised = () if plan.done else (_advised(plan.advice),)
    for sentence in (*plan.done, _best(plan), *advised, *_reaching(plan), _for_one(plan), *plan.refusals):
        click.echo(visible(sentence))


def _row(p: "Prediction", rows: int) -> tuple[str, ...]:
    from dpcube.plan.predict import rounded_rows

    errors = (rounded_rows(p.typical), rounded_rows(p.low), rounded_rows(p.high))
    return (
        visible(f"{p.queries}, {p.about}" if p.about else p.queries),
        rounded_rows(p.answer),
        p.strategy,
        *errors,
        _share(p.typical / rows),
        rounded_rows(p.noise_below),
        p.basis,
    )


def _best(plan: "Plan") -> str:
    from dpcube.plan.predict import rounded_rows
    from dpcube.plan.queries import IN_WORDS

    best = plan.best
    return (
        f"For {IN_WORDS[plan.queries]}, {best.strategy} has the least error: about {rounded_rows(best.typical)} rows, "
        f"{_share(best.of_answer)} of a typical answer."
    )


def _advised(advice: "Advice | None") -> str:
    from dpcube.plan.predict import rounded_rows

    if advice is None:
        return "The cube is not too fine for that: a typical answer exceeds the noise."
    parts = ", ".join(f"'{name}' from {old} bins to {new}" for name, (old, new) in advice.coarser.items())
    gain = f"bring the error from {_share(advice.before.of_answer)} of a typical answer to "
    gain += _share(advice.after.of_answer)
    if advice.enough:
        answer, noise = rounded_rows(advice.after.answer), rounded_rows(advice.after.noise_below)
        stands = f"a typical answer ({answer}) would exceed the noise ({noise})"
        return f"The cube is too fine for that. Coarsening {parts} would {gain}, and {stands}."
    why = f"coarsening {parts} would only {gain}" if parts else "wider bins would not help"
    return f"The cube is too fine for that, and {why}: spend more, or leave attributes out."


def _for_one(plan: "Plan") -> str:
    """Return what this epsilon means for one person."""
    who = "one person (a row)" if plan.max_rows == 1 else f"one person (up to {plan.max_rows} rows)"
    factor = f"{math.exp(float(plan.epsilon)):.3g}"
    return (
        f"For {who}: any published result is at most {factor} times as likely with them as without. Somebody who "
        f"believed with 50% that they are in the table can reach at most {_percent(plan.belief)} "
        "(docs/guides/epsilon.md)."
    )


def _percent(share: float) -> str:
    """Return a probability as text, never rounded up to 100%."""
    return f"{100 * share:.0f}%" if share < 0.985 else f"{math.floor(1000 * share) / 10:.1f}%"


def _reaching(plan: "Plan") -> list[str]:
    from dpcube.plan.predict import rounded_rows

    if plan.accuracy is None:
        return []
    error = f"an error of {rounded_rows(plan.accuracy)} rows"
    if plan.accuracy >= plan.best.answer:
        error += f" (more than a typical answer, {rounded_rows(plan.best.answer)})"
    epsilons = {
        name: "no epsilon up to 50" if e is None else f"epsilon {float(e):.3g}" for name, e in plan.reaching.items()
    }
    return [f"With {name}, {epsilon} reaches {error}." for name, epsilon in epsilons.items()]


def _share(value: float) -> str:
    return f"{100 * value:,.0f}%" if value >= 1 else f"{100 * value:.2g}%"
