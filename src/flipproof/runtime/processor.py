"""Which processor instructions the numerical libraries use, so that results are reproducible on other machines.

A library picks its kernels for the processor at hand. Wider registers add in a different order, so the last bits
differ, and training amplifies these differences. Nearly every x86-64 processor of the last ten years has AVX2, and
kernels for AVX2 give the same numbers on all of them.

This module imports no numerical library: they read the environment once, when they are loaded.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

#: Variables that make a library use its kernels for AVX2, or for MKL those that are the same for all vendors.
SAME_KERNELS = {
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL",
    "OPENBLAS_CORETYPE": "HASWELL",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_CBWR": "COMPATIBLE",
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "",
}
X86_64 = ("x86_64", "AMD64")


def use_same_kernels() -> None:
    """Choose kernels for AVX2 in this process, if the processor has it and NumPy is not loaded yet.

    Variables that are already set are kept. Does nothing outside Linux, where there is no simple way to detect AVX2
    before NumPy is loaded.
    """
    if "numpy" not in sys.modules and _has_avx2():
        for name, value in SAME_KERNELS.items():
            os.environ.setdefault(name, value)


def kernels() -> dict[str, Any]:
    """Return what determines the kernels: the loaded linear algebra libraries of NumPy and SciPy, and the variables."""
    from threadpoolctl import threadpool_info

    blas = {_described(pool) for pool in threadpool_info() if pool["user_api"] == "blas"}
    return {"blas": sorted(blas), "variables": {name: os.environ[name] for name in SAME_KERNELS if name in os.environ}}


def _described(pool: dict[str, object]) -> str:
    return " ".join(str(pool[key]) for key in ("internal_api", "version", "architecture") if pool.get(key))


def _has_avx2() -> bool:
    """Whether the processor is known to have AVX2 and its companion instructions."""
    listed = Path("/proc/cpuinfo")
    if platform.machine() not in X86_64 or not listed.exists():
        return False
    flags = (line.partition(":")[2].split() for line in listed.read_text().splitlines() if line.startswith("flags"))
    return {"avx2", "fma", "bmi2"} <= set(next(flags, ()))
