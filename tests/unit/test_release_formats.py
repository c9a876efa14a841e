"""Files that were written once open with the same answers and the same digests.

The digest of a release stands in ledgers and in circulation.
"""

from pathlib import Path

import pytest

from dpcube import Release
from forge import file_of, members_of

OLD = Path(__file__).parent / "releases"
NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "adult.dpcube"
SOME = "age between 22 and 27 and sex = 'M'"
DIGESTS = {
    "cells": "2350c7bde97910ec0d2566cc3b285ac06b365ef922dae983c693df4cc23c9c93",
    "dpcube": "bcb8df877ebd435c5361274d91a4c050399c9ce3782666d71335bf3f1e26bbe7",
    "adaptive": "d56fd53521e96f1bbf40a9a1fa7c7e10b94bcff6955fa39f2384a43525ffbf66",
}
ANSWERS = [  # file, estimate, question, value, low, high
    ("cells", "cells", None, 1571.0, 1533.0, 1609.0),
    ("cells", "cells", SOME, 268.0, 254.0, 282.0),
    ("dpcube", "consistent", None, 1563.0, 1518.2805328011127, 1607.7194671988873),
    ("dpcube", "consistent", SOME, 244.0, 216.84221169082397, 271.157788309176),
    ("dpcube", "least_squares", None, 1558.5066666666664, 1523.629668696274, 1593.383664637059),
    ("dpcube", "cells", SOME, 248.0, 220.0, 276.0),
    ("adaptive", "posterior", None, 1570.7815395887508, 1540.756795987163, 1600.8062831903385),
    ("adaptive", "posterior", SOME, 268.39683341499403, 251.56159773243994, 285.2320690975481),
    ("adaptive", "uniform", None, 1560.0, 1501.0014796931493, 1618.9985203068507),
]


def opened(name: str) -> Release:
    return Release.open(OLD / f"{name}.dpcube")


def test_every_committed_file_has_its_digest_recorded() -> None:
    assert {path.stem for path in OLD.glob("*.dpcube")} == set(DIGESTS)


@pytest.mark.parametrize("name", DIGESTS)
def test_a_release_keeps_its_digest(name: str, tmp_path: Path) -> None:
    release = opened(name)
    assert release.digest == DIGESTS[name]
    assert release.save(tmp_path / "again.dpcube") == DIGESTS[name]
    assert Release.open(tmp_path / "again.dpcube").digest == DIGESTS[name]


@pytest.mark.parametrize(("name", "estimate", "question", "value", "low", "high"), ANSWERS)
def test_a_release_keeps_its_answers(
    name: str, estimate: str, question: str | None, value: float, low: float, high: float
) -> None:
    answer = opened(name).count(question, estimate=estimate)
    assert (answer.value, answer.low, answer.high) == pytest.approx((value, low, high), rel=1e-12)


@pytest.mark.parametrize("path", [*(OLD / f"{name}.dpcube" for name in DIGESTS), NOTEBOOK], ids=lambda path: path.stem)
def test_a_file_is_written_as_it_was(path: Path) -> None:
    """zlib may pack members differently one day; what they unpack to is the same, byte for byte."""
    before, after = members_of(path.read_bytes()), members_of(file_of(Release.open(path)))
    assert list(after.items()) == list(before.items())
