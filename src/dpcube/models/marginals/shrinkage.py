"""Empirical Bayes shrinkage of noisy departures, with a prior estimated from many departures of one kind.

A departure is a signal and noise. The signals of a group are taken for a mixture of normal laws of many scales, none
included; how likely each scale is, is learnt from the group's departures by expectation maximisation. What is returned
is the expected signal: large departures stay, small ones go if most of their group is noise.
"""

from typing import NamedTuple

import numpy as np

from dpcube.core.arrays import Floats, Ints

SCALES: Floats = np.concatenate([[0.0], 2.0 ** np.arange(-1, 11)])
"""Scales of a signal, in units of the deviation of its noise."""
NOISE_WEIGHTS: Floats = np.array([0.6, 0.4])
NOISE_VARIANCES: Floats = np.array([0.62, 1.39]) ** 2
"""Two normal laws that together are close to Laplace's law of variance 1."""
MAX_DEPARTURE = 2.0**14
"""Departures beyond so many units of their noise, nearly all real, are clipped, so that densities do not vanish."""
PRIOR_CELLS = 4.0
"""Departures that what is learnt from all groups together counts for in each of them."""
STEPS = 25
FIRST_GROUP, GROWTH, MAX_SHRINKAGE_GROUPS = 25, 2.5, 7
"""Cells of the group of the largest expected counts; how many times as many each next one has; groups at most."""


class Departures(NamedTuple):
    """Departures of the cells of a table, the variance of their noise, and the group of each cell from 0."""

    apart: Floats
    variance: float
    groups: Ints


def groups_by_size(expected: Floats) -> Ints:
    """Return a group of each cell, in the shape of the table: cells of like expected counts are of one group."""
    cells = expected.size
    edges: list[float] = []
    while len(edges) < MAX_SHRINKAGE_GROUPS and FIRST_GROUP * GROWTH ** len(edges) < cells / 2.4:
        edges.append(FIRST_GROUP * GROWTH ** len(edges))
    rank = np.empty(cells, np.int64)
    rank[np.argsort(-expected.ravel(), kind="stable")] = np.arange(cells)
    return np.searchsorted(np.array(edges), rank, side="right").reshape(expected.shape)


def signals(departures: list[Departures]) -> list[Floats]:
    """Return the expected signal of each departure."""
    return [signal for signal, _ in posterior_signals(departures)]


def posterior_signals(departures: list[Departures]) -> list[tuple[Floats, Floats]]:
    """Return the mean and the variance of the signal of each departure, given all of them."""
    relative = [np.clip(one.apart / np.sqrt(one.variance), -MAX_DEPARTURE, MAX_DEPARTURE) for one in departures]
    even = np.full(len(SCALES), 1 / len(SCALES))
    prior = _learnt(_densities(np.concatenate([of_table.ravel() for of_table in relative])), even)
    found = []
    for one, of_table in zip(departures, relative, strict=True):
        real, variance = np.zeros(of_table.shape), np.zeros(of_table.shape)
        for group in range(int(one.groups.max()) + 1):
            alike = one.groups == group
            densities = _densities(of_table[alike])
            weights = _learnt(densities, prior)
            real[alike], variance[alike] = _moments(of_table[alike], weights, densities)
        found.append((real * one.apart, variance * one.variance))
    return found


def _densities(relative: Floats) -> Floats:
    """Return the density of each departure, in units of its noise: shape (scales, laws, departures)."""
    variances = SCALES[:, None, None] ** 2 + NOISE_VARIANCES[:, None]
    return np.asarray(NOISE_WEIGHTS[:, None] * np.exp(-0.5 * relative**2 / variances) / np.sqrt(variances))


def _learnt(densities: Floats, prior: Floats) -> Floats:
    """Return the posterior of each scale; `prior` has shape (scales,)."""
    of_scale, weights = densities.sum(axis=1) + 1e-300, prior
    number = densities.shape[-1]
    for _ in range(STEPS):
        chance = weights[:, None] * of_scale
        weights = ((chance / chance.sum(axis=0)).sum(axis=1) + PRIOR_CELLS * prior) / (number + PRIOR_CELLS)
    return weights


def _moments(relative: Floats, weights: Floats, densities: Floats) -> tuple[Floats, Floats]:
    """Return what part of each departure is expected to be signal, and the variance of the signal."""
    variances = SCALES[:, None] ** 2 + NOISE_VARIANCES
    real = SCALES[:, None] ** 2 / variances
    chance = weights[:, None, None] * densities
    chance /= chance.sum(axis=(0, 1)) + 1e-300
    part, square = np.einsum("sln,sl->n", chance, real), np.einsum("sln,sl->n", chance, real**2)
    left = np.einsum("sln,sl->n", chance, real * NOISE_VARIANCES)
    return part, left + np.maximum(square - part**2, 0.0) * relative**2
