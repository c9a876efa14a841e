"""What runs every night rather than with every commit: more of what some test looks at in both.

`make test` leaves out what is marked `nightly`; `make nightly` leaves out nothing, and draws more examples.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import settings

NIGHTLY = "nightly"
"""The name of the profile, and of the mark."""


def only_first(many: int, values: Sequence[Any]) -> list[Any]:
    """Parameters of which the first ones are tested with every commit, and the others every night."""
    return [*values[:many], *(at_night(value) for value in values[many:])]


def at_night(*values: Any) -> Any:
    """A parameter that is tested every night."""
    return pytest.param(*values, marks=pytest.mark.nightly)


def examples(many: int, *, nightly: int) -> int:
    """How many examples a test draws, and how many of a night."""
    return nightly if settings.get_current_profile_name() == NIGHTLY else many
