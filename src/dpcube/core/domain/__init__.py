"""Attributes and domains: the axes and bins of a cube, declared by the owner of the table."""

from dpcube.core.domain.attribute import Attribute, Destination
from dpcube.core.domain.calendar import Date
from dpcube.core.domain.category import Category
from dpcube.core.domain.domain import Domain
from dpcube.core.domain.hierarchy import Level
from dpcube.core.domain.number import Float, Integer
from dpcube.core.domain.scale import Scalar
from dpcube.core.domain.value_set import ValueSet

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
    "ValueSet",
]
