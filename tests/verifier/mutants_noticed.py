"""Which mistakes of the prover the second program notices: ``PYTHONPATH=src:tests python -m verifier.mutants_noticed``.

Every mutant of tests/mutants/mutants.toml is applied to a copy of the source, whose certificates of random problems are
saved and checked. Honest files must be verified, and radii that are one too large refuted: both directions are noticed.
The results are in mutants_noticed.json (``--write``), by the name of the mutant, with the reason for those not noticed.
"""
# ruff: noqa: T201

import argparse
import importlib
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import tomllib
import warnings
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).with_suffix(".json")

#: Rooms whose mistakes change certificates; others are about tables, reports or commands.
ROOMS = ("core/", "learners/", "smoothing/", "streaming/", "store/proof")

#: Why a mistake is not noticed. Where none of these is the reason, the random problems do not reach it.
REASONS = {
    "votes": "it changes votes, and the second program checks what follows from the votes in the file",
    "no-proof": "it is about statements that have no certificate file: collective ones, and those about means",
    "refusals": "it lets something be accepted that should be refused, and the problems have no such case",
    "other-problems": "it is about noise on data sets, which the random problems do not have; test_other_rules.py does",
    "not-reached": "no problem has the ties, numbers, restrictions or groups that would make a false claim of it",
}

#: The reason by the beginning of the file's name.
REASON_OF = {
    "core/linalg": "votes",
    "learners/kernel": "votes",
    "streaming/": "votes",
    "core/inequalities": "no-proof",
    "core/target": "no-proof",
    "learners/collective": "no-proof",
    "learners/clones": "refusals",
    "learners/base_learners": "refusals",
    "learners/in_memory": "refusals",
    "core/invariants": "refusals",
    "smoothing/": "other-problems",
}

#: What the problems import besides flipproof: once, for all mutants.
FROM_ELSEWHERE = [
    *("flint", "narwhals", "pandas", "scipy.optimize", "scipy.sparse", "scipy.spatial", "scipy.stats"),
    *("sklearn.datasets", "sklearn.ensemble", "sklearn.linear_model", "sklearn.neighbors", "sklearn.pipeline"),
]

#: Seconds for the problems of one mutant.
PATIENCE = 600


def mutants():
    """Return the mutants of the prover that change certificates."""
    listed = tomllib.loads((ROOT / "tests" / "mutants" / "mutants.toml").read_text("utf-8"))["mutant"]
    return [one for one in listed if one.get("package", "flipproof") == "flipproof" and one["file"].startswith(ROOMS)]


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
        return not all_as_it_should(source, n_cases, seed)


def all_as_it_should(source, n_cases, seed):
    """Tell whether this copy of the source gives random problems certificates that the second program accepts."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(FROM_ELSEWHERE)
    process = context.Process(target=_check, args=(str(source), n_cases, seed))
    process.start()
    process.join(PATIENCE)
    if process.is_alive():
        process.kill()
        raise TimeoutError(f"{n_cases} problems took more than {PATIENCE} seconds")
    return process.exitcode == 0


def _check(source, n_cases, seed):
    assert "flipproof" not in sys.modules
    sys.path[:0] = [source, str(ROOT / "tests")]
    sys.dont_write_bytecode = True
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    warnings.simplefilter("ignore")
    check = importlib.import_module("verifier.random_proofs").check
    assert Path(sys.modules["flipproof"].__file__).is_relative_to(source)
    with tempfile.TemporaryDirectory() as folder:
        for one in range(seed, seed + n_cases):
            check(one, folder)


def reason_of(file):
    """Return why mistakes in a file are not noticed, if they are not."""
    return next((reason for name, reason in REASON_OF.items() if file.startswith(name)), "not-reached")


def write(found, n_cases, seed):
    """Keep the results, with the reason for each mutant that was not noticed."""
    results = {
        one["name"]: "noticed" if found[one["name"]] else reason_of(one["file"])
        for one in mutants()
        if one["name"] in found
    }
    n_noticed = list(results.values()).count("noticed")
    facts = {"n_problems": n_cases, "seed": seed, "n_mutants": len(results), "n_noticed": n_noticed}
    RESULTS.write_text(json.dumps({**facts, "reasons": REASONS, "mutants": results}, indent=2) + "\n")


def main(arguments=None):
    """Print the verdict on each mutant, and how many are noticed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=60, help="random problems for each mutant")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help=f"keep the results in {RESULTS.name}")
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1), metavar=("I", "N"), help="every N-th, from I")
    given = parser.parse_args(arguments)
    results, (begin, step) = {}, given.part
    for mutant in mutants()[begin::step]:
        results[mutant["name"]] = found = is_noticed(mutant, given.cases, given.seed)
        shown = {True: "noticed", False: "-", None: "does not fit"}[found]
        print(shown, mutant["file"], mutant["name"], flush=True)
    n_noticed = list(results.values()).count(True)
    print(f"{n_noticed} of {len(results)} mutants noticed with {given.cases} problems each")
    if given.write:
        write(results, given.cases, given.seed)


if __name__ == "__main__":
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    main()
