"""The release as an analyst uses it: any number of answers, all post-processing at no further privacy cost."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcube.core.domain import Domain, Scalar
from dpcube.core.errors import QueryError
from dpcube.core.memory import check_memory
from dpcube.measurements import Provenance, Transcript
from dpcube.measurements import file as release_file
from dpcube.models import Estimate, available, estimate
from dpcube.queries import Condition, CountingQueries, Workload, query
from dpcube.queries.counting import query_of
from dpcube.release import frames
from dpcube.release.answer import Answer, Answers
from dpcube.release.capabilities import ALL_CELLS, CLASSIFIER, TABLE, require
from dpcube.release.explain import account
from dpcube.release.synthesize import BYTES_A_SYNTHETIC_VALUE, synthetic_rows
from dpcube.release.view import View

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from dpcube.learn import CubeClassifier, TrainedModel, Training
    from dpcube.learn.features import Encoding, Features


class Release:
    """A differentially private cube: the domain, what was measured, and where it comes from.

    `count`, `answer`, `cells`, `sql`, `synthesize` and views speak from one estimate, `"auto"` unless another is named.
    """

    def __init__(self, domain: Domain, transcript: Transcript, provenance: Provenance) -> None:
        if domain.shape != transcript.shape:
            msg = f"a transcript of shape {transcript.shape} does not fit a domain of shape {domain.shape}"
            raise QueryError(msg)
        self.domain = domain
        self.transcript = transcript
        self.provenance = provenance
        self._estimates: dict[str, Estimate] = {}

    def __repr__(self) -> str:
        facts = f"{' x '.join(map(str, self.domain.shape))} cells, epsilon {self.provenance.epsilon}"
        stamp = "" if self.provenance.private else ", NOT PRIVATE"
        return f"<Release of {', '.join(self.domain.names)}: {facts}, {self.provenance.strategy}{stamp}>"

    def _repr_html_(self) -> str:
        from dpcube.release.notebook import release_html

        return release_html(self)

    @classmethod
    def open(cls, path: "str | PathLike[str] | Sequence[str | PathLike[str]]") -> "Release":
        """Read a `.dpcube` file; or a list of them, of disjoint periods over one domain, as one release.

        Of several the period is the first attribute: what does not name it adds up (docs/guides/olap.md).
        """
        if isinstance(path, str | PathLike):
            return cls(*release_file.read_record(Path(path)))
        from dpcube.release.periods import merged

        paths = list(map(Path, path))
        return merged([cls(*release_file.read_record(one)) for one in paths], [one.name for one in paths])

    def save(self, path: str | Path) -> str:
        """Write a new `.dpcube` file and return its digest; a file that is there already is never replaced."""
        return release_file.write_record(Path(path), (self.domain, self.transcript, self.provenance))

    @cached_property
    def digest(self) -> str:
        """SHA-256 that identifies this release, whatever its file is called."""
        return release_file.digest((self.domain, self.transcript, self.provenance))

    @cached_property
    def estimates(self) -> tuple[str, ...]:
        """Names of the estimates this release allows, the default first."""
        return tuple(available(self.transcript))

    @property
    def default_estimate(self) -> str:
        """Name of the estimate behind every answer; a QueryError if none can answer from what was measured."""
        if not self.estimates:
            kinds = ", ".join(dict.fromkeys(measurement.kind for measurement in self.transcript.measurements))
            msg = f"no estimate can answer from what this release measured ({kinds}); a newer dpcube may"
            raise QueryError(msg)
        return self.estimates[0]

    def estimate(self, name: str = "auto") -> Estimate:
        """Return one estimate of the whole cube; each is computed once."""
        selected = self.default_estimate if name == "auto" else name
        if selected not in self._estimates:
            unordered = tuple(axis for axis, one in enumerate(self.domain.attributes) if not one.ordered)
            self._estimates[selected] = estimate(self.transcript, selected, unordered=unordered)
        return self._estimates[selected]

    def count(
        self,
        question: str | Mapping[str, Condition] | None = None,
        /,
        *,
        confidence: float = 0.95,
        estimate: str = "auto",
        **conditions: Condition,
    ) -> Answer:
        """Return how many rows meet every condition.

        A condition is a value, a pair (low, high) that includes both ends, or a list of values; an attribute whose
        name is no Python name goes in a mapping, or in an expression such as `"age between 30 and 39"`.
        """
        if isinstance(question, Mapping):
            asked = query_of(self.domain, {}, {**question, **conditions})
        else:
            asked = query(self.domain, question, **conditions)
        return Answers.asked(self.domain, self.estimate(estimate), CountingQueries.of(asked)).first(confidence)

    def answer(self, workload: Workload, *, estimate: str = "auto") -> Answers:
        """Return the answers of many range queries at once."""
        if workload.shape != self.domain.shape:
            msg = f"a workload on shape {workload.shape} cannot be asked of a cube of shape {self.domain.shape}"
            raise QueryError(msg)
        return Answers.from_parts(*self.estimate(estimate).answers(workload))

    def sql(
        self,
        query: str,
        *,
        error: bool = False,
        confidence: float = 0.95,
        estimate: str = "auto",
        seconds: float = 60,
    ) -> "pa.Table":
        """Return the result of a SELECT on the table `cube`, whose columns are the attributes (docs/guides/sql.md).

        `error=True` adds columns `_stderr`, `_nonuniformity`, `_low` and `_high` to counts, sums, averages, ratios and
        medians; `seconds` is the longest the query may run.
        """
        from dpcube.release import sql

        def infer() -> Estimate:
            return self.estimate(estimate)

        return sql.run(query, self.domain, infer, error=error, confidence=confidence, seconds=seconds)

    def cells(self, estimate: str = "auto") -> NDArray[np.float64]:
        """Return the estimated count of every cell, in the order of the domain's axes."""
        require(ALL_CELLS, self)
        remedy = "ask for ranges, for groups of values, or for synthetic rows"
        check_memory(8 * self.domain.size, what=f"a table of all {self.domain.size:,} cells", remedy=remedy)
        return self.estimate(estimate).cells()

    def synthesize(self, rows: int | None = None, seed: int | None = None, *, estimate: str = "auto") -> pa.Table:
        """Return synthetic rows, as many as the estimated total unless said; a seed repeats them.

        The columns have the attributes' names: int64, double, date32 or text. A value is uniform within its bin, and
        null in a cell of its own that no value of the column's type can stand for (docs/guides/synthetic-rows.md).
        """
        batches = self.synthesize_batches(rows, seed, estimate=estimate)
        needed = (rows or 0) * len(self.domain.names) * BYTES_A_SYNTHETIC_VALUE
        check_memory(needed, what=f"a table of {rows or 0:,} rows", remedy="use synthesize_batches, which streams")
        return batches.read_all()

    def synthesize_batches(
        self, rows: int | None = None, seed: int | None = None, *, estimate: str = "auto"
    ) -> pa.RecordBatchReader:
        """Return the rows of `synthesize` as a stream of record batches, for any number of rows in little memory."""
        origin = {
            "dpcube.synthetic_rows_of": self.digest,  # so that they are not mistaken for the table
            "dpcube.private": str(self.provenance.private).lower(),
        }
        return synthetic_rows(self.domain, self.estimate(estimate), rows, seed, origin=origin)

    def view(self, *, estimate: str = "auto") -> View:
        """Return the whole cube as a view, with every attribute at its cells."""
        return View(self, estimate)

    def slice(self, conditions: Mapping[str, Scalar] | None = None, /, **more: Scalar) -> View:
        """Keep one member of each named attribute and leave the attribute out."""
        return self.view().slice(conditions, **more)

    def dice(self, question: str | Mapping[str, Condition] | None = None, /, **conditions: Condition) -> View:
        """Keep the cells that meet every condition."""
        return self.view().dice(question, **conditions)

    def roll_up(self, /, *names: str, **levels: str) -> View:
        """Move each named attribute one level up from its cells, or to the level given."""
        return self.view().roll_up(*names, **levels)

    def drill_down(self, /, *names: str, **levels: str) -> View:
        """Move each named attribute one level down from the total, or to the level given."""
        return self.view().group_by().drill_down(*names, **levels)

    def group_by(self, /, *names: str, **levels: str) -> View:
        """Tell apart exactly the named attributes, at their cells or at the level given."""
        return self.view().group_by(*names, **levels)

    def pivot(
        self, rows: str, columns: str, *, measures: Sequence[str] = ("value", "stderr"), confidence: float = 0.95
    ) -> pa.Table:
        """Return a wide table: a row for each cell of one attribute, columns for each cell of another."""
        return self.view().pivot(rows, columns, measures=measures, confidence=confidence)

    def boxes(self, *, estimate: str = "auto", confidence: float = 0.95) -> pa.Table:
        """Return the boxes as a table: first and last cell on each axis, noisy count, and estimate with errors."""
        return frames.boxes(self, estimate=estimate, confidence=confidence)

    def table(self, *, errors: bool = False) -> pa.Table:
        """Return every cell as a row: the names of its bins, its value, and with errors stderr, low and high."""
        return self._whole_table().table(errors=errors)

    def _whole_table(self) -> View:
        """Return the view of every cell, if a table can list them."""
        require(TABLE, self)
        return self.view()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Give the cells, without errors, to any library that reads Arrow streams."""
        return self.table().__arrow_c_stream__(requested_schema)

    def to_pandas(self, *, errors: bool = False) -> Any:
        """Return every cell as a row of a pandas DataFrame."""
        return self._whole_table().to_pandas(errors=errors)

    def to_polars(self, *, errors: bool = False) -> Any:
        """Return every cell as a row of a Polars DataFrame."""
        return self._whole_table().to_polars(errors=errors)

    def to_xarray(self, *, errors: bool = False) -> Any:
        """Return the cube as an xarray Dataset."""
        return self._whole_table().to_xarray(errors=errors)

    def to_hist(self, *, errors: bool = False) -> Any:
        """Return the cube as a Scikit-HEP histogram."""
        return self._whole_table().to_hist(errors=errors)

    def plot(
        self,
        *attributes: str,
        stages: bool = False,
        where: str | None = None,
        estimate: str = "auto",
        confidence: float = 0.95,
        boxes: bool = True,
    ) -> "Figure":
        """Return a Plotly figure: one attribute's counts with intervals, a map of two, or all attributes' counts.

        `stages` shows a map as noisy cells, noisy boxes and the estimate; `where` is a question such as
        `"sex = 'Female'"`. Needs `pip install 'dpcube[plot]'`.
        """
        from dpcube.release.plots import picture
        from dpcube.release.plots.interactive import figure

        shown = picture(
            self, *attributes, stages=stages, where=where, estimate=estimate, confidence=confidence, boxes=boxes
        )
        return figure(shown)

    def to_training(
        self, target: str, *, encoding: "Encoding" = "numbers", most: int | None = None, estimate: str = "auto"
    ) -> "Training":
        """Return `X, y, sample_weight` for any scikit-learn classifier (docs/guides/classifiers.md).

        X has the middle of each bin for numbers and dates, and columns of 0 and 1 for categories; with
        `encoding="cells"` it has the numbers of cells. A cube of more than `most` cells is drawn from, evenly;
        a wide table from its model, as many rows as it has.
        """
        from dpcube.learn import training

        features, axis = self._features_for(target), self.domain.axis(target)
        most = training.MAX_TRAINING_ROWS if most is None else most
        return training.to_training(features, self.estimate(estimate), axis, encoding=encoding, most=most)

    def _features_for(self, target: str) -> "Features":
        """Return the features of a classifier; QueryError if it would go through a grid too large to materialise."""
        from dpcube.learn.features import Features

        features = Features.from_domain(self.domain, target)
        require(CLASSIFIER, self)
        return features

    def train(self, target: str, *, estimate: str = "auto") -> "TrainedModel":
        """Return the default model of a target, to be saved: `dpcube train` (docs/guides/classifiers.md)."""
        from dpcube.learn.model import Origin
        from dpcube.learn.training import ESTIMATES_TRIED, train

        self._features_for(target)
        made = self.provenance
        protects = "one row" if made.unit is None else f"all rows of one {made.unit}"
        origin = Origin(made.private, self.digest, str(made.epsilon), protects)
        both = [name for name in self.estimates if name in ESTIMATES_TRIED] if estimate == "auto" else []
        return train(self.domain, target, map(self.estimate, both or [estimate]), origin)

    def classifier(self, target: str, *, estimate: str = "auto") -> "CubeClassifier":
        """Return a scikit-learn classifier that learnt a target from this release; `pip install 'dpcube[learn]'`.

        It predicts rows with a column for each other attribute, with probabilities and their uncertainty.
        """
        frames.imported_extra("sklearn", pip="scikit-learn", extra="learn")
        from dpcube.learn.classifier import CubeClassifier

        trained = self.train(target, estimate=estimate)
        return CubeClassifier.learnt(trained.features, trained.model, trained.origin)

    def explain(self) -> str:
        """Return a short account: what was measured and spent, how far off answers are, what they can support."""
        return str(account(self))
