"""Ctrl-C ends an attack, but not what it has found."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class StopSign:
    """Says whether to stop. Without the lock of an Event, for which a signal handler might have to wait forever."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        """Say so."""
        self._is_set = True

    def is_set(self) -> bool:
        """Whether it has been said."""
        return self._is_set


@contextmanager
def set_by_interrupt(stopped: StopSign) -> Iterator[None]:
    """Set a sign on Ctrl-C, rather than raise KeyboardInterrupt wherever the main thread happens to be.

    Raised inside of a lock, say, it would come out as another error. A second Ctrl-C does raise. A handler of the
    user's own is left alone, and so is everything outside of the main thread, which no signal reaches.
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
