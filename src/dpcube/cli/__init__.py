"""Command line interface. Commands import their modules when they run, so that `dpcube` starts fast."""

import io
import signal
import sys
from contextlib import suppress

import click

from dpcube import __version__
from dpcube.cli.output import say_when_compiling, stages_begun, stages_done, visible
from dpcube.cli.verbs import Verbs, overview
from dpcube.core.compiled import COMPILER_REMEDY, raised_by_compiler
from dpcube.core.errors import DpcubeError, InputError

OVERVIEW = f"""Publish a private table once, as a differentially private cube, and query it for ever.

\b
{overview()}
"""


@click.group(
    cls=Verbs, help=OVERVIEW, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="dpcube")
def commands() -> None:
    """Run one command of `dpcube`."""


EXTRAS = {"scipy": "research", "sklearn": "learn"}
"""Extra that brings a library which the core is installed without."""
MAX_ERROR_LINE = 1500  # characters: a hostile file may be quoted in one


def main() -> None:
    """Run the command line; an error is one line on stderr: exit code 2 for invalid input, 1 for other failures."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a file name may not be valid text
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
        _fail(f"interrupted; no output file is incomplete{_spent_budget()}", 130)
    except DpcubeError as error:
        _fail(str(error), 2 if isinstance(error, InputError) else 1)
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        if missing in EXTRAS:
            _fail(f"this needs {missing}, which is not installed; pip install 'dpcube[{EXTRAS[missing]}]'", 2)
        _fail(f"the installation lacks {missing}; install dpcube again", 1)
    except MemoryError:
        _fail("out of memory; close other programs, or use a larger machine", 1)
    except OSError as error:
        _fail(f"a file or the output cannot be read or written: {error.strerror or type(error).__name__}", 1)
    except Exception as error:  # noqa: BLE001, RUF100 (a traceback could show rows, so only the error's type is named)
        if raised_by_compiler(error):
            _fail(f"the Numba compiler failed with {type(error).__name__}; {COMPILER_REMEDY}", 1)
        _fail(f"internal error ({type(error).__name__}); this is a bug in dpcube, please report it", 1)


def _spent_budget() -> str:
    """Return a note that the charge of an interrupted release stays, if measuring had begun."""
    if "measuring" not in stages_begun or "--no-ledger" in sys.argv:
        return ""
    return ", and the privacy budget charged to the ledger stays spent: dpcube ledger TABLE.ledger shows it"


def _interrupt_cleanly() -> None:
    """Handle SIGTERM and SIGHUP like Ctrl-C, so that temporary files are removed."""
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        if signal.getsignal(number) is signal.SIG_DFL:  # not under nohup
            signal.signal(number, signal.default_int_handler)


def _fail(message: str, code: int) -> None:
    line = visible(" ".join(message[: 8 * MAX_ERROR_LINE].split()))
    with suppress(OSError):  # if stderr is closed, the exit code remains
        stages_done()
        click.echo(f"dpcube: {line if len(line) <= MAX_ERROR_LINE else line[:MAX_ERROR_LINE] + '...'}", err=True)
    sys.exit(code)
