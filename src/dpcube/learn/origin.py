"""Where a model comes from, which goes with it wherever it goes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Origin:
    """The release that a model was learnt from, and whether that release is private.

    A model of a private release costs no more than the release did: it is made from nothing else.
    """

    private: bool
    release: str | None = None
    epsilon: str | None = None
    protects: str | None = None

    @property
    def words(self) -> str:
        """The same for people to read."""
        if self.release is None:
            return "NOT PRIVATE: learnt from rows, not from a release"
        of = f"release {self.release[:16]} (epsilon {self.epsilon}, protects {self.protects})"
        return f"learnt from {of}" if self.private else f"NOT PRIVATE: learnt from {of}, which is not"


NO_RELEASE = Origin(private=False)
