"""The command line: `flipproof`."""

from __future__ import annotations

import sys

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def main() -> None:
    """Run the command line and exit with its code; click and rich are an extra, so they may be missing."""
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ImportError:
        print("flipproof: the command line needs click and rich: pip install 'flipproof[cli]'", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    try:
        from flipproof.cli.group import run

        sys.exit(run())
    except KeyboardInterrupt:
        print("flipproof: interrupted", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
