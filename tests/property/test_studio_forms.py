"""Whatever a browser sends to the curator's desk is answered or refused in one line, and nothing is spent by it."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcube.core.errors import DpcubeError
from dpcube.curator import CsvDialect
from dpcube.web.studio import StudioSession
from dpcube.web.studio.form import declared_domain

KEYS = ["name", "type", "min", "max", "width", "edges", "values", "start", "end", "every", "null", "outside", "trim"]
words = st.sampled_from(["", "0", "9", "1e400", "-5", "1/0", "integer", "float", "category", "date", "month", "drop"])
texts = (
    words
    | st.text(max_size=8)
    | st.sampled_from(["age", "sex", "2026-01-01", "\ud800", "\0", "a\nb", '"""', "x" * 300])
)
plain = st.none() | st.booleans() | st.integers() | st.floats() | texts
values = st.recursive(plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=2))
attributes = st.lists(st.dictionaries(st.sampled_from(KEYS) | texts, values, max_size=6), max_size=3) | values
whole = st.builds(
    lambda name, more: [{"name": name, "type": "integer", "min": "0", "max": "9", **more}],
    st.sampled_from(["age", "\ud800", "\0", "a\nb"]),
    st.dictionaries(st.sampled_from(KEYS), values, max_size=1),
)
FIELDS = [
    "signed_public_by",
    "unit",
    "max_rows",
    "epsilon",
    "rows",
    "domain_file",
    "output",
    "total",
    "purpose",
    "ticket",
]
anything = st.text(st.characters(), min_size=1, max_size=12)
requests = st.fixed_dictionaries(
    {"attributes": whole | attributes},
    optional={"queries": st.lists(texts, max_size=3) | values, **{field: texts | values for field in FIELDS}},
)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> StudioSession:
    folder = tmp_path_factory.mktemp("desk")
    (folder / "t.csv").write_text("age,sex\n3,f\n")
    return StudioSession(folder / "t.csv", csv=CsvDialect(), folder=folder / "none")  # where nothing can be written


@pytest.mark.parametrize("action", ["size", "save", "prepare", "release"])
@given(request=requests)
def test_every_form_is_answered_or_refused(desk: StudioSession, action: str, request: dict[str, Any]) -> None:
    with suppress(DpcubeError):  # and nothing else
        json.dumps(getattr(desk, action)(request))
    assert not list(Path(desk._source).parent.glob("*.ledger"))


@given(st.lists(anything, min_size=1, max_size=5, unique=True), anything)
def test_a_form_declares_what_it_says_or_nothing(listed: list[str], name: str) -> None:
    try:
        made = declared_domain([{"name": name, "type": "category", "values": listed}])
    except DpcubeError:
        return
    assert made.names == (name,)
    assert list(made[name].texts()) == listed
