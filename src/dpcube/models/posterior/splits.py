"""Compiled loops of the posterior over a binary tree of counts: evidence goes up, totals are divided going down.

Arrays of nodes have shape (nodes,), in preorder: the left half of a node comes right after it, the right half after the
left half's subtree. `weights`, shape (levels, 4), holds how likely each guess is a priori at each level of the tree.

A node's total T is divided between its two halves. The prior of the left half, given T, is a mixture of four guesses:
nothing on the left, nothing on the right, anything from 0 to T, and near a predicted share of T. Noise is taken as
normal with its true variance. What the measurements below a node say of its total is kept as one normal likelihood
and one number more: the likelihood that it is empty.
"""

import math

import numpy as np

from dpcube.core.arrays import Floats, Ints
from dpcube.core.compiled import compiled

GUESSES = 4
PRIOR = (0.2, 0.2, 0.3, 0.3)
"""Nothing left, nothing right, anything, near the prediction: before anything is learnt."""
NEARNESS = 0.3
"""Standard deviation of a share around its prediction, as a part of what an even split would allow."""
PSEUDO_SPLITS = 4.0
"""How many splits the prior of a level (that of the level above it) counts for when its weights are learnt."""
LEARNING_STEPS = 10
LEARNT_FROM = 4096
"""A level's weights are learnt from about so many of its splits, at regular places: more add no precision."""
SHARPNESS = 2
"""Chances of the guesses are squared before they are averaged, between a posterior mean (1) and a median (large)."""
LEAST_SHARE = 0.02
"""A predicted share stays this far from 0 and 1, so that it does not pass for an empty half."""
NEARLY_ALL = 0.03
"""A share predicted this close to 0 or 1 speaks for an empty half when totals are pooled."""
BULK = 0.7
"""Where on the likelihood of a sum its splits are weighed when the sum is near zero, in its standard deviations."""
CONTRADICTED = 4.0
"""A sum is treated as biased if counts are farther off than this many of their variances: two standard deviations.

With 1 or 2 of them ranges of sparse tables get worse (DPBench at 10^3 rows 30.0 and 29.6; with 4, 28.5; never, 27.8).
Of a table of clumps with 87 rows a cell they are .84 of plain cells' with 1, .99 with 3, 1.00 with 4, and 1.83 never.
"""
LEAST_MASS = 1e-12
FARTHEST = 700.0  # exp of it is still a float
_EMPTY = 1e-6


@compiled
def log_normal(distance: float, variance: float) -> float:
    """Return the log density of a normal at a distance from its mean."""
    return -0.5 * (distance * distance / variance + math.log(2 * math.pi * variance))


@compiled
def log_mass(low: float, high: float) -> float:
    """Return the log of the standard normal's mass between two ends."""
    if low > 0:  # by symmetry, so that the tail is taken where it is small
        mass = 0.5 * (math.erfc(low / math.sqrt(2)) - math.erfc(high / math.sqrt(2)))
    else:
        mass = 0.5 * (math.erfc(-high / math.sqrt(2)) - math.erfc(-low / math.sqrt(2)))
    if mass < LEAST_MASS:
        distance = min(abs(low), abs(high))
        return -0.5 * distance * distance - math.log(math.sqrt(2 * math.pi) * max(distance, 1.0))
    return math.log(mass)


@compiled
def between(mean: float, deviation: float, top: float) -> tuple[float, float, float]:
    """Return the log mass of a normal between 0 and `top`, and its mean and variance there."""
    low, high = -mean / deviation, (top - mean) / deviation
    log_of_mass = log_mass(low, high)
    if log_of_mass < math.log(LEAST_MASS):
        return log_of_mass, min(max(mean, 0.0), top), 0.0
    at_low = math.exp(-0.5 * low * low - log_of_mass) / math.sqrt(2 * math.pi)
    at_high = math.exp(-0.5 * high * high - log_of_mass) / math.sqrt(2 * math.pi)
    shift = at_low - at_high
    spread = max(1 + low * at_low - high * at_high - shift * shift, 0.0)
    inside = min(max(mean + deviation * shift, 0.0), top)
    return log_of_mass, inside, min(deviation * deviation * spread, top * top / 4)


@compiled
def gather(
    end: Ints,
    level: Ints,
    measured: Floats,
    variance: Floats,
    plain: Floats,
    noise: Floats,
    share: Floats,
    weights: Floats,
    contradicted: float,
) -> tuple[Floats, Floats, Floats]:
    """Upward pass: combine a node's own measurement with its children's messages.

    Return the message of every node to its parent, what its own and lower measurements say of its total: the mean and
    the variance of a normal, and the log likelihood that the node is empty, relative to the weight of the normal.
    `share` is the predicted share of each node's left half. Children come after their parent, so going backwards meets
    them first. Every leaf must be measured; `variance` is infinite where an inner node was not.

    Guesses of thousands of halves err the same way: where cells are faint, those that noise has lowered pass for empty,
    those that it has raised do not. The message of a node is therefore compared with least squares of the counts of it
    and below it (`plain`, of variance `noise`: `tree_totals.pooled_counts`), which has no such bias but more noise.
    Farther off than `contradicted` variances, both count by the inverse of their mean squared error; infinity never
    corrects anything.
    """
    nodes = len(end)
    mean, spread, empty = np.zeros(nodes), np.ones(nodes), np.zeros(nodes)
    for node in range(nodes - 1, -1, -1):
        left = node + 1
        if end[node] == left:
            mean[node], spread[node] = measured[node], variance[node]
            empty[node] = log_normal(measured[node], variance[node])
        else:
            _combine(node, left, end[left], share[node], weights[level[node]], mean, spread, empty)
            if variance[node] < np.inf:
                both = spread[node] + variance[node]
                surprise = (measured[node] - mean[node]) ** 2 / both
                empty[node] += 0.5 * (surprise - measured[node] ** 2 / variance[node] + math.log(both / variance[node]))
                gain = spread[node] / both
                mean[node] += gain * (measured[node] - mean[node])
                spread[node] *= 1 - gain
            bias = (plain[node] - mean[node]) ** 2 - contradicted * noise[node]
            if bias > 0:
                own = spread[node] + bias
                part = noise[node] / (noise[node] + own)
                mean[node] += (1 - part) * (plain[node] - mean[node])
                spread[node] = part**2 * own + (1 - part) ** 2 * noise[node]
        spread[node] = max(spread[node], 1e-9)
        empty[node] = min(max(empty[node], -FARTHEST), FARTHEST)
    return mean, spread, empty


@compiled
def _combine(
    node: int,
    left: int,
    right: int,
    share: float,
    weights: Floats,
    mean: Floats,
    spread: Floats,
    empty: Floats,
) -> None:
    """Write what the messages of two halves say of their sum: a mixture over the guesses, as one normal.

    The normal has the mean and the variance of the mixture.
    """
    total, wide = mean[left] + mean[right], spread[left] + spread[right]
    # The chance of a split is a density on [0, T], taken at a T in the bulk of the likelihood but never near zero.
    top = max(total, BULK * math.sqrt(wide))
    middle = mean[left] + (top - total) * spread[left] / wide
    narrow = math.sqrt(spread[left] * spread[right] / wide)
    to_right, to_left, to_both = weights[0], weights[1], weights[2]
    if share > 1 - NEARLY_ALL:
        to_left += weights[3]
    elif share < NEARLY_ALL:
        to_right += weights[3]
    else:
        to_both += weights[3]
    only_left, only_right = empty[right] + math.log(to_left), empty[left] + math.log(to_right)
    divided = math.log(to_both / top) + log_mass(-middle / narrow, (top - middle) / narrow)
    most = max(only_left, only_right, divided)
    a, b, c = math.exp(only_left - most), math.exp(only_right - most), math.exp(divided - most)
    whole = a + b + c
    middle = (a * mean[left] + b * mean[right] + c * total) / whole
    apart = a * (spread[left] + (mean[left] - middle) ** 2) + b * (spread[right] + (mean[right] - middle) ** 2)
    mean[node], spread[node] = middle, (apart + c * (wide + (total - middle) ** 2)) / whole
    empty[node] = empty[left] + empty[right] - most - math.log(whole)


@compiled
def divide(
    end: Ints,
    level: Ints,
    mean: Floats,
    spread: Floats,
    empty: Floats,
    share: Floats,
    weights: Floats,
    nearness: float,
    every: Ints,
    likelihood: Floats,
    informative: Ints,
) -> tuple[Floats, Floats, Floats]:
    """Downward pass: divide each node's total between its two halves, by their messages (`gather`) and the prior.

    Return each node's total, the variance of the split below it, and the variance of its total. Of each level's splits
    one in `every` fills a row of `likelihood`: how well each guess explains it, and last how informative it is;
    `informative` says of which level it is. `nearness` is the deviation of shares around predictions (`NEARNESS`); with
    0, rows fall independently, each with the predicted share.
    """
    nodes, filled, passed, explained = len(end), 0, np.zeros_like(every), np.zeros(GUESSES + 1)
    total, split, variance = np.zeros(nodes), np.zeros(nodes), np.zeros(nodes)
    total[0], variance[0] = max(mean[0], 0.0), spread[0]
    for node in range(nodes):
        left = node + 1
        if end[node] == left:
            continue
        right, top = end[left], total[node]
        part, split[node] = top * share[node], 0.0
        if top > _EMPTY:
            part, split[node] = _split(
                top,
                mean[left],
                mean[right],
                spread[left],
                spread[right],
                empty[left],
                empty[right],
                share[node],
                weights[level[node]],
                nearness,
                explained,
            )
            if passed[level[node]] % every[level[node]] == 0:
                likelihood[filled], informative[filled] = explained, level[node]
                filled += 1
            passed[level[node]] += 1
        total[left], total[right] = part, top - part
        kept = part / top if top > _EMPTY else share[node]
        variance[left] = split[node] + kept**2 * variance[node]
        variance[right] = split[node] + (1 - kept) ** 2 * variance[node]
    return total, split, variance


@compiled
def _split(
    top: float,
    mean_left: float,
    mean_right: float,
    spread_left: float,
    spread_right: float,
    empty_left: float,
    empty_right: float,
    share: float,
    weights: Floats,
    nearness: float,
    likelihood: Floats,
) -> tuple[float, float]:
    """Return the posterior mean and variance of the left half, given the total `top` and the messages of both halves.

    Fill in the row of `likelihood`: how well each guess explains the split, and last how informative the split is.
    """
    wide = spread_left + spread_right
    middle = mean_left + (top - mean_left - mean_right) * spread_left / wide
    narrow = spread_left * spread_right / wide
    log_inside, inside, inside_variance = between(middle, math.sqrt(narrow), top)
    near = share * (1 - share) * (4 * (nearness * top) ** 2 + (top if nearness == 0 else 0.0)) + 1e-12
    common = log_normal(top - mean_left - mean_right, wide)
    likelihood[0] = log_normal(top - mean_right, spread_right) + empty_left
    likelihood[1] = log_normal(top - mean_left, spread_left) + empty_right
    likelihood[2] = common + log_inside - math.log(top)
    likelihood[3] = common + log_normal(middle - share * top, narrow + near)
    most = likelihood[:GUESSES].max()
    for guess in range(GUESSES):
        likelihood[guess] = math.exp(max(likelihood[guess] - most, -FARTHEST))
    close = min(max((middle * near + share * top * narrow) / (near + narrow), 0.0), top)
    values = (0.0, top, inside, close)
    whole, sharp, part = 0.0, 0.0, 0.0
    for guess in range(GUESSES):
        chance = likelihood[guess] * weights[guess]
        whole += chance
        sharp += chance**SHARPNESS
        part += chance**SHARPNESS * values[guess]
    part = min(part / sharp, top)  # an average may be rounded above its largest term
    variances = (0.0, 0.0, inside_variance, near * narrow / (near + narrow))
    square = 0.0
    for guess in range(GUESSES):
        chance = likelihood[guess] * weights[guess] / whole
        square += chance * (variances[guess] + (values[guess] - part) ** 2)
    likelihood[GUESSES] = min(1.0, top / math.sqrt(narrow))
    return part, square


@compiled
def learn(level: Ints, likelihood: Floats, weights: Floats) -> None:
    """Learn each level's weights of the guesses from its splits, by expectation maximisation, in place.

    Row k of `likelihood`, shape (splits, 5), is what `divide` wrote for a split of level `level[k]`. The prior of a
    level is the level above it, worth `PSEUDO_SPLITS`; left and right are alike by symmetry.
    """
    levels = len(weights)
    for _ in range(LEARNING_STEPS):
        counts = np.zeros((levels, GUESSES))
        for node in range(len(level)):
            if likelihood[node, GUESSES] > 0:
                row, whole = weights[level[node]], 0.0
                for guess in range(GUESSES):
                    whole += likelihood[node, guess] * row[guess]
                informative = likelihood[node, GUESSES] / whole
                for guess in range(GUESSES):
                    counts[level[node], guess] += informative * likelihood[node, guess] * row[guess]
        above = np.array(PRIOR)
        for row_level in range(levels):
            row = counts[row_level] + PSEUDO_SPLITS * above
            row[0] = row[1] = (row[0] + row[1]) / 2
            weights[row_level] = np.maximum(row / row.sum(), 1e-6)
            above = weights[row_level].copy()


@compiled
def predicted_shares(lower: Ints, upper: Ints, cut_axis: Ints, prefix: Floats, start: Ints) -> Floats:
    """Return the share of each node's left half if attributes were independent: that of the marginal of the cut axis.

    `cut_axis` is the axis each node is cut across, -1 for a leaf. Axis j's prefix sums of its marginal begin at
    `start[j]` of `prefix`.
    """
    share = np.zeros(len(cut_axis))
    for node in range(len(cut_axis)):
        axis, left = cut_axis[node], node + 1
        if axis >= 0:
            base = start[axis]
            below = prefix[base + upper[left, axis]] - prefix[base + lower[left, axis]]
            below /= prefix[base + upper[node, axis]] - prefix[base + lower[node, axis]]
            share[node] = min(max(below, LEAST_SHARE), 1 - LEAST_SHARE)
    return share


@compiled
def add_marginals(lower: Ints, upper: Ints, leaves: Ints, total: Floats, prefix: Floats, start: Ints) -> Floats:
    """Return the marginals of all axes, one after another, laid out as `prefix`: sums of the leaves' totals by cell.

    Each leaf's total is spread along its sides by the marginals whose prefix sums are given.
    """
    marginal = np.zeros(len(prefix))
    for leaf in leaves:
        for axis in range(lower.shape[1]):
            base, low, high = start[axis], lower[leaf, axis], upper[leaf, axis]
            dense = total[leaf] / (prefix[base + high] - prefix[base + low])
            for cell in range(low, high):
                marginal[base + cell] += dense * (prefix[base + cell + 1] - prefix[base + cell])
    return marginal
