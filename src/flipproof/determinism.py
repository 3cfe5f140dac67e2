"""Make a computation come out the same again, to the last bit: one thread, and random numbers from a fixed seed.

Floating-point sums change in their last bits with the number of threads, and a last bit can turn a vote. So what a
certificate depends on is computed on one thread, and this module makes sure of that. Generators of random numbers that
all code of a process shares are seeded for the time of a computation, and put back.
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

#: The number of BLAS threads belongs to the whole process, as do NumPy's and Python's random numbers: one fit at a time
#: may change them. One lock for both, since who holds the one may well ask for the other.
PROCESS_LOCK = threading.RLock()

#: How often a computation is done again because some other thread changed the number of BLAS threads meanwhile.
TRIES = 5

#: Seed of everything that must come out the same again.
FIXED_SEED = 0

#: Seeds of the generators of NumPy, Python and torch that all code of a process shares.
FIXED_SEEDS = tuple(np.random.SeedSequence(FIXED_SEED).generate_state(3).tolist())


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
            pools = _pools(len(sys.modules))
            with pools.limit(limits=1, user_api="blas"):
                before = _blas_threads(pools)
                result = compute()
                if before | _blas_threads(_pools(len(sys.modules))) <= {1}:
                    return result
    raise RuntimeError(
        "Other threads keep changing the number of BLAS threads, which must be 1 for a moment while a learner is "
        "fitted. Fit in the main thread, or set OPENBLAS_NUM_THREADS=1 (MKL_NUM_THREADS=1) before Python starts."
    )


def on_one_core(compute: Callable[[], Result]) -> Result:
    """Return what `compute` returns without any other thread: of BLAS, of OpenMP, of joblib."""

    def without_others() -> Result:
        with single_threaded("openmp"), parallel_backend("sequential"):
            return compute()

    return on_one_thread(without_others)


def single_threaded(user_api: str | None = None) -> AbstractContextManager[Any]:
    """Keep the libraries of an interface, "blas" or "openmp", or of both, on one thread while a context lasts.

    For workers that are many already, and where other threads of the process may compute meanwhile; it does not lock
    them out, as :func:`on_one_thread` does. Of threads that share a process, all enter it, and so does whoever starts
    them: who leaves first must find 1 as it was.
    """
    limits: AbstractContextManager[Any] = _pools(len(sys.modules)).limit(limits=1, user_api=user_api)
    return limits


def with_seeds(compute: Callable[[], Result], seeds: Sequence[int] = FIXED_SEEDS) -> Result:
    """Return what `compute` returns if the generators that all code of a process shares start from these seeds.

    They are left as they were. One thread at a time does this: others would draw from the same generators. If `compute`
    was the first to import torch, it is done again, since torch could not be seeded before.
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
    """Seed the shared generators: inside of `with_seeds`, between answers that must not depend on each other."""
    of_numpy, of_python, of_torch = (int(seed) for seed in seeds)
    np.random.seed(of_numpy)  # noqa: NPY002
    random.seed(of_python)
    torch = _torch()
    if torch is not None:
        torch.default_generator.manual_seed(of_torch)
        if torch.cuda.is_initialized():  # before that, a seed would stay for whoever uses it first
            torch.cuda.manual_seed_all(of_torch)


@contextmanager
def own_randomness(torch: Any, seed: int) -> Iterator[None]:
    """Draw from this seed inside, and leave torch's shared generators as they were."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def _torch() -> Any:
    """Return torch if somebody uses it."""
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "default_generator") else None


def _restorers() -> list[Callable[[], None]]:
    """Return what puts all generators back to where they are now."""
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
    """Let this thread set limits: threadpoolctl 3.8 and newer lets one thread at a time, and others silently do not."""
    clear = getattr(getattr(threadpoolctl, "OpenBLASController", None), "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


@lru_cache(maxsize=1)
def _pools(n_modules: int) -> threadpoolctl.ThreadpoolController:
    """Find the libraries of the process that use threads: this takes milliseconds, and only a new module brings new."""
    return threadpoolctl.ThreadpoolController()


def _blas_threads(pools: threadpoolctl.ThreadpoolController) -> set[int]:
    return {pool.num_threads for pool in pools.lib_controllers if pool.user_api == "blas"}
