"""Sequential and parallel composition of the charges of a ledger, in exact rationals.

**Composition.** A charge for the whole table adds to the privacy loss of every row. A charge for a period (a range of a
column by which the gate itself selects rows) adds to the loss of the rows in it only: parallel composition. So the loss
of a row is at most the sum of the whole-table charges plus, for each column, the largest sum of period charges at one
point of it. A column that is read in two ways counts as two columns (`period.py`). If the privacy unit is not a row,
one unit can have rows in several periods, and period charges add up like any other. A charge may have a delta beside
its epsilon. Mechanisms that are (a, d) and (b, e) differentially private are (a + b, d + e) together. So all deltas add
up, also those of periods, and a total allows a delta only if it states one. An amount with a delta is stored as text
behind its epsilon.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import accumulate

from dpcube.core.epsilon import check_positive
from dpcube.core.errors import InputError, LedgerError
from dpcube.core.limits import MAX_DENOMINATOR_BITS
from dpcube.core.period import Period

WHOLE = re.compile("[0-9]{1,200}(/[1-9][0-9]{0,199})?")
DELTA = " delta "  # between the epsilon and the delta of an amount


def amount_text(epsilon: Fraction, delta: Fraction) -> str:
    """Return an amount as text for the ledger; refuse one that could not be read back."""
    parts = [str(check_positive(one)) for one in (epsilon, *([delta] if delta else []))]
    if not all(map(WHOLE.fullmatch, parts)):
        msg = "an epsilon or delta of hundreds of digits cannot be stored in a ledger; use a shorter one, such as 1/10"
        raise InputError(msg)
    return DELTA.join(parts)


def parse_amount(text: str) -> tuple[Fraction, Fraction]:
    """Parse an amount that `amount_text` wrote; texts such as 1e50000000, which would take for ever, are refused."""
    parts = text.split(DELTA)
    if len(parts) > 2 or not all(map(WHOLE.fullmatch, parts)) or min(amounts := [*map(Fraction, parts)]) <= 0:
        msg = "not an amount"
        raise ValueError(msg)
    return amounts[0], amounts[1] if len(amounts) == 2 else Fraction(0)


def composed_loss(charges: Sequence[tuple[Fraction, Period | None]], unit: str | None) -> Fraction:
    """Return the largest privacy loss of any unit (see Composition above), summed over a common denominator."""
    common = _common_denominator(epsilon for epsilon, _ in charges)
    parts = [(epsilon.numerator * (common // epsilon.denominator), period) for epsilon, period in charges]
    if unit is not None:
        return Fraction(sum(part for part, _ in parts), common)
    loss = sum(part for part, period in parts if period is None)
    changes: defaultdict[tuple[str, str, str], defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
    for part, period in parts:
        if period is not None:
            changes[period.axis][period.start] += part
            changes[period.axis][period.stop] -= part
    # Along a column, the loss of a row changes where a period starts or stops.
    loss += sum(max(accumulate(change for _, change in sorted(along.items()))) for along in changes.values())
    return Fraction(loss, common)


def exact_sum(amounts: Sequence[Fraction]) -> Fraction:
    """Return a sum of fractions, computed over a common denominator."""
    common = _common_denominator(amounts)
    return Fraction(sum(one.numerator * (common // one.denominator) for one in amounts), common)


def _common_denominator(amounts: Iterable[Fraction]) -> int:
    common = 1
    for amount in amounts:
        common = math.lcm(common, amount.denominator)
        if common.bit_length() > MAX_DENOMINATOR_BITS:
            msg = "the amounts in the ledger have too many digits to be added exactly; use a shorter one, such as 1/10"
            raise LedgerError(msg)
    return common
