"""Type aliases of NumPy arrays, by the type of their elements."""

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Places = NDArray[np.intp]
"""Positions in other arrays."""
