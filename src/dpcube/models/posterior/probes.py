"""A posterior beside what its counts say without any prior, and how far noise moves the two.

Errors are calibrated by the difference of the two over all nodes (`calibrated.py`), and the bias of a single question
is estimated from it (`errors/biases.py`).
"""

import math
from dataclasses import dataclass

import numpy as np

from dpcube.core.arrays import Floats
from dpcube.models.errors.calibration import DERIVATIVE_STEP, number_of_probes
from dpcube.models.errors.fixed_normals import fixed_normals
from dpcube.models.posterior.inference import Posterior, infer
from dpcube.models.posterior.whole import Whole
from dpcube.models.tree_totals import linear_totals

_OF_WHOLE = 1000
"""Probes from this number on are of the count of the whole."""


@dataclass(frozen=True)
class Probes:
    """Totals of the nodes of a tree by least squares beside a posterior's, and how both move with the noise."""

    apart: Floats
    """The least-squares total of each node less the posterior's, shape (nodes,)."""
    linear_moves: Floats
    """How far noise of the known law, made up anew for each probe, moves least squares: shape (nodes, probes)."""
    posterior_moves: Floats
    """How far the same noise moves the posterior, shape (nodes, probes)."""

    @property
    def columns(self) -> Floats:
        """How far the two are apart, and how far noise alone takes them apart in each probe: (nodes, 1 + probes)."""
        return np.column_stack([self.apart, self.linear_moves - self.posterior_moves])


def probed(posterior: Posterior, measured: Floats, variance: Floats, whole: Whole | None) -> Probes:
    """Infer the posterior again from its counts with some noise added, a few times (`number_of_probes`)."""
    tree = posterior.tree
    deviation = np.sqrt(np.where(np.isfinite(variance), variance, 0.0))
    probes = number_of_probes(len(measured))
    linear, moved = np.empty((len(tree), probes)), np.empty((len(tree), probes))
    for number in range(probes):
        noise = deviation * fixed_normals(len(measured), number)
        linear[:, number] = linear_totals(tree, noise, variance)
        found = infer(
            tree, measured + DERIVATIVE_STEP * noise, variance, whole=_with_noise(whole, number), even=posterior.even
        )
        moved[:, number] = (found.totals - posterior.totals) / DERIVATIVE_STEP
    return Probes(linear_totals(tree, measured, variance) - posterior.totals, linear, moved)


def _with_noise(whole: Whole | None, number: int) -> Whole | None:
    """Return the count of the whole with noise of its own: what it shares with the nodes' is left out."""
    if whole is None:
        return None
    noise = math.sqrt(whole.variance) * float(fixed_normals(1, _OF_WHOLE + number)[0])
    return whole._replace(total=whole.total + DERIVATIVE_STEP * noise)
