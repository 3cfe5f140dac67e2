"""One line on stderr that says how far something has come."""

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

    def __init__(self, total: int, verbose: int, name: str = "") -> None:
        self.total, self.verbose, self.name = total, verbose, name
        self._on_terminal = sys.stderr.isatty()
        self._began = self._last = time.monotonic()
        self._is_open = False

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._began

    def announce(self, text: str) -> None:
        """Say what is about to happen."""
        if self.verbose:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()

    def show(self, done: int, says: str, is_last: bool = False) -> None:
        """Say how many of the total are done, and what else there is to say; not more often than one can read."""
        now = time.monotonic()
        if not self.verbose or not (
            is_last or now - self._last >= (BETWEEN_UPDATES if self._on_terminal else BETWEEN_LINES)
        ):
            return
        self._last = now
        filled = BAR_WIDTH * done // max(self.total, 1)
        bar = f"[{'#' * filled}{'.' * (BAR_WIDTH - filled)}]"
        text = f"{self.name} {bar} {done} of {self.total} {says}".lstrip()
        sys.stderr.write(f"\r{text:<79}" if self._on_terminal else f"{text}\n")
        self._is_open = self._on_terminal
        if is_last:
            self.close()
        sys.stderr.flush()

    def close(self) -> None:
        """End the line, so that whatever is said next starts on a new one."""
        if self._is_open:
            sys.stderr.write("\n")
            self._is_open = False
