"""Judge random problems for as long as you like: ``PYTHONPATH=src:tests python -m fuzz.run --minutes 60``.

Every finding is printed with a script that reproduces it. Ctrl-C ends the run and still prints the table. The exit
code is 1 if anything was found.
"""
# ruff: noqa: T201

from __future__ import annotations

import argparse
import itertools
import sys
import time
from pathlib import Path

from fuzz.tally import Tally, judge_seeds

#: Scripts that are printed of each kind of finding; all of them are written to the folder, if one is given.
MOST_PRINTED = 2


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="fuzz.run", description=__doc__)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after this many minutes")
    parser.add_argument("--cases", type=int, help="stop after this many problems")
    parser.add_argument("--seed", type=int, help="seed of the first problem; the next has the next seed")
    parser.add_argument(
        "--small", action="store_true", help="at most seven labels, and so few classes that all attacks are tried"
    )
    parser.add_argument("--all-refits", action="store_true", help="refit on every attack that is listed, not on some")
    parser.add_argument("--folder", type=Path, help="write all scripts into this folder")
    given = parser.parse_args(arguments)
    if given.cases is None and given.minutes == float("inf"):
        parser.error("give --minutes or --cases")
    first = time.time_ns() // 1000 if given.seed is None else given.seed
    seeds = itertools.count(first) if given.cases is None else range(first, first + given.cases)
    print(f"seeds from {first} on", flush=True)
    tally, printed = Tally(), {}
    try:
        for seed, findings in judge_seeds(seeds, tally, given.small, given.all_refits, 60 * given.minutes):
            for number, finding in enumerate(findings):
                printed[finding.kind] = printed.get(finding.kind, 0) + 1
                if given.folder:
                    given.folder.mkdir(parents=True, exist_ok=True)
                    (given.folder / f"{seed}_{number}.py").write_text(finding.script)
                if printed[finding.kind] <= MOST_PRINTED:
                    print(f"\n# seed {seed}: {finding.kind}\n{finding.script}", flush=True)
    except KeyboardInterrupt:
        print("\ninterrupted")
    print(tally)
    return 1 if tally.findings else 0


if __name__ == "__main__":
    sys.exit(main())
