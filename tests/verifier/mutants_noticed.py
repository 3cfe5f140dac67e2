"""Which mistakes of the prover the second program notices: ``PYTHONPATH=src:tests python -m verifier.mutants_noticed``.

Every mutant of tests/mutants/mutants.toml is applied to a copy of the source, whose certificates of random problems are
saved and checked. Honest files must be verified, and radii that are one too large refuted: both directions are noticed.
"""
# ruff: noqa: T201

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]

#: Rooms whose mistakes change certificates; others are about tables, reports or commands.
ROOMS = ("core/", "learners/", "smoothing/", "streaming/", "store/proof")


def is_noticed(mutant, n_cases, seed):
    """Tell whether some file of the mutant gets another verdict than it should; None if the mutant does not fit."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        file = source / "flipproof" / mutant["file"]
        text = file.read_text("utf-8")
        if text.count(mutant["before"]) != 1:
            return None
        file.write_text(text.replace(mutant["before"], mutant["after"]), "utf-8")
        env = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT / 'tests'}", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "verifier.random_proofs", "--cases", str(n_cases), "--seed", str(seed)]
        return subprocess.run(command, env=env, cwd=folder, capture_output=True).returncode != 0


def main(arguments=None):
    """Print the verdict on each mutant, and how many are noticed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=60, help="random problems for each mutant")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    mutants = tomllib.loads((ROOT / "tests" / "mutants" / "mutants.toml").read_text("utf-8"))["mutant"]
    mutants = [one for one in mutants if one["file"].startswith(ROOMS)]
    results = []
    for mutant in mutants:
        results.append(is_noticed(mutant, given.cases, given.seed))
        print(
            {True: "noticed", False: "-", None: "does not fit"}[results[-1]], mutant["file"], mutant["name"], flush=True
        )
    print(f"{results.count(True)} of {len(mutants)} mutants noticed with {given.cases} problems each")


if __name__ == "__main__":
    main()
