"""Feasibility of a release from public facts alone: `release` and `plan` refuse by the same rules.

The checks concern the domain, the epsilon and the free memory, and raise an error that says what is allowed. Also here:
the share of an epsilon that goes to the total first, and the error of that total (`curator/total_first.py`).
"""

import math
from fractions import Fraction

from dpcube.core.boxes import MAX_LABELLED_CELLS
from dpcube.core.domain import Domain
from dpcube.core.epsilon import MIN_EPSILON
from dpcube.core.errors import DomainError, InputError, MemoryLimitError
from dpcube.core.memory import available_bytes, in_words

ANSWER_BYTES = 28
"""A cell's exact count, and its row of the engine's answer."""
TOTAL_SHARE = Fraction(1, 17)
"""Part of a release's epsilon for the total that is drawn first: 2^36 units where the strategy's rest is 2^40."""
TOTAL_ERROR_CHANCE = 0.05  # how often the total of an empty table is further off than its error


def check_drawable(epsilon: Fraction, max_rows: int) -> None:
    """Refuse an epsilon so small for each row that no strategy's share of it could be drawn."""
    if epsilon / max_rows < MIN_EPSILON:
        msg = f"epsilon {epsilon} for {max_rows} rows a unit is less than 0.000001 a row; lower max_rows"
        raise InputError(msg)


def check_public(domain: Domain) -> None:
    """Refuse a domain that was drafted from the data, until somebody has signed that it is public."""
    if domain.drafted_from_data and domain.signed_public_by is None:
        msg = (
            "this domain was drafted from the private data, so its bounds and values may give rows away; check that "
            'each is publicly known, then add the line signed_public_by = "your name" to its file'
        )
        raise DomainError(msg)


def check_fits(domain: Domain, *, peak_bytes: int) -> None:
    """Refuse a cube for which a strategy needs more memory than there is, before anything is read or spent."""
    # Counting comes first: its engine has half of what is free, and a row for each cell that holds any takes the rest.
    needed = max(peak_bytes, 2 * ANSWER_BYTES * domain.size)
    available = available_bytes()
    fits = (
        MAX_LABELLED_CELLS if available is None else max(1, min(MAX_LABELLED_CELLS, domain.size * available // needed))
    )
    if domain.size <= MAX_LABELLED_CELLS and (available is None or needed <= available):
        return
    widest = max(domain.attributes, key=lambda attribute: attribute.size)
    msg = (
        f"the domain has {domain.size:,} cells, which may take {in_words(needed)} of memory; about {fits:,} cells "
        f"fit here. Make it {-(-domain.size // fits):,} times smaller: leave attributes out, or use wider bins, for "
        f"example of '{widest.name}' ({widest.size:,} cells)"
    )
    raise MemoryLimitError(msg)


def error_of_total(epsilon: Fraction, max_rows: int) -> int:
    """Return the least t for which noise at this epsilon is beyond t, up or down, at most at `TOTAL_ERROR_CHANCE`.

    Of the two-sided geometric with ratio q, P(|z| > t) is 2 q^(t + 1) / (1 + q).

    >>> error_of_total(Fraction(1, 20), 1)
    60
    """
    alpha = float(epsilon / max_rows)
    return max(0, math.ceil(math.log(2 / (TOTAL_ERROR_CHANCE * (1 + math.exp(-alpha)))) / alpha) - 1)
