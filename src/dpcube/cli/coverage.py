"""How often intervals hold the truth, on public tables."""

from pathlib import Path

import click

from dpcube.cli.output import as_json, print_json, print_table, stage, stages_done
from dpcube.cli.strategies import named, some_strategies


@click.command()
@click.option(
    "--arrays",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Directory of x_NAME.npz files of exact counts that are public; without it, the bundled table alone.",
)
@click.option("--releases", type=click.IntRange(min=1), default=20, show_default=True, help="Releases to pool.")
@some_strategies
@as_json
def coverage(*, arrays: Path | None, releases: int, strategy: str | None, as_json: bool) -> None:
    """Measure how often 95% intervals hold the truth: the bundled table, and arrays of public counts.

    Each strategy releases each table at epsilon 0.05, 0.1 and 1; the answers are those of random ranges that are not
    empty. Wanted: 93% to 99% over all of them, and 90% at least in every tenth of them by size.
    """
    from dpcube.evaluate.coverage import every_coverage, summary

    found = list(every_coverage(arrays, strategies=named(strategy), releases=releases, progress=stage))
    stages_done()
    if as_json:
        print_json([one.as_dict() for one in found])
        return
    by_setting: dict[tuple[str, str], list[str]] = {}
    for one in found:
        by_setting.setdefault((one.table, one.epsilon), []).append(str(one))
    strategies = tuple(dict.fromkeys(one.strategy for one in found))
    rows = [(table, epsilon, *told) for (table, epsilon), told in by_setting.items()]
    print_table(("table", "epsilon", *strategies), rows)
    click.echo(
        "\nEach: coverage in %, that of the worst tenth, width of an interval over the mean error; * not as wanted."
    )
    for line in summary(found):
        click.echo(line)
