"""The model of a wide table as it is stored: junction tree, noisy marginals, and how far it departs from these."""

from dpcube.models.cuboids.beliefs import Beliefs
from dpcube.models.cuboids.departures import Departure
from dpcube.models.cuboids.estimate import CuboidsEstimate
from dpcube.models.cuboids.fitting import CountedTable
from dpcube.models.cuboids.junction import JunctionTree
from dpcube.models.protocol import Arrays, DamagedError, EstimateArrays, small_ints

TABLES = ("firsts", "chosen", "wholes")
"""Of the tables of a pilot no more is stored than the departure that they tell."""


def written_cuboids(estimate: CuboidsEstimate) -> EstimateArrays:
    """Return a model as numbers and arrays."""
    beliefs, departure = estimate.beliefs, estimate.departure
    tree = beliefs.tree
    facts: dict[str, object] = {"name": estimate.name, "shape": list(estimate.shape), "selected": estimate.selected}
    facts["departure"] = None if departure is None else [departure.of_cells, departure.of_halves]
    facts["cliques"] = [list(clique) for clique in tree.cliques]
    facts["parents"], facts["shared"] = list(tree.parents), [list(axes) for axes in tree.shared]
    arrays: Arrays = {f"groups{axis}": small_ints(groups) for axis, groups in enumerate(estimate.groups)}
    arrays |= {f"shares{axis}": shares for axis, shares in enumerate(estimate.shares)}
    arrays |= {f"clique{k}": table.reshape(-1) for k, table in enumerate(beliefs.tables)}
    for name in TABLES:
        tables: tuple[CountedTable, ...] = getattr(estimate, name)
        facts[name] = [[list(one.axes), one.variance] for one in tables]
        arrays |= {f"{name}{k}": one.counts.reshape(-1) for k, one in enumerate(tables)}
    return EstimateArrays("cuboids", facts, arrays)


def stored_cuboids(written: EstimateArrays) -> CuboidsEstimate:
    """Return the model that was written."""
    facts, shape = written.facts, tuple(map(int, written.facts["shape"]))
    groups = tuple(written.ints(f"groups{axis}", side) for axis, side in enumerate(shape))
    if any(of.min() < 0 or of.max() >= len(of) for of in groups):
        raise DamagedError
    sides = tuple(int(of.max()) + 1 for of in groups)
    found = {}
    for name in TABLES:
        of_cells = shape if name == "firsts" else sides
        found[name] = tuple(
            CountedTable(_axes(axes, len(shape)), written.floats(f"{name}{k}").reshape([of_cells[a] for a in axes]), of)
            for k, (axes, of) in enumerate((axes, float(variance)) for axes, variance in facts[name])
        )
    tree = _junction_tree(written, sides)
    tables = tuple(
        written.floats(f"clique{k}").reshape([sides[axis] for axis in clique]) for k, clique in enumerate(tree.cliques)
    )
    made = CuboidsEstimate(
        str(facts["name"]), shape, groups, found["firsts"], found["chosen"], found["wholes"], bool(facts["selected"])
    )
    departure = None if facts["departure"] is None else Departure(*map(float, facts["departure"]))
    shares = tuple(written.floats(f"shares{axis}", side) for axis, side in enumerate(shape))
    made.__dict__.update(beliefs=Beliefs(tree, tables), shares=shares, departure=departure)
    return made


def _junction_tree(written: EstimateArrays, sides: tuple[int, ...]) -> JunctionTree:
    """Return the junction tree, each clique after its parent, in which every axis is."""
    facts = written.facts
    cliques, shared = (tuple(_axes(axes, len(sides)) for axes in facts[name]) for name in ("cliques", "shared"))
    parents = tuple(map(int, facts["parents"]))
    above = all(0 <= parent < k for k, parent in enumerate(parents) if k) and parents[:1] == (-1,)
    if not above or not len(cliques) == len(parents) == len(shared) or set().union(*cliques) != {*range(len(sides))}:
        raise DamagedError
    held = (
        set(of) <= set(clique) & (set(cliques[parent]) if parent >= 0 else set())
        for of, clique, parent in zip(shared, cliques, parents, strict=True)
    )
    if not all(held):
        raise DamagedError
    return JunctionTree(sides, cliques, parents, shared)


def _axes(written: list[int], axes: int) -> tuple[int, ...]:
    found = tuple(map(int, written))
    if list(found) != sorted({*found} & {*range(axes)}):
        raise DamagedError
    return found
