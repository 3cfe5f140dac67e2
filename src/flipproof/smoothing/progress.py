"""One line on stderr that says how far the fits have come, and how long the rest will take."""

from __future__ import annotations

import sys
import time

#: Seconds between two lines where each is a new one, as in a log file.
BETWEEN_LINES = 10.0
#: Seconds between two states of a line on a terminal.
BETWEEN_UPDATES = 0.2
BAR_WIDTH = 20


class FitProgress:
    """A bar that is redrawn on a terminal, a line every ten seconds elsewhere, nothing if `verbose` is 0."""

    def __init__(self, n_fits: int, verbose: int) -> None:
        self.n_fits, self.verbose = n_fits, verbose
        self.on_terminal = sys.stderr.isatty()
        self.began = self.last = time.monotonic()
        self.done = 0
        self.line_is_open = False

    def announce(self, text: str) -> None:
        """Say what is about to happen."""
        if self.verbose:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()

    def advance(self, n_fits: int) -> None:
        """Say that some more fits are done."""
        self.done += n_fits
        now, is_last = time.monotonic(), self.done >= self.n_fits
        wait = BETWEEN_UPDATES if self.on_terminal else BETWEEN_LINES
        if not self.verbose or (not is_last and now - self.last < wait):
            return
        self.last, spent = now, now - self.began
        filled = BAR_WIDTH * self.done // self.n_fits
        rest = f"{spent:.0f} s" if is_last else f"about {_spoken(spent / self.done * (self.n_fits - self.done))} left"
        text = f"[{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {self.done} of {self.n_fits} fits, {rest}"
        sys.stderr.write(f"\r{text:<70}" if self.on_terminal else f"{text}\n")
        self.line_is_open = self.on_terminal
        if is_last:
            self.close()
        sys.stderr.flush()

    def close(self) -> None:
        """End the line, so that whatever is said next starts on a new one."""
        if self.line_is_open:
            sys.stderr.write("\n")
            self.line_is_open = False


def _spoken(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
