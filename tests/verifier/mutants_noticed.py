"""Which mistakes of the prover the second program notices: ``PYTHONPATH=src:tests python -m verifier.mutants_noticed``.

Every mutant of tests/mutants/mutants.toml is applied to a copy of the source, whose certificates of random problems are
saved and checked. Honest files must be verified, and radii that are one too large refuted: both directions are noticed.

What becomes of each mutant is written to mutants_noticed.json at once: the problem at which the verifier noticed it,
or how many problems flipproof itself stopped, and how many have other files than without the mutant. Those that are
there already are not tried again, unless their edit has changed, or with ``--again``.

`UNNOTICED` says why each other mutant is not noticed. Where the reason says that no certificate changes, no file may.
"""
# ruff: noqa: T201

import argparse
import hashlib
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
    "stated": "it changes numbers in assumptions that are taken as stated",
    "no-file": "it is about what has no certificate file: collective statements, means and gaps, random errors, "
    "and numbers predicted from rows in blocks",
    "refusals": "it lets something be accepted that should be refused; no proof can show that",
    "own-checks": "it turns off one of flipproof's checks of its own results, which are right",
    "not-certified": "it changes estimates by which `predict` decides, or counts for attacks, and no certificate",
    "still-sound": "what it claims is still true: it takes away a margin for errors that are smaller, or cannot occur",
    "too-large": "only more rows than a machine holds would show it",
    "rare": "it matters only where gains, of up to 2**46, differ by less than 2**-4: no random problem has such rows",
}

#: Reasons that say that no certificate changes.
NO_FILE_CHANGES = ("no-file", "refusals", "own-checks", "not-certified", "too-large", "rare")

#: The mistakes that are not noticed, by their reasons.
BY_REASON = {
    "given": [
        "the largest leverage is taken from the last rows only",
        "the leverage bound ignores rounding",
        "sums of features over too many rows are rounded",
        "products with rows far outside the range are rounded",
        "column ranges are taken from the first block only",
        "gamma has no upper limit",
        "the clip level counts votes of 0",
        "the clip level depends on the training rows although there is a reference",
        "a base learner gets its rows in the order of the file",
        "in blocks, the offsets of the prior are cut off by the number of training rows in spite of a reference",
        "in blocks, the prior is weighed by the votes of one class",
        "in blocks, the training rows set the grid of votes in spite of a reference",
    ],
    "stated": ["in blocks, rows that leave are counted among those of the reference"],
    "no-file": [
        "an attack raises margins with only one unit of the budget",
        "theta is counted once instead of once per unit of the budget",
        "the bound omits the margins that an attack can raise",
        "the bound omits one unit of the budget",
        "an annotator changes only one of its labels",
        "a rival that only ties counts as out of reach",
        "a prediction that only the whole budget changes counts as safe",
        "the bound of a group forgets predictions that radii leave open",
        "errors of any direction are uniform errors",
        "uniform errors are not bounded as errors of any direction",
        "a mean of a group forgets how many test rows it has",
        "a move of exactly the tolerance counts as more",
        "a gap against added rows counts the votes of its second group in its favour",
        "the lowest mean of a group is taken for the second group of a gap as it is",
        "moves of the size that reaches a goal are all taken as larger",
        "only the largest moves of the last block are kept",
        "targets in blocks are changed although they are trusted",
    ],
    "refusals": [
        "state that a clone shares with its original step is not reported",
        "random states of nested parameters are not replaced",
        "a base learner that is not reproducible is accepted",
        "in blocks, a row whose label the prior has read can be forgotten",
        "in blocks, rows that join may be trusted in spite of what the prior has read",
        "labels, trust and annotators may move between rows",
        "rows whose votes exceed the grid are accepted",
        "the checksum ignores the order of rows",
        "the checksum ignores signs that change together",
    ],
    "own-checks": [
        "a radius may exceed the number of changeable labels",
        "a rival may tie with the winner before any attack",
        "votes may be counted for the wrong class",
        "large negative votes may exceed the precision",
        "NaN is accepted as a vote",
        "a failure probability may exceed 1",
    ],
    "not-certified": [
        "estimated scores ignore that votes are rounded",
        "the error of the leading class's score is ignored",
        "estimates decide predictions although votes are clipped",
        "a changed label is subtracted from its new class",
    ],
    "still-sound": [
        # the table is rounded down: a bound that equals its entry is below the true mass
        "a failure bound on the edge is certified",
        # a finite t needs an offset below the votes in size, whose errors have a margin of their own, 80 times as wide
        "the error of large offsets is omitted",
        # errors of sums of this length that are not all in one direction
        "the error of a sum does not grow with its length",
        # the budget is rounded down by more than the two operations that follow
        "the feature radius is not rounded down",
    ],
    "too-large": ["counts of too many rows overflow 32 bits"],
    "rare": ["removed rows whose gains floats cannot tell apart are taken in any order"],
}

#: The reason for each mistake that is not noticed.
UNNOTICED = {name: reason for reason, names in BY_REASON.items() for name in names}

#: What the problems import besides flipproof: once, for all mutants.
FROM_ELSEWHERE = [
    *("flint", "narwhals", "pandas", "scipy.optimize", "scipy.sparse", "scipy.spatial", "scipy.stats"),
    *("sklearn.datasets", "sklearn.ensemble", "sklearn.linear_model", "sklearn.neighbors", "sklearn.pipeline"),
]

#: Problems for each mutant, from seed 0.
N_PROBLEMS = 210

#: Seconds for the problems of one mutant.
PATIENCE = 1800


def mutants():
    """Return the mutants of the prover that change certificates."""
    listed = tomllib.loads((ROOT / "tests" / "mutants" / "mutants.toml").read_text("utf-8"))["mutant"]
    return [one for one in listed if one.get("package", "flipproof") == "flipproof" and one["file"].startswith(ROOMS)]


def edit_of(mutant):
    """Return what identifies the edit of a mutant."""
    parts = [mutant[one] for one in ("file", "before", "after")]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def recorded():
    """Return what became of the mutants that were tried, by name."""
    return json.loads(RESULTS.read_text("utf-8"))["mutants"] if RESULTS.exists() else {}


def verdict_of(name, result):
    """Return "noticed", "stopped", or the reason for which a mutant is not noticed; None if there is no reason."""
    if result["noticed_at"] is not None:
        return "noticed"
    return "stopped" if result["n_stopped"] else UNNOTICED.get(name)


def tried(mutant, first, n_cases):
    """Return what becomes of random problems with a mutant, as `_check` says."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source)
        file = source / "flipproof" / mutant["file"]
        text = file.read_text("utf-8")
        if text.count(mutant["before"]) != 1:
            raise ValueError(f"{mutant['name']!r} no longer fits {mutant['file']}: bring it up to date")
        file.write_text(text.replace(mutant["before"], mutant["after"]), "utf-8")
        return checked(source, first, n_cases)


def checked(source, first, n_cases):
    """Return what becomes of random problems with this copy of the source, as `_check` says."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(FROM_ELSEWHERE)
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        process = context.Process(target=_check, args=(str(source), first, n_cases, str(answer)))
        process.start()
        process.join(PATIENCE)
        if process.is_alive():
            process.kill()
            raise TimeoutError(f"{n_cases} problems took more than {PATIENCE} seconds")
        return json.loads(answer.read_text())


def _check(source, first, n_cases, answer):
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
        for one in range(first, first + n_cases):
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


def result_of(mutant, honest):
    """Return what is recorded of a mutant. `honest` is what becomes of the problems without any."""
    found = tried(mutant, 0, N_PROBLEMS)
    result = {"edit": edit_of(mutant), "noticed_at": found["noticed_at"]}
    if found["noticed_at"] is None:
        n_other = sum(one != other for one, other in zip(found["digests"], honest["digests"], strict=True))
        result |= {"n_stopped": found["n_stopped"], "n_other_files": n_other}
    return result


def write(results):
    """Keep the results, in the order of the mutants."""
    known = [one["name"] for one in mutants() if one["name"] in results]
    text = json.dumps({"n_problems": N_PROBLEMS, "mutants": {one: results[one] for one in known}}, indent=2)
    RESULTS.write_text(text + "\n")


def main(arguments=None):
    """Try the mutants, print what becomes of each, and how many are noticed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--again", metavar="PART", help='try those with this part of a name again ("" for all)')
    parser.add_argument("--workers", type=int, default=1, help="mutants that are tried at a time")
    given = parser.parse_args(arguments)
    results = recorded()
    to_try = [
        one
        for one in mutants()
        if results.get(one["name"], {}).get("edit") != edit_of(one)
        or (given.again is not None and given.again in one["name"])
    ]
    if to_try:
        honest = checked(ROOT / "src", 0, N_PROBLEMS)
        if honest["noticed_at"] is not None or honest["n_stopped"]:
            parser.error(f"without any mutant: noticed at {honest['noticed_at']}, {honest['n_stopped']} stopped")
        with ThreadPool(given.workers) as pool:
            for mutant, result in pool.imap(lambda one: (one, result_of(one, honest)), to_try, chunksize=1):
                results[mutant["name"]] = result
                write(results)
                print(verdict_of(mutant["name"], result), result, mutant["file"], mutant["name"], flush=True)
    listed = [verdict_of(name, result) for name, result in recorded().items()]
    print({one: listed.count(one) for one in ("noticed", "stopped", *REASONS, None)})


if __name__ == "__main__":
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    main()
