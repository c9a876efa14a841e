"""Report-noisy-max over integer scores with exact one-sided geometric noise.

Each score gets independent noise P(g) = (1-q) q^g for g = 0, 1, 2, ..., and the first candidate with the highest sum is
selected. (With noise that grows finer it becomes permute-and-flip, which is never worse than the exponential mechanism
of the same epsilon.)

Proof. Let D be the sensitivity of score differences: one row more or less changes the difference of any two by at most
D. Fix the noise of all candidates but i. Candidate i is selected if its noise is at least t, the least whole number
that takes its sum above those before it and not below those after it: t is the highest of (s_j + g_j - s_i + [j < i]),
over all other j. For a neighbour's scores each of these differs by at most D, so t' <= t + D. As P(G >= t) is q^t, or 1
where t < 0, P(G >= t + D) >= q^D P(G >= t). Averaged over the others' noise, the probability that i is selected is at
least q^D times as large for the neighbour. With q = exp(-e/D) that is exp(-e): the selection costs e, with no delta.
Ties are part of the count above; scores, noise and t are whole numbers, and none of them is a float.

Selections about disjoint boxes have independent noise, and a row changes the scores of one of them.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcube.core.arrays import Ints


def one_sided(noise: Ints) -> Ints:
    """Fold noise P(z) proportional to q^|z| into noise of 0 and more, P(g) = (1-q) q^g.

    What is below 0 becomes -1 - z, so P(g) = (1-q)/(1+q) (q^g + q^(g+1)) = (1-q) q^g.

    >>> one_sided(np.array([2, 0, -1, -2]))
    array([2, 0, 0, 1])
    """
    return np.where(noise < 0, ~noise, noise)


def selected(scores: NDArray[Any], noise: Ints, *, sizes: Ints) -> Ints:
    """Return the candidate selected for each question: the first with the highest score and noise together.

    The scores are Python's integers, or 64-bit ones of which none is above 0: with noise of 0 to 2^63 - 1 on them no
    sum wraps around. The work does not depend on the scores but for the length of Python's integers.
    """
    raised = scores + one_sided(noise)
    parts = np.split(raised, np.cumsum(sizes)[:-1])
    return np.array([int(np.argmax(part)) for part in parts])
