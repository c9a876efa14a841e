"""Command `demo`: releases the bundled census table, and compares answers with the truth."""

from pathlib import Path

import click

from dpcube.cli.output import as_json, one_strategy, print_json, print_table, stage, stages_done


@click.command(short_help="Release the bundled census table, and answer questions.")
@click.option("--epsilon", default="1", show_default=True, help="Privacy budget to spend.")
@one_strategy
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("dpcube-demo"),
    show_default=True,
    help="Directory for the release file and the report.",
)
@as_json
def demo(*, epsilon: str, strategy: str | None, output: Path, as_json: bool) -> None:
    """Release the bundled census table, answer a few questions, and compare the answers with the truth.

    Example: dpcube demo --epsilon 0.5
    """
    from dpcube.demo import run_demo
    from dpcube.release.pasteable import file_word, shell_word
    from dpcube.strategies import DEFAULT

    shown = run_demo(output, epsilon=epsilon, strategy=strategy or DEFAULT, progress=stage)
    stages_done()
    if as_json:
        print_json(shown.as_dict())
        return
    click.echo(f"Released the UCI Adult census table ({shown.rows:,} rows, public) at epsilon {epsilon}, once.")
    click.echo(f"From {shown.release_path} alone, without the rows:\n")
    rows = [
        (
            q,
            f"{t:,}",
            f"{a.value:,.0f}",
            f"{a.stderr:,.0f}",
            f"{a.nonuniformity:,.0f}",
            f"{a.low:,.0f} to {a.high:,.0f}",
            a.note,
        )
        for q, t, a in zip(shown.questions, shown.truths, shown.answers, strict=True)
    ]
    header = ("question", "truth", "answer", "noise", "nonuniformity", "95% interval", "note")
    columns = slice(None if any(answer.note for answer in shown.answers) else -1)
    print_table(header[columns], [row[columns] for row in rows], left=(0, 6))
    click.echo("\nnoise: standard error of the noise added for privacy; nonuniformity: error expected from spreading")
    click.echo("counts evenly inside boxes, or of the model, estimated from the release. The interval covers both.")
    click.echo(f"\nReport:  {shown.report_path}")
    question = shell_word("age >= 65 and income = '>50K'")
    click.echo(f"Ask it:  dpcube count {file_word(shown.release_path)} {question}")
