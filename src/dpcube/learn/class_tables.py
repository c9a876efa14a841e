"""Which kind of release answers for a class: an estimate enters, its tables by class leave."""

from dpcube.learn.cube_tables import CubeTables
from dpcube.learn.cuboid_tables import CuboidTables
from dpcube.learn.evidence import ClassTables
from dpcube.learn.features import Features
from dpcube.models import Estimate
from dpcube.models.cuboids import CuboidsEstimate


def class_tables(estimate: Estimate, target: int, features: Features) -> ClassTables:
    """Return the tables of an estimate for the class on axis `target`; QueryError if nothing can be learnt."""
    if isinstance(estimate, CuboidsEstimate):
        return CuboidTables.of(estimate, target, features)
    return CubeTables.of(estimate, target, features)
