"""The explorer's page as a file: everything is inside, and nothing in it can run but its own script."""

import base64
import hashlib
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import dpcube
from dpcube import Domain, Integer, Release
from dpcube.cli import commands
from dpcube.core.errors import QueryError
from dpcube.models.boxes import BoxEstimate
from dpcube.models.protocol import EstimateArrays
from dpcube.research.arrays import experiment
from dpcube.testing import SeededNoise
from dpcube.web.explorer import explorer_page, inlined, packed_contents
from dpcube.web.explorer.contents import packed, page_model

RELEASES = Path(__file__).parent / "releases"
ADAPTIVE = RELEASES / "adaptive.dpcube"


def unpacked(content: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """Undo `packed`, as the page does it."""
    whole = zlib.decompress(content)
    length = int.from_bytes(whole[:4], "little")
    head = json.loads(whole[4 : 4 + length])
    kinds = {"f8": "<f8", "i4": "<i4"}
    assert (4 + length) % 8 == 0
    places = head["arrays"].items()
    assert all(at % 8 == 0 for _, (_, at, _) in places)
    return head["facts"], {
        name: np.frombuffer(whole, kinds[kind], n, 4 + length + at) for name, (kind, at, n) in places
    }


def embedded(page: str) -> bytes:
    found = re.search(r'<script type="application/octet-stream" id="contents">([^<]*)</script>', page)
    assert found is not None
    return base64.b64decode(found[1])


def test_packing_is_undone() -> None:
    arrays = {"a": np.arange(3, dtype=np.int32), "b": np.array([0.1, np.nan]), "c": np.zeros(0)}
    facts, found = unpacked(packed({"name": "é </script>"}, arrays))
    assert facts == {"name": "é </script>"}
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("path", sorted(RELEASES.glob("*.dpcube")), ids=lambda path: path.stem)
def test_every_release_travels_with_what_its_answers_need(path: Path) -> None:
    release = Release.open(path)
    facts, arrays = unpacked(packed_contents(release, path))
    assert facts["shape"] == list(release.domain.shape)
    assert [a["name"] for a in facts["attributes"]] == list(release.domain.names)
    assert facts["made"]["digest"] == release.digest
    kind = facts["model"]["kind"]
    assert kind == ("boxes" if isinstance(release.estimate(), BoxEstimate) else "tree")
    if kind == "tree":
        assert arrays["totals"][0] == pytest.approx(release.count().value)
    for axis, attribute in enumerate(release.domain.attributes):
        np.testing.assert_array_equal(arrays[f"edges{axis}"], attribute.bin_edges())


def test_an_estimate_of_another_kind_gives_its_cells_and_no_errors() -> None:
    class Other:
        def cells(self) -> np.ndarray[Any, Any]:
            return np.ones((2, 3))

        def to_arrays(self) -> EstimateArrays:
            return EstimateArrays("other", {}, {})

    model = page_model(Other(), confidence=0.95)  # type: ignore[arg-type]
    assert model.facts == {"kind": "cells"}
    assert list(model.arrays) == ["cells"]


def test_the_page_lets_run_its_own_script_and_style_and_nothing_else() -> None:
    page = explorer_page(b"x", title="<b>&")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert "<title>&lt;b&gt;&amp;</title>" in page
    for tag, kind in (("style", "style-src"), ("script", "script-src")):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy[1]
    assert "default-src 'none'" in policy[1]
    assert "unsafe" not in policy[1]
    assert "connect-src" not in policy[1]
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function", page)


def test_the_code_of_a_page_is_small() -> None:
    # Of it 9 kB are what it asks Python for, if served, and 26 kB what it reads SQL with, if an engine is inside.
    assert len(explorer_page(b"", title="").encode()) < 170_000


def test_a_page_that_is_served_fetches_its_contents_from_beside_it() -> None:
    page = explorer_page(None, title="cube")
    assert embedded(page) == b""
    assert "connect-src 'self'" in page


def test_every_module_is_in_the_page_after_those_that_it_imports() -> None:
    folder = Path(inlined.__file__).parent / "page"
    assert {path.stem for path in folder.glob("*.js")} == set(inlined.MODULES)
    for place, name in enumerate(inlined.MODULES):
        text = (folder / f"{name}.js").read_text(encoding="utf-8")
        imported = re.findall(r'^import .*"\./(\w+)\.js";$', text, re.MULTILINE)
        assert len(imported) == len(re.findall(r"^import\b", text, re.MULTILINE))
        assert set(imported) <= set(inlined.MODULES[:place])
        assert len(re.findall(r"^export\b", text, re.MULTILINE)) == len(inlined.EXPORTED.findall(text))


def test_what_a_module_imports_is_exported_there_and_used() -> None:
    folder = Path(inlined.__file__).parent / "page"
    texts = {name: (folder / f"{name}.js").read_text(encoding="utf-8") for name in inlined.MODULES}
    exported = {name: {found[1] for found in inlined.EXPORTED.findall(text)} for name, text in texts.items()}
    imported: set[tuple[str, str]] = set()
    for text in texts.values():
        body = inlined.IMPORTED.sub("", text)
        for names, home in inlined.IMPORTED.findall(text):
            for name in re.findall(r"\w+", names):
                assert name in exported[home]
                assert re.search(rf"\b{name}\b", body)
                imported.add((home, name))
    assert imported == {(home, name) for home, names in exported.items() for name in names}


def test_the_command_writes_a_page_and_replaces_none(tmp_path: Path) -> None:
    output = tmp_path / "cube.html"
    done = CliRunner().invoke(commands, ["explore", str(ADAPTIVE), "-o", str(output), "--confidence", "0.9"])
    assert (done.exit_code, done.output) == (0, f"Wrote {output}.\n")
    facts, _ = unpacked(embedded(output.read_text(encoding="utf-8")))
    assert (facts["name"], facts["path"], facts["confidence"]) == ("adaptive", ADAPTIVE.name, 0.9)
    assert str(ADAPTIVE.parent) not in json.dumps(facts)
    again = CliRunner().invoke(commands, ["explore", str(ADAPTIVE), "-o", str(output)])
    assert "exists, and is not replaced" in str(again.exception)
    other = CliRunner().invoke(commands, ["explore", str(ADAPTIVE), "-o", str(tmp_path / "cube.pdf")])
    assert "must be one of .html" in str(other.exception)
    unsure = CliRunner().invoke(
        commands, ["explore", str(ADAPTIVE), "-o", str(tmp_path / "u.html"), "--confidence", "1"]
    )
    assert "confidence must be between 0 and 1" in str(unsure.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["cube.html"]


def test_a_cube_too_large_for_a_page_is_refused_before_it_is_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = Domain(Integer("a", 0, 2**20))
    release = experiment(np.ones(2**20 + 1, int), epsilon="1", strategy="cells", noise=SeededNoise(1), domain=domain)
    monkeypatch.setattr(dpcube.Release, "estimate", None)
    with pytest.raises(QueryError, match="the cube has 1,048,577 cells, and the most is 1,048,576; leave -o out"):
        packed_contents(release, Path("r.dpcube"))
