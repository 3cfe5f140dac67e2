"""How far an attack has come."""

from __future__ import annotations

from flipproof.progress import ProgressLine


class AttackProgress:
    """Says on one line of stderr how many test rows are done and overturned, and what that took."""

    def __init__(self, name: str, n_rows: int, verbose: int) -> None:
        self._line = ProgressLine(n_rows, verbose, name)

    def show(self, done: int, overturned: int, n_refits: int, is_last: bool = False) -> None:
        """Say how many test rows are done, how many of them are overturned, and how many models were fitted for it."""
        says = f"test rows, {overturned} overturned, {n_refits} refits, {self._line.seconds:.0f} s"
        self._line.show(done, says, is_last)
