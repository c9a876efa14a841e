"""Record of a ledger for people: what was spent, when and for what, as lines of text and as a page to be signed.

And the completion of charges without the digest of their release, left by a process that died before it finished. A
release records what it was charged for, not the number of the charge. It is matched by all common fields: the digest
of the domain, the strategy, the epsilon, the period and the unit. Entering a digest spends and draws nothing.
"""

import hashlib
import math
from collections.abc import Sequence
from fractions import Fraction
from html import escape

from dpcube.core.errors import InputError
from dpcube.core.ledger.ledger import Charge, Statement
from dpcube.release.release import Release

CHARGE_COLUMNS = ("charge", "time (UTC)", "epsilon", "strategy", "period", "release", "purpose")
SHOWN_DECIMALS = 6
"""Decimals of an amount; where they do not say it exactly, the fraction stands beside them."""
MAX_LENGTH = 300
SIGNED_BY = ("Data owner", "Data protection officer")
SIGNATURES = """
.signatures{display:grid;grid-template-columns:1fr 1fr;gap:3rem;margin-top:3rem;break-inside:avoid}
.signatures div{border-top:1px solid #25282f;padding-top:.3rem}
"""


def amount(value: Fraction) -> str:
    """Return a number of the ledger in decimals, with its fraction where these are rounded.

    >>> amount(Fraction(1, 2)), amount(Fraction(8, 17)), amount(Fraction(1, 10**9))
    ('0.5', '0.470588 (8/17)', '1e-09')
    """
    written = format(float(value), f".{SHOWN_DECIMALS}g")
    return written if Fraction(written) == value else f"{written} ({value})"


def budget_lines(statement: Statement) -> list[tuple[str, str]]:
    """Return the budget as names and values."""
    lines = [("total", statement.total), ("spent", statement.spent), ("left", statement.remaining)]
    told = [(name, amount(value)) for name, value in lines]
    if statement.total_delta:
        told.append(("delta", f"{amount(statement.spent_delta)} of {amount(statement.total_delta)} spent"))
    return [*told, ("protects", _unit(statement))]


def charge_rows(statement: Statement) -> list[tuple[str, ...]]:
    """Return a row of texts for each charge, as `CHARGE_COLUMNS` names them."""
    return [
        (str(number), _time(c.time), _epsilon(c), c.strategy, period_words(c), _release(c), c.purpose)
        for number, c in enumerate(statement.charges, 1)
    ]


def period_words(charge: Charge) -> str:
    """Return a period in words, with the reading options of its column unless they are the defaults."""
    if charge.period is None:
        return ""
    read = f" read by {charge.period.reading}" if charge.period.reading else ""
    return charge.period.words + read


def ledger_page(statement: Statement, *, title: str) -> str:
    """Return the record as one HTML page without scripts, to be printed, signed and filed."""
    from dpcube.release.plots.axis import printable
    from dpcube.release.report import STYLE, html_table  # with NumPy, which the lines of text do without

    def shown(row: Sequence[str]) -> tuple[str, ...]:
        return tuple(printable(text, longest=MAX_LENGTH) for text in row)

    head = f"Record of the privacy budget: {printable(title, longest=MAX_LENGTH)}"
    charges = [shown(row) for row in charge_rows(statement)]
    totals = [shown((_time(time), amount(total), purpose)) for time, total, purpose in statement.totals]
    parts = {
        "What is protected": _paragraph(_promise(statement)),
        "Budget": html_table(("", "epsilon"), budget_lines(statement)[:-1]),
        "Charges": html_table(CHARGE_COLUMNS, charges) if charges else _paragraph("Nothing was spent."),
        "Decisions on the total": html_table(("time (UTC)", "total epsilon", "purpose"), totals),
    }
    body = "".join(f"<section><h2>{heading}</h2>{part}</section>" for heading, part in parts.items())
    lines = "".join(f"<div>{role}: name, date, signature</div>" for role in SIGNED_BY)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(head)}</title><style>{STYLE}{SIGNATURES}</style></head><body><main><h1>{escape(head)}</h1>"
        f'{body}<div class="signatures">{lines}</div></main></body></html>\n'
    )


def _promise(statement: Statement) -> str:
    """Return what the spent budget means, in sentences."""
    spent = statement.spent
    unit = "one row" if statement.unit is None else f"all rows of {_unit(statement)}"
    charges = len(statement.standing)
    noted = f"{charges} charge{'' if charges == 1 else 's'}"
    if not spent:
        return f"Nothing has been released. The budget allows epsilon {amount(statement.total)} for {unit}."
    delta = f", up to a probability of {amount(statement.spent_delta)}" if statement.spent_delta else ""
    factor = math.exp(spent) if spent < MAX_LENGTH else math.inf
    return (
        f"Differential privacy protects {unit}. Whatever was published so far ({noted}) is at most {factor:,.3g} times "
        f"as likely, and as unlikely, with {unit} as without{delta}. That is epsilon {amount(spent)} of the "
        f"{amount(statement.total)} allowed. Charges for disjoint periods of the same column count once."
    )


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _unit(statement: Statement) -> str:
    return "one row" if statement.unit is None else f"one {statement.unit}"


def _time(time: str) -> str:
    """Return a time of the ledger, which is in UTC, to the second."""
    return time.replace("T", " ").removesuffix("+00:00")


def _epsilon(charge: Charge) -> str:
    return f"{amount(charge.epsilon)}, delta {amount(charge.delta)}" if charge.delta else amount(charge.epsilon)


def _release(charge: Charge) -> str:
    if charge.withdrawn:
        return "withdrawn"
    return (charge.digest or "not completed")[:16]


BY_TOTAL = "total"
"""The strategy of a charge for the total that comes first; the rest is the next charge."""


def waiting_charges(release: Release, statement: Statement) -> list[list[int]]:
    """Return the charges that may have paid for a release, by their numbers: one, or a total and the rest."""
    made = release.provenance
    if not made.ledger:
        msg = "this release was made without a ledger, so none has a charge for it"
        raise InputError(msg)
    if any(charge.digest == release.digest for charge in statement.charges):
        msg = "the ledger has the digest of this release already"
        raise InputError(msg)
    domain = hashlib.sha256(release.domain.dumps().encode()).hexdigest()
    if made.unit != statement.unit:
        return []
    alike = {charge.number: charge for charge in statement.charges if _is_alike(charge, domain, made.period)}
    found = []
    for number, charge in alike.items():
        first = alike.get(number - 1)
        if charge.strategy != made.strategy:
            continue
        if charge.epsilon == made.epsilon:
            found.append([number])
        elif first is not None and first.strategy == BY_TOTAL and first.epsilon + charge.epsilon == made.epsilon:
            found.append([number - 1, number])
    return found


def _is_alike(charge: Charge, domain: str, period: str | None) -> bool:
    words = None if charge.period is None else charge.period.words
    return charge.is_open and not charge.delta and (charge.domain, words) == (domain, period)
