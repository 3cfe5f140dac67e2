"""Progress of long computations on one line of stderr with an ETA, and a Ctrl-C that keeps partial results."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: Seconds between two lines if stderr is not a terminal, for example a log file.
BETWEEN_LINES = 10.0
#: Seconds between two updates of the line on a terminal.
BETWEEN_UPDATES = 0.2
BAR_WIDTH = 20


class ProgressLine:
    """A bar that is redrawn on a terminal, a line every ten seconds elsewhere; silent if `verbose` is 0."""

    def __init__(self, total: int, verbose: int, name: str = "") -> None:
        self.total, self.verbose, self.name = total, verbose, name
        self._on_terminal = sys.stderr.isatty()
        self._began = self._last = time.monotonic()
        self._is_open = False

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def announce(self, text: str) -> None:
        """Say what is about to happen."""
        if self.verbose:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()

    def show(self, done: int, says: str, is_last: bool = False) -> None:
        """Show how many of the total are done, followed by the text `says`; updates that come too soon are skipped."""
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
        """End the line, so that later output starts on a new one."""
        if self._is_open:
            sys.stderr.write("\n")
            self._is_open = False


class AttackProgress:
    """Progress of an attack on one line of stderr: test rows done, predictions overturned, refits, time."""

    def __init__(self, name: str, n_rows: int, verbose: int) -> None:
        self._line = ProgressLine(n_rows, verbose, name)

    def show(self, done: int, overturned: int, n_refits: int, is_last: bool = False) -> None:
        """Show how many test rows are done, how many predictions are overturned, and how many models were fitted."""
        says = f"test rows, {overturned} overturned, {n_refits} refits, {self._line.seconds:.0f} s"
        self._line.show(done, says, is_last)


class FitProgress:
    """Progress of many fits on one line of stderr."""

    def __init__(self, n_fits: int, verbose: int) -> None:
        self._line, self._n_fits, self._done = ProgressLine(n_fits, verbose), n_fits, 0

    def announce(self, text: str) -> None:
        """Say what is about to happen."""
        self._line.announce(text)

    def advance(self, n_fits: int) -> None:
        """Count `n_fits` more fits as done."""
        self._done += n_fits
        spent, is_last = self._line.seconds, self._done >= self._n_fits
        left = spent / self._done * (self._n_fits - self._done)
        self._line.show(self._done, f"fits, {spent:.0f} s" if is_last else f"fits, about {_spoken(left)} left", is_last)

    def close(self) -> None:
        """End the line, so that later output starts on a new one."""
        self._line.close()


def _spoken(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class StopSign:
    """A flag that says whether to stop; without the lock of an Event, on which a signal handler could deadlock."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        """Ask to stop."""
        self._is_set = True

    def is_set(self) -> bool:
        """Whether to stop."""
        return self._is_set


@contextmanager
def set_by_interrupt(stopped: StopSign) -> Iterator[None]:
    """Set a stop sign on Ctrl-C instead of raising KeyboardInterrupt at an arbitrary point of the main thread.

    Raised inside a lock, for example, it would surface as another error. A second Ctrl-C does raise. A user-defined
    signal handler is left in place, and nothing changes outside the main thread, which receives no signals.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def stop(number: int, frame: Any) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
