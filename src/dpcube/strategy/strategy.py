"""What a strategy is: given a `NoisyCounter` it decides what to measure, and returns the transcript."""

from typing import Protocol

from dpcube.counter import NoisyCounter
from dpcube.transcript import Transcript

Parameter = str | int | float | bool | None
STARTING = 2**28
"""Memory that any run may take besides: libraries as they load, loops as they compile, a file's buffers."""


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
        """Return how much memory a run may need, whatever the rows hold: a release must not fail once charged.

        From the exact counts to the saved file. `python -m benchmarks.memory` compares it with what runs take.
        """
        ...

    def run(self, counter: NoisyCounter) -> Transcript:
        """Measure, and return what was measured."""
        ...
