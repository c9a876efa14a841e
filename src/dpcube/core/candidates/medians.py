"""Private medians: candidate cuts of boxes across an axis, scored by the distance of their rank from the middle."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.core.boxes import Boxes
from dpcube.core.candidates.kind import Candidates, Counted, bounded_integers, check_questions
from dpcube.core.errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class MedianCuts(Candidates):
    """Every cut of a box across an axis: candidate k is before the box's cell k + 1, and the best is at the median.

    The score of a cut with r of the box's N rows below it is -|N - 2r|. One row more makes N - 2r one more if it is
    above the cut and one less if it is below, so a score changes by 1, some up and some down: the sensitivity is 2.

    >>> cuts = MedianCuts(Boxes((4,), np.array([[0]]), np.array([[4]])), np.array([0]))
    >>> cuts.scores(np.array([5, 1, 1, 1])), cuts.places(np.array([0]))
    (array([-2, -4, -6]), array([1]))
    """

    score: ClassVar[str] = "distance of a rank from the middle"
    boxes: Boxes
    axes: Ints

    def __post_init__(self) -> None:
        check_questions(self.boxes)
        most = len(self.shape) - 1
        axes = bounded_integers("the axes of cuts", self.axes, size=len(self.boxes), least=0, most=most)
        object.__setattr__(self, "axes", axes)
        if self.sizes.min() < 1:
            msg = "a box of one cell along an axis cannot be cut across it; leave it out"
            raise InputError(msg)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cube."""
        return self.boxes.shape

    @property
    def covered(self) -> Boxes:
        """The boxes."""
        return self.boxes

    @property
    def sizes(self) -> Ints:
        """Number of cuts of each box."""
        rows = np.arange(len(self.boxes))
        cuts: Ints = self.boxes.upper[rows, self.axes] - self.boxes.lower[rows, self.axes] - 1
        return cuts

    @property
    def sensitivity(self) -> int:
        """Twice the sensitivity of a rank's distance from the middle."""
        return 2

    @property
    def most_cells(self) -> int:
        """The longest axis, at most."""
        return max(self.shape)

    def scores_of(self, counted: Counted) -> Ints:
        """Return -|N - 2r| of every cut."""
        axes = self.axes.tolist()
        return np.concatenate([_ranks(counted.table((axis,), self.boxes[k])) for k, axis in enumerate(axes)])

    def places(self, chosen: Ints) -> Ints:
        """Return the first cell behind each chosen cut."""
        places: Ints = self.boxes.lower[np.arange(len(self.boxes)), self.axes] + 1 + chosen
        return places


def _ranks(along: Ints) -> Ints:
    below = np.cumsum(along)
    above = below[-1] - below
    # Neither is negative, so their difference fits where twice a rank may not.
    return np.asarray(-np.abs(above - below)[:-1])
