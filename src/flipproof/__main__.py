"""Run the command line: `python -m flipproof`."""

from flipproof.cli import main

main()
