"""Progress of long computations on one line of stderr with an ETA, and a Ctrl-C that keeps partial results."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Self

#: Seconds between two lines if stderr is not a terminal, for example a log file.
BETWEEN_LINES = 10.0
#: Seconds between two updates of the line on a terminal.
BETWEEN_UPDATES = 0.2
BAR_WIDTH = 20

#: Seconds of work in a piece of test rows, so that the line moves, and Ctrl-C works.
PIECE_SECONDS = 1.0
#: Test rows in the first piece, whose duration is unknown.
FIRST_ROWS = 16


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


@dataclass(frozen=True)
class Count:
    """How much of some work is done: `done` of `total` things called `noun`, after `seconds`."""

    done: int
    total: int
    noun: str
    seconds: float

    @property
    def is_last(self) -> bool:
        """Whether everything is done."""
        return self.done >= self.total

    @property
    def remaining(self) -> str:
        """The time that is probably left; at the end, the time that it took."""
        if self.is_last:
            return _spoken(self.seconds)
        return f"about {_spoken(self.seconds / self.done * (self.total - self.done))} left" if self.done else ""


#: Shows the counts of a program instead of the line on stderr.
Display = Callable[[Count], None]

_display: ContextVar[Display | None] = ContextVar("display", default=None)


@contextmanager
def shown_by(display: Display) -> Iterator[None]:
    """Show the counts of all work inside the context by a function, for programs with their own progress bars."""
    token = _display.set(display)
    try:
        yield
    finally:
        _display.reset(token)


def announce(text: str, verbose: int) -> None:
    """Say on stderr what is about to happen, unless a program shows progress itself."""
    if verbose and _display.get() is None:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


class CountedProgress:
    """Progress of counted work, such as fits or test rows, on one line of stderr with an ETA.

    Parameters
    ----------
    total : int
        How many things there are to do.
    noun : str
        What they are called, in plural.
    verbose : int
        Silent if 0.

    Examples
    --------
    >>> with CountedProgress(3, "trees", verbose=0) as progress:
    ...     for tree in range(3):
    ...         progress.advance(1)
    """

    def __init__(self, total: int, noun: str, verbose: int) -> None:
        self.total, self.noun, self.verbose = total, noun, int(verbose)
        self._line, self._done, self._lock = ProgressLine(total, self.verbose), 0, threading.Lock()
        self._display = _display.get()

    def announce(self, text: str) -> None:
        """Say what is about to happen."""
        announce(text, self.verbose)

    def advance(self, n: int) -> None:
        """Count `n` more as done; may be called by any thread."""
        if not self.verbose:
            return
        with self._lock:
            self._done = min(self._done + n, self.total)  # work that has to be repeated is counted once
            count = Count(self._done, self.total, self.noun, self._line.seconds)
            if self._display is not None:
                self._display(count)
            else:
                self._line.show(count.done, f"{self.noun}, {count.remaining}", count.is_last)

    def close(self) -> None:
        """End the line, so that later output starts on a new one."""
        self._line.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class RowProgress(CountedProgress):
    """Progress by rows. If it is shown, the work is cut into pieces that take about a second each."""

    def __init__(self, total: int, verbose: int, noun: str = "test rows") -> None:
        super().__init__(total, noun, verbose)
        self._size = FIRST_ROWS

    def pieces(self, blocks: Iterable[slice]) -> Iterator[slice]:
        """Yield the blocks of rows, or pieces of them; what is computed must not depend on that."""
        for block in blocks:
            if not self.verbose:
                yield block
                continue
            start = block.start
            while start < block.stop:
                stop = min(start + self._size, block.stop)
                yield slice(start, stop)
                start = stop

    @contextmanager
    def piece(self, n_rows: int, n_counted: int | None = None) -> Iterator[None]:
        """Measure the work inside the context, on `n_rows` rows that count as `n_counted` of the total."""
        began = time.monotonic()
        yield
        seconds = time.monotonic() - began
        self._size = max(1, min(4 * n_rows, int(n_rows * PIECE_SECONDS / max(seconds, 1e-9))))
        self.advance(n_rows if n_counted is None else n_counted)


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

    def stop(number: int, frame: object) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
