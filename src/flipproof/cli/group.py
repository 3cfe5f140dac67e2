"""The group of all subcommands, and the handling of their errors."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import traceback
from collections.abc import Sequence

import click

from flipproof import __version__
from flipproof.cli import EXIT_BROKEN_PIPE, EXIT_BUG, EXIT_INTERRUPTED, EXIT_USAGE
from flipproof.cli.attack import attack
from flipproof.cli.certify import certify
from flipproof.cli.compare import compare
from flipproof.cli.completion import completion
from flipproof.cli.demo import demo
from flipproof.cli.fit import fit
from flipproof.cli.options import in_words_of_options
from flipproof.cli.plan import plan
from flipproof.cli.report import report
from flipproof.cli.reproduce import reproduce
from flipproof.cli.verify import verify
from flipproof.errors import InputError

EXAMPLES = """\b
Start with: flipproof demo
Your data:  flipproof certify --train train.csv --test test.csv --label y
"""


#: Environment variable that shows where an unexpected error occurred.
DEBUG = "FLIPPROOF_DEBUG"

#: Longest part of an unexpected error that is shown, in characters.
LONGEST_BUG = 300


class InOrder(click.Group):
    """A group that lists its commands in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(self.commands)


@click.group(
    cls=InOrder,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXAMPLES,
)
@click.version_option(__version__, prog_name="flipproof", message="%(prog)s %(version)s")
@click.pass_context
def commands(context: click.Context) -> None:
    """Certify predictions against changed training labels.

    A certificate says: this prediction is guaranteed unchanged even if an adversary changes any r training labels.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for _command in (demo, fit, certify, compare, attack, plan, report, verify, reproduce, completion):
    commands.add_command(_command)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand and return the exit code; an error is one line on stderr, never a traceback."""
    try:
        outcome = commands.main(args=arguments, prog_name="flipproof", standalone_mode=False)
        sys.stdout.flush()
    except (click.Abort, KeyboardInterrupt):
        return _stop("interrupted", EXIT_INTERRUPTED)
    except click.UsageError as error:
        help_of = error.ctx.command_path if error.ctx else "flipproof"
        return _stop(f"error: {error.format_message()} See '{help_of} --help'.", EXIT_USAGE)
    except click.ClickException as error:
        return _stop(f"error: {error.format_message()}", EXIT_USAGE)
    except BrokenPipeError:
        _drop_output()
        return EXIT_BROKEN_PIPE
    except MemoryError:
        return _stop("error: not enough memory.", EXIT_USAGE)
    except InputError as error:
        return _stop(f"error: {in_words_of_options(error)}", EXIT_USAGE)
    except OSError as error:
        return _stop(f"error: {_os_error(error)}", EXIT_USAGE)
    except (ValueError, ImportError) as error:
        return _stop(f"error: {error}", EXIT_USAGE)
    except Exception as error:
        return _stop(f"error: {_bug(error)}", EXIT_BUG)
    return outcome if isinstance(outcome, int) else 0


def _os_error(error: OSError) -> str:
    """Return the message of an error of the system; stdout is dropped if it is full."""
    if error.errno is None:
        return str(error)
    if error.errno == errno.ENOSPC and error.filename is None:
        _drop_output()
        return f"cannot write to stdout: {error.strerror}."
    return f"{error.strerror}: {error.filename!r}." if error.filename else f"{error.strerror}."


def _bug(error: Exception) -> str:
    """Return the message of an error that should not have occurred, and show where if FLIPPROOF_DEBUG is set."""
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    from flipproof.core.invariants import InvariantError

    if isinstance(error, InvariantError):
        return str(error)
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"this is a bug in flipproof: {what[:LONGEST_BUG]}. Please report it; {DEBUG}=1 shows where it occurred."


def _drop_output() -> None:
    """Send the rest of stdout to nowhere: at exit, Python tries to write it again."""
    with contextlib.suppress(OSError, ValueError):  # stdout may have no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _stop(message: str, code: int) -> int:
    click.echo(f"flipproof: {' '.join(message.split())}", err=True)
    return code
