"""Make computations reproducible to the last bit: one thread, and random numbers from a fixed seed.

The last bits of a floating-point sum depend on the number of threads, and a last bit can change a vote. This module
therefore runs the computations that a certificate depends on on one thread. It seeds the random number generators that
are shared by the whole process for the duration of a computation, and restores their state afterwards.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache, partial
from typing import Any, TypeVar

import numpy as np
import threadpoolctl
from joblib import parallel_backend

Result = TypeVar("Result")

#: The number of BLAS threads and the random states of NumPy and Python belong to the whole process: one fit at a time
#: may change them. One lock covers both, because code that holds one of them may need the other.
PROCESS_LOCK = threading.RLock()

#: Maximum number of attempts if another thread changes the number of BLAS threads during a computation.
TRIES = 5

#: Seed of everything that must be reproducible.
FIXED_SEED = 0

#: Seeds of the global generators of NumPy, Python and torch.
FIXED_SEEDS = tuple(np.random.SeedSequence(FIXED_SEED).generate_state(3).tolist())


def on_one_thread(compute: Callable[[], Result]) -> Result:
    """Run `compute` on a single BLAS thread, for results whose last bits depend on the number of threads.

    Raises
    ------
    RuntimeError
        If other threads of the process keep changing the number: a refit might then give a different model.
    """
    with PROCESS_LOCK:
        for _ in range(TRIES):
            _take_control()
            pools = _pools(len(sys.modules))
            with pools.limit(limits=1, user_api="blas"):
                before = _blas_threads(pools)
                result = compute()
                if before | _blas_threads(_pools(len(sys.modules))) <= {1}:
                    return result
    raise RuntimeError(
        "Other threads keep changing the number of BLAS threads, which must be 1 while a learner is "
        "fitted. Fit in the main thread, or set OPENBLAS_NUM_THREADS=1 (MKL_NUM_THREADS=1) before Python starts."
    )


def on_one_core(compute: Callable[[], Result]) -> Result:
    """Run `compute` without other threads of BLAS, OpenMP or joblib."""

    def without_others() -> Result:
        with single_threaded("openmp"), parallel_backend("sequential"):
            return compute()

    return on_one_thread(without_others)


def single_threaded(user_api: str | None = None) -> AbstractContextManager[Any]:
    """Keep the libraries of one interface, "blas" or "openmp", or of both, on one thread inside a context.

    For code that already runs in many workers, while other threads of the process may compute too: unlike
    :func:`on_one_thread`, it does not lock them out. All threads that share a process must enter it, and so must the
    thread that starts them, so that the first one to leave restores the limit to 1.
    """
    limits: AbstractContextManager[Any] = _pools(len(sys.modules)).limit(limits=1, user_api=user_api)
    return limits


def with_seeds(compute: Callable[[], Result], seeds: Sequence[int] = FIXED_SEEDS) -> Result:
    """Run `compute` with the global random number generators seeded by `seeds`.

    Their state is restored afterwards. Only one thread at a time does this, because others would draw from the same
    generators. If `compute` is the first to import torch, it runs again, since torch could not be seeded before.
    """
    had_torch = _torch() is not None
    with PROCESS_LOCK:
        restore = _restorers()
        start_anew(seeds)
        try:
            result = compute()
        finally:
            for put_back in restore:
                put_back()
    return result if had_torch or _torch() is None else with_seeds(compute, seeds)


def start_anew(seeds: Sequence[int] = FIXED_SEEDS) -> None:
    """Seed the global generators: for use inside `with_seeds`, between results that must be independent."""
    of_numpy, of_python, of_torch = (int(seed) for seed in seeds)
    np.random.seed(of_numpy)  # noqa: NPY002
    random.seed(of_python)
    torch = _torch()
    if torch is not None:
        torch.default_generator.manual_seed(of_torch)
        if torch.cuda.is_initialized():  # before that, the seed would persist until CUDA is first used
            torch.cuda.manual_seed_all(of_torch)


@contextmanager
def own_randomness(torch: Any, seed: int) -> Iterator[None]:
    """Seed torch inside the context, and restore its global generators afterwards."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def _torch() -> Any:
    """Return torch if it has been imported."""
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "default_generator") else None


def _restorers() -> list[Callable[[], None]]:
    """Return functions that restore the current states of all generators."""
    restore: list[Callable[[], None]] = [
        partial(np.random.set_state, np.random.get_state()),  # noqa: NPY002 - learners use it
        partial(random.setstate, random.getstate()),
    ]
    torch = _torch()
    if torch is not None:
        restore.append(partial(torch.set_rng_state, torch.get_rng_state()))
        if torch.cuda.is_initialized():
            restore.append(partial(torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all()))
    return restore


def _take_control() -> None:
    """Let this thread set limits: threadpoolctl 3.8 and newer silently ignores limits set by other threads."""
    clear = getattr(getattr(threadpoolctl, "OpenBLASController", None), "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


@lru_cache(maxsize=1)
def _pools(n_modules: int) -> threadpoolctl.ThreadpoolController:
    """Find the threaded libraries of the process; takes milliseconds and changes only with new modules."""
    return threadpoolctl.ThreadpoolController()


def _blas_threads(pools: threadpoolctl.ThreadpoolController) -> set[int]:
    return {pool.num_threads for pool in pools.lib_controllers if pool.user_api == "blas"}
