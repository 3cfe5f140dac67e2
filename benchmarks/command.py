"""Where the seconds of `flipproof certify` go: import, read, encode, fit, certify, attack, report.

    FLIPPROOF_DATA=... python benchmarks/command.py [--learner ridge] [--repeats 3] [--json results.json]

The data are those of Adult (adult.data.gz and adult.test.gz). Seconds are of the processor, on one thread, the best of
several runs in one process, so that other work on the machine disturbs them less. "Engine" is `certify` of the fitted
model on the encoded rows, and nothing else; the aim is that reading, encoding, fitting and certifying take at most 1.6
times that.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from threadpoolctl import threadpool_limits

import flipproof
from flipproof.report.rendering import rendered


def adult(folder):
    """Return the training and the test rows of Adult as data frames."""
    import pandas as pd

    names = "adult.data.gz", "adult.test.gz"
    return [pd.read_csv(folder / name, skipinitialspace=True, na_values="?") for name in names]


def import_seconds():
    """Return processor seconds of importing what the command needs, in a new process, least of three."""
    code = "import time; import flipproof.auditing.classes, flipproof.learners.ridge; print(time.process_time())"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(3)]
    return min(float(run.stdout) for run in runs)


def split(train, test, learner):
    """Run once; return processor seconds by step, in their order."""
    seconds, names = {}, []
    last = time.process_time()

    def step(name):
        nonlocal last
        now = time.process_time()
        if names:
            seconds[names[-1]] = seconds.get(names[-1], 0.0) + now - last
        names.append(name.split(" (")[0])
        last = now

    step("Before the first step")
    result = flipproof.audit(train, test, label="classification", learner=learner, progress=step)
    step("Rendering the report")
    rendered(result.summary(), ".html")
    step("")
    start = time.process_time()
    result.model.certify(result.X_test)
    return seconds | {"Engine: certify alone": time.process_time() - start}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learner", default="ridge")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", help="file for the results")
    arguments = parser.parse_args()
    import tempfile

    train, test = adult(Path(os.environ["FLIPPROOF_DATA"]) / "adult")
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
        files = [str(Path(folder) / name) for name in ("train.csv", "test.csv")]
        for frame, file in zip((train, test), files, strict=True):
            frame.to_csv(file, index=False)
        runs = [split(*files, arguments.learner) for _ in range(arguments.repeats)]
    best = {name: min(run[name] for run in runs) for name in runs[0]}
    best = {"Importing": import_seconds(), **best}
    engine = best["Engine: certify alone"]
    print("| step | processor seconds | / engine |\n| --- | --- | --- |")
    for name, value in best.items():
        print(f"| {name} | {value:.2f} | {value / engine:.2f} |")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(best, indent=1) + "\n")


if __name__ == "__main__":
    main()
