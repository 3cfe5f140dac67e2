"""What checking certificates by the second program costs, as a multiple of certifying in the same run (processor time).

    OMP_NUM_THREADS=1 python benchmarks/verifier.py [-o benchmarks/results/verifier.json]

Problems A (13,007 training rows, 50 columns, 2,163 test rows, 2 classes) and B (50,000, 128, 400, 10) have the sizes of
docs/speed.md. Before them, 10,000 test rows of B are written, and checked in a process of its own, with peaks of memory
(on Linux).
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import problems

from flipproof_verify import verify

#: Processes that were running on the machine: times are inflated if there are more than processors.
LOAD = [round(one, 1) for one in os.getloadavg()]

#: Test rows of B, so that the second program takes seconds.
SIZES = {"A": problems.SIZES["A"], "B": replace(problems.SIZES["B"], m=400)}


def seconds(work, repeats):
    """Return the least processor time that a function takes, and what it returned; other processes count little."""
    best, result = np.inf, None
    for _ in range(repeats):
        began = time.process_time()
        result = work()
        best = min(best, time.process_time() - began)
    return best, result


def measure(name, size, repeats=3, methods=("exact", "tight", "kl")):
    """Return what each method costs, as plain JSON types."""
    made = problems.make(size)
    model, Z = made.model, made.Z
    found = []
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
            found.append(
                {
                    "problem": name,
                    "method": method,
                    "n_train": len(model.label_codes_),
                    "n_test": len(Z),
                    "certify_seconds": round(certifying, 3),
                    "save_seconds": round(saving, 3),
                    "file_bytes": path.stat().st_size,
                    "rows_checked": result.n_checked,
                    "verify_seconds": round(checking, 3),
                    "times_certify_per_row": round(per_row, 1),
                    "verdict": result.verdict,
                }
            )
    return found


def measure_large():
    """Certify, save and check 10,000 rows of B; then only check, in a process of its own, to see what that needs."""
    made = problems.make(replace(SIZES["B"], m=10_000))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "proof.flipproof"
        certifying, certificates = seconds(lambda: made.model.certify(made.Z), 1)
        saving, _ = seconds(lambda: certificates.save(path), 1)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        code = (
            "import sys, time; from flipproof_verify import verify; began = time.process_time();"
            "found = verify(sys.argv[1]); used = time.process_time() - began;"
            "status = open('/proc/self/status').read();"  # ru_maxrss would count the parent process too
            "print(found.verdict, used, int(status.split('VmHWM:')[1].split()[0]) / 1024)"
        )
        printed = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True).stdout
        verdict, checking, peak_of_verifier = printed.split()
        found = {
            "problem": "B, 10,000 test rows",
            "method": "exact",
            "n_train": len(made.model.label_codes_),
            "n_test": len(made.Z),
            "certify_seconds": round(certifying, 3),
            "save_seconds": round(saving, 3),
            "file_bytes": path.stat().st_size,
            "verify_seconds": round(float(checking), 3),
            "times_certify_per_row": round(float(checking) / certifying, 1),
            "verdict": verdict,
            "peak_mib_of_certify_and_save": round(peak),
            "peak_mib_of_verify": round(float(peak_of_verifier)),
        }
    print(json.dumps(found, indent=1))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true", help="only 10,000 test rows of B, with the peak of memory")
    parser.add_argument("-o", "--out", type=Path, help="write the figures to a JSON file")
    given = parser.parse_args()
    results = [measure_large()]  # first: the peak of memory is that of the process
    for name, size in {} if given.large else SIZES.items():
        results += measure(name, size)
    if given.out:
        given.out.write_text(json.dumps({"load_before": LOAD, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
