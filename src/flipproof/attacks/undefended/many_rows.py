"""Attack many test rows in parallel threads, and keep the best of several attacks on each."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import numpy as np
from joblib import effective_n_jobs

from flipproof.attacks.result import AttackResult
from flipproof.attacks.undefended.logistic_target import LogisticTarget, RowSearch, Stopped, Strategy
from flipproof.attacks.undefended.victim import NO_FLIPS, Outcome, quiet_refits
from flipproof.runtime.determinism import single_threaded
from flipproof.runtime.progress import AttackProgress, StopSign, set_by_interrupt

#: Seconds between checks for an interrupt, which the main thread may not notice while it waits.
LOOK_UP = 0.2


@dataclass(frozen=True)
class RowReport:
    """The outcome for one test row, and the number of fits it took."""

    outcome: Outcome
    n_refits: int


NOT_REACHED = RowReport(Outcome(None, attempted=False), 0)
IMPOSSIBLE = RowReport(Outcome(None, attempted=True), 0)
NOTHING_TO_DO = RowReport(Outcome(NO_FLIPS, attempted=True), 0)


def attack_all_rows(
    target: LogisticTarget,
    strategies: Sequence[Strategy],
    max_flips: int | None,
    n_jobs: int | None,
    verbose: int,
    name: str,
) -> AttackResult:
    """Try every strategy on every test row and keep the best for each; if interrupted, those found so far."""
    victim = target.victim
    m = len(victim.prediction)
    if victim.is_untouchable:
        return victim.result([IMPOSSIBLE.outcome] * m, name, n_refits=0)
    reports = [NOT_REACHED] * m
    stopped = StopSign()
    try:
        # each thread works on its own row, so additional BLAS threads would only slow it down
        with set_by_interrupt(stopped), quiet_refits(), single_threaded("blas"):
            changed = victim.overturned_by_a_refit()
            reports = [NOTHING_TO_DO if known else NOT_REACHED for known in changed]
            line = AttackProgress(name, m, verbose)
            _run(target, strategies, max_flips, effective_n_jobs(n_jobs), stopped, line, reports)
    except KeyboardInterrupt:
        pass
    # plus the two fits to the unchanged labels
    n_refits = 2 + sum(report.n_refits for report in reports)
    return victim.result([report.outcome for report in reports], name, n_refits)


def _run(
    target: LogisticTarget,
    strategies: Sequence[Strategy],
    max_flips: int | None,
    n_threads: int,
    stopped: StopSign,
    line: AttackProgress,
    reports: list[RowReport],
) -> None:
    """Fill in the reports of the remaining rows; on an interrupt, of those that were finished or nearly finished."""
    with ThreadPoolExecutor(n_threads) as pool:
        rows: dict[Future[RowReport], int] = {}
        try:
            for row in np.flatnonzero([report is NOT_REACHED for report in reports]).tolist():
                rows[pool.submit(attack_row, target, strategies, row, max_flips, stopped)] = row
            pending = set(rows)
            while pending and not stopped.is_set():
                finished, pending = wait(pending, timeout=LOOK_UP, return_when=FIRST_COMPLETED)
                for future in finished:
                    reports[rows[future]] = future.result()
                _show(line, reports)
        finally:
            stopped.set()
            try:
                pool.shutdown(cancel_futures=True)
            finally:  # even if interrupted once more
                for future, row in rows.items():
                    if future.done() and not future.cancelled() and future.exception() is None:
                        reports[row] = future.result()
            _show(line, reports, is_last=True)


def attack_row(
    target: LogisticTarget, strategies: Sequence[Strategy], row: int, max_flips: int | None, stopped: StopSign
) -> RowReport:
    """Attack one test row. If stopped, the best attack so far is still confirmed."""
    search = RowSearch(target, row, max_flips, stopped)
    was_stopped, flips = False, None
    try:
        for strategy in strategies:
            strategy(search)
    except Stopped:
        was_stopped = True
    try:
        flips = search.confirmed()
    except Stopped:
        was_stopped = True
    return RowReport(Outcome(flips, attempted=flips is not None or not was_stopped), search.n_refits)


def _show(line: AttackProgress, reports: list[RowReport], is_last: bool = False) -> None:
    done = sum(report.outcome.attempted for report in reports)
    overturned = sum(report.outcome.flips is not None for report in reports)
    line.show(done, overturned, sum(report.n_refits for report in reports), is_last)
