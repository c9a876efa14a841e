"""The parts of the errors of answers: noise, non-uniformity, bias.

This docstring is the map; `release/answer.py` makes intervals of the parts.

**The parts of an error** (`parts.py`). The error of an answer is the sum of two independent errors. One is *noise*:
what the noise added to the measured counts leaves in the answer; its variance is stated. The other is the error
*within boxes*: a box has one count, so a question that takes a part of its cells is answered as if the rows lay
evenly, or as the marginals say; the expected square of that error is stated. Where an answer is a sum of noises of
one known law and nothing else, that is stated too (`EqualNoises`). What is not known is NaN, never 0.

**Who states each.** An estimate does, for many questions at once (`Estimate.answers`, `Estimate.range_errors`):

* `BoxEstimate`: noise from the variances of the boxes' totals and of cells; the non-uniformity error from the noisy
  cells of the release (`nonuniformity.py`), or unknown without them; the law, where every count has the same noise.
* `LeastSquaresTree`: noise exactly, by least squares; the non-uniformity error is unknown where a leaf of several cells
  is cut.
* `PosteriorEstimate`: noise from the variance of every split of the tree, and the bias of the posterior
  (`biases.py`; of the estimate `posterior` all splits are raised alike instead: `posterior/calibration.py`);
  the non-uniformity error from the prior of the cuts that the leaves never got. No law: its
  errors are not sums of noises.
* `BalancedEstimate`: those of its posterior, reduced for sums that noisy tables over one and two attributes state
  better (`marginals/balanced.py`).
* `GridEstimate`: noise of least squares on the same counts, or how far the posterior departs from that; the error
  within boxes from how uneven the splits of its level are.
* `CuboidsEstimate`: noise of the table that counts the attributes of a question together. Of any other question the
  answer is a model's (`ErrorParts.modelled`), whose error is estimated from tables that were held out
  (`cuboids/departures.py`).

**How they are added up over the boxes.** A question is weights along axes (`axis_weights.py`); a walk down the tree
adds up what it takes of the boxes (`walks.py`: one walk for totals of boxes, one for a posterior, each for ranges and
counting queries alike). For very many ranges tables give the same sums faster: `box_tables.py` for any boxes,
`halving_table.py` for a posterior on a tree of halves. `parts.py` has the ranges and the
simulated noise with which an estimate is probed; they are always the same, so the errors stated for a release never
change.

**Who makes an interval of them.** `dpcube.release.answer.Answers` takes the square roots of the two parts, adds what
is known of bins that a question cuts, and `Answers.half_width` and `Answers.interval` alone turn them into an
interval: by the exact quantile of the noise (`dpcube.noise`) where its law is known, and else by so many standard
errors.
"""

from typing import TYPE_CHECKING

from dpcube.core.lazy import lazily

if TYPE_CHECKING:
    from dpcube.models.errors.nonuniformity import NonUniformity, deviations_from_means
    from dpcube.models.errors.parts import EqualNoises, ErrorParts, evenly_placed_ranges

__all__ = ["EqualNoises", "ErrorParts", "NonUniformity", "deviations_from_means", "evenly_placed_ranges"]

_PARTS, _WITHIN = ("EqualNoises", "ErrorParts", "evenly_placed_ranges"), ("NonUniformity", "deviations_from_means")
__getattr__ = lazily(__name__, {**dict.fromkeys(_PARTS, "parts"), **dict.fromkeys(_WITHIN, "nonuniformity")})
