"""What checking certificates by the second program costs, as a multiple of certifying in the same run.

    OMP_NUM_THREADS=1 python benchmarks/verifier.py

Problems A (13,007 training rows, 50 columns, 2,163 test rows, 2 classes) and B (50,000, 128, 400, 10) have the sizes of
docs/speed.md. `--large` writes and checks 10,000 test rows of B, and reports the peak of memory.
"""

import argparse
import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import problems

from flipproof_verify import verify

#: Test rows of B, so that the second program takes seconds.
SIZES = {"A": problems.SIZES["A"], "B": replace(problems.SIZES["B"], m=400)}


def seconds(work, repeats):
    """Return the least time that a function takes, and what it returned."""
    best, result = np.inf, None
    for _ in range(repeats):
        began = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - began)
    return best, result


def measure(name, size, repeats=3, methods=("exact", "tight", "kl")):
    made = problems.make(size)
    model, Z = made.model, made.Z
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "proof.flipproof"
        for method in methods:
            certifying, certificates = seconds(lambda method=method: model.certify(Z, method), repeats)
            saving, _ = seconds(lambda found=certificates: found.save(path), 1)
            rows = None if method == "exact" else 40
            checking, result = seconds(lambda rows=rows: verify(path, rows), 1 if rows else repeats)
            per_row = checking / result.n_checked / (certifying / len(Z))
            size = path.stat().st_size / 1e6
            print(f"{name} {method}: certify {certifying:.3f} s, save {saving:.3f} s, {size:.1f} MB, {result}")
            print(f"  checked in {checking:.3f} s, {per_row:.1f} times certify per row")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true", help="10,000 test rows of B, with the peak of memory")
    if parser.parse_args().large:
        measure("B", replace(SIZES["B"], m=10_000), repeats=1, methods=("exact",))
        print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
        return
    for name, size in SIZES.items():
        measure(name, size)


if __name__ == "__main__":
    main()
