"""Command `block`: chooses blocks for record linkage from a release alone."""

from pathlib import Path

import click

from dpcube.cli.analyst.count import release_file
from dpcube.cli.output import as_json, print_json, visible


@click.command(short_help="Choose blocks for record linkage from a cube.")
@release_file
@click.option(
    "--rules", "rules_file", type=click.Path(path_type=Path), required=True, help="Matching rules file (TOML)."
)
@click.option("--epsilon", required=True, help="Epsilon that each party will spend to hide the sizes of its blocks.")
@click.option(
    "--delta", default="1e-6", show_default=True, help="Delta of that, which should be far below 1 / number of rows."
)
@click.option(
    "--max-rows", default=1, show_default=True, help="Maximum number of rows of one privacy unit, on either side."
)
@click.option(
    "--other-rows", type=click.FloatRange(min=0), help="Number of rows of the other party. By default as in the cube."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="New blocks file.")
@as_json
def block(
    release: Path,
    *,
    rules_file: Path,
    epsilon: str,
    delta: str,
    max_rows: int,
    other_rows: float | None,
    output: Path,
    as_json: bool,
) -> None:
    """Choose blocks for record linkage from a cube of the attributes to block on.

    This spends no privacy budget and reads no row: blocks are boxes of the cube's noisy counts, and their number
    balances the pairs to compare against the padding at this epsilon. The file is public: give it to the other party,
    with the rules. Then both parties run `dpcube link`.

    Example: dpcube block cube.dpcube --rules rules.toml --epsilon 0.5 -o plan.blocks
    """
    from dpcube.core.errors import InputError
    from dpcube.core.padding import padding_shift
    from dpcube.link.blocking import BlockFile
    from dpcube.link.rules import MatchingRules
    from dpcube.release import Release

    if output.exists():
        msg = f"{output} exists, and a blocks file never overwrites a file; choose another name"
        raise InputError(msg)
    rules, opened = MatchingRules.load(rules_file), Release.open(release)
    made = BlockFile.planned(opened, rules, epsilon=epsilon, delta=delta, max_rows=max_rows, other_rows=other_rows)
    made.save(output)
    plan, shift = made.plan, padding_shift(made.epsilon, made.delta, sensitivity=max_rows)
    facts = {
        "blocks": len(plan),
        "candidate_pairs_of_blocks": len(plan.candidates()),
        "dummies_of_a_block": shift,
        "predicted_pairs": round(plan.pairs),
        "predicted_pairs_without_blocking": round(plan.pairs_without),
        "private": opened.provenance.private,
    }
    if as_json:
        print_json({"file": str(output), **facts, "digest": made.digest, "rules": rules.digest})
        return
    click.echo(
        visible(
            f"wrote {output}: {len(plan):,} blocks, {facts['candidate_pairs_of_blocks']:,} pairs of blocks to compare"
        )
    )
    click.echo(
        f"padding: about {shift:,} dummies per block on each side, at epsilon {made.epsilon} and delta {made.delta}"
    )
    less = plan.pairs_without / plan.pairs
    click.echo(f"predicted: {plan.pairs:,.0f} pairs of records to compare, {less:.3g} times fewer than without blocks")
    if not opened.provenance.private:
        click.echo("the cube is NOT PRIVATE, and neither are these blocks")
