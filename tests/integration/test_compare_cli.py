"""`dpcube compare` from the command line: shapes and arrays, files made, refusals."""

import csv
import json
from pathlib import Path

import numpy as np

from forked import dpcube


def test_the_command_compares_on_shapes_and_on_an_array(tmp_path: Path) -> None:
    small = ("--draws", "2", "--questions", "20", "--epsilon", "0.5,1", "--method", "cells,privelet")
    made = ("--csv", str(tmp_path / "c.csv"), "--plot", str(tmp_path / "c.svg"), "--cache", str(tmp_path / "kept"))
    shapes = ("compare", "--shapes", "sparse,striped", "--sides", "8x8", "--rows", "100,1000", "--jobs", "2")
    done = dpcube(*shapes, *small, *made, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["private"] is False
    assert told["about"].startswith("NOT PRIVATE")
    assert len(told["rows"]) == 2 * 2 * 2 * 2 * 4  # shapes, rows, epsilons, methods, kinds
    with (tmp_path / "c.csv").open(newline="", encoding="utf-8") as file:
        assert [row["method"] for row in csv.DictReader(file)] == [row["method"] for row in told["rows"]]
    assert "<svg" in (tmp_path / "c.svg").read_text(encoding="utf-8")
    again = dpcube(*shapes, *small, *made)
    assert (again.returncode, "exists" in again.stderr) == (2, True)
    again = dpcube(*shapes, *small, "--cache", str(tmp_path / "kept"), "--json")
    assert json.loads(again.stdout) == told  # seconds too: nothing was run

    limited = ("--time-limit", "100", "--rows", "100", "--sides", "8x8")
    done = dpcube("compare", "--shapes", "sparse", *limited, *small, "--json")
    assert done.returncode == 0, done.stderr
    same = [row for row in told["rows"] if row["table"] == "sparse 8x8" and row["rows"] == 100]
    assert [row["mean_abs"] for row in json.loads(done.stdout)["rows"]] == [row["mean_abs"] for row in same]
    refused = dpcube("compare", "--shapes", "sparse", *small, "--time-limit", "nan")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)

    array = tmp_path / "counts.npy"
    np.save(array, np.arange(12).reshape(3, 4))
    refused = dpcube("compare", str(array), *small)
    assert (refused.returncode, "--public" in refused.stderr) == (2, True)
    done = dpcube("compare", str(array), "--public", "Ann", *small)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("NOT PRIVATE")
    assert "counts.npy, epsilon 0.5: mean absolute error" in done.stdout
    (tmp_path / "counts.ledger").touch()
    refused = dpcube("compare", str(array), "--public", "Ann", *small)
    assert (refused.returncode, "has the ledger" in refused.stderr) == (2, True)
