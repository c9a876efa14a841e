"""The paper's formal results as functions: the public names of `dpcube.research.theory`, whose docstring is a map."""

from dpcube.research.theory import *  # noqa: F403
from dpcube.research.theory import __all__ as __all__
