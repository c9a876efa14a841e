"""Per-query bias of the posterior, estimated by empirical Bayes from its disagreement with least squares.

A posterior is unbiased on average over queries if its prior is right on average over tables; a single query has some
bias b, the same in every release of the table. A priori b is approximately normal around 0, with a variance p in
proportion to the squared error s that the posterior states for that query: `BIAS` s, but `OUTLIER_BIAS` s for a few
outliers. (It may state next to nothing where boxes are almost surely empty; s is then the noise of the most precise
count.) The counts are weak evidence on b. Least squares is unbiased, so its answer less that of the posterior is -b
plus noise of a variance v, which probes estimate (`posterior/calibration.py`). By Bayes' rule
for normal laws, with w = p / (p + v),

    E[b^2 | apart] = w v + (w apart)^2,

and the posterior odds that a query is an outlier are the prior odds times the likelihood ratio of `apart`. Where counts
are uninformative (v is large) the bias keeps its prior, however far the two are apart; where they are informative it
follows them.

A sum over very many boxes errs more than s says, which takes the errors of boxes for independent; most where a cube has
many attributes and a question asks of few of them. The factor is the same for queries on equally many
attributes, so it is estimated from the release (`posterior/calibration.py`). Nothing else is pooled over questions.

Merged releases of several periods (`release/periods.py`) are of similar tables, so their posteriors have similar
biases. The posterior of the whole adds up the squared errors s_k of the periods that a question takes, as is right for
noise. Biases of one sign add up themselves, and their sum has a variance of up to (sum of sqrt(s_k))^2, which is the
number of periods times the sum of s_k if these are equal, and never more: p is raised by that number.
"""

from dataclasses import dataclass

import numpy as np

from dpcube.core.arrays import Floats, Ints

BIAS = 1.25
"""The variance of ordinary biases in units of the squared error that a posterior states.

With 1 the worst tenth of the bundled table's questions is covered 91% of the time at epsilon 1,
with 1.25 92%, with 1.5 93%, but then ranges of it 99.04%, more than is wanted (100 releases each).
"""
OUTLIER_BIAS, OUTLIERS = 50.0, 0.1
"""The same for outliers, queries that the prior of all tables does not fit at all, and their prior share.

Without them `age < 20` of the bundled table was covered 56% of the time at epsilon 1. On stored releases of the bundled
table, of 25 settings of drawn tables and of 21 of DPBench's, intervals are 11%, 2% and 17% wider than with 1.5 and no
outliers, and the worst tenth of queries is covered 92% (89%), 76% (75%) and 81% (77%) of the time.
"""

MAX_NOISE = 25.0
"""Noise beyond so many times the stated square counts as so much in `geometric_middle`. Halved or doubled, intervals on
seven tables of 8 to 14 attributes become 1% narrower or wider, and cover as often."""


@dataclass(frozen=True)
class Biases:
    """Parameters of the biases of a release's answers."""

    least: float
    """Variance of the most precise count."""
    raised: tuple[float, ...] = (1.0,)
    """By what the squared error that a posterior states is to be raised, if a question asks of no attribute, of one, of
    two and so on; the last is for all that ask of more."""
    beyond: tuple[float, ...] = (0.0,)
    """The variance of biases beyond `BIAS` and `OUTLIER_BIAS`, in units of `geometric_middle`; by the same numbers."""
    of_total: bool = True
    """Whether the total may be biased; not if the noise of its counts selected nothing (`posterior/inference.py`)."""
    periods: bool = False
    """Whether the first attribute is the period of releases that were put together."""

    def added(
        self,
        variances: Floats,
        within: Floats,
        apart: Floats,
        *,
        asked: Ints,
        periods: Floats,
        largest: Floats | float = 1.0,
    ) -> Floats:
        """Return the variances that a posterior states, raised, plus the expected squared biases of its answers.

        Arrays have a value for each answer, but `apart`, which is that of `bias_squares`; `within` are its squared
        errors within boxes, `asked` of how many attributes it asks, `largest` its largest weight, and `periods` how
        many cells of the first attribute it takes.
        """
        by = np.minimum(asked, len(self.raised) - 1)
        own = np.array(self.raised)[by] * (variances + within)
        alike = periods if self.periods else np.ones(len(own))
        least, beyond = self.least * largest**2, np.array(self.beyond)[by]
        squares = bias_squares(apart, own, least=least, beyond=beyond, alike=alike)
        return np.asarray(own - within + np.where((asked > 0) | self.of_total, squares, 0.0))


def bias_squares(
    apart: Floats,
    own: Floats,
    *,
    least: float | Floats,
    beyond: float | Floats = 0.0,
    alike: float | Floats = 1.0,
) -> Floats:
    """Return the expected square of the bias of each answer.

    `apart`, shape (answers, 1 + probes), is what a question takes of `Probes.columns`, or has no columns where nothing
    was probed; `own`, shape (answers,), is the squared error that the posterior states, and `least` the variance of the
    most precise count times the square of the largest weight; `beyond` is that of `Biases`, and `alike` the number of
    biases of one sign that add up. What has no error at all, such as a question that asks for nothing, has no bias.
    Without probes there is no evidence that a question is an outlier.
    """
    expected = np.where(own > 0, np.maximum(own, least), 0.0)
    if apart.shape[1] == 0:
        return np.asarray(BIAS * alike * expected)
    noise = np.mean(apart[:, 1:] ** 2, axis=1)
    ordinary, outlier = (
        scale * alike * expected + beyond * geometric_middle(expected, noise) + noise for scale in (BIAS, OUTLIER_BIAS)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        surprise = apart[:, 0] ** 2 * (1 / ordinary - 1 / outlier) - np.log(outlier / ordinary)
        is_outlier = 1 / (1 + (1 - OUTLIERS) / OUTLIERS * np.exp(-surprise / 2))
        squares = (1 - is_outlier) * _square(apart[:, 0], noise, ordinary) + is_outlier * _square(
            apart[:, 0], noise, outlier
        )
    return np.where(expected > 0, squares, 0.0)


def geometric_middle(own: Floats, noise: Floats) -> Floats:
    """Return the geometric mean of the squared error that a posterior states and of the noise of what it is apart.

    Biases of sums of many boxes are in between: the more boxes, the larger the noise, and the more of them are off the
    same way. Where next to nothing was counted the noise tells nothing.
    """
    return np.asarray(np.sqrt(own * np.minimum(noise, MAX_NOISE * own)))


def _square(apart: Floats, noise: Floats, seen: Floats) -> Floats:
    """Return the expected square of a bias, if biases and noise together have the variance `seen`."""
    believed = (seen - noise) / seen
    return np.asarray(believed * noise + (believed * apart) ** 2)
