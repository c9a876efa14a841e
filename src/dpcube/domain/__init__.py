"""Attributes and domains: what the cells of a cube stand for, declared by the table's owner."""

from dpcube.domain.attribute import Attribute, Destination, Scalar
from dpcube.domain.calendar import Date
from dpcube.domain.category import Category
from dpcube.domain.domain import Domain
from dpcube.domain.hierarchy import Level
from dpcube.domain.number import Float, Integer
from dpcube.domain.selection import Selection

__all__ = [
    "Attribute",
    "Category",
    "Date",
    "Destination",
    "Domain",
    "Float",
    "Integer",
    "Level",
    "Scalar",
    "Selection",
]
