"""Capabilities: which feature works for which kind of release, as data.

Refusals, the table in docs/reference/capabilities.md and a test of every pair come from here, so what the product
says about a kind of release is said once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from dpcube.core.domain import Domain
from dpcube.core.errors import QueryError
from dpcube.models.cuboids.estimate import DENSE_MODELLED
from dpcube.models.protocol import DENSE_CELLS

if TYPE_CHECKING:
    from dpcube.measurements import Transcript


class ReleaseKind(StrEnum):
    """The kinds of release that users meet."""

    CUBE = "cube"
    """Every cell can be materialised."""
    WIDE = "wide table"
    """Marginals over few of many attributes, and one model behind all answers (docs/guides/wide-tables.md)."""
    GRID = "fine grid"
    """Boxes in a cube too large to materialise (docs/guides/coordinates.md)."""


class Described(Protocol):
    """What says of which kind a release is: a `Release`, or anything else with a domain and a transcript."""

    @property
    def domain(self) -> Domain:
        """The attributes and their cells."""
        ...

    @property
    def transcript(self) -> "Transcript":
        """What was measured."""
        ...


@dataclass(frozen=True, slots=True)
class Capability:
    """Something that a user can do with a release, and for which kinds it cannot be done."""

    name: str
    python: str
    """How it is called in Python, of a release `r` with attributes `a` and `b`."""
    command: str = ""
    max_cells: int | None = None
    """The largest cube for which it works."""
    too_large: str = ""
    """What to do with a larger cube."""
    refused: Mapping[ReleaseKind, str] = field(default_factory=dict)
    """Why it does not work for a kind of release, and what to do instead."""
    if_materialisable: bool = False
    """Whether it works for any kind of release of so few cells that an estimate materialises them."""


_FEW = "ask for some of its attributes: group_by, dice or SQL"
_LARGE_GRID = "a fine grid has more cells than can be materialised; "
ALL_CELLS = Capability(
    "all cells as an array",
    "r.cells()",
    if_materialisable=True,
    refused={
        ReleaseKind.WIDE: f"a wide table has more cells than can be materialised; {_FEW}",
        ReleaseKind.GRID: f"{_LARGE_GRID}ask for ranges, for boxes(), or for synthetic rows",
    },
)
TABLE = Capability(
    "all cells as a table",
    "r.table(), r.to_pandas(), r.to_polars(), r.to_xarray(), r.to_hist()",
    "dpcube export",
    max_cells=2**24,
    if_materialisable=True,
    too_large="roll it up or dice it first",
    refused={
        ReleaseKind.WIDE: f"a wide table has more cells than a table can list; {_FEW}",
        ReleaseKind.GRID: f"{_LARGE_GRID}dice it first, or export its boxes (dpcube export --boxes)",
    },
)
BOXES = Capability(
    "boxes as a table",
    "r.boxes()",
    "dpcube export --boxes",
    refused={
        ReleaseKind.WIDE: "a wide table measures marginals and has no boxes; ask for groups of values: group_by or SQL"
    },
)
OFFLINE_PAGE = Capability(
    "explorer as one offline file",
    "",
    "dpcube explore -o",
    max_cells=2**20,
    too_large="leave -o out, and Python answers behind the page",
    refused={
        ReleaseKind.WIDE: "one file cannot contain its model; leave -o out, and Python answers behind the page",
        ReleaseKind.GRID: f"{_LARGE_GRID}leave -o out, and Python answers behind the page",
    },
)
CLASSIFIER = Capability(
    "classifiers",
    "r.train(b), r.classifier(b), r.to_training(b)",
    "dpcube train",
    refused={
        ReleaseKind.GRID: f"{_LARGE_GRID}train a library's classifier on synthetic rows (dpcube synth), or release the "
        "table with --target, which measures marginals by class, or with wider bins"
    },
)
MERGE = Capability(
    "merging releases of disjoint periods",
    "dpcube.open([one, other])",
    "dpcube merge",
    refused={
        ReleaseKind.WIDE: "releases of wide tables cannot be merged; query each by itself and add up the answers",
        ReleaseKind.GRID: "releases of fine grids cannot be merged; query each by itself and add up the answers",
    },
)
CAPABILITIES = (
    Capability("counts with confidence intervals", "r.count(a=(1, 5)), r.answer(workload)", "dpcube count"),
    Capability("groups, pivots and other views", "r.group_by(a), r.pivot(a, b)"),
    Capability("SQL with errors", "r.sql(statement, error=True)", "dpcube sql --error"),
    Capability("synthetic rows", "r.synthesize(100)", "dpcube synth"),
    Capability("plots and maps", "r.plot(a), r.plot(a, b)", "dpcube plot"),
    Capability("report and explanation", "r.explain()", "dpcube report, dpcube info"),
    Capability("explorer, served", "", "dpcube explore"),
    ALL_CELLS,
    TABLE,
    BOXES,
    OFFLINE_PAGE,
    CLASSIFIER,
    MERGE,
)
"""Every feature, those that work for all kinds first."""


def kind_of(release: Described) -> ReleaseKind:
    """Return the kind of a release."""
    if release.transcript.is_wide:
        return ReleaseKind.WIDE
    is_large = release.domain.size > DENSE_CELLS
    return ReleaseKind.GRID if is_large and release.transcript.layout == "grid" else ReleaseKind.CUBE


def refusal(feature: Capability, release: Described) -> str | None:
    """Return why a feature does not work for a release, and what to do instead; None if it works."""
    kind, size = kind_of(release), release.domain.size
    if kind in feature.refused and not (feature.if_materialisable and size <= DENSE_MODELLED):
        return f"{feature.name}: {feature.refused[kind]}"
    if feature.max_cells is not None and size > feature.max_cells:
        limit = f"the cube has {size:,} cells, and the most is {feature.max_cells:,}"
        return f"{feature.name}: {limit}; {feature.too_large}"
    return None


def require(feature: Capability, release: Described) -> None:
    """Raise QueryError, saying why and what to do instead, if a feature does not work for a release."""
    if (msg := refusal(feature, release)) is not None:
        raise QueryError(msg)


def capability_table() -> str:
    """Return the table of docs/reference/capabilities.md."""
    kinds = list(ReleaseKind)
    lines = [f"| feature | Python | command | {' | '.join(kinds)} |", "|---" * (3 + len(kinds)) + "|"]
    for feature in CAPABILITIES:
        found = [_word(feature, kind) for kind in kinds]
        called = [f"`{text}`" if text else "" for text in (feature.python, feature.command)]
        lines.append(f"| {' | '.join([feature.name, *called, *found])} |")
    return "\n".join(lines)


def _word(feature: Capability, kind: ReleaseKind) -> str:
    if kind in feature.refused:
        return f"no: {feature.refused[kind].partition('; ')[2] or feature.refused[kind]}"
    return "yes" if feature.max_cells is None else f"up to {feature.max_cells:,} cells; beyond, {feature.too_large}"
