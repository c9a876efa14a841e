"""Command `coverage`: empirical coverage of confidence intervals on public tables."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpcube.cli.output import as_json, print_json, print_table, stage, stages_done
from dpcube.cli.strategies import compared_strategies, named

if TYPE_CHECKING:
    from dpcube.research.by_question import QuestionCoverage
    from dpcube.research.coverage import Coverage


@click.command(short_help="Measure the coverage of 95% confidence intervals.")
@click.option(
    "--arrays",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Directory of x_NAME.npz files of public exact counts, for further random ranges.",
)
@click.option(
    "--tables",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Directory of NAME.npz files of public coded rows, for further natural questions.",
)
@click.option(
    "--drawn", type=click.IntRange(min=1), metavar="TABLES", help="Number of simulated tables for natural questions."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed of the simulated tables.")
@click.option(
    "--releases", type=click.IntRange(min=1), default=20, show_default=True, help="Number of releases to pool."
)
@click.option(
    "--epsilon", metavar="LIST", help="Comma-separated privacy budgets. By default those of docs/coverage.md."
)
@click.option("--only", type=click.Choice(["questions", "ranges"]), help="Measure only natural questions, or ranges.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Number of processes.")
@click.option(
    "--each", type=click.Path(path_type=Path, dir_okay=False), help="New CSV file with a row for every question."
)
@compared_strategies
@as_json
def coverage(  # one argument for each option
    *,
    arrays: Path | None,
    tables: Path | None,
    drawn: int | None,
    seed: int,
    releases: int,
    epsilon: str | None,
    only: str | None,
    jobs: int,
    each: Path | None,
    strategy: str | None,
    as_json: bool,
) -> None:
    """Measure how often 95% confidence intervals contain the truth, on the bundled table and other public ones.

    The coverage of natural questions (the total, every bar of every attribute, every cell of every pair, those of the
    demo) is measured one by one over the releases, at epsilon 0.1 and 1. Targets: 93% to 98.5% over all questions, 85%
    in the worst tenth, 88% for each. Random ranges that are not empty are pooled, at epsilon 0.05, 0.1 and 1. Targets:
    93% to 99% over all ranges, and at least 90% in every tenth of them by size.

    Example: dpcube coverage --only questions --releases 100
    """
    from dpcube.research import by_question
    from dpcube.research import coverage as ranges

    given = None if epsilon is None else [one.strip() for one in epsilon.split(",")]
    strategies = named(strategy)
    questions_to_come = by_question.cover_questions(
        by_question.asked_tables(tables, drawn=drawn or 0, seed=seed),
        strategies=strategies,
        epsilons=given or by_question.EPSILONS,
        releases=releases,
        jobs=jobs,
        progress=stage,
    )
    ranges_to_come = ranges.every_coverage(
        arrays,
        strategies=strategies,
        epsilons=given or ranges.COVERAGE_EPSILONS,
        releases=releases,
        jobs=jobs,
        progress=stage,
    )
    of_questions = [] if only == "ranges" else list(questions_to_come)
    of_ranges = [] if only == "questions" else list(ranges_to_come)
    stages_done()
    if each is not None:
        by_question.write_every(of_questions, each)
    if as_json:
        print_json({"questions": [q.as_dict() for q in of_questions], "ranges": [r.as_dict() for r in of_ranges]})
        return
    _print_questions(of_questions)
    if of_questions and of_ranges:
        click.echo()
    _print_ranges(of_ranges)


def _print_questions(found: "list[QuestionCoverage]") -> None:
    from dpcube.research.by_question import RightIntervals, figures, question_summary

    if not found:
        return
    print_table(*figures(found))
    click.echo(
        "\nIn %: coverage of natural questions, of the tenth with the lowest coverage, share with coverage below 90%,"
    )
    click.echo("share with a bias above a quarter of the stated standard error, and coverage of empty questions and of")
    click.echo("questions that cut bins; * misses its target.")
    right = RightIntervals.over(found[0].releases)
    click.echo(
        f"With {found[0].releases} releases, exact intervals would have {right.worst_tenth:.1%} in the worst tenth and "
        f"{right.under:.1%} below 90%, by chance alone."
    )
    for line in question_summary(found):
        click.echo(line)


def _print_ranges(found: "list[Coverage]") -> None:
    from dpcube.research.coverage import coverage_summary

    if not found:
        return
    by_setting: dict[tuple[str, str], list[str]] = {}
    for one in found:
        by_setting.setdefault((one.table, one.epsilon), []).append(str(one))
    strategies = tuple(dict.fromkeys(one.strategy for one in found))
    rows = [(table, epsilon, *told) for (table, epsilon), told in by_setting.items()]
    print_table(("random ranges of", "epsilon", *strategies), rows)
    click.echo(
        "\nCoverage in %, of the worst tenth by size, of the tenth of ranges with the lowest coverage, share of ranges"
    )
    click.echo("with coverage below 90%, and interval width over mean error; * misses its target.")
    for line in coverage_summary(found):
        click.echo(line)
