"""PINQ's interface to private rows: Partition, NoisyCount and NoisySum, each charged before it draws.

Enters: a table and a budget. Leaves: noisy integers and sums. Nothing else about the rows does.
"""

from decimal import Decimal
from fractions import Fraction

from dpcube.core.budget import Agent, Budget, PartitionBudget
from dpcube.core.domain import Attribute
from dpcube.core.epsilon import check_share, parse_epsilon
from dpcube.core.noise import ExactNoise
from dpcube.core.seal import sealed
from dpcube.core.sources import CsvDialect, Rows, open_rows
from dpcube.core.unique import Unique

Amount = str | int | float | Decimal | Fraction


class PrivateTable(Unique):
    """Private rows behind a budget, for any number of threads of the process that made it; it cannot be copied.

    >>> import pyarrow as pa
    >>> table = PrivateTable(pa.table({"age": [31, 42]}), epsilon=1)
    >>> noisy = table.noisy_count(epsilon="1/2")
    >>> table.remaining
    Fraction(1, 2)
    """

    @sealed
    def __init__(
        self, source: object, *, epsilon: Amount, csv: CsvDialect | None = None, query: str | None = None
    ) -> None:
        budget = Budget(parse_epsilon(epsilon))
        self._bind(open_rows(source, csv=csv, query=query), budget, budget)

    def _bind(self, rows: Rows, agent: Agent, root: Budget) -> None:
        self._rows = rows
        self._agent = agent
        self._root = root
        self._noise = ExactNoise()

    def __repr__(self) -> str:
        return f"<PrivateTable with columns {', '.join(self._rows.columns)}>"

    @property
    def remaining(self) -> Fraction:
        """Epsilon left of the whole table's budget, which its parts share."""
        return self._root.remaining

    @sealed
    def noisy_count(self, *, epsilon: Amount) -> int:
        """Return the number of rows plus noise.

        One row changes the number by one, so noise P(z) proportional to exp(-epsilon|z|) costs epsilon.
        """
        amount = parse_epsilon(epsilon)
        self._agent.charge(amount)
        return self._rows.count() + int(self._noise.draw(amount, 1)[0])

    @sealed
    def noisy_sum(self, column: str, *, epsilon: Amount, bound: int, step: Fraction | float = 1) -> Fraction:
        """Return the sum of a column plus noise, each row's share clamped to [-bound, bound] steps.

        One row changes the sum of clamped whole numbers by at most `bound`, so noise P(z) proportional to
        exp(-epsilon|z|/bound) costs epsilon. Values are rounded to whole steps; a row without a number adds 0.
        """
        amount = parse_epsilon(epsilon)
        self._rows.check_sum(column, step=step, bound=bound)
        check_share(amount / bound)
        self._agent.charge(amount)
        steps = self._rows.sum(column, step=step, bound=bound) + int(self._noise.draw(amount / bound, 1)[0])
        return steps * (step if isinstance(step, Fraction) else Fraction(str(step)))

    @sealed
    def partition(self, attribute: Attribute) -> dict[str, "PrivateTable"]:
        """Return one part for each cell of a declared attribute, empty or not; parts cost what the dearest costs.

        The cells are declared, so which parts there are says nothing about the rows; a row is in one part or in none.
        """
        parts = PartitionBudget(self._agent)
        return {
            label: self._part(self._rows.restrict(attribute, [cell]), parts.part(cell))
            for cell, label in enumerate(attribute.labels())
        }

    def _part(self, rows: Rows, agent: Agent) -> "PrivateTable":
        part = object.__new__(PrivateTable)
        part._bind(rows, agent, self._root)
        return part
