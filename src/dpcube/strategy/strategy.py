"""What a strategy is: given a `NoisyCounter` it decides what to measure, and returns the transcript."""

from typing import Protocol

from dpcube.histogram import NoisyCounter
from dpcube.transcript import Transcript

Parameter = str | int | float | bool | None


class Strategy(Protocol):
    """An untrusted algorithm: it sees noisy counts only, so nothing it does can cost more than it was given."""

    @property
    def name(self) -> str:
        """The name of the strategy, as `--strategy` takes it."""
        ...

    def parameters(self) -> dict[str, Parameter]:
        """Return its public parameters, for the release's manifest."""
        ...

    def peak_bytes(self, shape: tuple[int, ...]) -> int:
        """Return how much memory a run may need, whatever the rows hold: a release must not fail once charged."""
        ...

    def run(self, counter: NoisyCounter) -> Transcript:
        """Measure, and return what was measured."""
        ...
