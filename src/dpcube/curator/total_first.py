"""A noisy total before the strategy: a small part of the epsilon detects a domain that does not match the table.

A domain that does not match its table (dates in another format, another delimiter) counts next to nothing, and a
release would waste its budget. So the total of the cube is measured first, with `TOTAL_SHARE` of the epsilon. If it is
not above its error, the release stops and the rest of its charge is given back. Otherwise the total is the first
measurement of the transcript, and every estimate uses it.

Proof. The total is the count of one cell that holds every row. One row changes it by one, a unit by `max_rows` at most,
and noise at e/max_rows costs e (`gate.py`): this costs its own epsilon, charged with the rest before it is drawn.
Whether the release continues is computed from that noisy number and public facts, and costs nothing more. If it
continues, the strategy has a gate of its own with the rest. What is published is the pair of both outputs, the noisy
total and the strategy's transcript (`Transcript.after_total`). Their noises are independent, so the probability of the
pair is that of the total times that of the transcript, and the two losses add up: sequential composition, to the
release's epsilon, whatever the total is. Nothing else is computed from the rows meanwhile. A stopped release publishes
the total, in its message, and nothing else: it costs the total's part.
"""

from fractions import Fraction

from dpcube.core.counter import BUDGET_UNITS, every_cell
from dpcube.core.errors import EmptyTotalError
from dpcube.core.exact import ExactData
from dpcube.core.feasible import error_of_total
from dpcube.core.gate import Gate


def draw_total(exact: ExactData, epsilon: Fraction, *, max_rows: int) -> int:
    """Draw the noisy total of a cube, for an epsilon that has been charged."""
    return int(every_cell(Gate(exact.total(), epsilon, max_rows=max_rows), BUDGET_UNITS)[0])


def refuse_empty(noisy_total: int, spent: Fraction, rest: Fraction, *, max_rows: int) -> None:
    """Stop a release whose noisy total is not above its error."""
    error = error_of_total(spent, max_rows)
    if noisy_total > error:
        return
    msg = (
        f"stopped: this domain counts about {noisy_total} rows, not above the error of {error}, so it may not read the "
        f"table at all. Only epsilon {spent} was charged, for this total; {rest} of this release was not"
    )
    raise EmptyTotalError(msg)
