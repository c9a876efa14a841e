"""Commands `train` and `predict`: a classifier from a release, and its predictions for own rows."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpcube.cli.analyst.count import release_file
from dpcube.cli.output import as_json, print_json, stage, stages_done, visible

if TYPE_CHECKING:
    import pyarrow as pa

    from dpcube.core.arrays import Ints
    from dpcube.learn import TrainedModel


@click.command(short_help="Train a classifier of one attribute from a cube.")
@release_file
@click.option("--target", required=True, help="Attribute whose values are the classes.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="New .json file.")
@click.option(
    "--estimate",
    default="auto",
    show_default=True,
    help="Estimate to learn from. The default is the one with the smallest stated errors.",
)
@as_json
def train(release: Path, *, target: str, output: Path, estimate: str, as_json: bool) -> None:
    """Train a classifier that predicts one attribute of a cube from all others.

    This costs no privacy budget, because only the release is read. The model is a JSON file.

    Example: dpcube train patients.dpcube --target income -o model.json
    """
    from dpcube.core.errors import InputError
    from dpcube.release import Release

    if output.exists():
        msg = f"{output} exists, and a model never overwrites a file; choose another name"
        raise InputError(msg)
    opened = Release.open(release)
    stage("learning")
    trained = opened.train(target, estimate=estimate)
    trained.save(output)
    stages_done()
    if as_json:
        facts = {"model": str(output), "target": target, "private": trained.origin.private}
        print_json({**facts, "classes": trained.features.classes.tolist(), "quality": dict(trained.quality)})
        return
    click.echo(visible(f"wrote {output}: {target} by {', '.join(trained.features.names)}"))
    click.echo(visible(trained.origin.words))
    click.echo(_quality_words(trained))


def _quality_words(trained: "TrainedModel") -> str:
    """Return the quality of a model as estimated from the release, with its limits."""
    known = trained.quality
    auc = known.get("auc")
    of_pairs = f", AUC {auc:.3f}" if isinstance(auc, float) else ""
    return (
        f"accuracy {known['accuracy']:.3f}{of_pairs} (the largest class alone: {known['majority']:.3f}), "
        f"{known['said']}"
    )


@click.command(short_help="Predict the class of each of your own rows.")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("rows", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="New .csv or .parquet file.")
@click.option(
    "--confidence", default=0.95, show_default=True, help="Level of the confidence intervals of probabilities."
)
@as_json
def predict(model: Path, rows: Path, *, output: Path | None, confidence: float, as_json: bool) -> None:
    """Predict the class of each of your own ROWS.

    ROWS is a .csv, .tsv (also .gz or .zst) or .parquet file with a column for each attribute, in the format that the
    domain declares. Without -o, predictions are printed as CSV. If ROWS contain the target's column, the accuracy is
    printed.

    Example: dpcube predict model.json rows.csv -o classes.csv
    """
    import sys

    from dpcube.learn import TrainedModel
    from dpcube.learn.predictions import own_rows, predictions
    from dpcube.release.export import check_new_table, spreadsheet_batches, write_table

    if output is not None:
        check_new_table(output)
    trained = TrainedModel.open(model)
    table = own_rows(rows, trained)
    cells = trained.features.cells(table)
    made = predictions(trained, cells, confidence)
    facts = _facts(trained, table, cells, made)
    if output is not None:
        write_table(made.to_reader(), output)
    if as_json:
        print_json({**facts, **({} if output else {"predictions": made.to_pylist()})})
        return
    if output is None:
        import pyarrow.csv as pacsv

        pacsv.write_csv(spreadsheet_batches(made.to_reader()).read_all(), sys.stdout.buffer)
    for line in _words(facts, output):
        click.echo(visible(line), err=output is None)


def _facts(trained: "TrainedModel", table: "pa.Table", cells: "Ints", made: "pa.Table") -> dict[str, object]:
    from dpcube.learn.predictions import told_rightly
    from dpcube.learn.rows import no_cell_words

    right = told_rightly(trained, table, made)
    facts: dict[str, object] = {"rows": len(table), "private": trained.origin.private}
    facts["values_without_cell"] = dict(no_cell_words(trained.features.attributes, cells))
    if right is not None:
        facts |= {"rows_of_known_class": right.known, "accuracy": right.accuracy}
    return facts


def _words(facts: dict[str, object], output: Path | None) -> list[str]:
    lines = [f"wrote {output}: {facts['rows']:,} predictions"] if output is not None else []
    if not facts["private"]:
        lines.append("the model is NOT PRIVATE")
    lost = facts["values_without_cell"]
    if isinstance(lost, dict) and lost:
        listed = ", ".join(f"{name} {number:,}" for name, number in lost.items())
        lines.append(f"values without a cell in the model's domain, treated as average ones: {listed}")
    if "accuracy" in facts and facts["accuracy"] is not None:
        lines.append(f"accuracy {facts['accuracy']:.4f} on {facts['rows_of_known_class']:,} rows of known class")
    return lines
