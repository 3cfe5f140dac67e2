"""The command line: `flipproof`."""

from __future__ import annotations

import signal
import sys

EXIT_REQUIREMENT = 1
EXIT_REFUTED = 1
EXIT_USAGE = 2
EXIT_INCONCLUSIVE = 3
EXIT_BUG = 70  # EX_SOFTWARE
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE
EXIT_TERMINATED = 143  # 128 + SIGTERM


def main() -> None:
    """Run the command line and exit with its code; click and rich are optional dependencies and may be missing."""
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ImportError:
        print("flipproof: the command line needs click and rich: pip install 'flipproof[cli]'", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    signal.signal(signal.SIGTERM, _terminated)
    try:
        from flipproof.cli.group import run

        sys.exit(run())
    except KeyboardInterrupt:
        print("flipproof: interrupted", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)


def _terminated(_number: int, _frame: object) -> None:
    """Exit through an exception, so that partly written files are removed."""
    sys.exit(EXIT_TERMINATED)
