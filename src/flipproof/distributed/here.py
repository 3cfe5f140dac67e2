"""Visit all parts of the rows in this process."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import threadpool_limits

from flipproof.blocks.block import Part
from flipproof.blocks.rows import RowBlocks
from flipproof.progress import ProgressLine


@dataclass(frozen=True)
class InThisProcess:
    """Visits parts one after the other, or several at a time in threads."""

    n_jobs: int | None = None
    verbose: int = 0

    def total(self, visit: Callable[[Part], Any], rows: RowBlocks, says: str) -> Any:
        """Return the sum of what is found in all parts; None where there are no rows."""
        line, total = ProgressLine(len(rows.parts), self.verbose, says), None
        findings = self._findings(visit, rows.parts)
        try:
            for done, found in enumerate(findings, start=1):
                if found is not None:
                    total = found if total is None else total + found
                line.show(done, "parts", is_last=done == len(rows.parts))
        finally:
            with warnings.catch_warnings():  # after an error, that some findings are not used is no news
                warnings.simplefilter("ignore", UserWarning)
                findings.close()
            line.close()
        return total

    def kept(self, visit: Callable[[Part], Part], rows: RowBlocks, n_bytes: int, says: str) -> RowBlocks | None:
        """Return None: rows are visited here because they need not be in memory."""
        return None

    def keeps(self, rows: RowBlocks) -> bool:
        """Return False: nothing is kept here."""
        return False

    def _findings(self, visit: Callable[[Part], Any], parts: tuple[Part, ...]) -> Generator[Any, None, None]:
        if effective_n_jobs(self.n_jobs) == 1:
            yield from map(visit, parts)
            return
        with threadpool_limits(limits=1, user_api="blas"):
            work = Parallel(n_jobs=self.n_jobs, require="sharedmem", return_as="generator")
            yield from work(delayed(visit)(part) for part in parts)
