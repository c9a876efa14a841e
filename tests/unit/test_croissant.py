"""Croissant metadata: valid by mlcroissant, true to the release and to the registry record, and nothing invented."""

import hashlib
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from dpcube import Domain
from dpcube.cli import commands
from dpcube.core.domain import Category, Float, Integer
from dpcube.core.errors import InputError
from dpcube.curator import publish
from dpcube.release import Release
from dpcube.release.croissant import MAX_LISTED_BINS

DOMAIN = Domain(
    Integer("age at visit", 0, 9), Category("ward", ["a/b", "ü", "=1+1"], unknown="cell"), Float("kg", 0, 10, width=5)
)
SAID = {
    "name": "Visits",
    "curator": "St. Mary",
    "curator-type": "Nonprofit",
    "intended-use": "planning",
    "region": "UK",
    "published": "2026-01-31",
    "author": "A. Writer",
}
WORDS = [word for key, text in SAID.items() for word in (f"--{key}", text)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with a release and the tables made of it."""
    counts = np.arange(np.prod(DOMAIN.shape)).reshape(DOMAIN.shape) * 9
    publish(counts, DOMAIN, epsilon="1/3", ledger=None, strategy="cells").save(tmp_path / "visits.dpcube")
    for made in (["export", "-o", "cells.csv"], ["export", "-o", "cells.parquet"], ["synth", "-o", "rows.csv"]):
        done = invoke(tmp_path, made[0], *made[1:])
        assert done.exit_code == 0, done.output
    return tmp_path


def invoke(folder: Path, verb: str, *words: str) -> Any:
    placed = [
        str(folder / word) if Path(word).suffix in (".csv", ".parquet", ".json", ".yaml") else word for word in words
    ]
    return CliRunner().invoke(commands, [verb, str(folder / "visits.dpcube"), *placed])


def described(folder: Path, *words: str) -> dict[str, Any]:
    made = invoke(folder, "registry", *WORDS, "-o", "record.yaml", "--croissant", "visits.json", *words)
    assert made.exit_code == 0, made.output
    found: dict[str, Any] = json.loads((folder / "visits.json").read_text(encoding="utf-8"))
    return found


def record_set(metadata: dict[str, Any], name: str) -> dict[str, Any]:
    [found] = [one for one in metadata["recordSet"] if one["@id"] == name]
    return dict(found)


def rows(metadata: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [{key.partition("/")[2]: held for key, held in row.items()} for row in record_set(metadata, name)["data"]]


def test_the_file_and_its_privacy_are_those_of_the_release(folder: Path) -> None:
    metadata, release = described(folder), Release.open(folder / "visits.dpcube")
    [file] = metadata["distribution"]
    content = (folder / "visits.dpcube").read_bytes()
    assert file["sha256"] == hashlib.sha256(content).hexdigest()
    assert (file["contentUrl"], file["contentSize"]) == ("visits.dpcube", f"{len(content)} B")
    [privacy] = rows(metadata, "privacy")
    assert privacy["epsilon_exact"] == "1/3"
    assert 1 / 3 <= privacy["epsilon"] < 0.33334
    assert privacy["digest"] == release.digest
    assert (privacy["unit"], privacy["max_rows"], privacy["cells"]) == ("", 1, DOMAIN.size)
    assert "epsilon 1/3 for one row" in metadata["description"]


def test_attributes_and_bins_are_those_of_the_domain(folder: Path) -> None:
    metadata = described(folder)
    assert [(row["name"], row["kind"], row["cells"]) for row in rows(metadata, "attributes")] == [
        (one.name, one.kind, one.size) for one in DOMAIN.attributes
    ]
    listed = [(row["attribute"], row["label"]) for row in rows(metadata, "bins")]
    assert listed == [(one.name, label) for one in DOMAIN.attributes for label in one.labels()]


def test_bins_of_a_large_attribute_are_not_listed(tmp_path: Path) -> None:
    domain = Domain(Integer("place", 0, MAX_LISTED_BINS), Category("sex", ["f", "m"]))
    made = publish(np.full(domain.shape, 3), domain, epsilon="1", ledger=None, strategy="cells")
    made.save(tmp_path / "visits.dpcube")
    metadata = described(tmp_path)
    assert {row["attribute"] for row in rows(metadata, "bins")} == {"sex"}
    assert [row["cells"] for row in rows(metadata, "attributes")] == [MAX_LISTED_BINS + 1, 2]


def test_the_record_and_the_metadata_agree_and_nothing_is_invented(folder: Path) -> None:
    metadata = described(folder)
    basic = yaml.safe_load((folder / "record.yaml").read_text(encoding="utf-8"))["deployment"]["basic"]
    assert (metadata["name"], metadata["datePublished"]) == (basic["name"], basic["publication_date"])
    assert metadata["creator"]["name"] == basic["data_curators"][0]["data_curator_name"]
    assert {"license", "url"}.isdisjoint(metadata)


def test_what_croissant_requires_and_nobody_gave_is_said(folder: Path) -> None:
    made = invoke(folder, "registry", *WORDS, "--croissant", "visits.json", "--url", "https://example.org/visits")
    assert "Croissant requires: --license\n" in made.stderr
    given = json.loads((folder / "visits.json").read_text(encoding="utf-8"))
    assert given["url"] == "https://example.org/visits"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--license", "https://example.org/licence"), "name its file with --croissant"),
        (("--croissant", "visits.xml"), "json"),
        (("--croissant", "visits.json", "--table", "none.csv"), "there is no table"),
        (("--croissant", "visits.json", "--table", "rows.txt"), "ends in .csv or .parquet"),
        (("--croissant", "visits.json", "--table", "broken.parquet"), "cannot be read as a table"),
    ],
)
def test_what_cannot_be_described_is_refused_and_nothing_is_written(
    folder: Path, words: tuple[str, ...], message: str
) -> None:
    (folder / "broken.parquet").write_bytes(b"no table")
    made = invoke(folder, "registry", *WORDS, "-o", "record.yaml", *words)
    assert isinstance(made.exception, InputError)
    assert message in str(made.exception)
    assert not (folder / "record.yaml").exists()
    assert not (folder / "visits.json").exists()


LOADED = """
import json, sys
import mlcroissant
found = mlcroissant.Dataset(sys.argv[1])
assert not found.metadata.ctx.issues.errors, found.metadata.ctx.issues.report()
shown = {one.id: sum(1 for _ in found.records(one.id)) for one in found.metadata.record_sets}
print(json.dumps({"sets": shown, "warnings": sorted(found.metadata.ctx.issues.warnings)}))
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mlcroissant") is None, reason="mlcroissant is not installed (extra dev)")
@pytest.mark.parametrize(("table", "expected"), [("cells.csv", DOMAIN.size), ("cells.parquet", DOMAIN.size)])
def test_mlcroissant_validates_it_and_loads_every_record(folder: Path, table: str, expected: int) -> None:
    described(folder, "--table", table, "--license", "https://example.org/l", "--url", "https://example.org/visits")
    command = [sys.executable, "-c", LOADED, str(folder / "visits.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    bins = sum(one.size for one in DOMAIN.attributes)
    assert found["sets"] == {"privacy": 1, "attributes": 3, "bins": bins, "rows": expected}
    assert [line for line in found["warnings"] if "citeAs" not in line] == []


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mlcroissant") is None, reason="mlcroissant is not installed (extra dev)")
def test_mlcroissant_refuses_metadata_that_is_wrong(folder: Path) -> None:
    """Otherwise the test above could not fail."""
    metadata = described(folder)
    del metadata["recordSet"][0]["field"][0]["dataType"]
    (folder / "visits.json").write_text(json.dumps(metadata), encoding="utf-8")
    command = [sys.executable, "-c", LOADED, str(folder / "visits.json")]
    assert subprocess.run(command, capture_output=True, text=True, timeout=300, check=False).returncode == 1
