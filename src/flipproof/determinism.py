"""Run a computation on one BLAS thread, and know that it did."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

import threadpoolctl

Result = TypeVar("Result")

#: The number of BLAS threads belongs to the whole process, as do NumPy's and Python's random numbers: one fit at a time
#: may change them. One lock for both, since who holds the one may well ask for the other.
PROCESS_LOCK = threading.RLock()

#: How often a computation is done again because some other thread changed the number of BLAS threads meanwhile.
TRIES = 5


def on_one_thread(compute: Callable[[], Result]) -> Result:
    """Return what `compute` returns on a single BLAS thread, for results whose last bits depend on the number.

    Raises
    ------
    RuntimeError
        If other threads of the process do not leave the number alone: a result of unknown bits would make a refit
        another model.
    """
    with PROCESS_LOCK:
        for _ in range(TRIES):
            _take_control()
            pools = _blas_pools(len(sys.modules))
            with pools.limit(limits=1, user_api="blas"):
                before = _blas_threads(pools)
                result = compute()
                if before | _blas_threads(_blas_pools(len(sys.modules))) <= {1}:
                    return result
    raise RuntimeError(
        "Other threads keep changing the number of BLAS threads, which must be 1 for a moment while a learner is "
        "fitted. Fit in the main thread, or set OPENBLAS_NUM_THREADS=1 (MKL_NUM_THREADS=1) before Python starts."
    )


def _take_control() -> None:
    """Let this thread set limits: threadpoolctl 3.8 and newer lets one thread at a time, and others silently do not."""
    clear = getattr(getattr(threadpoolctl, "OpenBLASController", None), "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


@lru_cache(maxsize=1)
def _blas_pools(n_modules: int) -> threadpoolctl.ThreadpoolController:
    """Find the BLAS libraries of the process: a matter of milliseconds, and only a new module can bring a new one."""
    return threadpoolctl.ThreadpoolController()


def _blas_threads(pools: threadpoolctl.ThreadpoolController) -> set[int]:
    return {pool.num_threads for pool in pools.lib_controllers if pool.user_api == "blas"}
