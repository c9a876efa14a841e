"""Command `link`: private record linkage with another party."""

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from dpcube.cli.curator.release import CommandFunction, TableAddress, csv_options, dialect_of, query_option
from dpcube.cli.output import as_json, print_json, stage, stages_done, visible

if TYPE_CHECKING:
    from dpcube.link.linking import LinkResult
    from dpcube.link.secure import Channel, Credentials
    from dpcube.link.session import LinkSession

LOOPBACK = "127.0.0.1"
WAIT_SECONDS = 600.0
MAX_WAIT = 1e6  # seconds


def _peer_options(verb: CommandFunction) -> CommandFunction:
    """Add the options for the address and the authentication of the other party."""
    path = click.Path(path_type=Path)
    for option in (
        click.option("--private-key", type=path, help="Private key of the certificate (PEM)."),
        click.option("--certificate", type=path, help="Certificate of this party (PEM)."),
        click.option(
            "--authority", type=path, help="Private certificate authority of both parties (PEM), instead of --key."
        ),
        click.option("--key", "key_file", type=path, help="Key that both parties share. --new-key makes one."),
        click.option("--wait", default=WAIT_SECONDS, show_default=True, help="Seconds to wait for the other party."),
        click.option("--connect", metavar="HOST:PORT", help="Connect to the party that listens."),
        click.option(
            "--listen", metavar="[HOST:]PORT", help=f"Listen for the other party. HOST is {LOOPBACK} by default."
        ),
    ):
        verb = option(verb)
    return verb


def _session_options(verb: CommandFunction) -> CommandFunction:
    """Add the options of a new session: the id column, the privacy unit, and the ledger."""
    path = click.Path(path_type=Path)
    for option in (
        click.option("--purpose", default="", help="Note to record in the ledger."),
        click.option(
            "--null-unit",
            type=click.Choice(["drop", "each"]),
            default="drop",
            help="Drop rows without a privacy unit, or treat each as a unit of its own.",
        ),
        click.option("--max-rows", default=1, show_default=True, help="Maximum number of rows kept of each unit."),
        click.option("--unit", help="Column that names the privacy unit. By default a row."),
        click.option("--no-ledger", is_flag=True, help="Do not record this session in a ledger."),
        click.option("--total", help="Total privacy budget of a new ledger. By default the epsilon of this session."),
        click.option("--ledger", type=path, help="Ledger file. By default TABLE.ledger beside the table."),
        click.option("--delta", help="Delta of the padding. By default that of the blocks file."),
        click.option("--epsilon", help="Epsilon of the padding. By default that of the blocks file."),
        click.option("--id", "id_column", help="Column of ids. The other party receives those of matching records."),
    ):
        verb = option(verb)
    return verb


@click.command(short_help="Link records with another party without revealing the others.")
@click.argument("table", type=TableAddress(), required=False)
@click.option("--blocks", "blocks_file", type=click.Path(path_type=Path), help="Blocks file of `dpcube block`.")
@click.option("--rules", "rules_file", type=click.Path(path_type=Path), help="Matching rules file of both parties.")
@click.option("--session", "session_file", type=click.Path(path_type=Path), help="Session file, made if it is missing.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="New CSV file of matching ids.")
@_peer_options
@_session_options
@click.option("--new-key", type=click.Path(path_type=Path), help="Write a new shared key to this file, and stop.")
@click.option("--install-engine", is_flag=True, help="Install the secure-computation engine (about 1 GB), and stop.")
@query_option
@csv_options
@as_json
def link(table: Path | str | None, *, new_key: Path | None, install_engine: bool, as_json: bool, **given: Any) -> None:
    """Link the records of TABLE with another party's: both learn which match, and nothing about the others.

    A session file stores the padded records of TABLE, and only you may read it. It is made once, and charged to the
    ledger. A restart with the same --session needs no TABLE and is not charged. Without --listen or --connect, the
    session is only made.

    Example: dpcube link people.csv --id id --rules rules.toml --blocks plan.blocks --session people.session
    --key shared.key --listen 7600 -o links.csv
    """
    from dpcube.link import secure

    if install_engine:
        stage("installing the engine")
        place = secure.install_engine()
        stages_done()
        click.echo(visible(f"installed: {place}"))
    elif new_key is not None:
        secure.write_shared_key(new_key)
        click.echo(visible(f"wrote {new_key}; give the other party a copy over a channel that nobody else can read"))
    else:
        _link(table, as_json=as_json, **given)


def _link(
    table: Path | str | None,
    *,
    blocks_file: Path | None,
    rules_file: Path | None,
    session_file: Path | None,
    output: Path | None,
    listen: str | None,
    connect: str | None,
    wait: float,
    key_file: Path | None,
    authority: Path | None,
    certificate: Path | None,
    private_key: Path | None,
    as_json: bool,
    **how: Any,
) -> None:
    from dpcube.link.blocking import BlockFile
    from dpcube.link.linking import check_new_result, link_records, write_links
    from dpcube.link.rules import MatchingRules
    from dpcube.link.secure import secure_matches
    from dpcube.link.secure.step import usable_engines

    if blocks_file is None or rules_file is None or session_file is None:
        msg = "linking needs --blocks, --rules and --session"
        raise click.UsageError(msg)
    if listen is not None and connect is not None:
        msg = "one party listens and the other connects: give --listen or --connect"
        raise click.UsageError(msg)
    if not 0 <= wait <= MAX_WAIT:  # refuses NaN too
        msg = f"--wait must be from 0 to {MAX_WAIT:,.0f} seconds, got {wait}"
        raise click.UsageError(msg)
    rules, blocks = MatchingRules.load(rules_file), BlockFile.load(blocks_file)
    alone = listen is None and connect is None
    if not alone:
        if output is None:
            msg = "linking needs an output file for the matching ids, such as: -o links.csv"
            raise click.UsageError(msg)
        check_new_result(output)
        credentials = _credentials(key_file, authority, certificate, private_key)
        address = _address(connect or listen or "", listens=listen is not None)
        usable_engines(rules.program)  # raises an error with instructions before anything is spent
    session, made = _session(table, session_file, blocks, rules, **how)
    if alone:
        _tell_session(session, session_file, made=made, as_json=as_json)
        return
    listens, of = listen is not None, len(blocks.plan.candidates())
    open_channel = partial(_channel, address, credentials, listens=listens, seconds=wait)
    step = partial(secure_matches, progress=lambda done: stage(f"comparing in secret, {done} of {of} pairs of blocks"))
    result = link_records(open_channel, "listener" if listens else "connector", session, blocks, rules, step)
    assert output is not None
    write_links(output, result.links)
    stages_done()
    _tell_result(result, output, as_json=as_json)


def _session(
    table: Path | str | None,
    path: Path,
    blocks: Any,
    rules: Any,
    *,
    id_column: str | None,
    no_ledger: bool,
    ledger: Path | None,
    null_unit: Literal["drop", "each"],
    delimiter: str | None,
    names: str | None,
    null_text: tuple[str, ...],
    encoding: str | None,
    **how: Any,
) -> "tuple[LinkSession, bool]":
    """Return the session of a file, or a new one of a table, and whether it is new."""
    from dpcube.core.errors import InputError
    from dpcube.curator import LedgerLocation
    from dpcube.link.session import LinkSession, prepare_session

    if path.exists():
        return LinkSession.open(path, blocks, rules), False
    if table is None or id_column is None:
        msg = f"there is no session {path} yet; name the TABLE to make it from, and --id COLUMN"
        raise InputError(msg)
    if no_ledger and (ledger is not None or how["total"] is not None):
        msg = "--no-ledger cannot be combined with --ledger or --total; leave it or them out"
        raise InputError(msg)
    stage("making the session")
    made = prepare_session(
        table,
        blocks,
        rules,
        path,
        id_column=id_column,
        ledger=None if no_ledger else ledger or LedgerLocation.BESIDE_TABLE,
        null_unit=null_unit,
        csv=dialect_of(table, delimiter, names, null_text, encoding),
        **how,
    )
    return made, True


def _credentials(
    key_file: Path | None, authority: Path | None, certificate: Path | None, private_key: Path | None
) -> "Credentials":
    from dpcube.link.secure import certificates, shared_key

    if key_file is not None and authority is certificate is private_key is None:
        return shared_key(key_file)
    if key_file is None and authority is not None and certificate is not None and private_key is not None:
        return certificates(authority, certificate, private_key)
    msg = "authentication needs --key FILE, or --authority, --certificate and --private-key"
    raise click.UsageError(msg)


def _address(text: str, *, listens: bool) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdigit() or not 0 < int(port) < 2**16 or not (host or listens):
        msg = f"an address must be HOST:PORT, such as {LOOPBACK}:7600, got {text!r}"
        raise click.UsageError(msg)
    return host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port)


def _channel(address: tuple[str, int], credentials: "Credentials", *, listens: bool, seconds: float) -> "Channel":
    from dpcube.link.secure import await_peer, open_listener, reach_peer

    stage("waiting for the other party")
    if not listens:
        return reach_peer(*address, credentials, seconds=seconds)
    with closing(open_listener(*address)) as listener:
        return await_peer(listener, credentials, seconds=seconds, tell=_refused)


def _refused(message: str) -> None:
    click.echo(visible(message), err=True)


def _tell_session(session: "LinkSession", path: Path, *, made: bool, as_json: bool) -> None:
    stages_done()
    facts = session.facts
    if as_json:
        result = {"session": str(path), "new": made, "epsilon": facts.epsilon, "delta": facts.delta}
        print_json({**result, "dummies_of_a_block": facts.shift, "padded_sizes": session.sizes.tolist()})
        return
    cost = f"charged epsilon {facts.epsilon} and delta {facts.delta}" if made else "reused, and not charged again"
    padded = f"{len(session.sizes):,} blocks, {int(session.sizes.sum()):,} padded rows"
    click.echo(visible(f"session {path}: {padded}; {cost}"))
    click.echo("it contains your records: protect it like the table, and remove it when the linkage is done")


def _tell_result(result: "LinkResult", output: Path, *, as_json: bool) -> None:
    cost = result.cost
    if as_json:
        print_json({"output": str(output), "links": len(result.links), **cost.as_dict()})
        return
    click.echo(visible(f"wrote {output}: {len(result.links):,} links"))
    rate = cost.pairs / cost.seconds if cost.seconds else 0.0
    click.echo(f"compared {cost.pairs:,} pairs in secret, in {cost.seconds:,.0f} s ({rate:,.0f} a second)")
    more = f"about {cost.pairs_without:,} pairs, {cost.seconds_without:,.0f} s"
    click.echo(f"without blocking: {more} (extrapolated)")
