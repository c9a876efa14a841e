"""How far an answer is off for good: what its posterior is wrong by, as far as its counts can tell.

A posterior is right on average over questions, if its prior is right on average over tables; of a single question it is
wrong by some b, the same in every release of the table. Beforehand b is as good as normal around 0, with a variance in
proportion to the squared error s that the posterior states of that question: `BIAS` s. (It may state next to nothing,
where it takes boxes for surely empty; s is then taken to be the noise of the surest count there is.) The counts tell a
little about it. Least squares is unbiased, so what it answers less what the posterior answers is -b and noise of a
variance v, which probes show (`posterior/probes.py`). By Bayes' rule for normal laws, with w = BIAS s / (BIAS s + v),

    E[b^2 | apart] = w v + (w apart)^2.

Where counts say next to nothing (v is large) that is BIAS s, however far the two are apart; where they are clear it is
what they show. Nothing is pooled over questions, so no question pays for another.
"""

import numpy as np

from dpcube.arrays import Floats

BIAS = 1.5
"""The variance of biases in units of the squared error that a posterior states.

With 1 the worst tenth of the bundled table's questions was held 87% of the time, with 2 92%, with 4 95% (30 releases at
epsilon 0.1 and at 1 each, before the noise of the surest count was taken for the least); with 2 ranges of it 99.04%.
"""


def bias_squares(apart: Floats, own: Floats, *, least: float | Floats) -> Floats:
    """Return the expected square of the bias of each answer.

    `apart`, shape (answers, 1 + probes), is what a question takes of `Probes.columns`, or has no columns where nothing
    was probed; `own`, shape (answers,), is the squared error that the posterior states, and `least` the variance of the
    surest count times the square of the largest weight. What has no error at all, such as a question that asks for
    nothing, has no bias.
    """
    prior = np.where(own > 0, BIAS * np.maximum(own, least), 0.0)
    if apart.shape[1] == 0:
        return prior
    noise = np.mean(apart[:, 1:] ** 2, axis=1)
    believed = np.divide(prior, prior + noise, out=np.zeros_like(prior), where=prior > 0)
    return np.asarray(believed * noise + (believed * apart[:, 0]) ** 2)
