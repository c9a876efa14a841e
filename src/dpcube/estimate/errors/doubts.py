"""What is added to the squared error of an answer that its own counts contradict."""

import numpy as np

from dpcube.arrays import Floats


def doubt_squares(apart: Floats) -> Floats:
    """Return by how much the squared error of each answer is to be raised because the counts contradict it.

    `apart`, shape (answers, 1 + probes), is what a question takes of `Probes.columns`; without columns nothing is
    doubted. Least squares is unbiased; if the posterior were too, the two would be apart by what noise alone makes of
    them. What they are apart beyond that, squared, is the square of a bias, as far as one release can tell.
    """
    if apart.shape[1] == 0:
        return np.zeros(len(apart))
    squares: Floats = apart[:, 0] ** 2 - np.mean(apart[:, 1:] ** 2, axis=1)
    return np.maximum(squares, 0.0)
