"""`dpcube coverage`: coverage of 95% confidence intervals on public tables."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpcube.cli.output import as_json, compared_strategies, named, print_json, print_table, stage, stages_done

if TYPE_CHECKING:
    from dpcube.research.by_question import QuestionCoverage
    from dpcube.research.coverage import Coverage


@click.command(short_help="Measure the coverage of 95% confidence intervals.")
@click.option(
    "--arrays",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Directory of x_NAME.npz files of exact counts that are public: random ranges of them too.",
)
@click.option(
    "--tables",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Directory of NAME.npz tables of coded rows that are public: natural questions of them too.",
)
@click.option("--drawn", type=click.IntRange(min=1), help="Also ask natural questions of this many simulated tables.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the simulated tables.")
@click.option("--releases", type=click.IntRange(min=1), default=20, show_default=True, help="Releases to pool.")
@click.option("--epsilon", metavar="LIST", help="Comma-separated, instead of those of docs/research/coverage.md.")
@click.option(
    "--only", type=click.Choice(["questions", "ranges"]), help="Ask natural questions alone, or ranges alone."
)
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Number of processes.")
@click.option("--each", type=click.Path(path_type=Path, dir_okay=False), help="CSV file of every question to write.")
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
    """Measure the coverage of 95% confidence intervals on the bundled table and other public ones.

    Natural questions (the total, every bar of every attribute, every cell of every pair, the demo's) are counted one by
    one over the releases, at epsilon 0.1 and 1. Wanted: 93% to 98.5% over all of them, 85% in the worst tenth of the
    questions, 88% for each. The answers of random ranges that are not empty are pooled, at epsilon 0.05, 0.1 and 1.
    Wanted: 93% to 99% over all of them, and 90% at least in every tenth of them by size.

    Example: dpcube coverage --epsilon 1 --strategy adaptive,cells
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
        "\nEach in %: coverage of natural questions, of the tenth of them that is covered least, the share covered less"
    )
    click.echo(
        "than 90%, the share biased by more than a quarter of the stated standard error, and the coverage of empty"
    )
    click.echo("questions and of questions that cut bins; * not as wanted.")
    right = RightIntervals.over(found[0].releases)
    click.echo(
        f"Over {found[0].releases} releases chance alone makes the worst tenth {right.worst_tenth:.1%} and puts "
        f"{right.under:.1%} under 90%."
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
        "\nEach: coverage in %, that of the worst tenth by size, that of the tenth of ranges that is covered least, the"
    )
    click.echo("share of ranges covered less than 90%, width of an interval over the mean error; * not as wanted.")
    for line in coverage_summary(found):
        click.echo(line)
