"""The release: what an analyst holds. It answers for ever, at no further cost to anyone's privacy."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcube.analyst.answer import Answer, Answers
from dpcube.analyst.explain import account
from dpcube.domain import Domain
from dpcube.errors import QueryError
from dpcube.estimate import Estimate, available, estimate
from dpcube.query import Condition, Workload, query
from dpcube.query.counting import query_of
from dpcube.transcript import Provenance, Transcript
from dpcube.transcript import file as release_file


class Release:
    """A differentially private cube: the domain, what was measured, and where it comes from.

    `count`, `answer` and `cells` speak from one estimate, `"auto"` unless another is named.
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

    @classmethod
    def open(cls, path: str | Path) -> "Release":
        """Read a `.dpcube` file."""
        return cls(*release_file.read(Path(path)))

    def save(self, path: str | Path) -> str:
        """Write a new `.dpcube` file and return its digest; a file that is there already is never replaced."""
        return release_file.write(Path(path), (self.domain, self.transcript, self.provenance))

    @cached_property
    def digest(self) -> str:
        """SHA-256 that identifies this release, whatever its file is called."""
        return release_file.digest((self.domain, self.transcript, self.provenance))

    @property
    def estimates(self) -> tuple[str, ...]:
        """Names of the estimates this release allows, the default first."""
        return tuple(available(self.transcript))

    def estimate(self, name: str = "auto") -> Estimate:
        """Return one estimate of the whole cube; each is computed once."""
        chosen = self.estimates[0] if name == "auto" else name
        if chosen not in self._estimates:
            self._estimates[chosen] = estimate(self.transcript, chosen)
        return self._estimates[chosen]

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
        return Answer.of(self.estimate(estimate).answer(asked), confidence=confidence)

    def answer(self, workload: Workload, *, estimate: str = "auto") -> Answers:
        """Return the answers of many range queries at once."""
        if workload.shape != self.domain.shape:
            msg = f"a workload on shape {workload.shape} cannot be asked of a cube of shape {self.domain.shape}"
            raise QueryError(msg)
        chosen = self.estimate(estimate)
        variances, withins = chosen.range_errors(workload)
        return Answers(chosen.range_values(workload), np.sqrt(variances), np.sqrt(withins))

    def cells(self, estimate: str = "auto") -> NDArray[np.float64]:
        """Return the estimated count of every cell, in the order of the domain's axes."""
        return self.estimate(estimate).cells()

    def explain(self) -> str:
        """Return a short account: what was measured and spent, how far off answers are, what they can support."""
        return str(account(self))
