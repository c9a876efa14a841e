"""Command group `ledger`: show a ledger, start one, raise its total, record the digest of a release."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpcube.cli.output import as_json, print_json, print_table, visible

if TYPE_CHECKING:
    from dpcube.core.ledger.ledger import Statement

ledger_file = click.argument("ledger", type=click.Path(path_type=Path))


class ShowByDefault(click.Group):
    """Group in which `dpcube ledger L` means `dpcube ledger show L`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `show` before a first word that is not a command."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["show", *args]
        return click.Group.parse_args(self, ctx, args)


@click.group(cls=ShowByDefault, short_help="Show the privacy budget spent on a table, and the rest.")
def ledger() -> None:
    """Show the privacy budget spent on a table, when and for which releases, and the rest.

    Example: dpcube ledger patients.ledger
    """


@ledger.command()
@ledger_file
@click.option(
    "--page",
    type=click.Path(path_type=Path),
    help="Write the record as an HTML page, to be printed, signed and filed, instead of printing it.",
)
@as_json
def show(ledger: Path, *, page: Path | None, as_json: bool) -> None:
    """Show a ledger. Short form: dpcube ledger LEDGER.

    Amounts are decimals; where these are rounded, the exact fraction stands beside them. --json has fractions.

    Example: dpcube ledger patients.ledger --page record.html
    """
    from dpcube.core.ledger.ledger import Ledger
    from dpcube.release.ledger_record import CHARGE_COLUMNS, budget_lines, charge_rows, ledger_page

    statement = Ledger(ledger).statement()
    if page is not None:
        _write_page(page, ledger_page(statement, title=ledger.stem))
        return
    if as_json:
        print_json(_as_dict(statement))
        return
    for name, value in budget_lines(statement):
        click.echo(visible(f"{name:<9}  {value}"))
    click.echo()
    if statement.charges:
        print_table(CHARGE_COLUMNS, charge_rows(statement), left=(0, 1, 2, 3, 4, 5, 6))
    else:
        click.echo("nothing was spent")


def _write_page(page: Path, text: str) -> None:
    """Write a page to a new file."""
    from dpcube.core.domain.file import write_text
    from dpcube.core.errors import InputError

    if os.path.lexists(page):
        msg = f"{page} exists; choose another name, or remove it first"
        raise InputError(msg)
    write_text(page, text, private=False)
    click.echo(visible(f"wrote {page}; print it or save it as PDF in a browser"))


@ledger.command()
@ledger_file
@click.option("--total", required=True, help="Total epsilon that may be spent on the table.")
@click.option("--delta", help="Total delta that may be spent, for record linkage. 0 by default.")
@click.option("--unit", help="Column that names the privacy unit. By default a row.")
@click.option("--purpose", default="", help="Note to record in the ledger.")
def init(ledger: Path, *, total: str, delta: str | None, unit: str | None, purpose: str) -> None:
    """Start a ledger with a total privacy budget, before the first release.

    Example: dpcube ledger init patients.ledger --total 2 --unit patient_id
    """
    from fractions import Fraction

    from dpcube.core.epsilon import parse_delta, parse_epsilon
    from dpcube.core.ledger.ledger import Ledger

    allowed = Fraction(0) if delta is None else parse_delta(delta)
    made = Ledger.create(ledger, total=parse_epsilon(total), delta=allowed, unit=unit, purpose=purpose)
    click.echo(visible(f"wrote {made.path}: total epsilon {made.statement().total}"))


@ledger.command("raise")
@ledger_file
@click.option("--total", help="New total epsilon. Unchanged by default.")
@click.option("--delta", help="New total delta. Unchanged by default.")
@click.option("--purpose", required=True, help="Who decided it and why. Recorded in the ledger.")
def raise_(ledger: Path, *, total: str | None, delta: str | None, purpose: str) -> None:
    """Raise the total privacy budget. The change stays on record.

    Example: dpcube ledger raise patients.ledger --total 3 --purpose "board decision of 2 May"
    """
    from dpcube.core.epsilon import parse_delta, parse_epsilon
    from dpcube.core.ledger.ledger import Ledger

    if total is None and delta is None:
        msg = "raise needs --total, --delta or both"
        raise click.UsageError(msg)
    opened = Ledger(ledger)
    wanted = opened.statement().total if total is None else parse_epsilon(total)
    opened.raise_total(wanted, purpose=purpose, delta=None if delta is None else parse_delta(delta))
    statement = opened.statement()
    click.echo(visible(f"{ledger}: total epsilon {statement.total}, {statement.remaining} is left"))


@ledger.command()
@ledger_file
@click.argument("release", type=click.Path(path_type=Path))
@click.option("--charge", type=int, help="Number of the charge, as shown by `dpcube ledger LEDGER`.")
def complete(ledger: Path, release: Path, *, charge: int | None) -> None:
    """Record the digest of RELEASE in the charge that paid for it, if the release command died before doing so.

    Example: dpcube ledger complete patients.ledger patients.dpcube
    """
    from dpcube.core.errors import InputError
    from dpcube.core.ledger.ledger import Ledger
    from dpcube.release import Release
    from dpcube.release.ledger_record import waiting_charges

    opened, made = Ledger(ledger), Release.open(release)
    statement = opened.statement()
    shown = {one.number: place for place, one in enumerate(statement.charges, 1)}
    found = [numbers for numbers in waiting_charges(made, statement) if charge in (None, *(shown[n] for n in numbers))]
    if not found:
        msg = f"{ledger} has no open charge that matches {release} (its domain, strategy, epsilon, period and unit)"
        raise InputError(msg)
    if len(found) > 1:
        places = ", ".join(str(shown[numbers[-1]]) for numbers in found)
        msg = f"several charges of {ledger} may have paid for {release}: {places}; choose one with --charge"
        raise InputError(msg)
    opened.complete_parts(found[0], made.digest)
    entered = " and ".join(str(shown[number]) for number in found[0])
    click.echo(visible(f"{ledger}: recorded the digest {made.digest[:16]} in charge {entered}"))


def _as_dict(statement: "Statement") -> dict[str, object]:
    from dpcube.release.ledger_record import period_words

    charges = [
        {
            "number": number,
            "time": c.time,
            "epsilon": str(c.epsilon),
            "delta": str(c.delta),
            "strategy": c.strategy,
            "domain": c.domain,
            "purpose": c.purpose,
            "period": period_words(c) or None,
            "release": c.digest,
            "withdrawn": c.withdrawn,
        }
        for number, c in enumerate(statement.charges, 1)
    ]
    return {
        "total": str(statement.total),
        "spent": str(statement.spent),
        "left": str(statement.remaining),
        "total_delta": str(statement.total_delta),
        "spent_delta": str(statement.spent_delta),
        "unit": statement.unit,
        "charges": charges,
        "totals": [{"time": t, "total": str(e), "purpose": p} for t, e, p in statement.totals],
    }
