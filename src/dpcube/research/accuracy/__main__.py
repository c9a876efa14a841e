"""`python -m dpcube.research.accuracy`: rerun the measurements of docs/adaptive.md with fresh noise."""

import json
import secrets
from dataclasses import asdict
from pathlib import Path

import click

from dpcube.core.errors import DpcubeError
from dpcube.research.accuracy import ablation, cubes, dpbench, held_out, sweeps
from dpcube.strategies import BY_NAME


@click.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    envvar="DPBENCH",
    default=Path("dpbench"),
    show_default=True,
    help="Directory of DPBench's arrays, queries and results; the environment variable DPBENCH names it too.",
)
@click.option(
    "--strategy", default=",".join(BY_NAME), show_default=True, help="Comma-separated; adaptive:KIND; MODULE:CLASS."
)
@click.option("--draws", default=4, show_default=True, help="Draws of noise for each table; trials are five.")
@click.option("--seed", type=int, help="Repeat the noise of an earlier run; fresh unless given.")
@click.option("--sweeps", "what", flag_value="sweeps", help="Over epsilon and N, beside cells, instead.")
@click.option("--cubes", "what", flag_value="cubes", help="Cubes of 3 to 6 attributes of the bundled table, instead.")
@click.option("--held-out", "what", flag_value="held-out", help="Tables that nobody tuned on, instead.")
@click.option("--held-out-coverage", "what", flag_value="held-out-coverage", help="Coverage of 95% intervals on them.")
@click.option("--ablation", "what", flag_value="ablation", help="One part of adaptive left out at a time, instead.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def main(*, data: Path, strategy: str, draws: int, seed: int | None, what: str | None, as_json: bool) -> None:
    """Measure how accurate strategies are, with fresh noise."""
    seed = secrets.randbits(40) if seed is None else seed
    try:
        lines, result = _measured(what, data, strategy.split(","), draws, seed)
    except DpcubeError as error:
        raise SystemExit(str(error)) from None
    if as_json:
        click.echo(json.dumps({"seed": seed, "draws": draws, "result": result}, indent=1))
    else:
        click.echo("\n".join([*lines, "", f"{draws} draws, seed {seed}"]))


def _measured(
    what: str | None, data: Path, strategies: list[str], draws: int, seed: int
) -> tuple[list[str], list[dict[str, object]]]:
    """Return what was measured as text and as plain values."""
    chosen = [dpbench.chosen_strategy(name) for name in strategies]
    if what == "cubes":
        of_cubes = list(cubes.compare_on_cubes(draws=draws, seed=seed, strategies=chosen))
        return cubes.cubes_report(of_cubes), [asdict(one) for one in of_cubes]
    if what == "held-out":
        settings = list(held_out.compare_on_held_out(draws=draws, seed=seed, strategies=chosen))
        return held_out.held_out_report(settings), [one.as_dict() for one in settings]
    if what == "held-out-coverage":
        covered = list(held_out.cover(releases=draws, seed=seed, strategies=chosen))
        return held_out.coverage_report(covered), [one.as_dict() for one in covered]
    bench = dpbench.Bench(data)
    if what == "sweeps":
        points = list(sweeps.sweep(bench, strategies[0], draws=draws, seed=seed))
        return sweeps.sweeps_report(points, strategies[0]), [asdict(point) | {"ratio": point.ratio} for point in points]
    if what == "ablation":
        found = list(ablation.ablation(bench, draws=draws, seed=seed))
        plain = [
            {"variant": n, **one.key._asdict(), "mean": one.mean, "stderr": one.stderr} for n, m in found for one in m
        ]
        return ablation.ablation_report(found), plain
    summaries = dpbench.summaries(bench, dpbench.measure_errors(bench, strategies, draws=draws, seed=seed))
    return dpbench.dpbench_report(summaries), [one.as_dict() for one in summaries]


if __name__ == "__main__":
    main()
