"""`dpcube train` and `dpcube predict` as a user runs them."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from scipy.special import expit

from dpcube.cli import main
from dpcube.core.domain import Category, Domain, Integer
from dpcube.research import experiment
from dpcube.testing import SeededNoise

Command = Callable[..., tuple[object, str, str]]
DOMAIN = Domain(Integer("x", 0, 19), Category("k", ["a", "b"], column="kind"), Category("y", ["no", "yes"]))


@pytest.fixture
def dpcube(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["dpcube", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        return (stop.value.code, *capfd.readouterr())

    return run


@pytest.fixture
def released(tmp_path: Path) -> Path:
    chance = expit(np.linspace(-3, 3, 20)[:, None] + np.array([-0.5, 0.5]))
    counts = np.random.default_rng(0).binomial(500, np.stack([1 - chance, chance], axis=-1))
    experiment(counts, epsilon=1, noise=SeededNoise(0), domain=DOMAIN).save(tmp_path / "r.dpcube")
    rows = pa.table({"kind": ["a", "b", "c", None], "x": [0, 19, 19, 7], "y": ["no", "yes", "yes", None]})
    pacsv.write_csv(rows, tmp_path / "rows.csv")
    pq.write_table(rows, tmp_path / "rows.parquet")
    return tmp_path


def test_from_a_release_to_classes(released: Path, dpcube: Command) -> None:
    code, out, err = dpcube("train", "r.dpcube", "--target", "y", "-o", "m.json")
    assert (code, err) == (0, "")
    assert "y by x, k" in out
    assert "NOT PRIVATE" in out  # the noise of this release was seeded
    assert "estimated from the release alone" in out
    for rows in ("rows.csv", "rows.parquet"):
        code, out, err = dpcube("predict", "m.json", rows, "-o", f"classes-{rows}")
        assert (code, err) == (0, "")
        assert "4 predictions" in out
        assert "NOT PRIVATE" in out
        assert "treated as average ones: k 2" in out
        assert "accuracy 1.0000 on 3 rows of known class" in out
    made = pacsv.read_csv(released / "classes-rows.csv")
    assert made.column_names[:4] == ["prediction", "p(no)", "p(no) low", "p(no) high"]
    assert made["prediction"].to_pylist()[:3] == ["no", "yes", "yes"]
    assert pq.read_table(released / "classes-rows.parquet").num_rows == 4


def test_printed_and_as_json(released: Path, dpcube: Command) -> None:
    code, out, _ = dpcube("train", "r.dpcube", "--target", "y", "-o", "m.json", "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts["private"] is False
    assert facts["quality"]["accuracy"] > facts["quality"]["majority"]
    code, out, err = dpcube("predict", "m.json", "rows.csv")
    assert code == 0
    assert out.splitlines()[0].startswith('"prediction"')
    assert len(out.splitlines()) == 5
    assert "accuracy" in err
    code, out, _ = dpcube("predict", "m.json", "rows.csv", "--json")
    facts = json.loads(out)
    assert facts["values_without_cell"] == {"k": 2}
    assert [row["prediction"] for row in facts["predictions"]][:2] == ["no", "yes"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("train", "r.dpcube", "--target", "z", "-o", "m.json"), "no attribute 'z'"),
        (("train", "rows.csv", "--target", "y", "-o", "m.json"), "rows.csv"),
        (("train", "r.dpcube", "--target", "y", "-o", "r.dpcube"), "never overwrites"),
        (("train", "r.dpcube", "--target", "y", "-o", "no/m.json"), "cannot write no/m.json"),
        (("train", "r.dpcube", "--target", "y", "-o", "m.json", "--estimate", "best"), "no estimate 'best'"),
        (("predict", "rows.csv", "rows.csv"), "no whole model file"),
        (("predict", "m.json", "none.csv"), "cannot read rows from none.csv"),
        (("predict", "m.json", "r.dpcube"), "cannot tell how to read"),
        (("predict", "m.json", "empty.csv"), "cannot read rows from empty.csv"),
        (("predict", "m.json", "narrow.csv"), "no column 'kind'"),
        (("predict", "m.json", "twice.csv"), "column 'x' twice"),
        (("predict", "m.json", "bad.parquet"), "cannot read rows from bad.parquet"),
        (("predict", "m.json", "rows.csv", "--confidence", "1"), "confidence must be between 0 and 1"),
        (("predict", "m.json", "rows.csv", "-o", "rows.csv"), "not overwritten"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    released: Path, dpcube: Command, arguments: tuple[str, ...], words: str
) -> None:
    if arguments[0] == "predict":
        dpcube("train", "r.dpcube", "--target", "y", "-o", "m.json")
    (released / "empty.csv").write_text("")
    (released / "narrow.csv").write_text("x,y\n1,no\n")
    (released / "twice.csv").write_text("x,x,kind\n1,2,a\n")
    (released / "bad.parquet").write_bytes(b"PAR1")
    code, out, err = dpcube(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("dpcube: ")
    assert err.count("\n") == 1
    assert words in err
