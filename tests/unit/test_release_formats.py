"""Files of every format version that was ever written: they open with the same answers and the same digests.

The digest of a release stands in ledgers and in circulation. `format1-*` were made by the last code that knew no other
format, `format2-list` by the first that wrote it.
"""

import json
from pathlib import Path

import pytest

from dpcube import Release
from forge import DOMAIN, file_of, make_list, make_release_of, members_of

OLD = Path(__file__).parent / "releases"
NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "adult.dpcube"
SOME = "age between 22 and 27 and sex = 'M'"
DIGESTS = {
    "format1-cells": "127db23c3486a2db7141f919668c481e79ce8a85bb5e2880a85ac001f3af15f2",
    "format1-dpcube": "cc3205664d12a66e41c7d65b8d188ffcf2a784a709292182401052b268d7cbed",
    "format1-adaptive": "6bb55b159e8dcace0d5ebbaa84851164880a705f365905761819538eb35e3210",
    "format2-list": "6e3f204949619020c08ed0ebff4de9350186c71ae0fb5c76fe5fc6bad7f55c19",
}
ANSWERS = [  # file, estimate, question, value, low, high
    ("format1-cells", "cells", None, 1571.0, 1533.0, 1609.0),
    ("format1-cells", "cells", SOME, 268.0, 254.0, 282.0),
    ("format1-dpcube", "consistent", None, 1563.0, 1518.2805328011127, 1607.7194671988873),
    ("format1-dpcube", "consistent", SOME, 244.0, 216.84221169082397, 271.157788309176),
    ("format1-dpcube", "least_squares", None, 1558.5066666666664, 1523.629668696274, 1593.383664637059),
    ("format1-dpcube", "cells", SOME, 248.0, 220.0, 276.0),
    ("format1-adaptive", "posterior", None, 1570.7815395887508, 1540.756795987163, 1600.8062831903385),
    ("format1-adaptive", "posterior", SOME, 268.39683341499403, 251.56159773190097, 285.2320690980871),
    ("format1-adaptive", "uniform", None, 1560.0, 1501.0014796931493, 1618.9985203068507),
    ("format2-list", "cells", None, 361.0, 261.0, 461.0),
    ("format2-list", "cells", "age between 21 and 23 and sex = 'M'", 53.0, 13.0, 93.0),
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
    """Arrow may encode tables differently one day; all else is the same, letter for letter."""
    before, after = members_of(path.read_bytes()), members_of(file_of(Release.open(path)))
    assert list(after) == list(before)
    assert after["domain.toml"] == before["domain.toml"]
    facts = [json.loads(members["manifest.json"]) for members in (before, after)]
    hashes = [manifest.pop("members") for manifest in facts]
    assert json.dumps(facts[1]) == json.dumps(facts[0])  # in the same order
    assert list(hashes[1]) == list(hashes[0])


def test_the_committed_list_is_what_it_was_made_of() -> None:
    release = opened("format2-list")
    assert release.domain == DOMAIN
    assert release.digest == make_release_of(*make_list()).digest
    assert [kept.kind for kept in release.transcript.measurements] == [kept.kind for kept in make_list()]
