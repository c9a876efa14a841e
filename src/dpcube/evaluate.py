"""Evaluation of releases against the truth, for public data: the public names of `dpcube.research`."""

from dpcube.research import *  # noqa: F403
from dpcube.research import __all__ as __all__
