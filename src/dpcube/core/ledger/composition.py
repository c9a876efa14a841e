"""What charges of a ledger cost together, exactly: amounts as they are kept, and their composition.

Composition. A charge for the whole table adds to every row's loss. A charge for a period (a range of a column that the
gate itself selects by) adds only to the rows in it, so a row's loss is at most the sum of the whole-table charges plus,
for each column, the largest sum of period charges that one point of it lies in. A column that is read in two ways is
two columns here (`period.py`). When the unit is not a row, one unit can have rows in several periods, and periods add
up like any charge. A charge may have a delta beside its epsilon. Mechanisms of (a, d) and (b, e) together are of
(a + b, d + e), so all deltas add up, those of periods too, and a total allows none unless it says how much. An amount
with a delta is written behind its epsilon, where entries before it had none; a dpcube that knows of none refuses it.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import accumulate

from dpcube.core.budget import check_positive
from dpcube.core.errors import InputError, LedgerError
from dpcube.core.ledger.limits import MAX_DENOMINATOR_BITS
from dpcube.core.period import Period

WHOLE = re.compile("[0-9]{1,200}(/[1-9][0-9]{0,199})?")
DELTA = " delta "  # between the epsilon and the delta of an amount


def amount_text(epsilon: Fraction, delta: Fraction) -> str:
    """Return an amount as it is kept, or refuse one that could not be read again."""
    parts = [str(check_positive(one)) for one in (epsilon, *([delta] if delta else []))]
    if not all(map(WHOLE.fullmatch, parts)):
        msg = "an amount of hundreds of digits cannot be kept in a ledger; write a shorter one, such as 1/10"
        raise InputError(msg)
    return DELTA.join(parts)


def parse_amount(text: str) -> tuple[Fraction, Fraction]:
    """Return an amount that `amount_text` wrote; a text such as 1e50000000 would take for ever, and is none."""
    parts = text.split(DELTA)
    if len(parts) > 2 or not all(map(WHOLE.fullmatch, parts)) or min(amounts := [*map(Fraction, parts)]) <= 0:
        msg = "no amount"
        raise ValueError(msg)
    return amounts[0], amounts[1] if len(amounts) == 2 else Fraction(0)


def composed_loss(charges: Sequence[tuple[Fraction, Period | None]], unit: str | None) -> Fraction:
    """Return the largest loss of any unit (see Composition above), added up in whole parts of a common denominator."""
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
    # Walking along a column, the loss of a row changes where a period starts or stops.
    loss += sum(max(accumulate(change for _, change in sorted(along.items()))) for along in changes.values())
    return Fraction(loss, common)


def exact_sum(amounts: Sequence[Fraction]) -> Fraction:
    """Return a sum in whole parts of a common denominator."""
    common = _common_denominator(amounts)
    return Fraction(sum(one.numerator * (common // one.denominator) for one in amounts), common)


def _common_denominator(amounts: Iterable[Fraction]) -> int:
    common = 1
    for amount in amounts:
        common = math.lcm(common, amount.denominator)
        if common.bit_length() > MAX_DENOMINATOR_BITS:
            msg = "the amounts have too many digits together to be added up exactly; ask for one such as 1/10"
            raise LedgerError(msg)
    return common
