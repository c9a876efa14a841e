"""The `dpcube` command. Verbs import what they need when they run, so that the command starts fast."""

import io
import signal
import sys
from contextlib import suppress

import click

from dpcube import __version__
from dpcube.cli.analyst import count, info
from dpcube.cli.block import block
from dpcube.cli.check import check
from dpcube.cli.compare import compare
from dpcube.cli.compile import compile_verb
from dpcube.cli.coverage import coverage
from dpcube.cli.curator import domain, release
from dpcube.cli.demo import demo
from dpcube.cli.explore import explore
from dpcube.cli.learn import predict, train
from dpcube.cli.ledger import ledger
from dpcube.cli.link import link
from dpcube.cli.merge import merge
from dpcube.cli.output import say_when_compiling, stages_begun, stages_done, visible
from dpcube.cli.plan import plan
from dpcube.cli.plot import plot, report
from dpcube.cli.registry import registry
from dpcube.cli.reproduce import reproduce
from dpcube.cli.sql import sql
from dpcube.cli.studio import studio
from dpcube.cli.tables import export, synth
from dpcube.core.compiled import COMPILER_REMEDY, raised_by_compiler
from dpcube.core.errors import DpcubeError, InputError


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="dpcube")
def commands() -> None:
    """Publish a private table once, as a differentially private cube; ask the cube for ever.

    \b
    Try it:        dpcube demo
    Own a table:   dpcube domain TABLE -o D.toml        (then edit D.toml)
                   dpcube check TABLE --domain D.toml   (on your terminal only)
                   dpcube plan D.toml --epsilon 0.5 --rows 10000
                   dpcube release TABLE --domain D.toml --epsilon 0.5 -o R.dpcube
                   dpcube ledger TABLE.ledger
                   dpcube studio TABLE                  (all of it on a page, in your browser)
    Hold a cube:   dpcube info R.dpcube
                   dpcube count R.dpcube "age between 30 and 39 and sex = 'Female'"
                   dpcube sql R.dpcube "SELECT sex, count(*), avg(age) FROM cube GROUP BY sex"
                   dpcube synth R.dpcube -o rows.parquet
                   dpcube plot R.dpcube age income -o map.svg
                   dpcube report R.dpcube -o report.html
                   dpcube registry R.dpcube --ledger TABLE.ledger -o record.yaml
                   dpcube explore R.dpcube [-o cube.html]
                   dpcube train R.dpcube --target income -o model.json
                   dpcube predict model.json rows.csv -o classes.csv
                   dpcube merge may.dpcube june.dpcube -o all.dpcube
    Link records:  dpcube block R.dpcube --rules rules.toml --epsilon 0.5 -o B.blocks
                   dpcube link TABLE --blocks B.blocks --rules rules.toml ... --listen 7600
    Trust it?      dpcube coverage
    Rivals:        dpcube compare
    The paper:     dpcube reproduce theory
    """  # noqa: D301 (click's mark for "do not rewrap" is the control character itself)


LONGEST_MESSAGE = 1500  # characters: a hostile file may be quoted in one

ASKING = (info, count, sql, synth, export, plot, report, explore, registry, merge, train, predict)
LINKING = (block, link)
for verb in (
    *(demo, domain, check, plan, release, studio, ledger, *ASKING, *LINKING),
    *(coverage, compare, reproduce, compile_verb),
):
    commands.add_command(verb)


def main() -> None:
    """Run the command; an error is one line on stderr: exit code 2 for bad input, 1 for a refusal or a failure."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a file's name may be no text
    _interrupt_cleanly()
    say_when_compiling()
    try:
        outcome = commands.main(standalone_mode=False)
        sys.exit(outcome if isinstance(outcome, int) else 0)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        see = "" if context is None else f" (see {context.command_path} --help)"
        _fail(error.format_message().rstrip(".") + see, 2)
    except (KeyboardInterrupt, click.Abort):
        _fail(f"interrupted; files appear whole or not at all{_what_stays()}", 130)
    except DpcubeError as error:
        _fail(str(error), 2 if isinstance(error, InputError) else 1)
    except MemoryError:
        _fail("memory ran out; close other programs, or use a larger machine", 1)
    except OSError as error:
        _fail(f"a file or the output cannot be read or written: {error.strerror or type(error).__name__}", 1)
    except Exception as error:  # noqa: BLE001, RUF100 (a traceback could show rows, so only the kind of error is named)
        if raised_by_compiler(error):
            _fail(f"the compiler of loops (Numba) failed with {type(error).__name__}; {COMPILER_REMEDY}", 1)
        _fail(f"internal error ({type(error).__name__}); this is a fault in dpcube, please report it", 1)


def _what_stays() -> str:
    """Say after a release was interrupted in measuring that its charge is not taken back; before, there is none."""
    if "measuring" not in stages_begun or "--no-ledger" in sys.argv:
        return ""
    return ", and what the ledger was charged stays spent: dpcube ledger TABLE.ledger shows it"


def _interrupt_cleanly() -> None:
    """Let whoever ends the process end it as Ctrl-C does, so that temporary files are removed."""
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        if signal.getsignal(number) is signal.SIG_DFL:  # not under nohup
            signal.signal(number, signal.default_int_handler)


def _fail(message: str, code: int) -> None:
    line = visible(" ".join(message[: 8 * LONGEST_MESSAGE].split()))
    with suppress(OSError):  # when nobody can be told, the exit code still tells
        stages_done()
        click.echo(f"dpcube: {line if len(line) <= LONGEST_MESSAGE else line[:LONGEST_MESSAGE] + '...'}", err=True)
    sys.exit(code)
