"""What an installation brings: the project file, the constraints of the smoke test, and the citation."""

import re
import tomllib
from pathlib import Path
from typing import Any

import smoke
import yaml
from packaging.requirements import Requirement

import dpcube

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REMEDY = re.compile(r"'(?:dpcube|\.)\[([a-z,]+)\]'")


def test_the_oldest_dependencies_are_allowed_ones() -> None:
    oldest = [Requirement(line) for line in smoke.lower_bounds(smoke.PROJECT.read_text(encoding="utf-8"))]
    allowed = [Requirement(line) for line in PROJECT["dependencies"]]
    assert len(oldest) >= 7
    for pinned, required in zip(oldest, allowed, strict=True):
        assert (pinned.name, str(pinned.marker)) == (required.name, str(required.marker))
        [only] = pinned.specifier
        assert only.operator == "=="
        assert required.specifier.contains(only.version)


def test_every_extra_that_a_message_or_a_page_names_exists() -> None:
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    lists = [found for file in files for found in REMEDY.findall(file.read_text(encoding="utf-8"))]
    named = {extra for one in lists for extra in one.split(",")}
    assert {"plot", "research", "link"} <= named
    assert named <= PROJECT["optional-dependencies"].keys()


def test_the_core_is_few_libraries_and_scipy_is_none_of_them() -> None:
    core = {Requirement(line).name for line in PROJECT["dependencies"]}
    assert core == {"click", "cryptography", "duckdb", "numba", "numpy", "pyarrow", "sqlglot"}


def test_one_version_of_pyspark_satisfies_spark_and_ibis() -> None:
    [spark] = [Requirement(line) for line in PROJECT["optional-dependencies"]["spark"] if line.startswith("pyspark")]
    assert spark.specifier.contains("4.0.5")
    assert not spark.specifier.contains("4.1.0")


def test_the_citation_is_of_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert str(cited["version"]) == PROJECT["version"] == dpcube.__version__
    assert cited["license"] == PROJECT["license"]
