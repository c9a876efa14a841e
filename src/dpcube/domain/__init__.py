"""Attributes, domains, boxes and partitionings: the public geometry of a cube."""

from dpcube.domain.attribute import Attribute, Destination, Scalar
from dpcube.domain.box import Box, Boxes, Partitioning, box_sums
from dpcube.domain.calendar import Date
from dpcube.domain.category import Category
from dpcube.domain.domain import Domain
from dpcube.domain.hierarchy import Level
from dpcube.domain.number import Float, Integer
from dpcube.domain.selection import Selection

__all__ = [
    "Attribute",
    "Box",
    "Boxes",
    "Category",
    "Date",
    "Destination",
    "Domain",
    "Float",
    "Integer",
    "Level",
    "Partitioning",
    "Scalar",
    "Selection",
    "box_sums",
]
