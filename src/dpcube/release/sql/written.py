"""Aggregates as they are written for the engine, with what their errors need to know of the rows."""

from dataclasses import dataclass

QUANTILE = "quantile"
"""The kind of an aggregate that is a median or another quantile."""


@dataclass(frozen=True)
class Written:
    """SQL of an aggregate; for counts, sums and averages also what each row is multiplied by, for their errors.

    `corners` are what it is multiplied by at the ends of the row's bins, where nothing is known inside them, and
    `even` at the ends of bins that are declared even; the extremes are among them. `known` is false where the
    multiplier varies inside bins in a way that is not seen. `named` are the attributes whose values it needs while only
    their bins are known. The column is `scale` times the aggregate plus `offset`. A quantile has `share`, of the
    attribute on `axis`.
    """

    sql: str
    kind: str = ""
    coefficient: str | None = None
    keep: str | None = None
    corners: tuple[str, ...] = ()
    even: tuple[str, ...] = ()
    known: bool = True
    named: tuple[str, ...] = ()
    scale: float = 1.0
    offset: float = 0.0
    share: float = 0.5
    axis: int = -1

    @property
    def aggregates(self) -> "tuple[Written, ...]":
        """The aggregates of the column."""
        return (self,)

    def parts(self) -> str:
        """Return the SQL of a list of the rows that enter, each with its multiplier and how far that may vary."""
        assert self.coefficient is not None
        low, high = (_extreme(what, self.corners or (self.coefficient,)) for what in ("least", "greatest"))
        spread = f"{_extreme('greatest', self.even)} - {_extreme('least', self.even)}" if self.even else "0.0"
        row = f"{{'i': i, 'f': {self.coefficient}, 'low': {low}, 'high': {high}, 'even': {spread}}}"
        return f"list({row}) FILTER ({self.keep})"


@dataclass(frozen=True)
class WrittenQuotient:
    """A sum of multiples of aggregates over another, each with its factor; times `scale`, plus `offset`."""

    over: tuple[tuple[float, Written], ...]
    over_constant: float
    under: tuple[tuple[float, Written], ...]
    under_constant: float
    scale: float
    offset: float

    @property
    def aggregates(self) -> tuple[Written, ...]:
        """The aggregates of the column: first those over the line."""
        return tuple(written for _, written in (*self.over, *self.under))


def _extreme(what: str, of: tuple[str, ...]) -> str:
    return f"{what}({', '.join(of)})" if len(of) > 1 else of[0]
