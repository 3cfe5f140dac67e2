"""How far the fits have come, and how long the rest will take."""

from __future__ import annotations

from flipproof.progress import ProgressLine


class FitProgress:
    """Counts fits, and says so on one line of stderr."""

    def __init__(self, n_fits: int, verbose: int) -> None:
        self._line, self._n_fits, self._done = ProgressLine(n_fits, verbose), n_fits, 0

    def announce(self, text: str) -> None:
        """Say what is about to happen."""
        self._line.announce(text)

    def advance(self, n_fits: int) -> None:
        """Say that some more fits are done."""
        self._done += n_fits
        spent, is_last = self._line.seconds, self._done >= self._n_fits
        left = spent / self._done * (self._n_fits - self._done)
        self._line.show(self._done, f"fits, {spent:.0f} s" if is_last else f"fits, about {_spoken(left)} left", is_last)

    def close(self) -> None:
        """End the line, so that whatever is said next starts on a new one."""
        self._line.close()


def _spoken(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
