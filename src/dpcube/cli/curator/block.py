"""The verb that chooses blocks for record linkage, from a release alone."""

from pathlib import Path

import click

from dpcube.cli.analyst.count import release_file
from dpcube.cli.output import as_json, print_json, visible


@click.command(short_help="Choose blocks for record linkage from a cube.")
@release_file
@click.option(
    "--rules", "rules_file", type=click.Path(path_type=Path), required=True, help="The matching rules (TOML)."
)
@click.option("--epsilon", required=True, help="What each party will spend to hide the sizes of its blocks.")
@click.option("--delta", default="1e-6", show_default=True, help="The delta of that, far below 1 in the rows.")
@click.option("--max-rows", default=1, show_default=True, help="Rows of one unit, at most, on either side.")
@click.option("--other-rows", type=click.FloatRange(min=0), help="Rows of the other party; as many unless given.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The blocks file to make.")
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

    Nothing is spent and no row is read: boxes come from the cube's noisy counts, and their number weighs what padding
    at this epsilon will cost. The file is public; give it to the other party, with the rules. Then both: dpcube link.
    """
    from dpcube.core.errors import InputError
    from dpcube.core.padding import padding_shift
    from dpcube.link.block_file import BlockFile
    from dpcube.link.rules import MatchingRules
    from dpcube.release import Release

    if output.exists():
        msg = f"{output} exists, and blocks never overwrite a file; choose another name"
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
            f"wrote {output}: {len(plan):,} blocks, {facts['candidate_pairs_of_blocks']:,} pairs of them to compare"
        )
    )
    click.echo(
        f"each side pads each block by about {shift:,} dummies, at epsilon {made.epsilon} and delta {made.delta}"
    )
    less = plan.pairs_without / plan.pairs
    click.echo(f"predicted: {plan.pairs:,.0f} pairs of records to compare, {less:.3g} times fewer than without blocks")
    if not opened.provenance.private:
        click.echo("the cube is NOT PRIVATE, and so are its boxes")
