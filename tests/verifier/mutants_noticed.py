"""Which mistakes of the prover the second program notices: ``PYTHONPATH=src:tests python -m verifier.mutants_noticed``.

Every mutant of tests/mutants/mutants.toml is applied to a copy of the source, whose certificates of random problems are
saved and checked. Honest files must be verified, and radii that are one too large refuted: both directions are noticed.
The results are in mutants_noticed.json (``--write``), by the name of the mutant: "noticed" by the verifier; "stopped"
by flipproof itself, which wrote no file; or the reason for which it is not noticed, and how many problems have other
files than without it. Where the reason says that no certificate changes, there must be none.
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
from multiprocessing.pool import ThreadPool
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).with_suffix(".json")

#: Rooms whose mistakes change certificates; others are about tables, reports or commands.
ROOMS = ("core/", "learners/", "smoothing/", "streaming/", "store/proof")

#: Why a mistake is not noticed.
REASONS = {
    "given": "it changes what the verifier takes as given: votes and their grid, offsets, classes, base predictions",
    "no-file": "it is about statements that have no certificate file: collective ones, and those about means",
    "refusals": "it lets something be accepted that should be refused; no proof can show that",
    "own-checks": "it turns off one of flipproof's checks of its own results, which are right",
    "not-certified": "it changes estimates by which `predict` decides, or counts for attacks, and no certificate",
    "still-sound": "what it claims is still true: it takes away a margin for errors that are smaller, or cannot occur",
    "too-large": "only more rows than a machine holds would show it",
}

#: Reasons that say that no certificate changes.
NO_FILE_CHANGES = ("no-file", "refusals", "own-checks", "not-certified", "too-large")

#: The reason for each mistake that is not noticed.
UNNOTICED = {}

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


def result_of(mutant, n_cases, seed):
    """Return what becomes of random problems with a mutant, as `_check` says; None if it does not fit the source."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        file = source / "flipproof" / mutant["file"]
        text = file.read_text("utf-8")
        if text.count(mutant["before"]) != 1:
            return None
        file.write_text(text.replace(mutant["before"], mutant["after"]), "utf-8")
        return checked(source, n_cases, seed)


def checked(source, n_cases, seed):
    """Return what becomes of random problems with this copy of the source, as `_check` says."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(FROM_ELSEWHERE)
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        process = context.Process(target=_check, args=(str(source), n_cases, seed, str(answer)))
        process.start()
        process.join(PATIENCE)
        if process.is_alive():
            process.kill()
            raise TimeoutError(f"{n_cases} problems took more than {PATIENCE} seconds")
        return json.loads(answer.read_text())


def _check(source, n_cases, seed, answer):
    """Write what becomes of the problems: at which one the verifier notices something, how many were stopped, digests.

    A problem is stopped if flipproof finds its own result wrong, or refuses what it should certify.
    """
    assert "flipproof" not in sys.modules
    sys.path[:0] = [source, str(ROOT / "tests")]
    sys.dont_write_bytecode = True
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    warnings.simplefilter("ignore")
    check = importlib.import_module("verifier.random_proofs").check
    unreadable = importlib.import_module("flipproof_verify").UnreadableFileError
    assert Path(sys.modules["flipproof"].__file__).is_relative_to(source)
    found = {"noticed_at": None, "n_stopped": 0, "digests": []}
    with tempfile.TemporaryDirectory() as folder:
        for one in range(seed, seed + n_cases):
            digests = []
            try:
                check(one, folder, digests)
            except (AssertionError, unreadable):
                found["noticed_at"] = one
                break
            except Exception:
                found["n_stopped"] += 1
            found["digests"].append(digests)
    Path(answer).write_text(json.dumps(found))


def verdict_on(mutant, found, honest):
    """Return "noticed", "stopped" or the reason for which nothing was noticed; and how many problems' files differ."""
    if found["noticed_at"] is not None:
        return "noticed", None
    n_changed = sum(one != other for one, other in zip(found["digests"], honest["digests"], strict=True))
    return "stopped" if found["n_stopped"] else UNNOTICED.get(mutant["name"], "unknown"), n_changed


def write(found, n_cases, seed):
    """Keep the results."""
    listed = [verdict for verdict, _ in found.values()]
    facts = {"n_problems": n_cases, "seed": seed, "n_mutants": len(found)}
    facts |= {f"n_{one}": listed.count(one) for one in ("noticed", "stopped")}
    changed = {name: n_changed for name, (_, n_changed) in found.items() if n_changed is not None}
    results = {name: verdict for name, (verdict, _) in found.items()}
    text = json.dumps({**facts, "reasons": REASONS, "mutants": results, "problems_with_other_files": changed}, indent=2)
    RESULTS.write_text(text + "\n")


def main(arguments=None):
    """Print the verdict on each mutant, and how many are noticed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=198, help="random problems for each mutant")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1, help="mutants that are tried at a time")
    parser.add_argument("--write", action="store_true", help=f"keep the results in {RESULTS.name}")
    given = parser.parse_args(arguments)
    honest = checked(ROOT / "src", given.cases, given.seed)
    if honest["noticed_at"] is not None or honest["n_stopped"]:
        parser.error(f"without any mutant, not all is as it should be: {honest['noticed_at']}, {honest['n_stopped']}")
    with ThreadPool(given.workers) as pool:
        results = {}
        tried = pool.imap(lambda one: (one, result_of(one, given.cases, given.seed)), mutants(), chunksize=1)
        for mutant, found in tried:
            if found is None:
                print("does not fit", mutant["file"], mutant["name"], flush=True)
                continue
            results[mutant["name"]] = verdict_on(mutant, found, honest)
            verdict, n_changed = results[mutant["name"]]
            print(verdict, n_changed, found["noticed_at"], mutant["file"], mutant["name"], flush=True)
    listed = [verdict for verdict, _ in results.values()]
    print(f"{listed.count('noticed')} of {len(results)} mutants noticed, {listed.count('stopped')} stopped")
    if given.write:
        write(results, given.cases, given.seed)


if __name__ == "__main__":
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    main()
