"""Random domains: synthetic rows of whole counts are counted back exactly by the curator's own rules."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_domain import attributes

from dpcube.core.domain import Attribute, Category, Domain, Float
from dpcube.curator.publishing import count
from dpcube.release.synthesize import synthetic_rows
from given_cells import given_cells


def has_a_value(attribute: Attribute, kind: str) -> bool:
    """Whether a column of the attribute's type can say of a value that it is irregular in this way."""
    told = {"null"} | ({"nan", "infinite"} if isinstance(attribute, Float) else set())
    return kind in told | ({"unknown"} if isinstance(attribute, Category) else set())


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(attributes, min_size=1, max_size=2, unique_by=lambda a: a.name.lower()), st.integers(0, 2**32 - 1))
def test_rows_of_whole_counts_are_counted_back(declared: list[Attribute], seed: int) -> None:
    domain = Domain(tuple(declared))
    counts = np.random.default_rng(seed).integers(0, 4, domain.shape)
    for axis, attribute in enumerate(declared):
        told = [True] * attribute.bins + [has_a_value(attribute, kind) for kind in attribute.own_cells]
        counts *= np.reshape(told, [-1 if j == axis else 1 for j in range(len(declared))])
    table = synthetic_rows(domain, given_cells(counts.astype(np.float64)), None, seed).read_all()
    np.testing.assert_array_equal(count(table, domain), counts)
