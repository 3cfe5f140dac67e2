"""One line on stderr that says how far an attack has come."""

from __future__ import annotations

import sys
import time

#: Seconds between two lines where each is a new one, as in a log file.
BETWEEN_LINES = 10.0
#: Seconds between two states of a line on a terminal.
BETWEEN_UPDATES = 0.2
BAR_WIDTH = 20


class ProgressLine:
    """A bar that is redrawn on a terminal, a line every ten seconds elsewhere, nothing if `verbose` is 0."""

    def __init__(self, name: str, total: int, verbose: int) -> None:
        self.name, self.total, self.verbose = name, total, verbose
        self.on_terminal = sys.stderr.isatty()
        self.began = self.last = time.monotonic()

    def show(self, done: int, overturned: int, n_refits: int, is_last: bool = False) -> None:
        """Say how many test rows are done, how many of them are overturned, and how many models were fitted for it."""
        if not self.verbose:
            return
        now = time.monotonic()
        if not is_last and now - self.last < (BETWEEN_UPDATES if self.on_terminal else BETWEEN_LINES):
            return
        self.last = now
        filled = BAR_WIDTH * done // max(self.total, 1)
        text = (
            f"{self.name} [{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {done} of {self.total} test rows, "
            f"{overturned} overturned, {n_refits} refits, {now - self.began:.0f} s"
        )
        before, after = ("\r", "\n" if is_last else "") if self.on_terminal else ("", "\n")
        sys.stderr.write(f"{before}{text}{after}")
        sys.stderr.flush()
