"""Domain files at random: mostly of the right form, with wrong values, odd keys and bits of foreign text in them."""

import json
from datetime import date, datetime, time

from hypothesis import strategies as st

from dpcube import Domain
from dpcube.core.domain.attribute import IRREGULAR
from dpcube.core.errors import DomainError

Toml = object

NAMES = st.sampled_from(["age", "sex", "a.b", "ü", "''", '"', "\x1b[2J", "x" * 300]) | st.text(min_size=1, max_size=5)
HUGE = st.sampled_from([2**31, 2**53, 2**63, -(2**63), 10**30, 10**4000, -1, 0, 1])
NUMBERS = st.integers(-20, 60) | st.floats(-20, 60) | st.floats() | HUGE
TIMES = st.dates(date(1, 1, 1), date(9999, 12, 31)) | st.datetimes() | st.times()
SCALARS = NUMBERS | st.booleans() | NAMES | TIMES
VALUES: st.SearchStrategy[Toml] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
KINDS = st.sampled_from(["integer", "float", "category", "date"])
RIGHT: dict[str, st.SearchStrategy[Toml]] = {
    "min": st.integers(-5, 10),
    "max": st.integers(11, 60),
    "width": st.integers(1, 9),
    "edges": st.lists(st.integers(-50, 50), min_size=2, max_size=6, unique=True).map(sorted),
    "values": st.lists(NAMES, min_size=1, max_size=5, unique=True),
    "ordered": st.booleans(),
    "start": st.dates(date(2020, 1, 1), date(2024, 1, 1)),
    "end": st.dates(date(2023, 1, 1), date(2026, 1, 1)),
    "every": st.sampled_from(["day", "week", "month", "quarter", "year"]),
    "within": st.sampled_from(["any", "even"]),
    "column": NAMES,
    "trim": st.booleans(),
    "case": st.sampled_from(["exact", "ignore"]),
    "null_text": st.lists(NAMES, max_size=3) | NAMES,
    "decimal": st.sampled_from([".", ","]),
    "thousands": st.sampled_from([".", ",", "'", " ", "_"]),
    **dict.fromkeys(("prefix", "suffix"), st.sampled_from(["$", "%", "EUR ", ".", "1", "", "\u20ac"])),
    "format": st.sampled_from(["iso", "%d.%m.%Y", ["%Y%m%d", "iso"], "%d", "%Y-%m-%d%", "%q", "%Y%m%d%H%f1"]),
    **dict.fromkeys(("true", "false"), st.lists(NAMES, max_size=2)),
    **dict.fromkeys(("null", "nan", "unknown"), st.sampled_from(["drop", "cell"])),
    **dict.fromkeys(("infinite", "outside"), st.sampled_from(["drop", "clip", "cell"])),
}
READ = ("column", "trim", "case", "null_text")
KEYS = {
    "integer": (*IRREGULAR, *READ, "within", "decimal", "thousands", "prefix", "suffix"),
    "float": (*IRREGULAR, *READ, "within", "decimal", "thousands", "prefix", "suffix"),
    "category": (*READ, "values", "ordered", "null", "unknown", "true", "false"),
    "date": (*READ, "start", "end", "every", "null", "unknown", "outside", "within", "format"),
}


@st.composite
def attributes(draw: st.DrawFn) -> dict[str, Toml]:
    """Draw a table that declares an attribute, some of its values wrong."""
    kind = draw(KINDS)
    bins = ["edges"] if draw(st.integers(0, 3)) == 0 else ["min", "max", "width"]
    needed = {"category": ["values"], "date": ["start", "end"]}.get(kind, bins)
    chosen = draw(st.lists(st.sampled_from(KEYS[kind]), unique=True, max_size=3))
    table = {"name": draw(NAMES), "type": kind} | {key: draw(RIGHT[key]) for key in {*chosen, *needed}}
    if draw(st.integers(0, 3)) == 0:
        table[draw(st.sampled_from([*table, "values_from", "mxa"]))] = draw(VALUES)
    return table


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Draw the text of a domain file."""
    header = st.dictionaries(
        st.sampled_from(
            ["format", "drafted_from_data", "signed_public_by", "multiline", "delimiter", "encoding", "learnt"]
        ),
        VALUES,
        max_size=1,
    )
    lines = [f"{key} = {toml(value)}" for key, value in (draw(header) if draw(st.integers(0, 5)) == 0 else {}).items()]
    for table in draw(st.lists(attributes(), min_size=1, max_size=4)):
        lines += ["[[attribute]]", *(f"{toml(key)} = {toml(value)}" for key, value in table.items())]
    text = "\n".join(lines)
    for piece in draw(st.lists(st.sampled_from(PIECES), max_size=2)) if draw(st.integers(0, 3)) == 0 else ():
        place = draw(st.integers(0, len(text)))
        text = text[:place] + piece + text[place:]
    return text


PIECES = [
    *(
        "[",
        "]",
        "[[",
        "{",
        "}",
        "=",
        '"',
        "'",
        '"""',
        "'''",
        "#",
        "\\",
        "\\u0000",
        "\0",
        "\ufeff",
        "\r",
        "\n",
        ",",
        ".",
    ),
    *("a." * 500, "[" * 500, "{a=" * 500, "9" * 5000, "1e999999999", "nan", "-inf", "0x", "1_0", "\u2028", "\x7f"),
]


def toml(value: Toml) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(key)} = {toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value).replace("\x7f", "\\u007f")
    if isinstance(value, int):
        return f"{value:#x}" if value > 10**100 else str(value)
    return value.isoformat() if isinstance(value, date | datetime | time) else repr(value)


def examine(text: str) -> Domain | None:
    """Read a domain file; whatever it says, it is refused with a DomainError, or is a domain that can be used."""
    try:
        domain = Domain.loads(text)
    except DomainError:
        return None
    assert Domain.loads(domain.dumps()) == domain
    assert domain.size >= 1
    for attribute in domain.attributes:
        attribute.extent()
        if attribute.size < 10_000:
            assert len(attribute.labels()) == attribute.size
            assert (attribute.weights(attribute.everything()) == 1).all()
    return domain
